-- The end of a node that is gone for good.

-- name: forget_node_is_live
-- Whether a node is live.
SELECT {live} AS is_live
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
