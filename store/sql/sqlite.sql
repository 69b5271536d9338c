-- The queries of a SQLite store, named after the methods that run them. A list is passed as a JSON array.
-- {name} stands for the query of that name, or for a list of states from chong.store.states.

-- name: snapshot
-- One row per task as a snapshot shows it: the lease's values while there is a lease.
SELECT
    t.id, t.name, t.status, t.version, t.node, t.created_at, t.status_changed_at, t.bucket, t.bucket_key,
    t.attempt, t.max_attempts, t.unstarted, t.priority, t.tags, t.trigger, t.unique_key, t.group_id,
    t.started_at, t.ended_at, t.failure, t.outcome, t.exit_code, t.exit_signal, t.forced, t.flags, t.stop,
    l.term AS lease_owner,
    l.until AS lease_until,
    iif(l.task_id IS NULL, t.last_heartbeat_at, l.heartbeat_at) AS last_heartbeat_at,
    iif(l.task_id IS NULL, t.progress, l.progress) AS progress,
    iif(l.task_id IS NULL, t.usage, l.usage) AS usage
FROM tasks AS t
LEFT JOIN leases AS l ON l.task_id = t.id

-- name: past
-- Whether a lease's end lies behind, or further ahead than its own length: then the clock jumped back.
(until < :now OR until > :now + ttl)

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
    max_attempts, unstarted, priority, tags, trigger, unique_key, group_id, started_at, ended_at, failure,
    outcome, exit_code, exit_signal, forced, flags, stop
) VALUES (
    :id, :tail, :name, :status, :version, :node, :created_at, :status_changed_at, :bucket, :bucket_key, :attempt,
    :max_attempts, :unstarted, :priority, :tags, :trigger, :unique_key, :group_id, :started_at, :ended_at, :failure,
    :outcome, :exit_code, :exit_signal, :forced, :flags, :stop
)

-- name: save_update
-- A later save: the state only. Columns that cannot change are left out, so that their indexes rest.
UPDATE tasks SET
    status = :status, version = :version, status_changed_at = :status_changed_at, attempt = :attempt,
    max_attempts = :max_attempts, unstarted = :unstarted, priority = :priority, started_at = :started_at,
    ended_at = :ended_at, failure = :failure, outcome = :outcome, exit_code = :exit_code,
    exit_signal = :exit_signal, forced = :forced, flags = :flags, stop = :stop,
    last_heartbeat_at = :last_heartbeat_at, progress = :progress, usage = :usage
WHERE id = :id AND version = :expect_version

-- name: save_same
-- Whether a task stands exactly as a save without an event would have left it.
SELECT 1 FROM tasks
WHERE id = :id AND version = :version AND status = :status AND status_changed_at = :status_changed_at
    AND attempt = :attempt AND max_attempts = :max_attempts AND unstarted = :unstarted AND priority = :priority
    AND started_at IS :started_at AND ended_at IS :ended_at AND failure IS :failure AND outcome IS :outcome
    AND exit_code IS :exit_code AND exit_signal IS :exit_signal AND forced = :forced AND flags = :flags
    AND stop IS :stop

-- name: save_tag
-- One tag of a new task.
INSERT INTO task_tags (tag, task_id) VALUES (?, ?)

-- name: save_transition
-- One audit row.
INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, reason, stored_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: save_lease
-- The lease of a new attempt, in place of the former one's.
INSERT OR REPLACE INTO leases (task_id, term, until, ttl, renewals) VALUES (:id, :term, :now + :ttl, :ttl, 0)

-- name: save_end_lease
-- The end of a lease.
DELETE FROM leases WHERE task_id = :id

-- name: get
-- One task.
{snapshot} WHERE t.id = :id

-- name: get_many
-- The tasks of a list, by id.
{snapshot} WHERE t.id IN (SELECT value FROM json_each(:ids)) ORDER BY t.id

-- name: find
-- Tasks whose id lies in a range, or whose reversed id does. Each way stops at the limit by itself: few digits fit many.
{snapshot}
WHERE t.id IN (
    SELECT * FROM (SELECT id FROM tasks WHERE id >= :part AND id < :part_end ORDER BY id DESC LIMIT :limit)
    UNION
    SELECT * FROM (SELECT id FROM tasks WHERE tail >= :tail AND tail < :tail_end ORDER BY id DESC LIMIT :limit)
)
ORDER BY t.id DESC LIMIT :limit

-- name: query
-- Tasks that meet every condition, newest first; {conditions} are some of those that follow.
{snapshot} WHERE {conditions} ORDER BY t.id DESC LIMIT :limit

-- name: query_buckets
-- Condition: the bucket is one of these.
t.bucket IN (SELECT value FROM json_each(:buckets))

