-- Leases: renewed, told of, taken over, judged.

-- name: current_leases
-- The leases as the last renewals have left them: each by its own row, or by that of the term that it follows.
(
    SELECT
        own.task_id, own.term, coalesce(r.until, own.until) AS until, coalesce(r.ttl, own.ttl) AS ttl,
        own.renewals + coalesce(r.number, 0) AS renewals, own.heartbeat_at, own.progress, own.usage
    FROM leases AS own LEFT JOIN renewals AS r ON own.follows AND r.term = own.term
)

-- name: past
-- Whether a lease's end lies behind, or further ahead than its own length: then the clock jumped back.
(until < {now} OR until > {now} + least(ttl, {longest}))

-- name: renew
-- A term's row, and with it all leases that follow it; the node was seen; gives the ids without a lease. A lease follows
-- from the first renewal that names it until one that does not, which leaves it with the end that it had. Those that
-- somebody else holds are set right the next time.
WITH own AS MATERIALIZED (
    SELECT l.task_id, l.follows, asked.id IS NOT NULL AS is_asked
    FROM leases AS l LEFT JOIN unnest(:ids::uuid[]) AS asked (id) ON asked.id = l.task_id
    WHERE l.term = :term
),
astray AS MATERIALIZED (
    SELECT task_id FROM leases
    WHERE term = :term AND task_id IN (SELECT task_id FROM own WHERE follows <> is_asked)
    ORDER BY task_id FOR UPDATE SKIP LOCKED
),
before AS MATERIALIZED (
    SELECT until, ttl, number FROM renewals WHERE term = :term
),
renewed AS (
    INSERT INTO renewals AS r (term, until, ttl, number) VALUES (:term, {now} + :ttl::interval, :ttl::interval, 1)
    ON CONFLICT (term) DO UPDATE SET until = excluded.until, ttl = excluded.ttl, number = r.number + 1
),
left_behind AS (
    UPDATE leases AS l SET
        follows = false, until = before.until, ttl = before.ttl, renewals = l.renewals + before.number
    FROM before WHERE l.follows AND l.task_id IN (SELECT task_id FROM astray)
),
joined AS (
    UPDATE leases AS l SET follows = true, renewals = l.renewals - coalesce((SELECT number FROM before), 0)
    WHERE NOT l.follows AND l.task_id IN (SELECT task_id FROM astray)
),
seen AS (
    UPDATE nodes SET seen_at = {now} WHERE term = :term
)
SELECT asked.id FROM unnest(:ids::uuid[]) AS asked (id) WHERE asked.id NOT IN (SELECT task_id FROM own)

-- name: touch
-- What tasks or the sampler have to tell; NULL leaves a value as it is.
WITH told AS MATERIALIZED (
    SELECT * FROM unnest(:task_id::uuid[], :heartbeat_at::timestamptz[], :progress::text[], :usage::text[])
        AS b (task_id, heartbeat_at, progress, usage)
),
held AS MATERIALIZED (
    SELECT l.task_id FROM leases AS l
    WHERE l.term = :term AND l.task_id IN (SELECT task_id FROM told) ORDER BY l.task_id FOR UPDATE
)
UPDATE leases AS l SET
    heartbeat_at = coalesce(told.heartbeat_at, l.heartbeat_at),
    progress = coalesce(told.progress::json, l.progress),
    usage = coalesce(told.usage::json, l.usage)
FROM told JOIN held ON held.task_id = told.task_id
WHERE l.task_id = told.task_id

-- name: leases
-- All leases.
SELECT task_id, term, until, ttl, renewals, {past} AS is_past FROM {current_leases} AS l ORDER BY task_id

-- name: leases_ids
-- The leases of some tasks.
SELECT task_id, term, until, ttl, renewals, {past} AS is_past
FROM {current_leases} AS l WHERE task_id = ANY(:ids::uuid[]) ORDER BY task_id

