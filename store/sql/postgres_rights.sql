-- Whether the role may make tables where they would be made.
SELECT
    current_user AS role,
    current_schema() AS "schema",
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create;
