//! Group commit: writers that wait at the same time share one transaction and one sync.
//!
//! There is no writer thread. Each caller runs its own closure on its own thread, one after the
//! other, inside a transaction that they share; the last one in the queue commits for all.
//!
//! Why no writer waits for ever: a writer is counted in `waiting` before it queues for the lock,
//! and no longer once it has the lock. A writer that leaves the batch open has seen another one
//! counted, and that one takes the lock and comes to the same decision. Every way out of
//! [`State::run`] (success, error, panic) goes through [`State::finish_member`]. If another process
//! holds the store, a writer waits until a deadline, which runs from the moment at which it came,
//! so that the times of writers in the queue do not add up.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use rusqlite::Connection;

use super::error::{SqlResult, name_full_disk};
use super::migrate::{BUSY_TIMEOUT, open_connection};
use super::process_lock::ProcessLock;
use super::{SqliteOptions, StatementLog, Tx};
use crate::{Durability, WriteTx};

/// A batch commits at this size even if more writers wait.
const MAX_BATCH_MEMBERS: usize = 256;

thread_local! {
    /// The writer whose transaction this thread runs, so that nesting is an error, not a deadlock.
    static ACTIVE_WRITER: Cell<usize> = const { Cell::new(0) };
}

/// The one writing connection of a process and the batch that is open on it.
pub(super) struct GroupWriter {
    /// How long a writer waits for other processes.
    lock_timeout: Duration,
    waiting: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    path: PathBuf,
    cache_bytes: i64,
    statements: Option<StatementLog>,
    /// None after a failure that left it in an unknown state; opened again by the next writer.
    connection: Option<Connection>,
    /// What the connection's `synchronous` is set to.
    synchronous: Durability,
    process_lock: ProcessLock,
    batch: Option<OpenBatch>,
}

struct OpenBatch {
    outcome: Arc<BatchOutcome>,
    durability: Durability,
    /// Writers whose work is in the transaction.
    members: usize,
}

/// Whether a batch was committed; its members wait for this.
///
/// They wait without a lock: all wake at once, and would queue for it.
#[derive(Default)]
struct BatchOutcome(OnceLock<std::result::Result<(), NotCommitted>>);

/// Why a batch was not committed; each of its members returns it.
struct NotCommitted {
    disk_full: bool,
    cause: String,
}

impl BatchOutcome {
    fn publish(&self, result: std::result::Result<(), NotCommitted>) {
        // A batch ends once.
        let _ = self.0.set(result);
    }

    fn wait(&self) -> Result<()> {
        match self.0.wait() {
            Ok(()) => Ok(()),
            Err(why) => Err(why.to_error()),
        }
    }
}

/// How one writer's work ended.
enum WorkOutcome {
    Done,
    Failed(Error),
    Panicked(Box<dyn Any + Send>),
}

impl GroupWriter {
    pub(super) fn open(path: &Path, options: &SqliteOptions, process_lock: ProcessLock) -> Self {
        GroupWriter {
            lock_timeout: options.lock_timeout,
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State {
                path: path.to_owned(),
                cache_bytes: options.writer_cache_bytes,
                statements: options.statements.clone(),
                connection: None,
                synchronous: Durability::Synced,
                process_lock,
                batch: None,
            }),
        }
    }

    /// Runs `work` in the shared transaction and returns when it is committed.
    pub(super) fn write(
        &self,
        durability: Durability,
        work: &mut dyn FnMut(&mut dyn WriteTx) -> Result<()>,
    ) -> Result<()> {
        let _nesting = NestingGuard::enter(self)?;
        let deadline = Instant::now() + self.lock_timeout;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut state = lock(&self.state);
        self.waiting.fetch_sub(1, Ordering::SeqCst);

        let outcome = state.join(durability, deadline)?;
        let (ended, intact) = state.run(work);
        let others = self.waiting.load(Ordering::SeqCst);
        state.finish_member(&ended, intact, others);
        drop(state);
        match ended {
            WorkOutcome::Done => outcome.wait(),
            WorkOutcome::Failed(error) => Err(error),
            WorkOutcome::Panicked(payload) => resume_unwind(payload),
        }
    }

    /// Runs `work` outside of any transaction while no other writer of any process is active.
    pub(super) fn exclusive<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let _nesting = NestingGuard::enter(self)?;
        let deadline = Instant::now() + self.lock_timeout;
        let mut state = lock(&self.state);
        if state.batch.is_some() {
            state.close_batch();
        }
        state.process_lock.acquire(deadline)?;
        let result = state.connection().and_then(work);
        state.process_lock.release();
        result.map_err(|error| name_full_disk(error, &state.path))
    }
}