-- name: adopt_lock
-- The leases of a list that a term holds.
SELECT task_id FROM leases WHERE term = :old_term AND task_id = ANY(:ids::uuid[]) ORDER BY task_id FOR UPDATE

-- name: adopt
-- Their new holder: the lease, the version that it has to know, the note by which a repeated call knows its own work.
-- Heartbeat, progress and usage belong to the attempt, which goes on.
WITH moved AS (
    UPDATE leases SET
        term = :new_term, until = {now} + :ttl::interval, ttl = :ttl::interval, renewals = 0, follows = false
    WHERE term = :old_term AND task_id = ANY(:ids::uuid[]) RETURNING task_id
),
bumped AS (
    UPDATE tasks SET version = version + 1 WHERE id IN (SELECT task_id FROM moved)
)
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT task_id, 'adopted', {now}, :new_term, :event_id, 'from ' || :old_term, {now} FROM moved

-- name: adopt_commands
-- Claims of the former term that nobody will complete.
UPDATE commands SET claimed_by = NULL, claimed_until = NULL, claim_ttl = NULL
WHERE claimed_by = :old_term AND finished_at IS NULL

-- name: adopt_done
-- The tasks of a list that were adopted by an event, as they stand.
{snapshot}
WHERE t.id IN (
    SELECT task_id FROM notes
    WHERE kind = 'adopted' AND event_id = :event_id AND task_id = ANY(:ids::uuid[])
)
ORDER BY t.id

-- name: expire_lock
-- The leases of a list.
SELECT 1 FROM leases WHERE task_id = ANY(:ids::uuid[]) ORDER BY task_id FOR UPDATE

-- name: expire
-- The end of those whose lease is past, with the last that the lease knew; flags tell of a run that is there. A term
-- whose renewals are past is held, so that none comes in between; one that has just renewed is not among them any more.
WITH stale AS MATERIALIZED (
    SELECT term FROM renewals
    WHERE {past} AND term IN (SELECT term FROM leases WHERE follows AND task_id = ANY(:ids::uuid[]))
    ORDER BY term FOR UPDATE
),
judged AS MATERIALIZED (
    SELECT t.id, t.version, t.status, l.heartbeat_at, l.progress, l.usage, {now} AS moment
    FROM leases AS l JOIN tasks AS t ON t.id = l.task_id
    WHERE l.task_id = ANY(:ids::uuid[])
        AND CASE
            WHEN l.follows AND l.term IN (SELECT term FROM renewals) THEN l.term IN (SELECT term FROM stale)
            ELSE {past}
        END
),
trail AS (
    INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, reason, stored_at)
    SELECT id, version + 1, status, :lost, moment, :actor, :event_id, :reason, moment FROM judged
),
ended AS (
    DELETE FROM leases USING judged WHERE leases.task_id = judged.id
)
UPDATE tasks AS t SET
    status = :lost, version = j.version + 1, status_changed_at = j.moment, ended_at = j.moment,
    last_heartbeat_at = j.heartbeat_at, progress = j.progress, usage = j.usage, flags = '[]'
FROM judged AS j WHERE t.id = j.id

-- name: expire_commands
-- The end of what was asked of them: their node may be gone, and nobody would ever take it up. A statement of its own,
-- so that it sees what was asked for while the tasks were waited for.
UPDATE commands SET finished_at = {now}, outcome = 'too_late', detail = 'the task is lost'
WHERE finished_at IS NULL AND task_id = ANY(:ids::uuid[])
    AND task_id IN (SELECT id FROM tasks WHERE id = ANY(:ids::uuid[]) AND status = :lost)

-- name: expire_done
-- The tasks of a list that an event made lost, as they stand.
{snapshot}
WHERE t.id IN (
    SELECT task_id FROM transitions
    WHERE event_id = :event_id AND target = :lost AND task_id = ANY(:ids::uuid[])
)
ORDER BY t.id
