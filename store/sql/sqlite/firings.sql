-- Planned instants of schedules.

-- name: claim_firings
-- A planned instant; the first claim stands.
INSERT INTO firings (name, key, planned, node, event_id, claimed_at)
VALUES (:name, :key, :planned, :node, :event_id, :now) ON CONFLICT DO NOTHING

-- name: claim_firings_won
-- Those of a list of claims that stand.
SELECT f.event_id
FROM json_each(:names) AS n
JOIN json_each(:keys) AS k ON k.key = n.key
JOIN json_each(:planneds) AS p ON p.key = n.key
JOIN json_each(:event_ids) AS e ON e.key = n.key
JOIN firings AS f ON f.name = n.value AND {firing_of_key} AND f.planned = p.value
WHERE f.event_id = e.value

-- name: last_firings
-- The newest instant of each spot of a list; each by itself, from the end of its part of the index.
SELECT name, spot_key AS key, planned FROM (
    SELECT
        n.value AS name,
        k.value AS spot_key,
        (SELECT max(f.planned) FROM firings AS f WHERE f.name = n.value AND {firing_of_key}) AS planned
    FROM json_each(:names) AS n JOIN json_each(:keys) AS k ON k.key = n.key
) WHERE planned IS NOT NULL

-- name: firing_of_key
-- Condition: the firing is of the listed key, as its index has it.
ifnull(f.key, '') = ifnull(k.value, '') AND (f.key IS NULL) = (k.value IS NULL)
