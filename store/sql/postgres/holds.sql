-- Holds, and the revision that each change of them raises.

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
