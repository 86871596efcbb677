//! The tables, as numbered migrations. What was released is never edited: add a new number.
//!
//! Why they look as they do:
//! - `entry` is keyed by directory and name instead of by path: the path is stored once, listing
//!   a directory is one range and so is everything below it, without a second index.
//! - `object` is an ordinary table with an index on the id, because rows with large values are
//!   written about twice as fast there as in a `WITHOUT ROWID` table.
//! - Nothing indexes `object.pack`: only garbage collection asks for it, and an index would cost
//!   every bulk write.
//! - A layer knows the one below it, and neither changes: a fork names its whole stack by the
//!   topmost.
//! - What landed as a snapshot of a project is looked up by that snapshot, so that asking who wrote
//!   a line costs the versions of its file and not the merges of the project.
//! - `AUTOINCREMENT` where a number must not be given out twice even after rows were erased.

/// What each version adds; the first brings an empty database to version 1.
pub(super) const MIGRATIONS: &[&str] = &[
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8,
    VERSION_9, VERSION_10,
];

const VERSION_1: &str = "
CREATE TABLE setting (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE workspace (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    layout INTEGER NOT NULL,
    state INTEGER NOT NULL,
    head BLOB,
    tree BLOB NOT NULL,
    sidecar BLOB NOT NULL,
    revision INTEGER NOT NULL,
    synced_revision INTEGER NOT NULL,
    materialized INTEGER NOT NULL,
    handed_out INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    last_sync INTEGER,
    files INTEGER NOT NULL,
    dirs INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    quota_bytes INTEGER,
    quota_inodes INTEGER
);
CREATE UNIQUE INDEX workspace_open ON workspace (id) WHERE state = 0;
CREATE INDEX workspace_id ON workspace (id);
CREATE INDEX workspace_unsynced ON workspace (key) WHERE state = 0 AND revision > synced_revision;

CREATE TABLE entry (
    workspace INTEGER NOT NULL REFERENCES workspace (key),
    parent BLOB NOT NULL,
    name BLOB NOT NULL,
    kind INTEGER,
    opaque INTEGER NOT NULL,
    perm INTEGER NOT NULL,
    id BLOB,
    size INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (workspace, parent, name)
) WITHOUT ROWID;

CREATE TABLE pack (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    blob TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    stored_at INTEGER NOT NULL
);

CREATE TABLE object (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    kind INTEGER NOT NULL,
    size INTEGER NOT NULL,
    compressed INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    pack INTEGER REFERENCES pack (key),
    start INTEGER,
    length INTEGER,
    bytes BLOB
);

CREATE TABLE operator (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE snapshot (
    workspace INTEGER NOT NULL REFERENCES workspace (key),
    number INTEGER NOT NULL,
    id BLOB NOT NULL,
    parent BLOB,
    tree BLOB NOT NULL,
    sidecar BLOB NOT NULL,
    label TEXT,
    at INTEGER NOT NULL,
    operator INTEGER NOT NULL REFERENCES operator (key),
    claim TEXT,
    message_id TEXT,
    files INTEGER NOT NULL,
    dirs INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (workspace, number)
) WITHOUT ROWID;
CREATE INDEX snapshot_id ON snapshot (workspace, id);

CREATE TABLE history (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL REFERENCES workspace (key),
    revision INTEGER NOT NULL,
    at INTEGER NOT NULL,
    op INTEGER NOT NULL,
    via INTEGER NOT NULL,
    path BLOB NOT NULL,
    source BLOB,
    operator INTEGER NOT NULL REFERENCES operator (key),
    claim TEXT,
    message_id TEXT,
    kind INTEGER,
    before BLOB,
    after BLOB,
    size INTEGER NOT NULL,
    mime TEXT
);
CREATE INDEX history_workspace ON history (workspace);
CREATE INDEX history_path ON history (workspace, path);
";

const VERSION_2: &str = "
ALTER TABLE workspace ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;
DROP INDEX workspace_open;
CREATE UNIQUE INDEX workspace_open ON workspace (id, (kind = 2)) WHERE state = 0;

CREATE TABLE project (
    key INTEGER PRIMARY KEY REFERENCES workspace (key),
    landing INTEGER NOT NULL,
    include_ignored INTEGER NOT NULL,
    policy TEXT NOT NULL
);

CREATE TABLE layer (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    project INTEGER NOT NULL REFERENCES workspace (key),
    below INTEGER REFERENCES layer (key),
    depth INTEGER NOT NULL,
    level INTEGER NOT NULL,
    tree BLOB NOT NULL,
    sidecar BLOB NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    made_at INTEGER NOT NULL,
    synced INTEGER NOT NULL
);
CREATE INDEX layer_state ON layer (tree, sidecar);
CREATE INDEX layer_project ON layer (project);
CREATE INDEX layer_below ON layer (below);

CREATE TABLE fork (
    workspace INTEGER PRIMARY KEY REFERENCES workspace (key),
    project INTEGER NOT NULL REFERENCES workspace (key),
    base BLOB NOT NULL,
    base_tree BLOB NOT NULL,
    base_sidecar BLOB NOT NULL,
    agent TEXT,
    priority INTEGER NOT NULL,
    git INTEGER NOT NULL,
    provider TEXT,
    layer INTEGER REFERENCES layer (key),
    place INTEGER NOT NULL
);
CREATE INDEX fork_project ON fork (project);
CREATE INDEX fork_layer ON fork (layer);

CREATE TABLE agent (
    id TEXT NOT NULL PRIMARY KEY,
    parent TEXT REFERENCES agent (id),
    role TEXT NOT NULL,
    workspace TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
) WITHOUT ROWID;
CREATE INDEX agent_parent ON agent (parent);
";

const VERSION_3: &str = "
CREATE TABLE completion (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    project INTEGER NOT NULL REFERENCES workspace (key),
    workspace INTEGER NOT NULL REFERENCES workspace (key),
    options TEXT NOT NULL,
    operator INTEGER NOT NULL REFERENCES operator (key),
    claim TEXT,
    message_id TEXT,
    at INTEGER NOT NULL,
    landed INTEGER NOT NULL
);

CREATE TABLE merge (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    project INTEGER NOT NULL REFERENCES workspace (key),
    workspace INTEGER NOT NULL REFERENCES workspace (key),
    base BLOB NOT NULL,
    ours BLOB,
    theirs BLOB NOT NULL,
    snapshot BLOB,
    at INTEGER NOT NULL,
    operator INTEGER NOT NULL REFERENCES operator (key),
    claim TEXT,
    message_id TEXT,
    priority INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    undone_by BLOB
);
CREATE INDEX merge_project ON merge (project);
CREATE INDEX merge_workspace ON merge (workspace);

CREATE TABLE review (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    project INTEGER NOT NULL REFERENCES workspace (key),
    workspace INTEGER NOT NULL REFERENCES workspace (key),
    merge TEXT NOT NULL,
    path BLOB NOT NULL,
    state INTEGER NOT NULL,
    base BLOB,
    ours BLOB,
    theirs BLOB,
    opened_at INTEGER NOT NULL,
    details TEXT NOT NULL,
    snapshot BLOB
);
CREATE INDEX review_project ON review (project, state);
CREATE INDEX review_workspace ON review (workspace);

CREATE TABLE candidate (
    review TEXT NOT NULL REFERENCES review (id),
    number INTEGER NOT NULL,
    content BLOB NOT NULL,
    operator INTEGER NOT NULL REFERENCES operator (key),
    claim TEXT,
    message_id TEXT,
    at INTEGER NOT NULL,
    note TEXT,
    PRIMARY KEY (review, number)
) WITHOUT ROWID;
";

const VERSION_4: &str = "
CREATE TABLE token (
    id TEXT NOT NULL PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    label TEXT,
    issued_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;
";

const VERSION_5: &str = "
ALTER TABLE agent ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE project ADD COLUMN protect TEXT NOT NULL DEFAULT '[]';
CREATE INDEX merge_snapshot ON merge (snapshot) WHERE snapshot IS NOT NULL;
CREATE INDEX review_snapshot ON review (snapshot) WHERE snapshot IS NOT NULL;
";

/// An agent has the newest workspace of the name in its row that was there when it came into being,
/// or that is a fork made for it.
const VERSION_6: &str = "
ALTER TABLE agent ADD COLUMN workspace_key INTEGER;
UPDATE agent SET workspace_key = (
    SELECT max(own.key) FROM workspace AS own LEFT JOIN fork ON fork.workspace = own.key
    WHERE own.id = agent.workspace AND own.kind <> 2
        AND (own.created_at <= agent.created_at OR fork.agent = agent.id)
);
";

/// A line of history knows the time of modification that its writer gave for the file: a workspace
/// without a directory has no other place for it.
///
/// Earlier versions made the directory of a workspace with its first write. Since this one there is
/// a directory only where its path was handed out, and outside programs may change what is in it. A
/// directory that exists already stays and counts as handed out: a program that uses it loses
/// nothing, and cleaning up removes it like any other.
const VERSION_7: &str = "
ALTER TABLE history ADD COLUMN modified INTEGER;
UPDATE workspace SET handed_out = 1 WHERE materialized = 1;
";

/// What requests with an idempotency key made is kept in tables of its own, which name rows and not
/// names. Earlier versions kept it in settings, whose hashes cannot be compared any more.
///
/// A store whose merges may have brought a `.git` says so in a setting, and the
/// engine checks them once. Before, every project had a setting that said the opposite.
const VERSION_8: &str = "
CREATE TABLE request (
    key BLOB NOT NULL PRIMARY KEY,
    content BLOB NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX request_at ON request (at);

CREATE TABLE request_made (
    request BLOB NOT NULL REFERENCES request (key) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    workspace INTEGER REFERENCES workspace (key),
    agent TEXT REFERENCES agent (id),
    line INTEGER,
    PRIMARY KEY (request, number)
) WITHOUT ROWID;
CREATE INDEX request_made_workspace ON request_made (workspace) WHERE workspace IS NOT NULL;

INSERT INTO setting SELECT 'merges_to_look_through', 'yes' WHERE EXISTS (
    SELECT 1 FROM merge WHERE 'project-' || project || '-has-no-merged-git'
        NOT IN (SELECT key FROM setting WHERE value = '1'));
DELETE FROM setting WHERE key LIKE 'project-%-has-no-merged-git' OR key LIKE 'request/%';
";

/// The repository that a project is linked to.
const VERSION_9: &str = "
ALTER TABLE project ADD COLUMN link TEXT;
";

/// What a project last took from a directory; its branches and tags beside its own branch, and the name
/// of that; under which names the work of agents is in the history, where project 0 and an empty agent
/// mean all of them; the command that makes what forks begin with beside the files of the project, and
/// for each fork the layer that came of it.
const VERSION_10: &str = "
ALTER TABLE project ADD COLUMN branch TEXT;
ALTER TABLE project ADD COLUMN source TEXT;
ALTER TABLE project ADD COLUMN setup TEXT;
ALTER TABLE fork ADD COLUMN setup INTEGER REFERENCES layer (key);
CREATE INDEX fork_setup ON fork (setup) WHERE setup IS NOT NULL;

CREATE TABLE ref (
    project INTEGER NOT NULL REFERENCES workspace (key),
    name TEXT NOT NULL,
    target BLOB NOT NULL,
    peeled BLOB NOT NULL,
    PRIMARY KEY (project, name)
) WITHOUT ROWID;

CREATE TABLE author (
    project INTEGER NOT NULL,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    PRIMARY KEY (project, agent)
) WITHOUT ROWID;
";
