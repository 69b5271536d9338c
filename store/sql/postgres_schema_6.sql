-- Schema 6: when a command was stored, by the store's clock; the time it was issued is by somebody else's.

ALTER TABLE commands ADD COLUMN stored_at timestamptz;
