-- Schema 7: by what a node's machine is known again after a boot. Empty where it has no such id, and where the node's code
-- knows no such column: the default is for that, and PostgreSQL adds it without writing the rows anew.

ALTER TABLE nodes ADD COLUMN machine_id text NOT NULL DEFAULT '';
