-- The queries of a PostgreSQL store, named after the methods that run them. A list is passed as an array.
-- {name} stands for the query of that name, or for a list of states from chong.store.states; {now} for the store's
-- clock, the server's outside of tests. A bound for an index is (SELECT {now} - ...): without the SELECT the clock would
-- be read for each row, and the index be walked from end to end.

-- name: limits
-- How long the server lets this transaction run, wait for a lock, and stay open with nobody asking.
SELECT
    set_config('statement_timeout', :milliseconds, true),
    set_config('lock_timeout', :milliseconds, true),
    set_config('idle_in_transaction_session_timeout', :milliseconds, true)

-- name: limits_pipeline
-- The same where statements follow each other unasked: between two no limit of these counts, before version 17 none does.
{limits},
    CASE
        WHEN current_setting('transaction_timeout', true) IS NOT NULL
        THEN set_config('transaction_timeout', :milliseconds, true)
    END

-- name: current_leases
-- The leases as the last renewals have left them: each by its own row, or by that of the term that it follows.
(
    SELECT
        own.task_id, own.term, coalesce(r.until, own.until) AS until, coalesce(r.ttl, own.ttl) AS ttl,
        own.renewals + coalesce(r.number, 0) AS renewals, own.heartbeat_at, own.progress, own.usage
    FROM leases AS own LEFT JOIN renewals AS r ON own.follows AND r.term = own.term
)

-- name: snapshot
-- One row per task as a snapshot shows it: the lease's values while there is a lease.
SELECT
    t.id, t.name, t.status, t.version, t.node, t.created_at, t.status_changed_at, t.bucket, t.bucket_key,
    t.attempt, t.max_attempts, t.unstarted, t.priority, t.tags, t.trigger, t.unique_key, t.group_id,
    t.started_at, t.ended_at, t.failure, t.outcome, t.exit_code, t.exit_signal, t.forced, t.flags, t.stop,
    l.term AS lease_owner,
    l.until AS lease_until,
    CASE WHEN l.task_id IS NULL THEN t.last_heartbeat_at ELSE l.heartbeat_at END AS last_heartbeat_at,
    CASE WHEN l.task_id IS NULL THEN t.progress ELSE l.progress END AS progress,
    CASE WHEN l.task_id IS NULL THEN t.usage ELSE l.usage END AS usage
FROM tasks AS t
LEFT JOIN {current_leases} AS l ON l.task_id = t.id

-- name: past
-- Whether a lease's end lies behind, or further ahead than its own length: then the clock jumped back.
(until < {now} OR until > {now} + ttl)

-- name: save_lock_leases
-- The leases of a batch, held in the one order that all transactions keep.
SELECT 1 FROM leases WHERE task_id = ANY(:ids::uuid[]) ORDER BY task_id FOR UPDATE

-- name: save_lock_tasks
-- Its tasks, after their leases.
SELECT 1 FROM tasks WHERE id = ANY(:ids::uuid[]) ORDER BY id FOR UPDATE

-- name: save_rows
-- A batch of saves, one array for each column.
SELECT * FROM unnest(
    :id::uuid[], :name::text[], :status::text[], :version::bigint[], :node::text[], :created_at::timestamptz[],
    :status_changed_at::timestamptz[], :bucket::integer[], :bucket_key::text[], :attempt::integer[],
    :max_attempts::integer[], :unstarted::integer[], :priority::integer[], :tags::text[], :trigger::text[],
    :unique_key::text[], :group_id::text[], :started_at::timestamptz[], :ended_at::timestamptz[],
    :failure::text[], :outcome::text[], :exit_code::integer[], :exit_signal::integer[], :forced::boolean[],
    :flags::text[], :stop::text[], :expect_version::bigint[], :expect_attempt::integer[],
    :has_trail::boolean[], :source::text[], :owner::text[], :lease_term::text[], :lease_ttl::interval[], :is_run::boolean[]
) AS s (
    id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
    unstarted, priority, tags, trigger, unique_key, group_id, started_at, ended_at, failure, outcome, exit_code,
    exit_signal, forced, flags, stop, expect_version, expect_attempt, has_trail, source, owner, lease_term,
    lease_ttl, is_run
)

