-- Schema 8: when a waiting task is due, how long its submission lets it run, and how each attempt ended. Nobody's code has to
-- know of them: older code starts at once what is to wait, and says nothing of ends. And the newest firing of each name
-- and key is found at the end of its part of the index, however many there are.
-- An index takes as long as the table is large; claims of firings wait for it, and nothing else does.

SET LOCAL statement_timeout = 0;

CREATE UNIQUE INDEX firings_of_key ON firings (name, coalesce(key, ''), (key IS NULL), planned);

DROP INDEX firings_once;

ALTER TABLE tasks ADD COLUMN run_timeout double precision;
ALTER TABLE tasks ADD COLUMN due_at timestamptz;
ALTER TABLE transitions ADD COLUMN ended json;
