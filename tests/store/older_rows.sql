-- What code of an older schema leaves in its tables: two nodes, one of them dead, with tasks in most of their states.

INSERT INTO deployment (only_row, num_buckets, schema_version, oldest_code, holds_revision) VALUES (1, 64, 4, 1, 2);

INSERT INTO terms (term, node, node_id, boot_id, lock_inode, started_at) VALUES
    ('node-a.1', 'node-a', 'node-a-id', 'boot', 7, '2026-03-01 12:00:00.123456+00'),
    ('node-b.1', 'node-b', 'node-b-id', 'boot', 7, '2026-03-01 12:00:00.123456+00');

INSERT INTO nodes (
    node, node_id, term, host, boot_id, pid, version, ttl, limits, containment, generation, started_at, seen_at, holds_seen
) VALUES
    ('node-a', 'node-a-id', 'node-a.1', 'host', 'boot', 1, '0.1', '1 hour', '{"max_parallel": 4}', 'cgroup', 1,
        '2026-03-01 12:00:00.123456+00', now(), 2),
    ('node-b', 'node-b-id', 'node-b.1', 'host', 'boot', 1, '0.1', '30 s', '{}', '', 1,
        '2026-03-01 12:00:00.123456+00', now() - interval '2 hours', 1);

INSERT INTO node_buckets (bucket, node, updated_at) VALUES (1, 'node-a', now()), (2, 'node-b', now());

INSERT INTO catalogue (node, name, module, options, hold) VALUES
    ('node-a', 'billing.sync', 'tasks', '{"retries": 3}', 'noisy; by olga');

INSERT INTO holds (scope, target, "by", since, reason) VALUES
    ('bucket', '7', 'olga', '2026-03-01 12:00:00+00', 'moves'), ('node', 'node-b', 'olga', '2026-03-01 12:00:00+00', NULL);

INSERT INTO alerts (kind, subject, detail, first_seen, last_seen, acknowledged_by, acknowledged_at, raised_event) VALUES
    ('silent', 'node node-b', 'for 2h', now() - interval '2 hours', now(), 'olga', now(), 'report-1');

INSERT INTO firings (name, key, planned, node, event_id, claimed_at) VALUES
    ('billing.sync', NULL, '2026-03-01 12:00:00+00', 'node-a', 'firing-1', now());

INSERT INTO tasks (
    id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
    unstarted, priority, tags, trigger, started_at, ended_at, failure, outcome, exit_code, forced, flags
)
SELECT
    ('0000000' || t.number || '-0000-7000-8000-00000000000' || t.number)::uuid, 'billing.sync', t.status, t.version,
    t.node, '2026-03-01 12:00:00+00', '2026-03-01 12:00:00+00', t.bucket, t.key, t.attempt, 3, 0, 0, t.tags::jsonb,
    'manual', t.started::timestamptz, t.ended::timestamptz, t.failure::json, t.outcome::json, t.code, false,
    t.flags::json
FROM (VALUES
    (1, 'queued', 1, 'node-a', 7, 'acme', 0, '["eu", "nightly"]', NULL, NULL, NULL, NULL, NULL, '[]'),
    (2, 'running', 3, 'node-a', 1, 'b', 1, '[]', '2026-03-01 12:00:01+00', NULL, NULL, NULL, NULL, '[]'),
    (3, 'running', 3, 'node-b', 2, 'c', 1, '[]', '2026-03-01 12:00:01+00', NULL, NULL, NULL, NULL, '[]'),
    (4, 'paused', 4, 'node-a', 1, 'd', 1, '[]', '2026-03-01 12:00:01+00', NULL, NULL, NULL, NULL, '["frozen"]'),
    (5, 'succeeded', 4, 'node-a', 1, 'e', 1, '[]', '2026-03-01 12:00:01+00', '2026-03-01 12:00:02+00', NULL,
        '{"pages": [1, null, "\u0000"]}', 0, '[]'),
    (6, 'failed', 4, 'node-b', 2, 'f', 2, '[]', '2026-03-01 12:00:01+00', '2026-03-01 12:00:02+00',
        '["exception", "ValueError", "no such page", null]', NULL, 1, '[]')
) AS t (number, status, version, node, bucket, key, attempt, tags, started, ended, failure, outcome, code, flags);

INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, stored_at)
SELECT
    t.id, s.version, s.source, CASE WHEN s.version = t.version THEN t.status ELSE s.target END, t.created_at,
    t.node || '.1', t.id || ':' || s.version, t.created_at
FROM tasks AS t
JOIN (VALUES
    (1, NULL, 'queued'), (2, 'queued', 'starting'), (3, 'starting', 'running'), (4, 'running', 'paused')
) AS s (version, source, target) ON s.version <= t.version;

INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at) VALUES
    ('00000002-0000-7000-8000-000000000002', 'adopted', '2026-03-01 12:00:00+00', 'node-a.1', 'note-1',
        'from node-a.0', now());

INSERT INTO leases (task_id, term, until, ttl, renewals, heartbeat_at, progress, usage) VALUES
    ('00000002-0000-7000-8000-000000000002', 'node-a.1', now() + interval '30 min', '1 hour', 12,
        '2026-03-01 12:00:05+00', '[3, 9, "page 3"]', '[1.5, 1024, 2048]'),
    ('00000003-0000-7000-8000-000000000003', 'node-b.1', now() - interval '1 hour', '30 s', 7,
        '2026-03-01 12:00:05+00', '[1, null, null]', NULL),
    ('00000004-0000-7000-8000-000000000004', 'node-a.1', now() + interval '30 min', '1 hour', 2, NULL, NULL, NULL);

INSERT INTO commands (
    id, task_id, node, action, issued_by, issued_at, reason, claimed_by, claimed_until, claim_ttl, finished_at, outcome
) VALUES
    ('command-1', '00000002-0000-7000-8000-000000000002', 'node-a', 'stop', 'ann', '2026-03-01 12:00:01+00', 'late',
        'node-a.1', now() + interval '20 s', '30 s', NULL, NULL),
    ('command-2', '00000003-0000-7000-8000-000000000003', 'node-b', 'stop', 'ann', '2026-03-01 12:00:02+00', NULL,
        NULL, NULL, NULL, NULL, NULL),
    ('command-3', '00000005-0000-7000-8000-000000000005', 'node-a', 'pause', 'ann', '2026-03-01 12:00:03+00', NULL,
        NULL, NULL, NULL, '2026-03-01 12:00:04+00', 'too_late');