impl State {
    fn connection(&mut self) -> Result<&Connection> {
        if self.connection.is_none() {
            let mut connection = open_connection(&self.path, self.cache_bytes)?;
            if let Some(log) = &self.statements {
                log.attach(&mut connection)?;
            }
            self.connection = Some(connection);
            self.synchronous = Durability::Synced;
        }
        self.connection
            .as_ref()
            .ok_or_else(|| Error::internal("the store has no connection"))
    }

    /// Makes sure that a batch is open which is durable enough. After an error none is open.
    fn join(&mut self, durability: Durability, deadline: Instant) -> Result<Arc<BatchOutcome>> {
        if let Some(batch) = &self.batch {
            if batch.durability == Durability::Synced || durability == Durability::Relaxed {
                return Ok(batch.outcome.clone());
            }
            // SQLite cannot raise the level inside a transaction, and this commit is cheap.
            self.close_batch();
        }
        self.process_lock.acquire(deadline)?;
        if let Err(error) = self.begin(durability, deadline) {
            self.abandon_transaction();
            self.process_lock.release();
            return Err(name_full_disk(error, &self.path));
        }
        let outcome = Arc::new(BatchOutcome::default());
        self.batch = Some(OpenBatch {
            outcome: outcome.clone(),
            durability,
            members: 0,
        });
        Ok(outcome)
    }

    fn begin(&mut self, durability: Durability, deadline: Instant) -> Result<()> {
        // Another program may lock the database without the lock file.
        let left = deadline.saturating_duration_since(Instant::now());
        self.connection()?
            .busy_timeout(left.min(BUSY_TIMEOUT))
            .sql()?;
        if self.synchronous != durability {
            let level = match durability {
                Durability::Synced => "FULL",
                Durability::Relaxed => "NORMAL",
            };
            self.connection()?
                .pragma_update(None, "synchronous", level)
                .sql()?;
            self.synchronous = durability;
        }
        execute(self.connection()?, "BEGIN IMMEDIATE")
    }