-- name: save_consequences
-- What goes with each task that was written: its trail, its lease, the ends of its commands.
trail AS (
    INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, reason, stored_at)
    SELECT r.*, {now} FROM unnest(
        :step_task::uuid[], :step_version::bigint[], :step_source::text[], :step_target::text[],
        :step_at::timestamptz[], :step_actor::text[], :step_event::text[], :step_reason::text[]
    ) AS r (task_id, version, source, target, at, actor, event_id, reason)
    WHERE r.task_id IN (SELECT id FROM written)
),
granted AS (
    INSERT INTO leases (task_id, term, until, ttl, renewals)
    SELECT s.id, s.lease_term, {now} + s.lease_ttl, s.lease_ttl, 0
    FROM wanted AS s WHERE s.lease_term IS NOT NULL AND s.is_run AND s.id IN (SELECT id FROM written)
    ON CONFLICT (task_id) DO UPDATE SET
        term = excluded.term, until = excluded.until, ttl = excluded.ttl, renewals = 0, follows = false,
        heartbeat_at = NULL, progress = NULL, usage = NULL
),
ended AS (
    DELETE FROM leases AS l USING wanted AS s
    WHERE l.task_id = s.id AND NOT s.is_run AND s.id IN (SELECT id FROM written)
),
completed AS (
    UPDATE commands AS c SET finished_at = {now}, outcome = d.outcome, detail = d.detail
    FROM unnest(:done_task::uuid[], :done_command::text[], :done_outcome::text[], :done_detail::text[])
        AS d (task_id, command_id, outcome, detail)
    WHERE c.id = d.command_id AND c.finished_at IS NULL AND d.task_id IN (SELECT id FROM written)
)
SELECT id FROM written

-- name: save_update
-- Later saves, each on exactly the row that it builds upon; gives the ids that were written.
WITH wanted AS MATERIALIZED ({save_rows}),
written AS (
    UPDATE tasks AS t SET
        status = s.status, version = s.version, status_changed_at = s.status_changed_at, attempt = s.attempt,
        max_attempts = s.max_attempts, unstarted = s.unstarted, priority = s.priority, started_at = s.started_at,
        ended_at = s.ended_at, failure = s.failure::json, outcome = s.outcome::json, exit_code = s.exit_code,
        exit_signal = s.exit_signal, forced = s.forced, flags = s.flags::json, stop = s.stop::json,
        last_heartbeat_at = CASE
            WHEN s.lease_term IS NOT NULL THEN NULL
            WHEN l.task_id IS NOT NULL AND NOT s.is_run THEN l.heartbeat_at
            ELSE t.last_heartbeat_at
        END,
        progress = CASE
            WHEN s.lease_term IS NOT NULL THEN NULL
            WHEN l.task_id IS NOT NULL AND NOT s.is_run THEN l.progress
            ELSE t.progress
        END,
        usage = CASE
            WHEN s.lease_term IS NOT NULL THEN NULL
            WHEN l.task_id IS NOT NULL AND NOT s.is_run THEN l.usage
            ELSE t.usage
        END
    FROM wanted AS s LEFT JOIN leases AS l ON l.task_id = s.id
    WHERE t.id = s.id AND t.version = s.expect_version AND t.attempt = s.expect_attempt
        AND t.status NOT IN ({final}) AND (NOT s.has_trail OR t.status = s.source)
        AND (l.task_id IS NULL OR l.term = s.owner)
    RETURNING t.id
),
{save_consequences}

