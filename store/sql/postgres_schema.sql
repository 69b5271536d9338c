-- The tables of a PostgreSQL store, schema 4. The {lists} of states are filled in from chong.store.states.
-- What a task returns is `json`, not `jsonb`: it comes back letter by letter, a NUL in a text and the order of keys too.

CREATE TABLE deployment (
    only_row integer PRIMARY KEY CHECK (only_row = 1),
    num_buckets integer,
    schema_version integer NOT NULL,
    oldest_code integer NOT NULL,
    holds_revision bigint NOT NULL DEFAULT 0
);

CREATE TABLE tasks (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    status text NOT NULL CHECK (status IN ({statuses})),
    version bigint NOT NULL CHECK (version > 0),
    node text NOT NULL,
    created_at timestamptz NOT NULL,
    status_changed_at timestamptz NOT NULL,
    bucket integer,
    bucket_key text,
    attempt integer NOT NULL,
    max_attempts integer NOT NULL,
    unstarted integer NOT NULL,
    priority integer NOT NULL,
    tags jsonb NOT NULL,
    trigger text NOT NULL,
    unique_key text,
    group_id text,
    started_at timestamptz,
    ended_at timestamptz,
    failure json,
    outcome json,
    exit_code integer,
    exit_signal integer,
    forced boolean NOT NULL,
    flags json NOT NULL,
    stop json,
    last_heartbeat_at timestamptz,
    progress json,
    usage json
) WITH (fillfactor = 80);

-- Ids are told apart by their last digits, and looked up by them.
CREATE INDEX tasks_by_tail ON tasks (reverse(id::text) COLLATE "C");
CREATE INDEX tasks_by_bucket ON tasks (bucket, id);
CREATE INDEX tasks_by_status ON tasks (status, id);
CREATE INDEX tasks_by_name ON tasks (name, id);
CREATE INDEX tasks_by_node ON tasks (node, id);
CREATE INDEX tasks_by_key ON tasks (bucket_key, id) WHERE bucket_key IS NOT NULL;
CREATE INDEX tasks_by_creation ON tasks (created_at, id);
CREATE INDEX tasks_by_tag ON tasks USING gin (tags jsonb_path_ops);
CREATE INDEX tasks_open ON tasks (id) WHERE status NOT IN ({final});
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE status IN ({final});
CREATE UNIQUE INDEX tasks_unique_key ON tasks (unique_key)
    WHERE unique_key IS NOT NULL AND status NOT IN ({final});

-- One narrow row per run, without any index on what renewals change: they stay within their page.
CREATE TABLE leases (
    task_id uuid PRIMARY KEY,
    term text NOT NULL,
    until timestamptz NOT NULL,
    ttl interval NOT NULL,
    renewals integer NOT NULL,
    heartbeat_at timestamptz,
    progress json,
    usage json
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5
);

-- Cut by id, which begins with the time: old months are dropped whole.
CREATE TABLE transitions (
    task_id uuid NOT NULL,
    version bigint NOT NULL,
    source text CHECK (source IN ({statuses})),
    target text NOT NULL CHECK (target IN ({statuses})),
    at timestamptz NOT NULL,
    actor text NOT NULL,
    event_id text NOT NULL,
    reason text,
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (task_id, version)
) PARTITION BY RANGE (task_id);

-- Whatever no month was made for; nothing is ever refused for want of a partition.
CREATE TABLE transitions_rest PARTITION OF transitions DEFAULT;

CREATE TABLE notes (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id uuid NOT NULL,
    kind text NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    event_id text NOT NULL,
    detail text,
    stored_at timestamptz NOT NULL,
    UNIQUE (task_id, event_id)
);

-- `node` is the task's: it never changes, and claiming needs no join.
CREATE TABLE commands (
    id text COLLATE "C" PRIMARY KEY,
    task_id uuid NOT NULL,
    node text NOT NULL,
    action text NOT NULL,
    issued_by text NOT NULL,
    issued_at timestamptz NOT NULL,
    reason text,
    claimed_by text,
    claimed_until timestamptz,
    claim_ttl interval,
    finished_at timestamptz,
    outcome text,
    detail text
);

CREATE INDEX commands_by_task ON commands (task_id, issued_at, id);
CREATE INDEX commands_open ON commands (node, issued_at, id) WHERE finished_at IS NULL;
CREATE INDEX commands_claimed ON commands (claimed_by) WHERE claimed_by IS NOT NULL AND finished_at IS NULL;

CREATE TABLE firings (
    name text NOT NULL,
    key text,
    planned timestamptz NOT NULL,
    node text NOT NULL,
    event_id text NOT NULL,
    claimed_at timestamptz NOT NULL
);

-- A plain unique index would let a schedule without a key fire twice: NULLs are distinct to it.
CREATE UNIQUE INDEX firings_once ON firings (name, planned, coalesce(key, ''), (key IS NULL));
CREATE INDEX firings_by_claim ON firings (claimed_at);

CREATE TABLE terms (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    term text NOT NULL UNIQUE,
    node text NOT NULL,
    node_id text NOT NULL,
    boot_id text NOT NULL,
    lock_inode bigint NOT NULL,
    started_at timestamptz NOT NULL
);

CREATE INDEX terms_by_node ON terms (node, started_at);

CREATE TABLE nodes (
    node text COLLATE "C" PRIMARY KEY,
    node_id text NOT NULL,
    term text NOT NULL,
    host text NOT NULL,
    boot_id text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    ttl interval NOT NULL,
    limits json NOT NULL,
    containment text NOT NULL DEFAULT '',
    generation integer NOT NULL,
    started_at timestamptz,
    seen_at timestamptz NOT NULL,
    ended_at timestamptz,
    holds_seen bigint,
    clock_ahead interval
) WITH (fillfactor = 50);

CREATE TABLE node_buckets (
    bucket integer NOT NULL,
    node text COLLATE "C" NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (bucket, node)
);

CREATE TABLE catalogue (
    node text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    module text NOT NULL,
    options json NOT NULL,
    error text,
    hold text,
    PRIMARY KEY (node, name)
);

-- What waits on whichever node; the nodes see by deployment.holds_revision that something changed here.
CREATE TABLE holds (
    scope text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    "by" text NOT NULL,
    since timestamptz NOT NULL,
    reason text,
    PRIMARY KEY (scope, target)
);

-- One row for each appearance; the events name the report that raised it, and the one that cleared it.
CREATE TABLE alerts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    detail text NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    cleared_at timestamptz,
    acknowledged_by text,
    acknowledged_at timestamptz,
    raised_event text NOT NULL,
    cleared_event text
);

CREATE UNIQUE INDEX alerts_open ON alerts (kind, subject) WHERE cleared_at IS NULL;
