-- Tasks, their trail and their notes, as they are read.

-- name: snapshot
-- One row per task as a snapshot shows it: the lease's values while there is a lease.
SELECT
    t.id, t.name, t.status, t.version, t.node, t.created_at, t.status_changed_at, t.bucket, t.bucket_key,
    t.attempt, t.max_attempts, t.unstarted, t.priority, t.tags, t.trigger, t.unique_key, t.group_id,
    t.run_timeout, t.due_at, t.started_at, t.ended_at, t.failure, t.outcome, t.exit_code, t.exit_signal, t.forced, t.flags, t.stop,
    l.term AS lease_owner,
    l.until AS lease_until,
    CASE WHEN l.task_id IS NULL THEN t.last_heartbeat_at ELSE l.heartbeat_at END AS last_heartbeat_at,
    CASE WHEN l.task_id IS NULL THEN t.progress ELSE l.progress END AS progress,
    CASE WHEN l.task_id IS NULL THEN t.usage ELSE l.usage END AS usage
FROM tasks AS t
LEFT JOIN {current_leases} AS l ON l.task_id = t.id

-- name: get
-- One task.
{snapshot} WHERE t.id = :id::uuid

-- name: get_many
-- The tasks of a list, by id.
{snapshot} WHERE t.id = ANY(:ids::uuid[]) ORDER BY t.id

-- name: find
-- Tasks whose id lies in a range, or whose reversed id does. Each way stops at the limit by itself: few digits fit many.
{snapshot}
WHERE t.id = ANY(ARRAY(
    (SELECT id FROM tasks WHERE id >= :low::uuid AND id <= :high::uuid ORDER BY id DESC LIMIT :limit)
    UNION
    (
        SELECT id FROM tasks
        WHERE reverse(id::text) COLLATE "C" >= :tail AND reverse(id::text) COLLATE "C" < :tail_end
        ORDER BY id DESC LIMIT :limit
    )
))
ORDER BY t.id DESC LIMIT :limit

-- name: query
-- Tasks that meet every condition, newest first; {conditions} are some of those that follow.
{snapshot} WHERE {conditions} ORDER BY t.id DESC LIMIT :limit

-- name: query_by_open
-- The same, among the open tasks: they are looked through, as the other conditions' indexes have all that have ended.
{snapshot}
WHERE t.id = ANY(ARRAY(
    SELECT t.id FROM (SELECT * FROM tasks WHERE status NOT IN ({final}) ORDER BY id DESC OFFSET 0) AS t
    WHERE {conditions} ORDER BY t.id DESC LIMIT :limit
))
ORDER BY t.id DESC

-- name: query_by_names
-- The same, name by name.
{snapshot}
WHERE t.id = ANY(ARRAY(
    SELECT p.id FROM unnest(:names::text[]) AS v (name)
    CROSS JOIN LATERAL (
        SELECT t.id FROM tasks AS t WHERE t.name = v.name AND {conditions} ORDER BY t.id DESC LIMIT :limit
    ) AS p
    ORDER BY p.id DESC LIMIT :limit
))
ORDER BY t.id DESC

-- name: query_by_buckets
-- The same, bucket by bucket.
{snapshot}
WHERE t.id = ANY(ARRAY(
    SELECT p.id FROM unnest(:buckets::integer[]) AS v (bucket)
    CROSS JOIN LATERAL (
        SELECT t.id FROM tasks AS t WHERE t.bucket = v.bucket AND {conditions} ORDER BY t.id DESC LIMIT :limit
    ) AS p
    ORDER BY p.id DESC LIMIT :limit
))
ORDER BY t.id DESC

-- name: query_by_statuses
-- The same, status by status.
{snapshot}
WHERE t.id = ANY(ARRAY(
    SELECT p.id FROM unnest(:statuses::text[]) AS v (status)
    CROSS JOIN LATERAL (
        SELECT t.id FROM tasks AS t WHERE t.status = v.status AND {conditions} ORDER BY t.id DESC LIMIT :limit
    ) AS p
    ORDER BY p.id DESC LIMIT :limit
))
ORDER BY t.id DESC

-- name: query_buckets
-- Condition: the bucket is one of these.
t.bucket = ANY(:buckets::integer[])

-- name: query_statuses
-- Condition: the status is one of these.
t.status = ANY(:statuses::text[])

-- name: query_names
-- Condition: the name is one of these.
t.name = ANY(:names::text[])

-- name: query_tags
-- Condition: the task has every one of these tags.
t.tags @> to_jsonb(:tags::text[])

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
t.id = ANY(:ids::uuid[])

-- name: query_since
-- Condition: created at or after a time.
t.created_at >= :since

-- name: query_before
-- Condition: the id lies before the last one of the page before.
t.id < :before::uuid

-- name: query_any
-- No condition at all.
TRUE

-- name: history
-- A task's transitions in order.
SELECT task_id, version, source, target, at, actor, event_id, reason, ended, stored_at
FROM transitions WHERE task_id = :id::uuid ORDER BY version

-- name: append
-- One note on a task that is there; a second one of the same event is ignored. A task that is being pruned is waited for.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT t.id, :kind, :at, :actor, :event_id, :detail, {now} FROM tasks AS t WHERE t.id = :task_id::uuid FOR KEY SHARE
ON CONFLICT (task_id, event_id) DO NOTHING

-- name: history_many
-- The transitions of the tasks of a list.
SELECT task_id, version, source, target, at, actor, event_id, reason, ended, stored_at
FROM transitions WHERE task_id = ANY(:ids::uuid[]) ORDER BY task_id, version

-- name: notes
-- A task's notes as they came in.
SELECT task_id, kind, at, actor, event_id, detail, stored_at FROM notes WHERE task_id = :id::uuid ORDER BY number

-- name: notes_many
-- The notes of the tasks of a list.
SELECT task_id, kind, at, actor, event_id, detail, stored_at
FROM notes WHERE task_id = ANY(:ids::uuid[]) ORDER BY number

-- name: resolutions
-- The newest verdict of an operator on each task of a list.
SELECT DISTINCT ON (task_id) task_id, kind, at, actor, event_id, detail, stored_at
FROM notes WHERE task_id = ANY(:ids::uuid[]) AND kind = :kind ORDER BY task_id, number DESC

-- name: stats
-- How many tasks stand in each status.
SELECT status, count(*) AS tasks FROM tasks GROUP BY status

-- name: stats_buckets
-- The same, for some buckets.
SELECT status, count(*) AS tasks FROM tasks WHERE bucket = ANY(:buckets::integer[]) GROUP BY status

-- name: bucket_loads
-- Open work per bucket; NULL, the keyless work, sorts first.
SELECT
    t.bucket,
    count(*) FILTER (WHERE t.status IN ({waiting})) AS queued,
    count(*) FILTER (WHERE t.status IN ({runs})) AS running,
    count(*) FILTER (WHERE l.task_id IS NOT NULL AND {past}) AS expired,
    {now} - min(greatest(t.status_changed_at, t.due_at)) FILTER (WHERE t.status IN ({waiting})) AS oldest_wait
FROM tasks AS t
LEFT JOIN {current_leases} AS l ON l.task_id = t.id
WHERE t.status NOT IN ({final})
GROUP BY t.bucket ORDER BY t.bucket NULLS FIRST
