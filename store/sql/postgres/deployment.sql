-- What all nodes agree on.

-- name: deployment
-- What all nodes agree on.
SELECT num_buckets, schema_version, oldest_code FROM deployment

-- name: deployment_versions
-- What says whether this code can use the tables.
SELECT schema_version, oldest_code FROM deployment

-- name: deployment_create
-- The one row that says what all nodes agree on; what newer code has said stands.
INSERT INTO deployment AS d (only_row, schema_version, oldest_code) VALUES (1, :schema_version, :oldest_code)
ON CONFLICT (only_row) DO UPDATE SET
    schema_version = greatest(d.schema_version, excluded.schema_version),
    oldest_code = greatest(d.oldest_code, excluded.oldest_code)

-- name: record_num_buckets
-- The number of buckets; the first one recorded stands.
UPDATE deployment SET num_buckets = :num_buckets WHERE num_buckets IS NULL
