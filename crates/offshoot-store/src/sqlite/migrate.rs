//! Opens connections and brings a database to the schema of this program.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use offshoot_core::{Error, ErrorCode, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::SqliteOptions;
use super::error::SqlResult;
use super::schema::MIGRATIONS;

/// Marks a database file as ours: `Ofsh` as four bytes.
const APPLICATION_ID: i64 = 0x4f66_7368;
/// How long SQLite itself waits. Our own programs queue at the lock file before that.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The write-ahead log is moved into the main file when it has so many pages (16 MiB).
const CHECKPOINT_PAGES: i64 = 4096;
/// A longer write-ahead log is cut back to this after it was moved into the main file.
const LOG_SIZE_LIMIT: i64 = 16 << 20;

/// Creates the database if there is none and brings it to the newest schema. The caller holds the
/// write lock, so that of two programs that start at once only one does this.
pub(super) fn prepare_database(path: &Path, options: &SqliteOptions) -> Result<()> {
    create_private(path)?;
    let mut connection = open_connection(path, 1 << 20)?;
    let version = schema_version(&connection)?;
    if version == 0 {
        init_new_file(&connection, options)?;
    }
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .sql()?;
    apply_migrations(&mut connection, MIGRATIONS)
}

/// Runs every migration that the database has not seen, each in a transaction of its own.
pub(super) fn apply_migrations(connection: &mut Connection, migrations: &[&str]) -> Result<()> {
    for (index, migration) in migrations.iter().enumerate() {
        let number = index as i64 + 1;
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .sql()?;
        // Looked up again inside the transaction: another program may have been here meanwhile.
        let version = schema_version(&transaction)?;
        if version > migrations.len() as i64 {
            return Err(too_new(version, migrations.len()));
        }
        if version < number {
            transaction.execute_batch(migration).sql()?;
            transaction
                .pragma_update(None, "user_version", number)
                .sql()?;
            transaction
                .pragma_update(None, "application_id", APPLICATION_ID)
                .sql()?;
            transaction.commit().sql()?;
        }
    }
    Ok(())
}

/// Page size and vacuum mode can only be chosen while the file is empty.
fn init_new_file(connection: &Connection, options: &SqliteOptions) -> Result<()> {
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .sql()?;
    if tables > 0 {
        return Err(Error::new(
            ErrorCode::Unsupported,
            "the database of the store was not made by offshoot",
        )
        .with_hint("choose another data directory"));
    }
    connection
        .pragma_update(None, "page_size", options.page_size)
        .sql()?;
    // Lets `tidy` give freed pages back in small steps, without the twofold space of `VACUUM`.
    connection
        .pragma_update(None, "auto_vacuum", "INCREMENTAL")
        .sql()
}

fn schema_version(connection: &Connection) -> Result<i64> {
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .sql()?;
    let application: i64 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .sql()?;
    if version > 0 && application != APPLICATION_ID {
        return Err(Error::new(
            ErrorCode::Unsupported,
            "the database of the store was not made by offshoot",
        )
        .with_hint("choose another data directory"));
    }
    if version > MIGRATIONS.len() as i64 {
        return Err(too_new(version, MIGRATIONS.len()));
    }
    Ok(version)
}

fn too_new(found: i64, known: usize) -> Error {
    Error::new(
        ErrorCode::Unsupported,
        format!("the store has schema {found}, this program knows schemas up to {known}"),
    )
    .with_hint("a newer offshoot has used this store: use that one")
}

/// Opens a connection and sets what SQLite does not remember in the file.
pub(super) fn open_connection(path: &Path, cache_bytes: i64) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).sql()?;
    connection.busy_timeout(BUSY_TIMEOUT).sql()?;
    // All statements that there are, and some room.
    connection.set_prepared_statement_cache_capacity(256);
    // Without this the planner looks at bound values: a statement with a 0 or 1 among them, such as the
    // number of the first workspace, would be compiled again at each use, which takes longer than most
    // reads.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .sql()?;
    connection.pragma_update(None, "foreign_keys", true).sql()?;
    connection
        .pragma_update(None, "synchronous", "FULL")
        .sql()?;
    connection
        .pragma_update(None, "cache_size", -(cache_bytes / 1024))
        .sql()?;
    // No memory map: a disk error would end the process by a signal instead of an error code.
    connection.pragma_update(None, "mmap_size", 0).sql()?;
    connection
        .pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
        .sql()?;
    connection
        .pragma_update(None, "journal_size_limit", LOG_SIZE_LIMIT)
        .sql()?;
    connection
        .pragma_update(None, "trusted_schema", false)
        .sql()?;
    // Deleted rows are overwritten at once, so that free pages hold no erased content and the file
    // need not be written anew for that.
    connection
        .pragma_update(None, "secure_delete", true)
        .sql()?;
    Ok(connection)
}

