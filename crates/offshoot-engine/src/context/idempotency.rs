//! Idempotency keys: the result of a request is recorded under its key in the transaction that makes
//! it, so that a repeated request finds the result, also after a crash.
//!
//! A record refers to rows by number and holds no text of a user. A request that asks for several
//! things has one record for each, so that an interrupted request continues where it stopped. A
//! result that was removed before the repetition is made again, so that no answer names what does not
//! exist.

use std::collections::BTreeMap;
use std::time::Duration;

use offshoot_core::{Error, Result, Timestamp};
use offshoot_store::{Durability, MadeRow, RequestRow, WorkspaceRow, WriteTx};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::context::Context;

/// How long a repeated request waits for the first one to end.
pub(crate) const REPEAT_WAIT: Duration = Duration::from_secs(120);
/// How long records are kept after the first result of their request.
pub const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// How many expired records are removed with each new one: more than are added, so that their number
/// stays small, and few enough to cost next to nothing.
pub(crate) const PRUNED_PER_WRITE: usize = 8;
/// How many expired records a clean-up removes in one transaction.
const PRUNED_PER_TRANSACTION: usize = 2_000;

/// A further write in the transaction that makes a workspace or project; it gets the new row.
pub(crate) type ExtraWrite<'a> = &'a dyn Fn(&mut dyn WriteTx, &WorkspaceRow) -> Result<()>;

/// A request that came with a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyedRequest {
    pub(crate) key: [u8; 32],
    pub(crate) content: [u8; 32],
}

/// The record of one result of a request that came with a key.
#[derive(Clone, Debug)]
pub struct IdempotencyRecord {
    pub(crate) request: RequestRow,
    pub(crate) number: i64,
}

impl KeyedRequest {
    /// The key of one principal for one kind of request. Requests have equal content if their JSON
    /// differs only in order, in spaces, or in `null` for an absent field.
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

/// Removes members that are `null`, and sorts the rest.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            // `Map` keeps insertion order if another crate enables `preserve_order`.
            let sorted: BTreeMap<String, Value> = std::mem::take(members).into_iter().collect();
            *members = sorted.into_iter().collect();
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

impl IdempotencyRecord {
    /// Records a result in the transaction that makes it, and removes some expired records.
    pub(crate) fn write(&self, tx: &mut dyn WriteTx, made: MadeRow) -> Result<()> {
        let too_old = Timestamp(
            self.request
                .at
                .0
                .saturating_sub(micros(IDEMPOTENCY_RETENTION)),
        );
        tx.forget_requests(too_old, PRUNED_PER_WRITE)?;
        tx.note_made(
            &self.request,
            &MadeRow {
                number: self.number,
                ..made
            },
        )
    }

    /// Records a written file by the number of its line of history.
    pub(crate) fn write_for_line(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        number: i64,
    ) -> Result<()> {
        self.write(
            tx,
            MadeRow {
                workspace: Some(row.key),
                line: Some(number),
                ..MadeRow::default()
            },
        )
    }

    /// Records a workspace or a project.
    pub(crate) fn write_for_row(&self, tx: &mut dyn WriteTx, row: &WorkspaceRow) -> Result<()> {
        self.write(
            tx,
            MadeRow {
                workspace: Some(row.key),
                ..MadeRow::default()
            },
        )
    }
}

impl Context {
    /// Removes all expired records, to free their space.
    pub(crate) fn prune_idempotency_records(&self) -> Result<()> {
        let too_old = Timestamp(self.now().0.saturating_sub(micros(IDEMPOTENCY_RETENTION)));
        loop {
            let forgotten = self.store.write(Durability::Relaxed, |tx| {
                tx.forget_requests(too_old, PRUNED_PER_TRANSACTION)
            })?;
            if forgotten < PRUNED_PER_TRANSACTION {
                return Ok(());
            }
        }
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
