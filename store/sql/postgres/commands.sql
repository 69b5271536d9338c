-- Operators' requests.

-- name: submit_command
-- A request for a task that exists, and the node's bell; one that is there already is left alone, and one for a task
-- that has ended is closed at once. Gives whether the task exists. Whoever ends the task at this moment is waited for.
WITH task AS (
    SELECT id, node, CASE WHEN status IN ({final}) THEN status END AS ended
    FROM tasks WHERE id = :task_id::uuid FOR SHARE
),
asked AS (
    INSERT INTO commands (
        id, task_id, node, action, issued_by, issued_at, reason, stored_at, finished_at, outcome, detail
    )
    SELECT
        :id, task.id, task.node, :action, :issued_by, :issued_at, :reason, {now},
        CASE WHEN task.ended IS NOT NULL THEN {now} END,
        CASE WHEN task.ended IS NOT NULL THEN 'too_late' END,
        'the task is ' || task.ended
    FROM task
    ON CONFLICT (id) DO NOTHING
)
SELECT pg_notify('chong_' || left(encode(sha256(convert_to(task.node, 'UTF8')), 'hex'), 40), '')::text AS rung FROM task
UNION ALL SELECT '' FROM commands WHERE id = :id

-- name: unclaimed
-- Whether nobody holds a request: its claim's end lies behind, or further ahead than its own length, as after a jump.
(claimed_until IS NULL OR claimed_until < {now} OR claimed_until > {now} + least(claim_ttl, {longest}))

-- name: claim_commands
-- Open requests for a node's tasks, oldest first, that nobody else is claiming now, under a term's claim.
WITH free AS (
    SELECT id FROM commands
    WHERE node = :node AND finished_at IS NULL
        AND {unclaimed}
    ORDER BY coalesce(stored_at, issued_at), issued_at, id LIMIT :limit FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE commands AS c SET claimed_by = :term, claimed_until = {now} + :ttl::interval, claim_ttl = :ttl::interval
    FROM free WHERE c.id = free.id
    RETURNING c.*
)
SELECT
    id, task_id, action, issued_by, issued_at, reason, stored_at, claimed_by, claimed_until, finished_at, outcome, detail
FROM claimed ORDER BY coalesce(stored_at, issued_at), issued_at, id

-- name: claim_commands_refuse
-- The end of a request that cannot be read.
UPDATE commands SET finished_at = {now}, outcome = 'refused', detail = :detail
WHERE id = :id AND finished_at IS NULL

-- name: complete_command
-- The end of a request; the first one stands.
UPDATE commands SET finished_at = {now}, outcome = :outcome, detail = :detail
WHERE id = :id AND finished_at IS NULL

-- name: release_command
-- A claim handed back by the term that has it.
UPDATE commands SET claimed_by = NULL, claimed_until = NULL, claim_ttl = NULL
WHERE id = :id AND claimed_by = :term AND finished_at IS NULL

-- name: commands
-- A task's requests, oldest first.
SELECT
    id, task_id, action, issued_by, issued_at, reason, stored_at, claimed_by, claimed_until, finished_at, outcome, detail
FROM commands WHERE task_id = :id::uuid ORDER BY coalesce(stored_at, issued_at), issued_at, id

-- name: commands_many
-- The requests for the tasks of a list.
SELECT
    id, task_id, action, issued_by, issued_at, reason, stored_at, claimed_by, claimed_until, finished_at, outcome, detail
FROM commands WHERE task_id = ANY(:ids::uuid[]) ORDER BY coalesce(stored_at, issued_at), issued_at, id
