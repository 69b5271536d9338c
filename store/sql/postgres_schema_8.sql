-- Schema 8: when a waiting task is due, how long its submission lets it run, and how each attempt ended. Nobody's code has to
-- know of them: older code starts at once what is to wait, and says nothing of ends.

ALTER TABLE tasks ADD COLUMN run_timeout double precision;
ALTER TABLE tasks ADD COLUMN due_at timestamptz;
ALTER TABLE transitions ADD COLUMN ended json;
