//! The rows in one SQLite file: a pool of readers and one writer with group commit.

mod codec;
mod damage;
mod error;
mod group;
mod merges;
mod migrate;
mod process_lock;
mod projects;
mod read;
mod requests;
mod schema;
mod statement_log;
mod write;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Operator, Result};
use rusqlite::{CachedStatement, Connection};

use self::error::{SqlResult, name_full_disk};
use self::group::GroupWriter;
use self::process_lock::ProcessLock;
pub use self::statement_log::StatementLog;
use crate::{Durability, MetaStore, ReadTx, WriteTx};

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The page size of a database that does not exist yet.
    ///
    /// With 4 KiB pages an edit of 4 KiB takes 4,950 bytes on disk, its rows and indexes included;
    /// with 8, 16 and 32 KiB pages 8,610, 6,060 and 5,540, and three to six times as long, because
    /// every commit writes whole pages.
    pub page_size: u32,
    /// Reading connections that are kept open between reads.
    pub idle_readers: usize,
    /// The page cache of the writer.
    pub writer_cache_bytes: i64,
    /// The page cache of each reader.
    pub reader_cache_bytes: i64,
    /// How long a writer waits for one of another process.
    pub lock_timeout: Duration,
    /// Logs the statements of one thread, for tests.
    pub statements: Option<StatementLog>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions {
            page_size: 4096,
            idle_readers: 8,
            writer_cache_bytes: 8 << 20,
            reader_cache_bytes: 2 << 20,
            lock_timeout: Duration::from_secs(30),
            statements: None,
        }
    }
}

/// A [`MetaStore`] in one file. Any number of processes may have it open.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteOptions,
    writer: GroupWriter,
    readers: Mutex<Vec<Connection>>,
}

impl SqliteStore {
    /// Opens the database at `path`, which is created if it does not exist; its directory must.
    ///
    /// Beside it are SQLite's own side files and `PATH-write.lock`, at which the writers of
    /// several processes queue.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        let process_lock = ProcessLock::open(path)?;
        process_lock.acquire(Instant::now() + options.lock_timeout)?;
        let prepared = migrate::prepare_database(path, &options);
        process_lock.release();
        prepared.map_err(|error| name_full_disk(error, path))?;
        let writer = GroupWriter::open(path, &options, process_lock);
        Ok(SqliteStore {
            path: path.to_owned(),
            options,
            writer,
            readers: Mutex::default(),
        })
    }

    fn take_reader(&self) -> Result<Connection> {
        let idle = self
            .readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let mut connection = migrate::open_connection(&self.path, self.options.reader_cache_bytes)?;
        connection.pragma_update(None, "query_only", true).sql()?;
        if let Some(log) = &self.options.statements {
            log.attach(&mut connection)?;
        }
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < self.options.idle_readers {
            readers.push(connection);
        }
    }

    fn side_file(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    }
}

impl SqliteStore {
    fn read_now(&self, work: &mut dyn FnMut(&dyn ReadTx) -> Result<()>) -> Result<()> {
        // If `work` panics the connection is dropped, which ends its transaction.
        let connection = self.take_reader()?;
        let tx = Tx::to_begin(&connection);
        let result = work(&tx);
        if !tx.is_to_begin.get() {
            connection
                .prepare_cached("COMMIT")
                .sql()?
                .execute([])
                .sql()?;
        }
        self.give_back(connection);
        result
    }
}

impl MetaStore for SqliteStore {
    fn read(&self, work: &mut dyn FnMut(&dyn ReadTx) -> Result<()>) -> Result<()> {
        self.read_now(work)
            .map_err(|error| name_full_disk(error, &self.path))
    }

    fn write(
        &self,
        durability: Durability,
        work: &mut dyn FnMut(&mut dyn WriteTx) -> Result<()>,
    ) -> Result<()> {
        self.writer.write(durability, work)
    }

    fn tidy(&self) -> Result<()> {
        self.writer.exclusive(|connection| {
            // About 8 MiB at a time; the next call goes on.
            let mut vacuum = connection
                .prepare("PRAGMA incremental_vacuum(2048)")
                .sql()?;
            let mut rows = vacuum.query([]).sql()?;
            while rows.next().sql()?.is_some() {}
            drop(rows);
            // A reader of an old view may keep part of the log. The next call moves the rest:
            // writers do not wait here for a reader.
            connection.busy_timeout(Duration::ZERO).sql()?;
            let moved = truncate_log(connection);
            connection.busy_timeout(migrate::BUSY_TIMEOUT).sql()?;
            moved.map(drop)
        })
    }

    fn scrub(&self) -> Result<()> {
        // Idle readers hold no view, but their caches hold pages.
        self.readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.writer.exclusive(|connection| {
            let rewritten = connection.execute_batch("VACUUM").sql();
            if rewritten.is_err() {
                // What it wrote until the disk was full is in the log and belongs to no commit.
                let _ = truncate_log(connection);
            }
            rewritten?;
            if truncate_log(connection)? {
                return Ok(());
            }
            Err(Error::new(
                ErrorCode::StoreUnavailable,
                "a program still reads an older state of the store",
            )
            .with_hint("erased content remains in a side file until this is run again"))
        })
    }

    fn damage(&self) -> Result<Vec<String>> {
        // Not one of the readers: their caches hold pages as they were.
        let connection = migrate::open_connection(&self.path, self.options.reader_cache_bytes)?;
        Ok(damage::find(&connection))
    }

    fn disk_usage(&self) -> Result<u64> {
        let mut total = 0;
        for suffix in ["", "-wal", "-shm", "-write.lock"] {
            match std::fs::metadata(self.side_file(suffix)) {
                Ok(metadata) => total += metadata.len(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Error::new(
                        ErrorCode::StoreUnavailable,
                        "the size of the store cannot be read",
                    )
                    .with_source(error));
                }
            }
        }
        Ok(total)
    }
}

/// Moves the whole write-ahead log into the main file. Returns whether nothing remained.
fn truncate_log(connection: &Connection) -> Result<bool> {
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .sql()?;
    Ok(busy == 0)
}

/// A transaction in progress, for reading or writing.
struct Tx<'c> {
    connection: &'c Connection,
    /// The operator last looked up: most transactions have one only.
    operator: Option<(Operator, i64)>,
    /// Whether the first statement has to begin the transaction: SQLite takes its view when it
    /// reads the first row, and a transaction without statements needs none.
    is_to_begin: Cell<bool>,
}

impl<'c> Tx<'c> {
    fn new(connection: &'c Connection) -> Self {
        Tx {
            connection,
            operator: None,
            is_to_begin: Cell::new(false),
        }
    }

    fn to_begin(connection: &'c Connection) -> Self {
        let tx = Tx::new(connection);
        tx.is_to_begin.set(true);
        tx
    }

    fn statement(&self, sql: &str) -> Result<CachedStatement<'c>> {
        if self.is_to_begin.take() {
            let mut begin = self.connection.prepare_cached("BEGIN").sql()?;
            begin.execute([]).sql()?;
        }
        if self.connection.is_autocommit() {
            // SQLite gave the transaction up (disk full). Another statement would commit alone.
            return Err(Error::new(
                ErrorCode::StoreUnavailable,
                "the transaction was rolled back by the database",
            )
            .with_hint("nothing was changed; try again"));
        }
        self.connection.prepare_cached(sql).sql()
    }
}
