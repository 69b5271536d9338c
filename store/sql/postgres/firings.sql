-- Planned instants of schedules.

-- name: claim_firings
-- A planned instant; the first claim stands.
INSERT INTO firings (name, key, planned, node, event_id, claimed_at)
VALUES (:name, :key, :planned, :node, :event_id, {now}) ON CONFLICT DO NOTHING

-- name: claim_firings_won
-- Those of a list of claims that stand.
SELECT f.event_id
FROM unnest(:names::text[], :keys::text[], :planneds::timestamptz[], :event_ids::text[])
    AS v (name, key, planned, event_id)
CROSS JOIN LATERAL (
    SELECT f.event_id FROM firings AS f
    WHERE f.name = v.name AND {firing_of_key} AND f.planned = v.planned
) AS f
WHERE f.event_id = v.event_id

-- name: last_firings
-- The newest instant of each spot of a list; each by itself, from the end of its part of the index.
SELECT v.name, v.key, f.planned
FROM unnest(:names::text[], :keys::text[]) AS v (name, key)
CROSS JOIN LATERAL (
    SELECT f.planned FROM firings AS f
    WHERE f.name = v.name AND {firing_of_key}
    ORDER BY f.planned DESC LIMIT 1
) AS f

-- name: firing_of_key
-- Condition: the firing is of the listed key, as its index has it.
coalesce(f.key, '') = coalesce(v.key, '') AND (f.key IS NULL) = (v.key IS NULL)
