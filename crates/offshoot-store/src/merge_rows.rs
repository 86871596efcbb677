//! What the store holds about merges and reviews. Persisted formats, like `rows.rs`.

use offshoot_core::{Cause, ObjectId, RelPath, Timestamp};

use crate::rows::WorkspaceKey;

/// A requested merge that is not finished. It outlives the process of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionRow {
    /// Its name, which the merge will have.
    pub id: String,
    /// The project.
    pub project: WorkspaceKey,
    /// The workspace.
    pub workspace: WorkspaceKey,
    /// How, as JSON.
    pub options: String,
    /// Who asked and why.
    pub cause: Cause,
    /// When.
    pub at: Timestamp,
    /// Whether it has landed, so that only cleaning up is left.
    pub landed: bool,
}

/// The receipt of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeRow {
    /// Its name.
    pub id: String,
    /// The project.
    pub project: WorkspaceKey,
    /// The workspace.
    pub workspace: WorkspaceKey,
    /// The snapshot of the project that the workspace was based on.
    pub base: ObjectId,
    /// The head of the project that it was merged into.
    pub ours: Option<ObjectId>,
    /// The snapshot of the workspace that was merged.
    pub theirs: ObjectId,
    /// The snapshot that landed; none if nothing did.
    pub snapshot: Option<ObjectId>,
    /// When.
    pub at: Timestamp,
    /// Who asked and why.
    pub cause: Cause,
    /// The weight of the workspace where a policy decides by priority.
    pub priority: i64,
    /// What came of it, as JSON.
    pub outcome: String,
    /// The snapshot that undid it.
    pub undone_by: Option<ObjectId>,
}

/// Where a review stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReviewState {
    /// It waits for a decision.
    Open,
    /// Decided; it lands with the others of its merge.
    Decided,
    /// Decided and landed.
    Resolved,
}

/// A conflict that waits for a decision, or waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRow {
    /// Its name.
    pub id: String,
    /// The project.
    pub project: WorkspaceKey,
    /// The workspace whose change it is.
    pub workspace: WorkspaceKey,
    /// The merge that found it.
    pub merge: String,
    /// Where.
    pub path: RelPath,
    /// Where it stands.
    pub state: ReviewState,
    /// Content that both began with.
    pub base: Option<ObjectId>,
    /// Content of the project when it was found.
    pub ours: Option<ObjectId>,
    /// Content of the workspace.
    pub theirs: Option<ObjectId>,
    /// When it was found.
    pub opened_at: Timestamp,
    /// Everything else, as JSON.
    pub details: String,
    /// The snapshot that the decision made.
    pub snapshot: Option<ObjectId>,
}

/// A proposed resolution of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateRow {
    /// The review.
    pub review: String,
    /// Its number among those of the review, from 1.
    pub number: i64,
    /// The content.
    pub content: ObjectId,
    /// Who and why.
    pub cause: Cause,
    /// When.
    pub at: Timestamp,
    /// What the proposer says about it.
    pub note: Option<String>,
}