-- name: save_insert
-- First saves, of tasks that are not there and whose unique key is free; gives the ids that were written. The number of
-- buckets stands until the end: `save_lock_tasks` and `rebucket_lock` exclude each other.
WITH wanted AS MATERIALIZED ({save_rows}),
written AS (
    INSERT INTO tasks (
        id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
        unstarted, priority, tags, trigger, unique_key, group_id, started_at, ended_at, failure, outcome, exit_code,
        exit_signal, forced, flags, stop
    )
    SELECT
        id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
        unstarted, priority, tags::jsonb, trigger, unique_key, group_id, started_at, ended_at, failure::json,
        outcome::json, exit_code, exit_signal, forced, flags::json, stop::json
    FROM wanted
    WHERE expect_version = 0 AND source IS NULL AND (
        bucket IS NULL OR :num_buckets::integer IS NULL
        OR (SELECT coalesce(d.num_buckets, :num_buckets::integer) FROM deployment AS d) = :num_buckets::integer
    )
    ON CONFLICT DO NOTHING
    RETURNING id
),
{save_consequences}

-- name: save_stored
-- What the rows of a batch hold: all that the reason of a refusal depends on.
SELECT t.id, t.version, t.attempt, t.status, l.task_id IS NOT NULL AS has_lease, l.term
FROM tasks AS t
LEFT JOIN leases AS l ON l.task_id = t.id
WHERE t.id = ANY(:ids::uuid[])

-- name: save_event
-- The event that brought a task to a version.
SELECT event_id FROM transitions WHERE task_id = :id::uuid AND version = :version

-- name: save_holder
-- The unfinished task, other than this one, that holds a unique key.
SELECT id FROM tasks
WHERE unique_key IS NOT NULL AND status NOT IN ({final}) AND unique_key = :unique_key AND id <> :id::uuid

-- name: save_same
-- Whether a task stands exactly as a save without an event would have left it.
SELECT 1 FROM tasks
WHERE id = :id::uuid AND version = :version AND status = :status AND status_changed_at = :status_changed_at
    AND attempt = :attempt AND max_attempts = :max_attempts AND unstarted = :unstarted AND priority = :priority
    AND started_at IS NOT DISTINCT FROM :started_at::timestamptz AND ended_at IS NOT DISTINCT FROM :ended_at::timestamptz
    AND failure::text IS NOT DISTINCT FROM :failure::text AND outcome::text IS NOT DISTINCT FROM :outcome::text
    AND exit_code IS NOT DISTINCT FROM :exit_code::integer AND exit_signal IS NOT DISTINCT FROM :exit_signal::integer
    AND forced = :forced AND flags::text = :flags AND stop::text IS NOT DISTINCT FROM :stop::text

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
SELECT task_id, version, source, target, at, actor, event_id, reason, stored_at
FROM transitions WHERE task_id = :id::uuid ORDER BY version

-- name: append
-- One note on a task that is there; a second one of the same event is ignored. A task that is being pruned is waited for.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT t.id, :kind, :at, :actor, :event_id, :detail, {now} FROM tasks AS t WHERE t.id = :task_id::uuid FOR KEY SHARE
ON CONFLICT (task_id, event_id) DO NOTHING

-- name: history_many
-- The transitions of the tasks of a list.
SELECT task_id, version, source, target, at, actor, event_id, reason, stored_at
FROM transitions WHERE task_id = ANY(:ids::uuid[]) ORDER BY task_id, version

-- name: notes
-- A task's notes as they came in.
SELECT task_id, kind, at, actor, event_id, detail, stored_at FROM notes WHERE task_id = :id::uuid ORDER BY number

-- name: notes_many
-- The notes of the tasks of a list.
SELECT task_id, kind, at, actor, event_id, detail, stored_at
FROM notes WHERE task_id = ANY(:ids::uuid[]) ORDER BY number

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
    {now} - min(t.status_changed_at) FILTER (WHERE t.status IN ({waiting})) AS oldest_wait
