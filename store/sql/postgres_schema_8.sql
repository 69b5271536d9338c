-- Schema 8: the newest firing of each name and key is found at the end of its part of the index, however many there are.
-- An index takes as long as the table is large; claims of firings wait for it, and nothing else does.

SET LOCAL statement_timeout = 0;

CREATE UNIQUE INDEX firings_of_key ON firings (name, coalesce(key, ''), (key IS NULL), planned);

DROP INDEX firings_once;
