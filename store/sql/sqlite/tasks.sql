-- Tasks, their trail and their notes, as they are read.

-- name: snapshot
-- One row per task as a snapshot shows it: the lease's values while there is a lease.
SELECT
    t.id, t.name, t.status, t.version, t.node, t.created_at, t.status_changed_at, t.bucket, t.bucket_key,
    t.attempt, t.max_attempts, t.unstarted, t.priority, t.tags, t.trigger, t.unique_key, t.group_id,
    t.run_timeout, t.due_at, t.started_at, t.ended_at, t.failure, t.outcome, t.exit_code, t.exit_signal, t.forced, t.flags, t.stop,
    l.term AS lease_owner,
    l.until AS lease_until,
    iif(l.task_id IS NULL, t.last_heartbeat_at, l.heartbeat_at) AS last_heartbeat_at,
    iif(l.task_id IS NULL, t.progress, l.progress) AS progress,
    iif(l.task_id IS NULL, t.usage, l.usage) AS usage
FROM tasks AS t
LEFT JOIN leases AS l ON l.task_id = t.id

-- name: get
-- One task.
{snapshot} WHERE t.id = :id

-- name: get_many
-- The tasks of a list, by id.
{snapshot} WHERE t.id IN (SELECT value FROM json_each(:ids)) ORDER BY t.id

-- name: find
-- Tasks whose id lies in a range, or whose reversed id does. Each way stops at the limit by itself: few digits fit many.
{snapshot}
WHERE t.id IN (
    SELECT * FROM (SELECT id FROM tasks WHERE id >= :part AND id < :part_end ORDER BY id DESC LIMIT :limit)
    UNION
    SELECT * FROM (SELECT id FROM tasks WHERE tail >= :tail AND tail < :tail_end ORDER BY id DESC LIMIT :limit)
)
ORDER BY t.id DESC LIMIT :limit

-- name: query
-- Tasks that meet every condition, newest first; {conditions} are some of those that follow.
{snapshot} WHERE {conditions} ORDER BY t.id DESC LIMIT :limit

-- name: query_buckets
-- Condition: the bucket is one of these.
t.bucket IN (SELECT value FROM json_each(:buckets))

-- name: query_statuses
-- Condition: the status is one of these.
t.status IN (SELECT value FROM json_each(:statuses))

-- name: query_names
-- Condition: the name is one of these.
t.name IN (SELECT value FROM json_each(:names))

-- name: query_tags
-- Condition: the task has every one of these tags.
t.id IN (
    SELECT task_id FROM task_tags WHERE tag IN (SELECT value FROM json_each(:tags))
    GROUP BY task_id HAVING count(*) = json_array_length(:tags)
)

-- name: query_node
-- Condition: the task's node.
t.node = :node

-- name: query_key
-- Condition: the key that gave the bucket.
t.bucket_key = :key

-- name: query_group
-- Condition: the group that it is a member of.
t.group_id = :group

-- name: query_ids
-- Condition: the id is one of these.
t.id IN (SELECT value FROM json_each(:ids))

-- name: query_since
-- Condition: created at or after a time; without the hint all tasks would be walked in the order of the result.
unlikely(t.created_at >= :since)

-- name: query_before
-- Condition: the id lies before the last one of the page before.
t.id < :before

-- name: query_any
-- No condition at all.
TRUE

-- name: history
-- A task's transitions in order.
SELECT task_id, version, source, target, at, actor, event_id, reason, ended, stored_at
FROM transitions WHERE task_id = :id ORDER BY version

-- name: append
-- One note on a task that is there; a second one of the same event is ignored.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT t.id, :kind, :at, :actor, :event_id, :detail, :now FROM tasks AS t WHERE t.id = :task_id
ON CONFLICT (task_id, event_id) DO NOTHING

-- name: history_many
-- The transitions of the tasks of a list.
SELECT task_id, version, source, target, at, actor, event_id, reason, ended, stored_at
FROM transitions WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY task_id, version

-- name: notes
-- A task's notes as they came in.
SELECT task_id, kind, at, actor, event_id, detail, stored_at FROM notes WHERE task_id = :id ORDER BY number

-- name: notes_many
-- The notes of the tasks of a list.
SELECT task_id, kind, at, actor, event_id, detail, stored_at
FROM notes WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY number

-- name: resolutions
-- The newest verdict of an operator on each task of a list.
SELECT task_id, kind, at, actor, event_id, detail, stored_at FROM notes
WHERE number IN (
    SELECT max(number) FROM notes
    WHERE kind = :kind AND task_id IN (SELECT value FROM json_each(:ids)) GROUP BY task_id
)

-- name: stats
-- How many tasks stand in each status.
SELECT status, count(*) AS tasks FROM tasks GROUP BY status

-- name: stats_buckets
-- The same, for some buckets.
SELECT status, count(*) AS tasks FROM tasks WHERE bucket IN (SELECT value FROM json_each(:buckets)) GROUP BY status

-- name: bucket_loads
-- Open work per bucket; NULL, the keyless work, sorts first.
SELECT
    t.bucket,
    sum(t.status IN ({waiting})) AS queued,
    sum(t.status IN ({runs})) AS running,
    sum(l.task_id IS NOT NULL AND {past}) AS expired,
    :now - min(iif(t.status IN ({waiting}), max(t.status_changed_at, ifnull(t.due_at, 0)), NULL)) AS oldest_wait
FROM tasks AS t
LEFT JOIN leases AS l ON l.task_id = t.id
WHERE t.status NOT IN ({final})
GROUP BY t.bucket ORDER BY t.bucket
