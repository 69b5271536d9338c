-- The tables of a SQLite store. Times are microseconds since 1970 UTC, composite values JSON text.
-- The {lists} of states are filled in from chong.store.states when this file is loaded.

CREATE TABLE IF NOT EXISTS deployment (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    num_buckets INTEGER,
    schema_version INTEGER NOT NULL,
    oldest_code INTEGER NOT NULL,
    holds_revision INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS tasks (
    id TEXT NOT NULL PRIMARY KEY,
    tail TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ({statuses})),
    version INTEGER NOT NULL CHECK (version > 0),
    node TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    status_changed_at INTEGER NOT NULL,
    bucket INTEGER,
    bucket_key TEXT,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    unstarted INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    tags TEXT NOT NULL,
    trigger TEXT NOT NULL,
    unique_key TEXT,
    group_id TEXT,
    started_at INTEGER,
    ended_at INTEGER,
    failure TEXT,
    exit_code INTEGER,
    exit_signal INTEGER,
    forced INTEGER NOT NULL,
    flags TEXT NOT NULL,
    stop TEXT,
    last_heartbeat_at INTEGER,
    progress TEXT,
    usage TEXT,
    run_timeout REAL,
    due_at INTEGER,
    -- Last, because it may be large: what stands before it is read without its overflow pages.
    outcome TEXT
);

CREATE INDEX IF NOT EXISTS tasks_by_tail ON tasks (tail);
CREATE INDEX IF NOT EXISTS tasks_by_bucket ON tasks (bucket, id);
CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status, id);
CREATE INDEX IF NOT EXISTS tasks_by_name ON tasks (name, id);
CREATE INDEX IF NOT EXISTS tasks_by_node ON tasks (node, id);
CREATE INDEX IF NOT EXISTS tasks_by_key ON tasks (bucket_key, id) WHERE bucket_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_by_group ON tasks (group_id, id) WHERE group_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_by_creation ON tasks (created_at, id);
CREATE INDEX IF NOT EXISTS tasks_open ON tasks (bucket, status, status_changed_at) WHERE status NOT IN ({final});
CREATE INDEX IF NOT EXISTS tasks_ended ON tasks (ended_at) WHERE status IN ({final});
CREATE UNIQUE INDEX IF NOT EXISTS tasks_unique_key ON tasks (unique_key)
    WHERE unique_key IS NOT NULL AND status NOT IN ({final});

CREATE TABLE IF NOT EXISTS task_tags (
    tag TEXT NOT NULL,
    task_id TEXT NOT NULL,
    PRIMARY KEY (tag, task_id)
) WITHOUT ROWID;

-- One narrow row per run: renewals and heartbeats never rewrite the wide row of the task.
CREATE TABLE IF NOT EXISTS leases (
    task_id TEXT NOT NULL PRIMARY KEY,
    term TEXT NOT NULL,
    until INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    renewals INTEGER NOT NULL,
    heartbeat_at INTEGER,
    progress TEXT,
    usage TEXT
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS transitions (
    task_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    source TEXT CHECK (source IN ({statuses})),
    target TEXT NOT NULL CHECK (target IN ({statuses})),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event_id TEXT NOT NULL,
    reason TEXT,
    stored_at INTEGER NOT NULL,
    ended TEXT,
    PRIMARY KEY (task_id, version)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS notes (
    number INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event_id TEXT NOT NULL,
    detail TEXT,
    stored_at INTEGER NOT NULL,
    UNIQUE (task_id, event_id)
);

-- `node` is the task's: it never changes, and claiming needs no join.
CREATE TABLE IF NOT EXISTS commands (
    id TEXT NOT NULL PRIMARY KEY,
    task_id TEXT NOT NULL,
    node TEXT NOT NULL,
    action TEXT NOT NULL,
    issued_by TEXT NOT NULL,
    issued_at INTEGER NOT NULL,
    reason TEXT,
    stored_at INTEGER,
    claimed_by TEXT,
    claimed_until INTEGER,
    claim_ttl INTEGER,
    finished_at INTEGER,
    outcome TEXT,
    detail TEXT
);

CREATE INDEX IF NOT EXISTS commands_by_task ON commands (task_id, issued_at, id);
CREATE INDEX IF NOT EXISTS commands_open ON commands (node, issued_at, id) WHERE finished_at IS NULL;
CREATE INDEX IF NOT EXISTS commands_claimed ON commands (claimed_by)
    WHERE claimed_by IS NOT NULL AND finished_at IS NULL;

CREATE TABLE IF NOT EXISTS firings (
    name TEXT NOT NULL,
    key TEXT,
    planned INTEGER NOT NULL,
    node TEXT NOT NULL,
    event_id TEXT NOT NULL,
    claimed_at INTEGER NOT NULL
);

-- A plain unique index would let a schedule without a key fire twice: NULLs are distinct to it.
-- The instant comes last: from there the newest of each name and key is found.
CREATE UNIQUE INDEX IF NOT EXISTS firings_of_key ON firings (name, ifnull(key, ''), key IS NULL, planned);
DROP INDEX IF EXISTS firings_once;

CREATE INDEX IF NOT EXISTS firings_by_claim ON firings (claimed_at);

CREATE TABLE IF NOT EXISTS terms (
    number INTEGER PRIMARY KEY,
    term TEXT NOT NULL UNIQUE,
    node TEXT NOT NULL,
    node_id TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    lock_inode INTEGER NOT NULL,
    started_at INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS terms_by_node ON terms (node, started_at);

CREATE TABLE IF NOT EXISTS nodes (
    node TEXT NOT NULL PRIMARY KEY,
    node_id TEXT NOT NULL,
    term TEXT NOT NULL,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    ttl INTEGER NOT NULL,
    limits TEXT NOT NULL,
    containment TEXT NOT NULL DEFAULT '',
    generation INTEGER NOT NULL,
    started_at INTEGER,
    seen_at INTEGER NOT NULL,
    ended_at INTEGER,
    holds_seen INTEGER,
    clock_ahead INTEGER,
    machine_id TEXT NOT NULL DEFAULT ''
);

CREATE TABLE IF NOT EXISTS node_buckets (
    bucket INTEGER NOT NULL,
    node TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (bucket, node)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS catalogue (
    node TEXT NOT NULL,
    name TEXT NOT NULL,
    module TEXT NOT NULL,
    options TEXT NOT NULL,
    error TEXT,
    hold TEXT,
    PRIMARY KEY (node, name)
) WITHOUT ROWID;

-- What waits on whichever node; the nodes see by deployment.holds_revision that something changed here.
CREATE TABLE IF NOT EXISTS holds (
    scope TEXT NOT NULL,
    target TEXT NOT NULL,
    "by" TEXT NOT NULL,
    since INTEGER NOT NULL,
    reason TEXT,
    PRIMARY KEY (scope, target)
) WITHOUT ROWID;

-- One row for each appearance; the events name the report that raised it, and the one that cleared it.
CREATE TABLE IF NOT EXISTS alerts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    cleared_at INTEGER,
    acknowledged_by TEXT,
    acknowledged_at INTEGER,
    raised_event TEXT NOT NULL,
    cleared_event TEXT
);

CREATE UNIQUE INDEX IF NOT EXISTS alerts_open ON alerts (kind, subject) WHERE cleared_at IS NULL;

-- One row for each change of the number of buckets, known by its event.
CREATE TABLE IF NOT EXISTS rebucketings (
    number INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    "by" TEXT NOT NULL,
    reason TEXT,
    before INTEGER NOT NULL,
    after INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    moved INTEGER NOT NULL
);
