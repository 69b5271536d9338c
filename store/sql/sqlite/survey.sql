-- One look at everything that can be wrong.

-- name: survey
-- The clock, which database this is, and the last change of the number of buckets.
SELECT :now AS now, 'sqlite' AS engine, sqlite_version() AS engine_version, change.number, change.at
FROM (SELECT 1) LEFT JOIN (SELECT number, at FROM rebucketings ORDER BY number DESC LIMIT 1) AS change

-- name: survey_work
-- Open tasks by node, bucket, name and status, with the one that has not changed for the longest; what waits for its time
-- stands still from then on.
SELECT node, bucket, name, status, count(*) AS tasks, sum(since < :now - :still) AS still, min(since) AS since,
    id AS task_id  -- of the row with the least `since`: a rule of SQLite
FROM (
    SELECT t.node, t.bucket, t.name, t.status, t.id, max(ifnull(t.due_at, 0), ifnull(
        (SELECT stored_at FROM transitions WHERE task_id = t.id ORDER BY version DESC LIMIT 1), t.status_changed_at
    )) AS since
    FROM tasks AS t WHERE t.status NOT IN ({final})
)
GROUP BY node, bucket, name, status ORDER BY node, bucket, name, status

-- name: survey_commands
-- Requests that nobody holds, by node, with the oldest. An older version does not say when it stored one.
SELECT node, count(*) AS commands, min(coalesce(stored_at, issued_at)) AS since, task_id
FROM commands
WHERE finished_at IS NULL AND {unclaimed}
GROUP BY node ORDER BY node