/// Makes the file readable by its owner only; SQLite gives its side files the same mode.
fn create_private(path: &Path) -> Result<()> {
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Ok(_) => {
            let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            let directory = File::open(parent.unwrap_or(Path::new("."))).map_err(cannot_create)?;
            directory.sync_all().map_err(cannot_create)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(cannot_create(error)),
    }
}

fn cannot_create(error: std::io::Error) -> Error {
    Error::new(
        ErrorCode::StoreUnavailable,
        "the database of the store cannot be created",
    )
    .with_hint("check that the data directory exists, is writable and has space")
    .with_source(error)
}

#[cfg(test)]
mod tests {
    use offshoot_core::RelPath;

    use rusqlite::StatementStatus;

    use super::super::merges::merges_query;
    use super::super::read::{PATHS_WITH_HISTORY, history_query};
    use super::*;
    use crate::{HistoryFilter, WorkspaceKey};

    fn new_database(dir: &tempfile::TempDir) -> std::path::PathBuf {
        let path = dir.path().join("test.db");
        prepare_database(&path, &SqliteOptions::default()).unwrap();
        path
    }

    #[test]
    fn a_statement_is_compiled_once_whatever_is_bound_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let connection = open_connection(&new_database(&dir), 1 << 20).unwrap();
        let query = "SELECT seq FROM history WHERE workspace = ?1 AND path = ?2
                     AND after IS NOT NULL ORDER BY seq DESC LIMIT 1";
        for workspace in [1, 1, 7, 0] {
            let mut statement = connection.prepare_cached(query).unwrap();
            statement.exists((workspace, b"path")).unwrap();
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn a_newer_schema_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = new_database(&dir);
        let connection = open_connection(&path, 1 << 20).unwrap();
        connection.pragma_update(None, "user_version", 999).unwrap();
        let error = prepare_database(&path, &SqliteOptions::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
        assert!(error.message().contains("999"), "{error}");
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE theirs (x)")
            .unwrap();
        let error = prepare_database(&path, &SqliteOptions::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unsupported);
    }

    #[test]
    fn a_failing_migration_leaves_the_previous_version_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut connection = open_connection(&new_database(&dir), 1 << 20).unwrap();
        let mut broken = MIGRATIONS.to_vec();
        broken.push("CREATE TABLE half (x); CREATE TABLE workspace (x);");
        apply_migrations(&mut connection, &broken).unwrap_err();
        let version = schema_version(&connection).unwrap();
        assert_eq!(version, MIGRATIONS.len() as i64);
        assert!(connection.prepare("SELECT * FROM half").is_err());
    }