FROM tasks AS t
LEFT JOIN {current_leases} AS l ON l.task_id = t.id
WHERE t.status NOT IN ({final})
GROUP BY t.bucket ORDER BY t.bucket NULLS FIRST

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

-- name: claim_commands
-- Open requests for a node's tasks, oldest first, that nobody else is claiming now, under a term's claim.
WITH free AS (
    SELECT id FROM commands
    WHERE node = :node AND finished_at IS NULL
        AND (claimed_until IS NULL OR claimed_until < {now} OR claimed_until > {now} + claim_ttl)
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

-- name: claim_firing
-- A planned instant; the first claim stands.
INSERT INTO firings (name, key, planned, node, event_id, claimed_at)
VALUES (:name, :key, :planned, :node, :event_id, {now}) ON CONFLICT DO NOTHING

-- name: claim_firing_event
-- The event that claimed a planned instant.
SELECT event_id FROM firings
WHERE name = :name AND planned = :planned AND coalesce(key, '') = coalesce(:key::text, '')
    AND (key IS NULL) = (:key::text IS NULL)

-- name: register_term
-- A new life of a supervisor.
INSERT INTO terms (term, node, node_id, boot_id, lock_inode, started_at)
VALUES (:term, :node, :node_id, :boot_id, :lock_inode, :started_at) ON CONFLICT (term) DO NOTHING

-- name: register_term_node
-- Its node, seen now.
INSERT INTO nodes
    (node, node_id, term, host, boot_id, pid, version, ttl, limits, containment, generation, started_at, seen_at)
VALUES (
    :node, :node_id, :term, :host, :boot_id, :pid, :version, :ttl::interval, :limits::json, :containment, :generation,
    :started_at::timestamptz, {now}
)
ON CONFLICT (node) DO UPDATE SET
    node_id = excluded.node_id, term = excluded.term, host = excluded.host, boot_id = excluded.boot_id,
    pid = excluded.pid, version = excluded.version, ttl = excluded.ttl, limits = excluded.limits,
    containment = excluded.containment, generation = excluded.generation, started_at = excluded.started_at,
    seen_at = excluded.seen_at, ended_at = NULL, clock_ahead = NULL,
    holds_seen = CASE WHEN nodes.term = excluded.term THEN nodes.holds_seen END

-- name: register_term_lock
-- Before the other tables, as all do who change what all nodes go by.
SELECT 1 FROM deployment FOR UPDATE

-- name: register_term_displaces
-- Says so to a term of another state directory with the node's name, which may live: it finds the holds changed, and looks.
UPDATE deployment SET holds_revision = holds_revision + 1
WHERE EXISTS (SELECT 1 FROM terms WHERE node = :node AND node_id <> :node_id)

-- name: end_term
-- The term ended by itself; a later one of the node is another matter.
UPDATE nodes SET ended_at = {now} WHERE term = :term

-- name: terms
-- A node's terms, newest first.
SELECT term, node, node_id, boot_id, lock_inode, started_at
FROM terms WHERE node = :node ORDER BY started_at DESC, number DESC

-- name: nodes
-- Every node; it is live when it was seen less than its ttl ago, not in the future, and has not ended by itself.
SELECT
    node, node_id, term, host, boot_id, pid, version, ttl, limits, containment, generation, started_at, seen_at,
    ended_at, holds_seen, clock_ahead,
    (ended_at IS NULL AND seen_at <= {now} AND seen_at + ttl > {now}) AS is_live
FROM nodes ORDER BY node

-- name: declare_buckets
-- A node's declaration.
INSERT INTO node_buckets (bucket, node, updated_at) SELECT bucket, :node, {now} FROM unnest(:buckets::integer[]) AS b (bucket)

-- name: declare_buckets_none
-- The end of a node's former declaration.
DELETE FROM node_buckets WHERE node = :node

-- name: declarations
-- Who declared what.
SELECT bucket, node, updated_at FROM node_buckets ORDER BY bucket, node

-- name: publish_catalogue
-- One definition that a node shows.
INSERT INTO catalogue (node, name, module, options, error, hold)
VALUES (:node, :name, :module, :options::json, :error, :hold)
ON CONFLICT (node, name) DO UPDATE SET
    module = excluded.module, options = excluded.options, error = excluded.error, hold = excluded.hold

-- name: publish_catalogue_none
-- The end of what a node showed before.
DELETE FROM catalogue WHERE node = :node

-- name: catalogue
-- The definitions of one node, or of all.
SELECT node, name, module, options, error, hold FROM catalogue
WHERE :node::text IS NULL OR node = :node::text ORDER BY node, name

-- name: deployment
-- What all nodes agree on.
SELECT num_buckets, schema_version, oldest_code FROM deployment

-- name: deployment_versions
-- What says whether this code can use the tables; a row without versions where the one row is gone.
SELECT d.schema_version, d.oldest_code, ({deployment_tables}) AS standing
FROM (VALUES (1)) AS one (row) LEFT JOIN deployment AS d ON TRUE

-- name: deployment_tables
-- Which of chong's tables are there, as tables and beside each other.
SELECT array_agg(c.relname::text) AS standing FROM pg_class AS c
WHERE c.relname = ANY(:tables::text[]) AND c.relkind IN ('r', 'p') AND c.relnamespace = coalesce(
    (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('deployment')),
    to_regnamespace(quote_ident(current_schema()))
)

-- name: deployment_create
-- The one row that says what all nodes agree on; what newer code has said stands.
INSERT INTO deployment AS d (only_row, schema_version, oldest_code) VALUES (1, :schema_version, :oldest_code)
ON CONFLICT (only_row) DO UPDATE SET
    schema_version = greatest(d.schema_version, excluded.schema_version),
    oldest_code = greatest(d.oldest_code, excluded.oldest_code)

-- name: record_num_buckets
-- The number of buckets; the first one recorded stands.
UPDATE deployment SET num_buckets = :num_buckets WHERE num_buckets IS NULL

-- name: holds_revision_raise
-- Says to all nodes that the holds have changed.
UPDATE deployment SET holds_revision = holds_revision + 1

-- name: holds_revision
-- Which revision the holds stand at.
SELECT holds_revision FROM deployment

-- name: place_hold_node
-- Whether a node is known; only who holds the revision of the holds forgets one.
SELECT 1 FROM nodes WHERE node = :target

-- name: place_hold
-- A hold; the first one of a target stands.
INSERT INTO holds (scope, target, "by", since, reason) VALUES (:scope, :target, :by, {now}, :reason)
ON CONFLICT DO NOTHING

-- name: lift_hold
-- The end of a hold.
DELETE FROM holds WHERE scope = :scope AND target = :target

-- name: changed_holds
-- All holds, beside their revision, unless that is known; one row without a hold where there is none.
SELECT d.holds_revision, h.scope, h.target, h."by", h.since, h.reason
FROM deployment AS d LEFT JOIN holds AS h ON TRUE
WHERE d.holds_revision IS DISTINCT FROM :known::bigint ORDER BY h.scope, h.target

-- name: acknowledge_holds
-- The revision that a term keeps to.
UPDATE nodes SET holds_seen = :revision WHERE term = :term

-- name: forget_node_is_live
-- Whether a node is live.
SELECT (ended_at IS NULL AND seen_at <= {now} AND seen_at + ttl > {now}) AS is_live
FROM nodes WHERE node = :node FOR UPDATE

-- name: forget_node_waiting
-- Waiting tasks of a node, oldest first.
SELECT id FROM tasks WHERE node = :node AND status IN ({waiting}) ORDER BY id LIMIT :limit FOR UPDATE

-- name: forget_node_transitions
-- Their last change of state.
INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, reason, stored_at)
SELECT id, version + 1, status, :lost, {now}, :actor, :event_id, :reason, {now} FROM tasks WHERE id = ANY(:ids::uuid[])