-- name: query_statuses
-- Condition: the status is one of these.
t.status IN (SELECT value FROM json_each(:statuses))

-- name: query_names
-- Condition: the name is one of these.
t.name IN (SELECT value FROM json_each(:names))

-- name: query_tags
-- Condition: the task has every one of these tags.
t.id IN (
    SELECT task_id FROM task_tags WHERE tag IN (SELECT value FROM json_each(:tags))
    GROUP BY task_id HAVING count(*) = json_array_length(:tags)
)

-- name: query_node
-- Condition: the task's node.
t.node = :node

-- name: query_key
-- Condition: the key that gave the bucket.
t.bucket_key = :key

-- name: query_ids
-- Condition: the id is one of these.
t.id IN (SELECT value FROM json_each(:ids))

-- name: query_since
-- Condition: created at or after a time; without the hint all tasks would be walked in the order of the result.
unlikely(t.created_at >= :since)

-- name: query_before
-- Condition: the id lies before the last one of the page before.
t.id < :before

-- name: query_any
-- No condition at all.
TRUE

-- name: history
-- A task's transitions in order.
SELECT task_id, version, source, target, at, actor, event_id, reason, stored_at
FROM transitions WHERE task_id = :id ORDER BY version

-- name: append
-- One note on a task that is there; a second one of the same event is ignored.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT t.id, :kind, :at, :actor, :event_id, :detail, :now FROM tasks AS t WHERE t.id = :task_id
ON CONFLICT (task_id, event_id) DO NOTHING

-- name: history_many
-- The transitions of the tasks of a list.
SELECT task_id, version, source, target, at, actor, event_id, reason, stored_at
FROM transitions WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY task_id, version

-- name: notes
-- A task's notes as they came in.
SELECT task_id, kind, at, actor, event_id, detail, stored_at FROM notes WHERE task_id = :id ORDER BY number

-- name: notes_many
-- The notes of the tasks of a list.
SELECT task_id, kind, at, actor, event_id, detail, stored_at
FROM notes WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY number

-- name: stats
-- How many tasks stand in each status.
SELECT status, count(*) AS tasks FROM tasks GROUP BY status

-- name: stats_buckets
-- The same, for some buckets.
SELECT status, count(*) AS tasks FROM tasks WHERE bucket IN (SELECT value FROM json_each(:buckets)) GROUP BY status

-- name: bucket_loads
-- Open work per bucket; NULL, the keyless work, sorts first.
SELECT
    t.bucket,
    sum(t.status IN ({waiting})) AS queued,
    sum(t.status IN ({runs})) AS running,
    sum(l.task_id IS NOT NULL AND {past}) AS expired,
    :now - min(iif(t.status IN ({waiting}), t.status_changed_at, NULL)) AS oldest_wait
FROM tasks AS t
LEFT JOIN leases AS l ON l.task_id = t.id
WHERE t.status NOT IN ({final})
GROUP BY t.bucket ORDER BY t.bucket

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

-- name: claim_commands
-- Open requests for a node's tasks, oldest first; by their numbers, as an id may be no text.
SELECT rowid AS number FROM commands
WHERE node = :node AND finished_at IS NULL
    AND (claimed_until IS NULL OR claimed_until < :now OR claimed_until > :now + claim_ttl)
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

-- name: claim_firing
-- A planned instant; the first claim stands.
INSERT INTO firings (name, key, planned, node, event_id, claimed_at)
VALUES (:name, :key, :planned, :node, :event_id, :now) ON CONFLICT DO NOTHING

-- name: claim_firing_event
-- The event that claimed a planned instant.
SELECT event_id FROM firings
WHERE name = :name AND planned = :planned AND ifnull(key, '') = ifnull(:key, '') AND (key IS NULL) = (:key IS NULL)

-- name: register_term
-- A new life of a supervisor.
INSERT INTO terms (term, node, node_id, boot_id, lock_inode, started_at)
VALUES (:term, :node, :node_id, :boot_id, :lock_inode, :started_at) ON CONFLICT (term) DO NOTHING

-- name: register_term_node
-- Its node, seen now.
INSERT INTO nodes
    (node, node_id, term, host, boot_id, pid, version, ttl, limits, containment, generation, started_at, seen_at)
VALUES
    (:node, :node_id, :term, :host, :boot_id, :pid, :version, :ttl, :limits, :containment, :generation, :started_at, :now)
ON CONFLICT (node) DO UPDATE SET
    node_id = excluded.node_id, term = excluded.term, host = excluded.host, boot_id = excluded.boot_id,
    pid = excluded.pid, version = excluded.version, ttl = excluded.ttl, limits = excluded.limits,
    containment = excluded.containment, generation = excluded.generation, started_at = excluded.started_at,
    seen_at = excluded.seen_at, ended_at = NULL, clock_ahead = NULL,
    holds_seen = CASE WHEN nodes.term = excluded.term THEN nodes.holds_seen END

