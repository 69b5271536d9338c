-- The months of the trail, for chong.store.partitions: {part} is a month's table, {low} and {high} its range of ids.

-- name: now
-- The server's clock.
SELECT now() AS now

-- name: parts
-- The parts that the trail has, transitions_rest among them.
SELECT c.relname AS name
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = 'transitions'::regclass

-- name: limit_waits
-- How long this transaction waits for a lock, and the server for its next statement.
SELECT
    set_config('lock_timeout', :lock_wait, true),
    set_config('idle_in_transaction_session_timeout', :standstill, true)

-- name: make
-- A month's table, not yet a part of the trail.
CREATE TABLE {part} (LIKE transitions INCLUDING ALL)

-- name: make_lock
-- Nobody writes to the trail until the month is there.
LOCK TABLE ONLY transitions IN SHARE ROW EXCLUSIVE MODE

-- name: make_lock_rest
-- Nor to what no month was made for.
LOCK TABLE transitions_rest IN SHARE ROW EXCLUSIVE MODE

-- name: make_filled
-- What lay in the rest moves to its month.
WITH moved AS (
    DELETE FROM transitions_rest WHERE task_id >= {low}::uuid AND task_id < {high}::uuid RETURNING *
)
INSERT INTO {part} SELECT * FROM moved

-- name: make_joined
-- From here on the month takes what belongs to it.
ALTER TABLE transitions ATTACH PARTITION {part} FOR VALUES FROM ({low}) TO ({high})

-- name: some
-- Whether anything is kept of a month.
SELECT 1 FROM {part} LIMIT 1

-- name: drop_lock
-- Nobody reads or writes the trail until the month is gone.
LOCK TABLE ONLY transitions IN ACCESS EXCLUSIVE MODE

-- name: drop_lock_part
-- The month's own rows too.
LOCK TABLE {part} IN ACCESS EXCLUSIVE MODE

-- name: drop
-- A month that is over and empty.
DROP TABLE {part}
