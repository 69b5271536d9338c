-- Finished tasks with numbers above bench.first and up to bench.last, evenly over the year that ended an hour ago,
-- each with the four changes of state that an ordinary run takes.

CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT
    i,
    created_at,
    (lpad(to_hex((extract(epoch FROM created_at) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 3)
        || '8' || substr(md5(i::text), 4, 15))::uuid AS id,
    'bench.name-' || mix % 200 AS name,
    (mix / 200) % 5000 AS key,
    (mix / 200) % 5000 % 64 AS bucket,
    CASE
        WHEN i % 1000 = 7 THEN 'lost'
        WHEN i % 1000 = 8 THEN 'stopped'
        WHEN i % 1000 = 9 THEN 'cancelled'
        WHEN i % 50 = 0 THEN 'failed'
        ELSE 'succeeded'
    END AS status
FROM (
    SELECT
        i,
        abs(hashint8(i)::bigint) AS mix,
        now() - interval '1 hour' - interval '365 days' * (
            (current_setting('bench.last')::bigint - i)::double precision
            / (current_setting('bench.last')::bigint - current_setting('bench.first')::bigint)
        ) AS created_at
    FROM generate_series(current_setting('bench.first')::bigint + 1, current_setting('bench.last')::bigint) AS n (i)
) AS drawn;

INSERT INTO tasks (
    id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
    unstarted, priority, tags, trigger, started_at, ended_at, outcome, exit_code, forced, flags
)
SELECT
    id, name, status, 4, 'node-' || bucket / 8, created_at, created_at + interval '90 s', bucket, 'key-' || key, 1, 1,
    0, 0, CASE WHEN i % 100 = 0 THEN '["io", "nightly"]' ELSE '["io"]' END::jsonb, 'schedule',
    created_at + interval '1 s', created_at + interval '90 s', '{"rows": 1200}', 0, false, '[]'
FROM made;

INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, stored_at)
SELECT
    id, step.version, step.source, CASE step.version WHEN 4 THEN made.status ELSE step.target END,
    created_at + step.later, 'node-0.0f3a', 'run.' || i || '.' || step.version, created_at + step.later
FROM made CROSS JOIN (
    VALUES
        (1, NULL, 'queued', interval '0'),
        (2, 'queued', 'starting', interval '0.9 s'),
        (3, 'starting', 'running', interval '1 s'),
        (4, 'running', NULL, interval '90 s')
) AS step (version, source, target, later);

-- One task in a hundred was once asked to stop.
INSERT INTO commands (id, task_id, node, action, issued_by, issued_at, stored_at, claimed_by, finished_at, outcome)
SELECT id::text, id, 'node-' || bucket / 8, 'stop', 'bench', created_at, created_at, 'node-0.0f3a', created_at, 'too_late'
FROM made WHERE i % 100 = 3;

INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT id, 'odd_exit', created_at, 'node-0.0f3a', 'note.' || i, 'exit code 1 after the result', created_at
FROM made WHERE i % 100 = 4;
