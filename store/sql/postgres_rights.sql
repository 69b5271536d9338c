-- What the role may do here: make tables where they would be made, write at all, and write to each table of chong.
-- Its months are not asked for: who writes to the whole trail needs no right on its parts.
SELECT
    current_user AS role,
    current_schema() AS "schema",
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create,
    current_setting('transaction_read_only')::boolean AS is_read_only,
    (
        SELECT array_agg(relname::text) FROM pg_class
        WHERE relname = ANY(:tables) AND relnamespace = to_regnamespace(quote_ident(current_schema()))
    ) AS taken,
    (
        SELECT array_agg(found.relname::text ORDER BY found.relname)
        FROM pg_class AS found
        JOIN pg_class AS ours
            ON ours.relnamespace = found.relnamespace
        WHERE ours.oid = to_regclass('deployment') AND found.relname = ANY(:tables) AND NOT found.relispartition
          AND NOT (
              has_table_privilege(found.oid, 'SELECT') AND has_table_privilege(found.oid, 'INSERT')
              AND has_table_privilege(found.oid, 'UPDATE') AND has_table_privilege(found.oid, 'DELETE')
          )
    ) AS closed_tables;
