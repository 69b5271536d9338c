-- The end of what is old.

-- name: prunable
-- The final tasks that ended first, but for some that stand in the way.
SELECT id FROM tasks INDEXED BY tasks_ended WHERE status IN ({final}) AND ended_at < :now - :age ORDER BY ended_at LIMIT :limit OFFSET :skipped

-- name: count_prunable
-- How many final tasks ended before a time.
SELECT count(*) AS tasks FROM tasks INDEXED BY tasks_ended WHERE status IN ({final}) AND ended_at < :now - :age

-- name: prune_lock_trail
-- Nothing: a transaction that writes is alone.
SELECT 1

-- name: prune_lock
-- The tasks of a list; the transaction that reads them holds the whole file already.
SELECT id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))

-- name: prune_tags
-- Their tags.
DELETE FROM task_tags WHERE (tag, task_id) IN (
    SELECT tag.value, t.id FROM tasks AS t, json_each(t.tags) AS tag
    WHERE t.id IN (SELECT value FROM json_each(:ids))
)

-- name: prune_tasks
-- The tasks themselves.
DELETE FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))

-- name: prune_transitions
-- Their trail.
DELETE FROM transitions WHERE task_id IN (SELECT value FROM json_each(:ids))

-- name: prune_notes
-- Their notes.
DELETE FROM notes WHERE task_id IN (SELECT value FROM json_each(:ids))

-- name: prune_commands
-- Their commands.
DELETE FROM commands WHERE task_id IN (SELECT value FROM json_each(:ids))

-- name: prune_firings
-- Old planned instants; the newest of each schedule and key stays, or it could be claimed again.
DELETE FROM firings WHERE rowid IN (
    SELECT f.rowid FROM firings AS f
    WHERE f.claimed_at < :now - :age AND EXISTS (
        SELECT 1 FROM firings AS later
        WHERE later.name = f.name AND later.planned > f.planned
            AND ifnull(later.key, '') = ifnull(f.key, '') AND (later.key IS NULL) = (f.key IS NULL)
    )
    ORDER BY f.claimed_at LIMIT :limit
)

-- name: prune_terms
-- Old lives of supervisors that hold no lease and are not their node's current one.
DELETE FROM terms WHERE number IN (
    SELECT number FROM terms
    WHERE started_at < :now - :age AND term NOT IN (SELECT term FROM leases) AND term NOT IN (SELECT term FROM nodes)
    ORDER BY number LIMIT :limit
)
