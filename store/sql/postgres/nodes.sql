-- What nodes say of themselves: terms, buckets, definitions, clocks.

-- name: register_term
-- A new life of a supervisor.
INSERT INTO terms (term, node, node_id, boot_id, lock_inode, started_at)
VALUES (:term, :node, :node_id, :boot_id, :lock_inode, :started_at) ON CONFLICT (term) DO NOTHING

-- name: register_term_node
-- Its node, seen now.
INSERT INTO nodes (
    node, node_id, term, host, machine_id, boot_id, pid, version, ttl, limits, containment, generation, started_at,
    seen_at
) VALUES (
    :node, :node_id, :term, :host, :machine_id, :boot_id, :pid, :version, :ttl::interval, :limits::json, :containment,
    :generation, :started_at::timestamptz, {now}
)
ON CONFLICT (node) DO UPDATE SET
    node_id = excluded.node_id, term = excluded.term, host = excluded.host, machine_id = excluded.machine_id,
    boot_id = excluded.boot_id, pid = excluded.pid, version = excluded.version, ttl = excluded.ttl, limits = excluded.limits,
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

-- name: live
-- Whether a node was seen less than its ttl ago, not in the future, and has not ended by itself.
(ended_at IS NULL AND seen_at <= {now} AND seen_at + least(ttl, {longest}) > {now})

-- name: longest
-- What no time to live exceeds: a longer one, which chong never writes, would lead out of what the server can count.
interval '1000 years'

-- name: nodes
-- Every node.
SELECT
    node, node_id, term, host, machine_id, boot_id, pid, version, ttl, limits, containment, generation, started_at,
    seen_at, ended_at, holds_seen, clock_ahead,
    {live} AS is_live
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

-- name: report_clock
-- How far the host of a term is ahead.
UPDATE nodes SET clock_ahead = :ahead::interval WHERE term = :term
