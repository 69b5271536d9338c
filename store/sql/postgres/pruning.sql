-- The end of what is old.

-- name: prunable
-- The final tasks that ended first, but for some that stand in the way.
SELECT id FROM tasks WHERE status IN ({final}) AND ended_at < (SELECT {now} - :age::interval) ORDER BY ended_at LIMIT :limit OFFSET :skipped

-- name: count_prunable
-- How many final tasks ended before a time.
SELECT count(*) AS tasks FROM tasks WHERE status IN ({final}) AND ended_at < (SELECT {now} - :age::interval)

-- name: prune_lock_trail
-- The trail as a whole, before it is read: who makes or drops a month of it waits, and holds nothing that this needs.
LOCK TABLE ONLY transitions IN ROW EXCLUSIVE MODE

-- name: prune_lock
-- The tasks of a list; who adds to them now waits, and finds them gone.
SELECT id FROM tasks WHERE id = ANY(:ids::uuid[]) ORDER BY id FOR UPDATE

-- name: prune_tasks
-- The tasks themselves.
DELETE FROM tasks WHERE id = ANY(:ids::uuid[])

-- name: prune_transitions
-- Their trail.
DELETE FROM transitions WHERE task_id = ANY(:ids::uuid[])

-- name: prune_notes
-- Their notes.
DELETE FROM notes WHERE task_id = ANY(:ids::uuid[])

-- name: prune_commands
-- Their commands.
DELETE FROM commands WHERE task_id = ANY(:ids::uuid[])

-- name: prune_firings
-- Old planned instants; the newest of each schedule and key stays, or it could be claimed again.
DELETE FROM firings WHERE ctid = ANY(ARRAY(
    SELECT f.ctid FROM firings AS f
    WHERE f.claimed_at < (SELECT {now} - :age::interval) AND EXISTS (
        SELECT 1 FROM firings AS later
        WHERE later.name = f.name AND later.planned > f.planned AND later.key IS NOT DISTINCT FROM f.key
    )
    ORDER BY f.claimed_at LIMIT :limit
))

-- name: prune_terms
-- Old lives of supervisors that hold no lease and are not their node's current one, and their renewals.
WITH gone AS MATERIALIZED (
    SELECT number, term FROM terms AS old
    WHERE old.started_at < (SELECT {now} - :age::interval)
        AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.term = old.term)
        AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.term = old.term)
    ORDER BY number LIMIT :limit
),
forgotten AS (
    DELETE FROM renewals WHERE term IN (SELECT term FROM gone)
)
DELETE FROM terms WHERE number IN (SELECT number FROM gone)
