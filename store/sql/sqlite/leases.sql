-- Leases: renewed, told of, taken over, judged.

-- name: past
-- Whether a lease's end lies behind, or further ahead than its own length: then the clock jumped back.
(until < :now OR until > :now + ttl)

-- name: renew
-- Leases of a term for another span.
UPDATE leases SET until = :now + :ttl, ttl = :ttl, renewals = renewals + 1
WHERE term = :term AND task_id IN (SELECT value FROM json_each(:ids))

-- name: renew_node
-- The term's node was seen now.
UPDATE nodes SET seen_at = :now WHERE term = :term

-- name: renew_missing
-- The ids of a list that have no lease of the term.
SELECT value FROM json_each(:ids)
WHERE NOT EXISTS (SELECT 1 FROM leases WHERE task_id = value AND term = :term)

-- name: touch
-- What a task or the sampler has to tell; NULL leaves a value as it is.
UPDATE leases SET
    heartbeat_at = ifnull(:heartbeat_at, heartbeat_at),
    progress = ifnull(:progress, progress),
    usage = ifnull(:usage, usage)
WHERE task_id = :task_id AND term = :term

-- name: leases
-- All leases.
SELECT task_id, term, until, ttl, renewals, {past} AS is_past FROM leases ORDER BY task_id

-- name: leases_ids
-- The leases of some tasks.
SELECT task_id, term, until, ttl, renewals, {past} AS is_past
FROM leases WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY task_id

-- name: adopt
-- The tasks of a list whose lease a term holds.
SELECT task_id FROM leases
WHERE term = :old_term AND task_id IN (SELECT value FROM json_each(:ids)) ORDER BY task_id

-- name: adopt_lease
-- A lease's new holder; heartbeat, progress and usage belong to the attempt, which goes on.
UPDATE leases SET term = :new_term, until = :now + :ttl, ttl = :ttl, renewals = 0 WHERE task_id = :id

-- name: adopt_task
-- The version that the new holder has to know.
UPDATE tasks SET version = version + 1 WHERE id = :id

-- name: adopt_commands
-- Claims of the former term that nobody will complete.
UPDATE commands SET claimed_by = NULL, claimed_until = NULL, claim_ttl = NULL
WHERE claimed_by = :old_term AND finished_at IS NULL

-- name: adopt_done
-- The tasks of a list that were adopted by an event.
SELECT task_id FROM notes
WHERE kind = 'adopted' AND event_id = :event_id AND task_id IN (SELECT value FROM json_each(:ids))

-- name: expire
-- The tasks of a list whose lease is past.
SELECT t.id, t.version, t.status
FROM leases AS l JOIN tasks AS t ON t.id = l.task_id
WHERE l.task_id IN (SELECT value FROM json_each(:ids)) AND {past} ORDER BY l.task_id

-- name: expire_task
-- The end of a task whose holder is dead, with the last that its lease knew; flags tell of a run that is there.
UPDATE tasks SET
    status = :lost, version = :version, status_changed_at = :now, ended_at = :now, flags = '[]',
    (last_heartbeat_at, progress, usage) = (
        SELECT l.heartbeat_at, l.progress, l.usage FROM leases AS l WHERE l.task_id = :id
    )
WHERE id = :id

-- name: expire_commands
-- The end of what was asked of them: their node may be gone, and nobody would ever take it up.
UPDATE commands SET finished_at = :now, outcome = 'too_late', detail = 'the task is lost'
WHERE finished_at IS NULL
    AND task_id IN (SELECT id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids)) AND status = :lost)

-- name: expire_done
-- The tasks of a list that an event made lost.
SELECT task_id FROM transitions
WHERE event_id = :event_id AND target = :lost AND task_id IN (SELECT value FROM json_each(:ids))
