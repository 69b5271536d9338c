-- Planned instants of schedules.

-- name: claim_firings
-- A planned instant; the first claim stands.
INSERT INTO firings (name, key, planned, node, event_id, claimed_at)
VALUES (:name, :key, :planned, :node, :event_id, :now) ON CONFLICT DO NOTHING

-- name: claim_firings_won
-- Those of a list of claims that stand; each is a list of name, key, instant and event.
SELECT f.event_id
FROM json_each(:listed) AS v
JOIN firings AS f ON f.name = json_extract(v.value, '$[0]') AND {firing_of_key} AND f.planned = json_extract(v.value, '$[2]')
WHERE f.event_id = json_extract(v.value, '$[3]')

-- name: last_firings
-- The newest instant of each spot of a list; each by itself, from the end of its part of the index.
SELECT name, spot_key AS key, planned FROM (
    SELECT
        json_extract(v.value, '$[0]') AS name,
        json_extract(v.value, '$[1]') AS spot_key,
        (SELECT max(f.planned) FROM firings AS f WHERE f.name = json_extract(v.value, '$[0]') AND {firing_of_key}) AS planned
    FROM json_each(:listed) AS v
) WHERE planned IS NOT NULL

-- name: firing_of_key
-- Condition: the firing is of the listed key, as its index has it.
ifnull(f.key, '') = ifnull(json_extract(v.value, '$[1]'), '') AND (f.key IS NULL) = (json_extract(v.value, '$[1]') IS NULL)
