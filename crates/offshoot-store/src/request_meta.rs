//! Idempotency keys: what a request made is recorded under its key, in the transaction that makes
//! it, so that a repeated request makes nothing twice.

use offshoot_core::{AgentId, Result, Timestamp};

use crate::rows::WorkspaceKey;

/// The record of one request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// The hash of the caller and of the idempotency key.
    pub key: [u8; 32],
    /// The hash of what was asked for.
    pub content: [u8; 32],
    /// When the first thing was made.
    pub at: Timestamp,
    /// What it made so far, in the order of numbers.
    pub made: Vec<MadeRow>,
}

/// One thing that a request made. It names rows: a name may mean another thing later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeRow {
    /// Its number among those that the request makes, from 0.
    pub number: i64,
    /// The workspace or project that was made, or in which a file was.
    pub workspace: Option<WorkspaceKey>,
    /// The agent.
    pub agent: Option<AgentId>,
    /// The number of the line of history of a file.
    pub line: Option<i64>,
}

/// What can be asked about requests.
pub trait RequestReads {
    /// The record of a key.
    fn request(&self, key: &[u8; 32]) -> Result<Option<RequestRow>>;
}

/// What can be changed about requests.
pub trait RequestWrites {
    /// Records one thing that a request made, and replaces an earlier one of its number. `key`,
    /// `content` and `at` are taken from the row, unless there is a record of that key.
    fn note_made(&mut self, request: &RequestRow, made: &MadeRow) -> Result<()>;

    /// Removes the record of a key.
    fn forget_request(&mut self, key: &[u8; 32]) -> Result<()>;

    /// Removes the oldest records of before this time, at most so many, by an index. Returns how
    /// many.
    fn forget_requests(&mut self, before: Timestamp, limit: usize) -> Result<usize>;
}
