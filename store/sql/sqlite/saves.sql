-- Writes of tasks, with all that goes with them.

-- name: save_stored
-- What the rows of a batch hold before it is written: all that a save's verdict depends on.
SELECT
    t.id, t.version, t.attempt, t.status, t.last_heartbeat_at, t.progress, t.usage,
    l.task_id IS NOT NULL AS has_lease, l.term,
    l.heartbeat_at AS lease_heartbeat_at, l.progress AS lease_progress, l.usage AS lease_usage
FROM tasks AS t
LEFT JOIN leases AS l ON l.task_id = t.id
WHERE t.id IN (SELECT value FROM json_each(:ids))

-- name: save_event
-- The event that brought a task to a version.
SELECT event_id FROM transitions WHERE task_id = :id AND version = :version

-- name: save_holder
-- The unfinished task, other than this one, that holds a unique key.
SELECT id FROM tasks
WHERE unique_key IS NOT NULL AND status NOT IN ({final}) AND unique_key = :unique_key AND id <> :id

-- name: save_insert
-- A task's first save: what it is, and its state.
INSERT INTO tasks (
    id, tail, name, status, version, node, created_at, status_changed_at, bucket, bucket_key, attempt,
    max_attempts, unstarted, priority, tags, trigger, unique_key, group_id, run_timeout, due_at, started_at, ended_at,
    failure, outcome, exit_code, exit_signal, forced, flags, stop
) VALUES (
    :id, :tail, :name, :status, :version, :node, :created_at, :status_changed_at, :bucket, :bucket_key, :attempt,
    :max_attempts, :unstarted, :priority, :tags, :trigger, :unique_key, :group_id, :run_timeout, :due_at, :started_at,
    :ended_at, :failure, :outcome, :exit_code, :exit_signal, :forced, :flags, :stop
)

-- name: save_update
-- A later save: the state only. Columns that cannot change are left out, so that their indexes rest.
UPDATE tasks SET
    status = :status, version = :version, status_changed_at = :status_changed_at, attempt = :attempt,
    max_attempts = :max_attempts, unstarted = :unstarted, priority = :priority, due_at = :due_at,
    started_at = :started_at, ended_at = :ended_at, failure = :failure, outcome = :outcome, exit_code = :exit_code,
    exit_signal = :exit_signal, forced = :forced, flags = :flags, stop = :stop,
    last_heartbeat_at = :last_heartbeat_at, progress = :progress, usage = :usage
WHERE id = :id AND version = :expect_version

-- name: save_same
-- Whether a task stands exactly as a save without an event would have left it.
SELECT 1 FROM tasks
WHERE id = :id AND version = :version AND status = :status AND status_changed_at = :status_changed_at
    AND attempt = :attempt AND max_attempts = :max_attempts AND unstarted = :unstarted AND priority = :priority
    AND due_at IS :due_at AND started_at IS :started_at AND ended_at IS :ended_at AND failure IS :failure AND outcome IS :outcome
    AND exit_code IS :exit_code AND exit_signal IS :exit_signal AND forced = :forced AND flags = :flags
    AND stop IS :stop

-- name: save_tag
-- One tag of a new task.
INSERT INTO task_tags (tag, task_id) VALUES (?, ?)

-- name: save_transition
-- One audit row.
INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, reason, ended, stored_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: save_lease
-- The lease of a new attempt, in place of the former one's.
INSERT OR REPLACE INTO leases (task_id, term, until, ttl, renewals) VALUES (:id, :term, :now + :ttl, :ttl, 0)

-- name: save_end_lease
-- The end of a lease.
DELETE FROM leases WHERE task_id = :id
