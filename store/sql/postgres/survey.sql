-- One look at everything that can be wrong.

-- name: survey_isolation
-- All queries of this transaction see one moment.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: survey
-- The clock, which database this is, and the last change of the number of buckets.
SELECT
    {now} AS now, 'postgresql' AS engine, current_setting('server_version') AS engine_version, change.number, change.at
FROM (VALUES (1)) AS one (row)
LEFT JOIN (SELECT number, at FROM rebucketings ORDER BY number DESC LIMIT 1) AS change ON TRUE

-- name: survey_work
-- Open tasks by node, bucket, name and status, with the one that has not changed for the longest; what waits for its time
-- stands still from then on.
SELECT
    t.node, t.bucket, t.name, t.status, count(*) AS tasks,
    count(*) FILTER (WHERE c.since < {now} - :still::interval) AS still,
    min(c.since) AS since, (array_agg(t.id ORDER BY c.since, t.id))[1] AS task_id
FROM tasks AS t
CROSS JOIN LATERAL (
    SELECT greatest(t.due_at, coalesce(
        (SELECT stored_at FROM transitions WHERE task_id = t.id ORDER BY version DESC LIMIT 1), t.status_changed_at
    )) AS since
    OFFSET 0  -- else it is looked up anew wherever it is named
) AS c
WHERE t.status NOT IN ({final})
GROUP BY t.node, t.bucket, t.name, t.status
ORDER BY t.node COLLATE "C", t.bucket NULLS FIRST, t.name COLLATE "C", t.status COLLATE "C"

-- name: survey_commands
-- Requests that nobody holds, by node, with the oldest. An older version does not say when it stored one.
SELECT
    node, count(*) AS commands, min(coalesce(stored_at, issued_at)) AS since,
    (array_agg(task_id ORDER BY coalesce(stored_at, issued_at), id))[1] AS task_id
FROM commands
WHERE finished_at IS NULL AND {unclaimed}
GROUP BY node ORDER BY node COLLATE "C"
