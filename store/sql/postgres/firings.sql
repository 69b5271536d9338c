-- Planned instants of schedules.

-- name: claim_firing
-- A planned instant; the first claim stands.
INSERT INTO firings (name, key, planned, node, event_id, claimed_at)
VALUES (:name, :key, :planned, :node, :event_id, {now}) ON CONFLICT DO NOTHING

-- name: claim_firing_event
-- The event that claimed a planned instant.
SELECT event_id FROM firings
WHERE name = :name AND planned = :planned AND coalesce(key, '') = coalesce(:key::text, '')
    AND (key IS NULL) = (:key::text IS NULL)