    /// Earlier versions also made directories whose path was not handed out.
    #[test]
    fn a_directory_of_an_earlier_version_counts_as_given_to_somebody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.db");
        create_private(&path).unwrap();
        let mut connection = open_connection(&path, 1 << 20).unwrap();
        apply_migrations(&mut connection, &MIGRATIONS[..6]).unwrap();
        let add = "INSERT INTO workspace (id, layout, state, tree, sidecar, revision,
                synced_revision, materialized, handed_out, created_at, changed_at, used_at, files,
                dirs, bytes)
             VALUES (?1, 0, 0, x'', x'', 2, 1, ?2, 0, 1, 1, 1, 0, 0, 0)";
        for (id, materialized) in [("stored", 0), ("shown", 1)] {
            let added = connection.execute(add, rusqlite::params![id, materialized]);
            assert_eq!(added.unwrap(), 1);
        }
        apply_migrations(&mut connection, MIGRATIONS).unwrap();
        let mut query = connection
            .prepare("SELECT materialized, handed_out FROM workspace ORDER BY key")
            .unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let rows: Vec<(i64, i64)> = rows.unwrap().map(Result::unwrap).collect();
        assert_eq!(rows, [(0, 0), (1, 1)]);
    }

    /// They are asked per conflict or per page, in projects with any number of merges.
    #[test]
    fn what_landed_and_what_came_before_is_found_by_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let connection = open_connection(&new_database(&dir), 1 << 20).unwrap();
        let versions = HistoryFilter {
            workspace: Some(WorkspaceKey(1)),
            path: Some(RelPath::root()),
            before_seq: Some(9),
            newest_first: true,
            limit: 1,
            ..HistoryFilter::default()
        };
        let (of_history, _) = history_query(&versions);
        let (merges_of_one, merges_of_all) = (merges_query(true), merges_query(false));
        for (query, index) in [
            ("SELECT id FROM merge WHERE snapshot = ?1", "merge_snapshot"),
            (
                merges_of_one.as_str(),
                "SEARCH merge USING INDEX merge_project (project=? AND rowid<?)",
            ),
            (
                merges_of_all.as_str(),
                "SEARCH merge USING INTEGER PRIMARY KEY (rowid<?)",
            ),
            (
                "SELECT id FROM review WHERE snapshot = ?1",
                "review_snapshot",
            ),
            (
                "SELECT id FROM review WHERE workspace = ?1",
                "review_workspace",
            ),
            (
                of_history.as_str(),
                "history_path (workspace=? AND path=? AND rowid>? AND rowid<?)",
            ),
        ] {
            let mut plan = connection
                .prepare(&format!("EXPLAIN QUERY PLAN {query}"))
                .unwrap();
            let count = plan.parameter_count();
            let values = rusqlite::params_from_iter((0..count).map(|_| 1));
            let steps = plan
                .query_map(values, |row| row.get::<_, String>(3))
                .unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            let found = steps.iter().any(|step| step.contains(index));
            assert!(
                found && !steps.iter().any(|step| step.contains("TEMP B-TREE")),
                "{steps:?}"
            );
        }
    }

    /// A log that is written a million times must not slow the listing of its directory.
    #[test]
    fn paths_with_history_cost_the_paths_and_not_the_lines() {
        let dir = tempfile::tempdir().unwrap();
        let connection = open_connection(&new_database(&dir), 1 << 20).unwrap();
        connection
            .execute_batch(
                "PRAGMA foreign_keys = OFF;
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                 INSERT INTO history (workspace, revision, at, op, via, path, operator, size)
                 SELECT 1, i, i, 1, 1, CASE i % 1000 WHEN 0 THEN CAST('d/' || i AS BLOB)
                     ELSE CAST('d/log' AS BLOB) END, 1, 0 FROM n;
                 INSERT INTO history (workspace, revision, at, op, via, path, operator, size)
                 VALUES (1, 1, 1, 1, 1, x'', 1, 0), (1, 1, 1, 1, 1, CAST('d' AS BLOB), 1, 0),
                     (1, 1, 1, 1, 1, CAST('e' AS BLOB), 1, 0), (2, 1, 1, 1, 1, CAST('d/x' AS BLOB), 1, 0);",
            )
            .unwrap();
        let mut query = connection.prepare(PATHS_WITH_HISTORY).unwrap();
        for (from, to, limit, count) in [
            (&b"d/"[..], Some(&b"d0"[..]), -1, 21),
            (b"\x01", None, -1, 23),
            (b"d/", Some(b"d0"), 5, 5),
            (b"f/", Some(b"f0"), -1, 0),
        ] {
            query.reset_status(StatementStatus::VmStep);
            let rows = query.query_map(rusqlite::params![1, from, to, limit], |row| {
                row.get::<_, Vec<u8>>(0)
            });
            let found: Vec<Vec<u8>> = rows.unwrap().map(Result::unwrap).collect();
            assert_eq!(found.len(), count, "{from:?}");
            assert!(found.is_sorted());
            let steps = query.get_status(StatementStatus::VmStep);
            assert!(steps < 5_000, "{steps} steps");
        }
    }

    #[test]
    fn many_openers_at_once_migrate_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.db");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    super::super::SqliteStore::open(&path, SqliteOptions::default()).unwrap();
                });
            }
        });
        let connection = open_connection(&path, 1 << 20).unwrap();
        assert_eq!(
            schema_version(&connection).unwrap(),
            MIGRATIONS.len() as i64
        );
    }
}