-- name: register_term_lock
-- The write lock is held already.
SELECT 1

-- name: register_term_displaces
-- Says so to a term of another state directory with the node's name, which may live: it finds the holds changed, and looks.
UPDATE deployment SET holds_revision = holds_revision + 1
WHERE EXISTS (SELECT 1 FROM terms WHERE node = :node AND node_id <> :node_id)

-- name: end_term
-- The term ended by itself; a later one of the node is another matter.
UPDATE nodes SET ended_at = :now WHERE term = :term

-- name: terms
-- A node's terms, newest first.
SELECT term, node, node_id, boot_id, lock_inode, started_at
FROM terms WHERE node = :node ORDER BY started_at DESC, number DESC

-- name: nodes
-- Every node; it is live when it was seen less than its ttl ago, not in the future, and has not ended by itself.
SELECT
    node, node_id, term, host, boot_id, pid, version, ttl, limits, containment, generation, started_at, seen_at,
    ended_at, holds_seen, clock_ahead,
    (ended_at IS NULL AND seen_at <= :now AND seen_at + ttl > :now) AS is_live
FROM nodes ORDER BY node

-- name: declare_buckets
-- A node's declaration.
INSERT INTO node_buckets (bucket, node, updated_at) SELECT value, :node, :now FROM json_each(:buckets)

-- name: declare_buckets_none
-- The end of a node's former declaration.
DELETE FROM node_buckets WHERE node = :node

-- name: declarations
-- Who declared what.
SELECT bucket, node, updated_at FROM node_buckets ORDER BY bucket, node

-- name: publish_catalogue
-- One definition that a node shows.
INSERT OR REPLACE INTO catalogue (node, name, module, options, error, hold)
VALUES (:node, :name, :module, :options, :error, :hold)

-- name: publish_catalogue_none
-- The end of what a node showed before.
DELETE FROM catalogue WHERE node = :node

-- name: catalogue
-- The definitions of one node, or of all.
SELECT node, name, module, options, error, hold FROM catalogue WHERE :node IS NULL OR node = :node ORDER BY node, name

-- name: deployment
-- What all nodes agree on.
SELECT num_buckets, schema_version, oldest_code FROM deployment

-- name: deployment_upgrade
-- The tables are of a later version now; what newer code has said stands.
UPDATE deployment SET schema_version = :schema_version, oldest_code = max(oldest_code, :oldest_code)
WHERE schema_version < :schema_version

-- name: deployment_create
-- The one row that says what all nodes agree on.
INSERT INTO deployment (only_row, schema_version, oldest_code) VALUES (1, :schema_version, :oldest_code)
ON CONFLICT DO NOTHING

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
INSERT INTO holds (scope, target, "by", since, reason) VALUES (:scope, :target, :by, :now, :reason)
ON CONFLICT DO NOTHING

-- name: lift_hold
-- The end of a hold.
DELETE FROM holds WHERE scope = :scope AND target = :target

-- name: changed_holds
-- All holds, beside their revision, unless that is known; one row without a hold where there is none.
SELECT d.holds_revision, h.scope, h.target, h."by", h.since, h.reason
FROM deployment AS d LEFT JOIN holds AS h ON TRUE
WHERE d.holds_revision IS NOT :known ORDER BY h.scope, h.target

-- name: acknowledge_holds
-- The revision that a term keeps to.
UPDATE nodes SET holds_seen = :revision WHERE term = :term

-- name: forget_node_is_live
-- Whether a node is live.
SELECT (ended_at IS NULL AND seen_at <= :now AND seen_at + ttl > :now) AS is_live
FROM nodes WHERE node = :node

-- name: forget_node_waiting
-- Waiting tasks of a node, oldest first.
SELECT id FROM tasks WHERE node = :node AND status IN ({waiting}) ORDER BY id LIMIT :limit

-- name: forget_node_transitions
-- Their last change of state.
INSERT INTO transitions (task_id, version, source, target, at, actor, event_id, reason, stored_at)
SELECT id, version + 1, status, :lost, :now, :actor, :event_id, :reason, :now FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))

-- name: forget_node_notes
-- What the store knew of the node.
INSERT INTO notes (task_id, kind, at, actor, event_id, detail, stored_at)
SELECT t.id, 'forgotten', :now, :actor, :event_id, 'node ' || n.node || ' on ' || n.host || ', term ' || n.term, :now
FROM tasks AS t JOIN nodes AS n ON n.node = t.node WHERE t.id IN (SELECT value FROM json_each(:ids))

