-- What all nodes agree on.

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