-- name: forget_node_notes
-- What the store knew of the node.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT t.id, 'forgotten', {now}, :actor, :event_id, 'node ' || n.node || ' on ' || n.host || ', term ' || n.term, {now}
FROM tasks AS t JOIN nodes AS n ON n.node = t.node WHERE t.id = ANY(:ids::uuid[])

-- name: forget_node_commands
-- Requests that nobody will take up.
UPDATE commands SET finished_at = {now}, outcome = 'too_late', detail = 'its node was forgotten'
WHERE finished_at IS NULL AND task_id = ANY(:ids::uuid[])

-- name: forget_node_tasks
-- The tasks themselves.
UPDATE tasks SET status = :lost, version = version + 1, status_changed_at = {now}, ended_at = {now} WHERE id = ANY(:ids::uuid[])

-- name: forget_node_buckets
-- What it had declared.
DELETE FROM node_buckets WHERE node = :node

-- name: forget_node_catalogue
-- What it showed.
DELETE FROM catalogue WHERE node = :node

-- name: forget_node_hold
-- The hold on it: a node that comes back under its name is a new one.
DELETE FROM holds WHERE scope = 'node' AND target = :node

-- name: forget_node_row
-- The node itself.
DELETE FROM nodes WHERE node = :node

-- name: rebucket_lock
-- Nobody saves, registers or places a hold until it is done, and whoever did is seen. Nobody locks a row either: who had
-- one already would want to write to its table, and wait for this while this waits for the row. In the order of forget.
LOCK TABLE deployment, nodes, tasks IN EXCLUSIVE MODE

