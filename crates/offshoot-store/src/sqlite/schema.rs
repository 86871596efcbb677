//! The tables, as numbered migrations. What was released is never edited: add a new number.
//!
//! Why they look as they do:
//! - `entry` is keyed by directory and name instead of by path: the path is stored once, listing
//!   a directory is one range and so is everything below it, without a second index.
//! - `object` is an ordinary table with an index on the id, because rows with large values are
//!   written about twice as fast there as in a `WITHOUT ROWID` table.
//! - Nothing indexes `object.pack`: only garbage collection asks for it, and an index would cost
//!   every bulk write.
//! - `AUTOINCREMENT` where a number must not be given out twice even after rows were erased.

/// What each version adds; the first brings an empty database to version 1.
pub(super) const MIGRATIONS: &[&str] = &[VERSION_1, TOKENS];

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

const TOKENS: &str = "
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
