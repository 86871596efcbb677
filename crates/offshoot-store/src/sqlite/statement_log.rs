//! Which statements a thread runs, for tests that pin how many an operation takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use offshoot_core::Result;
use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

use super::error::SqlResult;

/// The statements that one thread runs: the one that made the log. Other threads do their own work
/// beside it, such as the upkeep of layers, in no fixed order.
#[derive(Clone, Debug)]
pub struct StatementLog {
    thread: ThreadId,
    statements: Arc<Mutex<Vec<String>>>,
    rows: Arc<AtomicUsize>,
}

impl StatementLog {
    /// An empty log of this thread.
    pub fn of_this_thread() -> Self {
        StatementLog {
            thread: std::thread::current().id(),
            statements: Arc::default(),
            rows: Arc::default(),
        }
    }

    /// The statements since the last call, oldest first.
    pub fn take(&self) -> Vec<String> {
        let mut statements = self
            .statements
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut statements)
    }

    /// How many rows were read since the last call.
    pub fn take_rows(&self) -> usize {
        self.rows.swap(0, Ordering::Relaxed)
    }

    /// Logs what a connection runs from now on.
    pub(super) fn attach(&self, connection: &mut Connection) -> Result<()> {
        let log = self.clone();
        let note = move |event: TraceEvent<'_>| {
            if std::thread::current().id() != log.thread {
                return;
            }
            match event {
                TraceEvent::Stmt(_, sql) => log
                    .statements
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(sql.to_owned()),
                TraceEvent::Row(_) => {
                    log.rows.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        };
        let wanted = TraceEventCodes::SQLITE_TRACE_STMT | TraceEventCodes::SQLITE_TRACE_ROW;
        connection.trace_v2(wanted, Some(note)).sql()
    }
}
