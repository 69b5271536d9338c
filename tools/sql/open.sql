-- bench.open tasks of the last hour that have not ended: a fifth of them run, one in a hundred of those with a lease
-- that is past. Eight nodes with eight buckets each, two hundred definitions, and a request for every twentieth task.

CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT
    i,
    created_at,
    (lpad(to_hex((extract(epoch FROM created_at) * 1000)::bigint), 12, '0') || '7' || substr(md5('open' || i), 1, 3)
        || '8' || substr(md5('open' || i), 4, 15))::uuid AS id,
    i % 200 AS name,
    i % 5000 AS key,
    i % 64 AS bucket,
    CASE WHEN i % 5 = 0 THEN 'running' WHEN i % 50 = 1 THEN 'retrying' ELSE 'queued' END AS status
FROM (
    SELECT i, now() - interval '1 hour' * (i / current_setting('bench.open')::double precision) AS created_at
    FROM generate_series(1, current_setting('bench.open')::bigint) AS n (i)
) AS drawn;

INSERT INTO tasks (
    id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
    unstarted, priority, tags, trigger, started_at, forced, flags
)
SELECT
    id, 'bench.name-' || name, status, 3, 'node-' || bucket / 8, created_at, created_at, bucket, 'key-' || key,
    CASE status WHEN 'queued' THEN 0 ELSE 1 END, 1, 0, 0, '["io"]', 'schedule',
    CASE status WHEN 'running' THEN created_at END, false, '[]'
FROM made;

INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, stored_at)
SELECT id, step, NULL, status, created_at, 'node-0.1111', 'open.' || i || '.' || step, created_at
FROM made CROSS JOIN generate_series(1, 3) AS s (step);

INSERT INTO leases (task_id, term, until, ttl, renewals)
SELECT
    id, 'node-' || bucket / 8 || '.1111', now() + CASE i % 500 WHEN 0 THEN -1 ELSE 1 END * interval '30 min',
    interval '30 min', 7
FROM made WHERE status = 'running';

INSERT INTO commands (id, task_id, node, action, issued_by, issued_at, stored_at)
SELECT id::text, id, 'node-' || bucket / 8, 'stop', 'bench', now(), now() FROM made WHERE i % 20 = 0;

INSERT INTO nodes (node, node_id, term, host, boot_id, pid, version, ttl, limits, generation, seen_at)
SELECT
    'node-' || n, 'id-' || n, 'node-' || n || '.1111', 'host-' || n, 'boot', 7, '0', interval '1 hour', '{}', 1, now()
FROM generate_series(0, 7) AS g (n);

INSERT INTO node_buckets (bucket, node, updated_at)
SELECT b, 'node-' || b / 8, now() FROM generate_series(0, 63) AS g (b);

INSERT INTO catalogue (node, name, module, options)
SELECT 'node-' || n, 'bench.name-' || name, 'bench', '{"schedule": "*/5 * * * *"}'
FROM generate_series(0, 7) AS g (n), generate_series(0, 199) AS h (name);
