-- What all nodes agree on.

-- name: deployment
-- What all nodes agree on.
SELECT num_buckets, schema_version, oldest_code FROM deployment

-- name: deployment_versions
-- What says whether this code can use the tables; a row without versions where the one row is gone.
SELECT d.schema_version, d.oldest_code, ({deployment_tables}) AS present
FROM (VALUES (1)) AS one (row) LEFT JOIN deployment AS d ON TRUE

-- name: deployment_tables
-- Which of chong's tables are there, as tables and beside each other.
SELECT array_agg(c.relname::text) AS present FROM pg_class AS c
WHERE c.relname = ANY(:tables::text[]) AND c.relkind IN ('r', 'p') AND c.relnamespace = coalesce(
    (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('deployment')),
    to_regnamespace(quote_ident(current_schema()))
)

-- name: deployment_create
-- The one row that says what all nodes agree on; what newer code has said stands.
INSERT INTO deployment AS d (only_row, schema_version, oldest_code) VALUES (1, :schema_version, :oldest_code)
ON CONFLICT (only_row) DO UPDATE SET
    schema_version = greatest(d.schema_version, excluded.schema_version),
    oldest_code = greatest(d.oldest_code, excluded.oldest_code)

-- name: record_num_buckets
-- The number of buckets; the first one recorded stands.
UPDATE deployment SET num_buckets = :num_buckets WHERE num_buckets IS NULL
