-- How long the server lets a transaction go on.

-- name: limits
-- How long the server lets this transaction run, wait for a lock, and stay open with nobody asking.
SELECT
    set_config('statement_timeout', :milliseconds, true),
    set_config('lock_timeout', :milliseconds, true),
    set_config('idle_in_transaction_session_timeout', :milliseconds, true)

-- name: limits_pipeline
-- The same where statements follow each other unasked: between two no limit of these counts, before version 17 none does.
{limits},
    CASE
        WHEN current_setting('transaction_timeout', true) IS NOT NULL
        THEN set_config('transaction_timeout', :milliseconds, true)
    END
