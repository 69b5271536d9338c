-- What a node keeps for itself and shows nobody: the database file of its spool. Times are seconds since the epoch.

-- Accepted submissions, parameters and all: until their end is stored, and then for a rerun.
CREATE TABLE IF NOT EXISTS submissions (
    id          TEXT PRIMARY KEY,
    content     TEXT NOT NULL,
    accepted_at REAL NOT NULL,
    was_stored  INTEGER NOT NULL DEFAULT 0,
    ended_at    REAL
);
CREATE INDEX IF NOT EXISTS submissions_open ON submissions (id) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS submissions_kept ON submissions (ended_at, length(content)) WHERE ended_at IS NOT NULL;

-- The newest `state` of each open task that has reported one.
CREATE TABLE IF NOT EXISTS states (
    id      TEXT PRIMARY KEY,
    content TEXT NOT NULL
);

-- Writes that the store has not got while it is away, in the order in which they came.
CREATE TABLE IF NOT EXISTS unsent (
    id      TEXT PRIMARY KEY,
    content TEXT NOT NULL
);

-- The terms that have written here since the last one that met the store.
CREATE TABLE IF NOT EXISTS terms (
    id TEXT PRIMARY KEY
);

-- What could not be read, as it was.
CREATE TABLE IF NOT EXISTS unreadable (
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    content  BLOB,
    found_at REAL NOT NULL
);

-- What belongs together: the structure of each group, without any parameters.
CREATE TABLE IF NOT EXISTS groups (
    id          TEXT PRIMARY KEY,
    content     TEXT NOT NULL,
    accepted_at REAL NOT NULL,
    ended_at    REAL
);
CREATE INDEX IF NOT EXISTS groups_open ON groups (id) WHERE ended_at IS NULL;

-- How their members ended, which may be gone from the store by the time that it matters.
CREATE TABLE IF NOT EXISTS member_ends (
    id       TEXT PRIMARY KEY,
    group_id TEXT NOT NULL,
    status   TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS member_ends_of_group ON member_ends (group_id);

-- Ends that somebody is still to be told of.
CREATE TABLE IF NOT EXISTS notices (
    id      TEXT PRIMARY KEY,
    content TEXT NOT NULL
);
