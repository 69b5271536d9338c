-- Schema 6: a term renews its leases by one row of its own, which they follow. A renewal of a thousand runs leaves one
-- dead row version behind it, also where a long transaction keeps vacuum from clearing any away. Of a lease that follows,
-- `renewals` is what has to be added to the number of its term's renewals; less than 0 if it came later.

ALTER TABLE leases ADD COLUMN follows boolean NOT NULL DEFAULT false;

CREATE INDEX leases_by_term ON leases (term);

CREATE TABLE renewals (
    term text PRIMARY KEY,
    until timestamptz NOT NULL,
    ttl interval NOT NULL,
    number integer NOT NULL
) WITH (fillfactor = 50);

-- When a command was stored, by the store's clock; the time it was issued is by somebody else's.
ALTER TABLE commands ADD COLUMN stored_at timestamptz;