    /// Runs one writer's work. The flag says whether the shared transaction is intact: it holds the
    /// work of the earlier writers, and this work if it succeeded.
    ///
    /// The work runs in a savepoint, which copies every page before it is changed. The first writer
    /// of a batch needs none: if it fails, the whole transaction is rolled back.
    fn run(&mut self, work: &mut dyn FnMut(&mut dyn WriteTx) -> Result<()>) -> (WorkOutcome, bool) {
        let is_first = self.batch.as_ref().is_some_and(|batch| batch.members == 0);
        let connection = match self.connection() {
            Ok(connection) => connection,
            Err(error) => return (WorkOutcome::Failed(error), false),
        };
        if !is_first && let Err(error) = execute(connection, "SAVEPOINT member") {
            return (WorkOutcome::Failed(error), false);
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut Tx::new(connection))));
        let done = matches!(result, Ok(Ok(())));
        // SQLite rolls everything back by itself when the disk is full or fails.
        let mut intact = !connection.is_autocommit();
        if intact && !done {
            intact = !is_first && execute(connection, "ROLLBACK TO member").is_ok();
        }
        intact = intact && (is_first || execute(connection, "RELEASE member").is_ok());
        let ended = match result {
            Ok(Ok(())) => WorkOutcome::Done,
            Ok(Err(error)) => WorkOutcome::Failed(name_full_disk(error, &self.path)),
            Err(payload) => WorkOutcome::Panicked(payload),
        };
        (ended, intact)
    }

    /// Commits, rolls back or leaves open the batch after one writer's work, if so many others
    /// wait.
    fn finish_member(&mut self, ended: &WorkOutcome, intact: bool, others: usize) {
        let Some(batch) = &mut self.batch else { return };
        batch.members += usize::from(matches!(ended, WorkOutcome::Done));
        if !intact {
            self.fail_batch(NotCommitted {
                disk_full: matches!(ended, WorkOutcome::Failed(error) if error.is_disk_full()),
                cause: "the transaction was rolled back by the database".to_owned(),
            });
        } else if others == 0 || batch.members >= MAX_BATCH_MEMBERS {
            self.close_batch();
        }
    }

    /// Commits the open batch, or rolls it back if no work is in it, and wakes its members.
    fn close_batch(&mut self) {
        let Some(batch) = &self.batch else { return };
        let end = if batch.members == 0 {
            "ROLLBACK"
        } else {
            "COMMIT"
        };
        let result = self
            .connection()
            .and_then(|connection| execute(connection, end));
        match result {
            Ok(()) => self.publish(Ok(())),
            Err(error) => {
                let error = name_full_disk(error, &self.path);
                self.fail_batch(NotCommitted {
                    disk_full: error.is_disk_full(),
                    cause: format!("{error:?}"),
                });
            }
        }
    }

    fn fail_batch(&mut self, why: NotCommitted) {
        self.abandon_transaction();
        self.publish(Err(why));
    }

    fn publish(&mut self, result: std::result::Result<(), NotCommitted>) {
        self.process_lock.release();
        if let Some(batch) = self.batch.take() {
            batch.outcome.publish(result);
        }
    }

    /// Leaves no transaction open; a connection that cannot be rolled back is closed.
    fn abandon_transaction(&mut self) {
        let usable = self.connection.as_ref().is_some_and(|connection| {
            connection.is_autocommit()
                || execute(connection, "ROLLBACK").is_ok()
                || connection.is_autocommit()
        });
        if !usable {
            self.connection = None;
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<()> {
    connection.prepare_cached(sql).sql()?.execute([]).sql()?;
    Ok(())
}

impl NotCommitted {
    fn to_error(&self) -> Error {
        const WHAT: &str = "the change could not be committed";
        let error = match self.disk_full {
            true => Error::disk_full(WHAT),
            false => Error::new(ErrorCode::StoreUnavailable, WHAT)
                .with_hint("nothing was changed; try again"),
        };
        error.with_source(self.cause.clone())
    }
}

/// Ignores poisoning: a panic while the lock is held comes from a writer's work, and its changes
/// were rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the thread as running a transaction of one writer.
struct NestingGuard {
    outer: usize,
}

impl NestingGuard {
    fn enter(writer: &GroupWriter) -> Result<Self> {
        let address = std::ptr::from_ref(writer).addr();
        let outer = ACTIVE_WRITER.get();
        if outer == address {
            return Err(Error::internal(
                "a write transaction was begun inside another",
            ));
        }
        ACTIVE_WRITER.set(address);
        Ok(NestingGuard { outer })
    }
}

impl Drop for NestingGuard {
    fn drop(&mut self) {
        ACTIVE_WRITER.set(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::thread;

    use offshoot_core::{Error, ErrorCode};

    use super::super::migrate::open_connection;
    use super::super::{SqliteOptions, SqliteStore};
    use crate::{Durability, MetaStore, WriteTx};

    /// Lets settings of certain names spoil the commit, or roll the transaction back at once as
    /// SQLite does on a full disk.
    const TRAPS: &str = "
        CREATE TABLE parent (x INTEGER PRIMARY KEY);
        CREATE TABLE child (x REFERENCES parent (x) DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER spoil AFTER INSERT ON setting WHEN new.key LIKE 'spoil%'
            BEGIN INSERT INTO child VALUES (1); END;
        CREATE TRIGGER lose AFTER INSERT ON setting WHEN new.key LIKE 'lose%'
            BEGIN SELECT RAISE(ROLLBACK, 'on purpose'); END;";

    fn store_with_traps(dir: &tempfile::TempDir) -> SqliteStore {
        let path = dir.path().join("test.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
        open_connection(&path, 1 << 20)
            .unwrap()
            .execute_batch(TRAPS)
            .unwrap();
        store
    }

    fn put(store: &SqliteStore, key: &str) -> offshoot_core::Result<()> {
        store.write(Durability::Synced, &mut |tx| tx.put_setting(key, "1"))
    }

    #[test]
    fn a_failed_commit_is_reported_and_the_next_one_works() {
        let dir = tempfile::tempdir().unwrap();
        let store = store_with_traps(&dir);
        assert_eq!(
            put(&store, "spoil").unwrap_err().code(),
            ErrorCode::StoreUnavailable
        );
        put(&store, "good").unwrap();
        assert!(put(&store, "lose").is_err());
        put(&store, "good again").unwrap();
        let mut found = Vec::new();
        store
            .read(&mut |tx| {
                for key in ["spoil", "good", "lose", "good again"] {
                    found.push(tx.setting(key)?.is_some());
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [false, true, false, true]);
    }

    #[test]
    fn work_that_goes_on_after_a_lost_transaction_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = store_with_traps(&dir);
        let result = store.write(Durability::Synced, &mut |tx| {
            assert!(tx.put_setting("lose", "1").is_err());
            // Without a transaction this would be committed at once and alone.
            assert!(tx.put_setting("stray", "1").is_err());
            Ok(())
        });
        assert_eq!(result.unwrap_err().code(), ErrorCode::StoreUnavailable);
        store
            .read(&mut |tx| tx.setting("stray").map(|found| assert!(found.is_none())))
            .unwrap();
    }

    #[test]
    fn a_transaction_inside_another_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let store = store_with_traps(&dir);
        let result = store.write(Durability::Relaxed, &mut |_| put(&store, "inner"));
        assert_eq!(result.unwrap_err().code(), ErrorCode::Internal);
        store
            .write(Durability::Relaxed, &mut |_| store.read(&mut |_| Ok(())))
            .unwrap();
        put(&store, "outer").unwrap();
    }

    const FINE: u64 = 4;

    /// What a writer does: 0 fails, 1 panics, 2 spoils the commit, 3 loses the transaction.
    fn one_write(store: &SqliteStore, key: &str, fate: u64, durability: Durability) -> bool {
        let mut work = |tx: &mut dyn WriteTx| {
            tx.put_setting(key, "1")?;
            match fate {
                0 => return Err(Error::invalid("on purpose")),
                1 => resume_unwind(Box::new("on purpose")),
                2 => tx.put_setting(&format!("spoil {key}"), "1")?,
                3 => drop(tx.put_setting(&format!("lose {key}"), "1")),
                _ => {}
            }
            Ok(())
        };
        let result = catch_unwind(AssertUnwindSafe(|| store.write(durability, &mut work)));
        match result {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                let code = if fate == 0 {
                    ErrorCode::InvalidRequest
                } else {
                    error.code()
                };
                assert_eq!(error.code(), code);
                assert!(
                    fate == 0 || code == ErrorCode::StoreUnavailable,
                    "{error:?}"
                );
                false
            }
            Err(_) => {
                assert_eq!(fate, 1);
                false
            }
        }
    }

    #[test]
    fn whatever_goes_wrong_the_acknowledged_is_there_and_the_rest_is_not() {
        let soak = std::env::var_os("OFFSHOOT_SOAK").is_some();
        let (writers, each) = if soak { (64, 2_000) } else { (16, 60) };
        let dir = tempfile::tempdir().unwrap();
        let store = store_with_traps(&dir);
        let mut fates: HashMap<String, bool> = HashMap::new();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..writers)
                .map(|writer: u64| {
                    let store = &store;
                    scope.spawn(move || {
                        let mut fates = Vec::new();
                        let mut random = writer * 2 + 1;
                        for round in 0..each {
                            random = random
                                .wrapping_mul(6_364_136_223_846_793_005)
                                .wrapping_add(1);
                            // A spoiled commit fails the whole batch, so it must be rarer the
                            // more writers there are, or nothing would ever be committed.
                            let fate = match (random >> 33) % (writers * 4) {
                                spoils @ (2 | 3) => spoils,
                                other if other % 8 < 2 => other % 8,
                                _ => FINE,
                            };
                            let key = format!("{writer} {round}");
                            let relaxed = random >> 60 == 0;
                            let durability = if relaxed {
                                Durability::Relaxed
                            } else {
                                Durability::Synced
                            };
                            let done = one_write(store, &key, fate, durability);
                            assert!(!done || fate == FINE, "fate {fate} was acknowledged");
                            fates.push((key, done));
                            if round % 20 == 7 && writer == 0 {
                                store.tidy().unwrap();
                            }
                        }
                        fates
                    })
                })
                .collect();
            for thread in threads {
                fates.extend(thread.join().unwrap());
            }
        });
        let acknowledged = fates.values().filter(|done| **done).count();
        assert!(
            acknowledged > fates.len() / 4,
            "{acknowledged} of {}",
            fates.len()
        );
        store
            .read(&mut |tx| {
                for (key, done) in &fates {
                    assert_eq!(tx.setting(key)?.is_some(), *done, "{key}");
                }
                Ok(())
            })
            .unwrap();
    }
}