-- name: rebucketings
-- The changes of the number of buckets, newest first.
SELECT at, "by", reason, before, after, waiting, moved FROM rebucketings ORDER BY number DESC

-- name: rebucket_done
-- The change that an event has made.
SELECT at, "by", reason, before, after, waiting, moved FROM rebucketings WHERE event_id = :event_id

-- name: rebucket_live
-- The nodes that are live.
SELECT node FROM nodes WHERE ended_at IS NULL AND seen_at <= {now} AND seen_at + ttl > {now} ORDER BY node

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
UPDATE tasks SET bucket = :bucket WHERE id = :id::uuid

-- name: rebucket_note
-- What became of it.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
VALUES (:id::uuid, 'rebucketed', {now}, :by, :event_id, :detail, {now})

-- name: rebucket_declarations
-- What the nodes had declared, in buckets of the old number.
DELETE FROM node_buckets

-- name: rebucket_deployment
-- The new number; the nodes that come back find the holds changed, and look.
UPDATE deployment SET num_buckets = :after, holds_revision = holds_revision + 1

-- name: rebucket_record
-- What was done.
INSERT INTO rebucketings (event_id, at, "by", reason, before, after, waiting, moved)
VALUES (:event_id, {now}, :by, :reason, :before, :after, :waiting, :moved)

-- name: survey_isolation
-- All queries of this transaction see one moment.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: survey
-- The clock, which database this is, and the last change of the number of buckets.
SELECT
    {now} AS now, 'postgresql' AS engine, current_setting('server_version') AS engine_version,
    (SELECT at FROM rebucketings ORDER BY number DESC LIMIT 1) AS rebucketed_at

-- name: survey_work
-- Open tasks by node, bucket, name and status, with the one that has not changed for the longest.
SELECT
    t.node, t.bucket, t.name, t.status, count(*) AS tasks,
    count(*) FILTER (WHERE c.since < {now} - :still::interval) AS still,
    min(c.since) AS since, (array_agg(t.id ORDER BY c.since, t.id))[1] AS task_id
