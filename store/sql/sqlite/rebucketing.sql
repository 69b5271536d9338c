-- Another number of buckets.

-- name: rebucket_lock
-- Nothing: a transaction that writes is alone.
SELECT 1

-- name: rebucketings
-- The changes of the number of buckets, newest first.
SELECT number, at, "by", reason, before, after, waiting, moved FROM rebucketings ORDER BY number DESC

-- name: rebucket_done
-- The change that an event has made.
SELECT number, at, "by", reason, before, after, waiting, moved FROM rebucketings WHERE event_id = :event_id

-- name: rebucket_live
-- The nodes that are live.
SELECT node FROM nodes WHERE {live} ORDER BY node

-- name: rebucket_counts
-- How much is running, and how many waiting tasks have a key.
SELECT
    (SELECT count(*) FROM tasks WHERE status IN ({runs})) AS runs,
    (SELECT count(*) FROM tasks WHERE status IN ({waiting}) AND bucket_key IS NOT NULL) AS waiting

-- name: rebucket_held
-- The buckets that are held.
SELECT target FROM holds WHERE scope = 'bucket' ORDER BY target

-- name: rebucket_waiting
-- Waiting tasks with a key; all at once, as for a part of them PostgreSQL reads through what has ended.
SELECT id, bucket, bucket_key FROM tasks WHERE status IN ({waiting}) AND bucket_key IS NOT NULL ORDER BY id

-- name: rebucket_task
-- The new bucket of a task.
UPDATE tasks SET bucket = :bucket WHERE id = :id

-- name: rebucket_note
-- What became of it.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
VALUES (:id, 'rebucketed', :now, :by, :event_id, :detail, :now)

-- name: rebucket_declarations
-- What the nodes had declared, in buckets of the old number.
DELETE FROM node_buckets

-- name: rebucket_deployment
-- The new number; the nodes that come back find the holds changed, and look.
UPDATE deployment SET num_buckets = :after, holds_revision = holds_revision + 1

-- name: rebucket_record
-- What was done.
INSERT INTO rebucketings (event_id, at, "by", reason, before, after, waiting, moved)
VALUES (:event_id, :now, :by, :reason, :before, :after, :waiting, :moved)
