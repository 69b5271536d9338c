-- Schema 9: the members of a group are found by an index. Nobody's code has to know of it.
-- An index takes as long as the table is large; writes of tasks wait for it.

SET LOCAL statement_timeout = 0;

CREATE INDEX tasks_by_group ON tasks (group_id, id) WHERE group_id IS NOT NULL;
