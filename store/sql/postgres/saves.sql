-- Writes of tasks, with all that goes with them.

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
    :unique_key::text[], :group_id::text[], :run_timeout::double precision[], :due_at::timestamptz[],
    :started_at::timestamptz[], :ended_at::timestamptz[],
    :failure::text[], :outcome::text[], :exit_code::integer[], :exit_signal::integer[], :forced::boolean[],
    :flags::text[], :stop::text[], :expect_version::bigint[], :expect_attempt::integer[],
    :has_trail::boolean[], :source::text[], :owner::text[], :lease_term::text[], :lease_ttl::interval[], :is_run::boolean[]
) AS s (
    id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
    unstarted, priority, tags, trigger, unique_key, group_id, run_timeout, due_at, started_at, ended_at, failure, outcome,
    exit_code, exit_signal, forced, flags, stop, expect_version, expect_attempt, has_trail, source, owner, lease_term,
    lease_ttl, is_run
)

-- name: save_consequences
-- What goes with each task that was written: its trail, its lease, the ends of its commands.
trail AS (
    INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, reason, ended, stored_at)
    SELECT r.task_id, r.version, r.source, r.target, r.at, r.actor, r.event_id, r.reason, r.ended::json, {now} FROM unnest(
        :step_task::uuid[], :step_version::bigint[], :step_source::text[], :step_target::text[],
        :step_at::timestamptz[], :step_actor::text[], :step_event::text[], :step_reason::text[],
        :step_ended::text[]
    ) AS r (task_id, version, source, target, at, actor, event_id, reason, ended)
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
        max_attempts = s.max_attempts, unstarted = s.unstarted, priority = s.priority, due_at = s.due_at,
        started_at = s.started_at, ended_at = s.ended_at, failure = s.failure::json, outcome = s.outcome::json, exit_code = s.exit_code,
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
        unstarted, priority, tags, trigger, unique_key, group_id, run_timeout, due_at, started_at, ended_at, failure,
        outcome, exit_code, exit_signal, forced, flags, stop
    )
    SELECT
        id, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt, max_attempts,
        unstarted, priority, tags::jsonb, trigger, unique_key, group_id, run_timeout, due_at, started_at, ended_at,
        failure::json, outcome::json, exit_code, exit_signal, forced, flags::json, stop::json
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
    AND due_at IS NOT DISTINCT FROM :due_at::timestamptz
    AND started_at IS NOT DISTINCT FROM :started_at::timestamptz AND ended_at IS NOT DISTINCT FROM :ended_at::timestamptz
    AND failure::text IS NOT DISTINCT FROM :failure::text AND outcome::text IS NOT DISTINCT FROM :outcome::text
    AND exit_code IS NOT DISTINCT FROM :exit_code::integer AND exit_signal IS NOT DISTINCT FROM :exit_signal::integer
    AND forced = :forced AND flags::text = :flags AND stop::text IS NOT DISTINCT FROM :stop::text