FROM tasks AS t
CROSS JOIN LATERAL (
    SELECT coalesce(
        (SELECT stored_at FROM transitions WHERE task_id = t.id ORDER BY version DESC LIMIT 1), t.status_changed_at
    ) AS since
    OFFSET 0  -- else it is looked up anew wherever it is named
) AS c
WHERE t.status NOT IN ({final})
GROUP BY t.node, t.bucket, t.name, t.status
ORDER BY t.node COLLATE "C", t.bucket NULLS FIRST, t.name COLLATE "C", t.status COLLATE "C"

-- name: survey_commands
-- Requests that nobody holds, by node, with the oldest. An older version does not say when it stored one.
SELECT
    node, count(*) AS commands, min(coalesce(stored_at, issued_at)) AS since,
    (array_agg(task_id ORDER BY coalesce(stored_at, issued_at), id))[1] AS task_id
FROM commands
WHERE finished_at IS NULL
    AND (claimed_until IS NULL OR claimed_until < {now} OR claimed_until > {now} + claim_ttl)
GROUP BY node ORDER BY node COLLATE "C"

-- name: report_findings_lock
-- The open alerts, in one order for all.
SELECT 1 FROM alerts WHERE cleared_at IS NULL ORDER BY id FOR UPDATE

-- name: findings
-- What was found, one array for each column.
unnest(:kinds::text[], :subjects::text[], :details::text[]) AS f (kind, subject, detail)

-- name: report_findings_seen
-- Open alerts that are found again.
UPDATE alerts AS a SET last_seen = {now}, detail = f.detail
FROM {findings} WHERE a.kind = f.kind AND a.subject = f.subject AND a.cleared_at IS NULL

-- name: report_findings_raise
-- New alerts; those that somebody else raises at this moment are his. Looked for first, so that no number is spent.
INSERT INTO alerts (kind, subject, detail, first_seen, last_seen, raised_event)
SELECT f.kind, f.subject, f.detail, {now}, {now}, :event_id FROM {findings}
WHERE NOT EXISTS (
    SELECT 1 FROM alerts AS a WHERE a.kind = f.kind AND a.subject = f.subject AND a.cleared_at IS NULL
)
ORDER BY f.kind COLLATE "C", f.subject COLLATE "C"
ON CONFLICT DO NOTHING

-- name: prune_alerts
-- Alerts that were cleared long ago.
DELETE FROM alerts WHERE id IN (
    SELECT id FROM alerts WHERE cleared_at < (SELECT {now} - :age::interval) ORDER BY cleared_at LIMIT :limit
)

-- name: report_clock
-- How far the host of a term is ahead.
UPDATE nodes SET clock_ahead = :ahead::interval WHERE term = :term

-- name: report_findings_clear
-- The end of open alerts that nobody has named for a while.
UPDATE alerts SET cleared_at = {now}, cleared_event = :event_id
WHERE cleared_at IS NULL AND last_seen < {now} - :quiet::interval

-- name: alerts_columns
-- One row per alert.
SELECT id, kind, subject, detail, first_seen, last_seen, cleared_at, acknowledged_by, acknowledged_at FROM alerts

-- name: report_findings_raised
-- What an event has raised.
{alerts_columns} WHERE raised_event = :event_id ORDER BY id

-- name: report_findings_cleared
-- What an event has cleared.
{alerts_columns} WHERE cleared_event = :event_id ORDER BY id

-- name: alerts
-- Open alerts, or all, newest first.
{alerts_columns} WHERE cleared_at IS NULL OR :cleared::boolean ORDER BY id DESC LIMIT :limit

-- name: acknowledge_alert_shown
-- One alert.
{alerts_columns} WHERE id = :id

-- name: acknowledge_alert
-- Who has taken an open alert on; the first one stands.
UPDATE alerts SET acknowledged_by = :by, acknowledged_at = {now}
WHERE id = :id AND cleared_at IS NULL AND acknowledged_at IS NULL
