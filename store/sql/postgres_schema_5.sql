-- Schema 5: who changed the number of buckets. One row for each change, known by its event.

CREATE TABLE rebucketings (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id text NOT NULL UNIQUE,
    at timestamptz NOT NULL,
    "by" text NOT NULL,
    reason text,
    before integer NOT NULL,
    after integer NOT NULL,
    waiting integer NOT NULL,
    moved integer NOT NULL
);
