//! Requests that may be repeated: what one of them makes is noted under its key, in the transaction
//! that makes it, so that a repetition finds it, also after a crash.
//!
//! A note names rows and not names, and holds no text of a user. It says of each of the things that
//! a request asks for which row it is, so that an interrupted request goes on where it was. What is
//! gone by the time of the repetition is made again: an answer never names what is not there.

use std::collections::BTreeMap;
use std::time::Duration;

use offshoot_core::{Error, Result, Timestamp};
use offshoot_store::{Durability, MadeRow, RequestRow, WorkspaceRow, WriteTx};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::context::Context;

/// How long a repetition waits for the first.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// How long a note is kept after the first thing was made.
pub const NOTES_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Whoever notes something forgets so many notes that are too old: more than it adds, so that there
/// are never many of them, and few enough to cost next to nothing.
pub(crate) const FORGOTTEN_BESIDE: usize = 8;
/// So many are forgotten in one transaction of a clean-up.
const FORGOTTEN_AT_ONCE: usize = 2_000;

/// What else is written in the transaction that makes a workspace or a project, with its new row.
pub(crate) type Also<'a> = &'a dyn Fn(&mut dyn WriteTx, &WorkspaceRow) -> Result<()>;

/// A request that came with a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyedRequest {
    pub(crate) key: [u8; 32],
    pub(crate) content: [u8; 32],
}

/// Where it is noted that one of the things was made that a request with a key asks for.
#[derive(Clone, Debug)]
pub struct Noting {
    pub(crate) request: RequestRow,
    pub(crate) number: i64,
}

impl KeyedRequest {
    /// A key of one principal for one kind of request. The same request has the same content
    /// however its JSON was spelt: in what order, with what spaces, with `null` or without the field.
    pub(crate) fn new(owner: &[&[u8]], request: &impl Serialize) -> Result<KeyedRequest> {
        let mut key = Sha256::new();
        for part in owner {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        let unwritable = |cause| Error::internal("a request cannot be hashed").with_source(cause);
        let mut value = serde_json::to_value(request).map_err(unwritable)?;
        drop_nulls(&mut value);
        let content = serde_json::to_vec(&value).map_err(unwritable)?;
        Ok(KeyedRequest {
            key: key.finalize().into(),
            content: Sha256::digest(content).into(),
        })
    }

    pub(crate) fn lock_name(&self) -> String {
        let hex: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("request/{hex}")
    }
}

/// Takes out of an object what is not given.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            // Keys in their order, whatever order the map keeps.
            let sorted: BTreeMap<String, Value> = std::mem::take(members).into_iter().collect();
            *members = sorted.into_iter().collect();
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

impl Noting {
    /// Notes what was made, in the transaction that makes it.
    pub(crate) fn note(&self, tx: &mut dyn WriteTx, made: MadeRow) -> Result<()> {
        let too_old = Timestamp(self.request.at.0.saturating_sub(micros(NOTES_KEPT)));
        tx.forget_requests(too_old, FORGOTTEN_BESIDE)?;
        tx.note_made(
            &self.request,
            &MadeRow {
                number: self.number,
                ..made
            },
        )
    }

    /// Notes a file that was written, by its line of history.
    pub(crate) fn note_line(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        number: i64,
    ) -> Result<()> {
        self.note(
            tx,
            MadeRow {
                workspace: Some(row.key),
                line: Some(number),
                ..MadeRow::default()
            },
        )
    }

    /// Notes a workspace or a project.
    pub(crate) fn note_row(&self, tx: &mut dyn WriteTx, row: &WorkspaceRow) -> Result<()> {
        self.note(
            tx,
            MadeRow {
                workspace: Some(row.key),
                ..MadeRow::default()
            },
        )
    }
}

impl Context {
    /// Forgets all notes that are too old. Nobody needs this: it gives their space back.
    pub(crate) fn forget_old_requests(&self) -> Result<()> {
        let too_old = Timestamp(self.now().0.saturating_sub(micros(NOTES_KEPT)));
        loop {
            let forgotten = self.store.write(Durability::Relaxed, |tx| {
                tx.forget_requests(too_old, FORGOTTEN_AT_ONCE)
            })?;
            if forgotten < FORGOTTEN_AT_ONCE {
                return Ok(());
            }
        }
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
