-- Operators' requests.

-- name: submit_command
-- A request for a task that exists; one for a task that has ended is closed at once.
INSERT INTO commands (id, task_id, node, action, issued_by, issued_at, reason, stored_at, finished_at, outcome, detail)
SELECT
    :id, t.id, t.node, :action, :issued_by, :issued_at, :reason, :now,
    CASE WHEN t.status IN ({final}) THEN :now END,
    CASE WHEN t.status IN ({final}) THEN 'too_late' END,
    CASE WHEN t.status IN ({final}) THEN 'the task is ' || t.status END
FROM tasks AS t WHERE t.id = :task_id

-- name: submit_command_done
-- Whether a request is already there.
SELECT 1 FROM commands WHERE id = :id

-- name: unclaimed
-- Whether nobody holds a request: its claim's end lies behind, or further ahead than its own length, as after a jump.
(claimed_until IS NULL OR claimed_until < :now OR claimed_until > :now + claim_ttl)

-- name: claim_commands
-- Open requests for a node's tasks, oldest first; by their numbers, as an id may be no text.
SELECT rowid AS number FROM commands
WHERE node = :node AND finished_at IS NULL
    AND {unclaimed}
ORDER BY coalesce(stored_at, issued_at), issued_at, id LIMIT :limit

-- name: claim_commands_lease
-- The claim of a term.
UPDATE commands SET claimed_by = :term, claimed_until = :now + :ttl, claim_ttl = :ttl
WHERE rowid IN (SELECT value FROM json_each(:numbers))

-- name: claim_commands_read
-- The requests of a list, oldest first.
SELECT
    rowid AS number, id, task_id, action, issued_by, issued_at, reason, stored_at, claimed_by, claimed_until,
    finished_at, outcome, detail
FROM commands WHERE rowid IN (SELECT value FROM json_each(:numbers)) ORDER BY coalesce(stored_at, issued_at), issued_at, id

-- name: claim_commands_refuse
-- The end of a request that cannot be read.
UPDATE commands SET finished_at = :now, outcome = 'refused', detail = :detail
WHERE rowid = :number AND finished_at IS NULL

-- name: complete_command
-- The end of a request; the first one stands.
UPDATE commands SET finished_at = :now, outcome = :outcome, detail = :detail
WHERE id = :id AND finished_at IS NULL

-- name: release_command
-- A claim handed back by the term that has it.
UPDATE commands SET claimed_by = NULL, claimed_until = NULL, claim_ttl = NULL
WHERE id = :id AND claimed_by = :term AND finished_at IS NULL

-- name: commands
-- A task's requests, oldest first.
SELECT
    id, task_id, action, issued_by, issued_at, reason, stored_at, claimed_by, claimed_until, finished_at, outcome, detail
FROM commands WHERE task_id = :id ORDER BY coalesce(stored_at, issued_at), issued_at, id

-- name: commands_many
-- The requests for the tasks of a list.
SELECT
    id, task_id, action, issued_by, issued_at, reason, stored_at, claimed_by, claimed_until, finished_at, outcome, detail
FROM commands WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY coalesce(stored_at, issued_at), issued_at, id