-- name: forget_node_commands
-- Requests that nobody will take up.
UPDATE commands SET finished_at = :now, outcome = 'too_late', detail = 'its node was forgotten'
WHERE finished_at IS NULL AND task_id IN (SELECT value FROM json_each(:ids))

-- name: forget_node_tasks
-- The tasks themselves.
UPDATE tasks SET status = :lost, version = version + 1, status_changed_at = :now, ended_at = :now WHERE id IN (SELECT value FROM json_each(:ids))

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
-- Nothing: a transaction that writes is alone.
SELECT 1

-- name: rebucketings
-- The changes of the number of buckets, newest first.
SELECT at, "by", reason, before, after, waiting, moved FROM rebucketings ORDER BY number DESC

-- name: rebucket_done
-- The change that an event has made.
SELECT at, "by", reason, before, after, waiting, moved FROM rebucketings WHERE event_id = :event_id

-- name: rebucket_live
-- The nodes that are live.
SELECT node FROM nodes WHERE ended_at IS NULL AND seen_at <= :now AND seen_at + ttl > :now ORDER BY node

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

-- name: survey
-- The clock, which database this is, and the last change of the number of buckets.
SELECT :now AS now, 'sqlite' AS engine, sqlite_version() AS engine_version,
    (SELECT at FROM rebucketings ORDER BY number DESC LIMIT 1) AS rebucketed_at

-- name: survey_work
-- Open tasks by node, bucket, name and status, with the one that has not changed for the longest.
SELECT node, bucket, name, status, count(*) AS tasks, sum(since < :now - :still) AS still, min(since) AS since,
    id AS task_id  -- of the row with the least `since`: a rule of SQLite
FROM (
    SELECT t.node, t.bucket, t.name, t.status, t.id, ifnull(
        (SELECT stored_at FROM transitions WHERE task_id = t.id ORDER BY version DESC LIMIT 1), t.status_changed_at
    ) AS since
    FROM tasks AS t WHERE t.status NOT IN ({final})
)
GROUP BY node, bucket, name, status ORDER BY node, bucket, name, status

-- name: survey_commands
-- Requests that nobody holds, by node, with the oldest. An older version does not say when it stored one.
SELECT node, count(*) AS commands, min(coalesce(stored_at, issued_at)) AS since, task_id
FROM commands
WHERE finished_at IS NULL AND (claimed_until IS NULL OR claimed_until < :now OR claimed_until > :now + claim_ttl)
GROUP BY node ORDER BY node

-- name: report_findings_lock
-- The open alerts; the write lock has them already.
SELECT 1 FROM alerts WHERE cleared_at IS NULL

-- name: findings
-- What was found, one array for each column.
(
    SELECT k.value AS kind, s.value AS subject, d.value AS detail
    FROM json_each(:kinds) AS k JOIN json_each(:subjects) AS s ON s.key = k.key
    JOIN json_each(:details) AS d ON d.key = k.key
) AS f

-- name: report_findings_seen
-- Open alerts that are found again.
UPDATE alerts AS a SET last_seen = :now, detail = f.detail
FROM {findings} WHERE a.kind = f.kind AND a.subject = f.subject AND a.cleared_at IS NULL

-- name: report_findings_raise
-- New alerts.
INSERT INTO alerts (kind, subject, detail, first_seen, last_seen, raised_event)
SELECT f.kind, f.subject, f.detail, :now, :now, :event_id FROM {findings}
WHERE NOT EXISTS (
    SELECT 1 FROM alerts AS a WHERE a.kind = f.kind AND a.subject = f.subject AND a.cleared_at IS NULL
)
ORDER BY f.kind, f.subject

-- name: prune_alerts
-- Alerts that were cleared long ago.
DELETE FROM alerts WHERE id IN (
    SELECT id FROM alerts WHERE cleared_at < :now - :age ORDER BY cleared_at LIMIT :limit
)

-- name: report_clock
-- How far the host of a term is ahead.
UPDATE nodes SET clock_ahead = :ahead WHERE term = :term

-- name: report_findings_clear
-- The end of open alerts that nobody has named for a while.
UPDATE alerts SET cleared_at = :now, cleared_event = :event_id
WHERE cleared_at IS NULL AND last_seen < :now - :quiet

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
{alerts_columns} WHERE cleared_at IS NULL OR :cleared ORDER BY id DESC LIMIT :limit

-- name: acknowledge_alert_shown
-- One alert.
{alerts_columns} WHERE id = :id

-- name: acknowledge_alert
-- Who has taken an open alert on; the first one stands.
UPDATE alerts SET acknowledged_by = :by, acknowledged_at = :now
WHERE id = :id AND cleared_at IS NULL AND acknowledged_at IS NULL
