//! The part of the store's traits that is about merges and reviews.

use offshoot_core::{ObjectId, Result};

use crate::merge_rows::{CandidateRow, CompletionRow, MergeRow, ReviewRow};
use crate::rows::WorkspaceKey;

/// What can be asked about merges and reviews.
pub trait MergeReads {
    /// Requested merges that are not finished, in the order of the requests; of one project, or of
    /// all.
    fn completions(&self, project: Option<WorkspaceKey>) -> Result<Vec<CompletionRow>>;

    /// A merge by its name.
    fn merge(&self, id: &str) -> Result<Option<MergeRow>>;

    /// The names of merges that begin so, in the order of names.
    fn merge_ids(&self, prefix: &str) -> Result<Vec<String>>;

    /// Merges of a project, or else of all open ones, newest first: those before the one of this
    /// name, or from the newest; at most `limit`, 0 means all. Before one that does not exist, or
    /// that another project has, there is none.
    fn merges(
        &self,
        project: Option<WorkspaceKey>,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<MergeRow>>;

    /// The newest merge of a workspace.
    fn last_merge(&self, workspace: WorkspaceKey) -> Result<Option<MergeRow>>;

    /// The newest merge of a workspace from this base that landed something and was not undone, by
    /// an index: the one before another, or the newest.
    fn last_landed(
        &self,
        workspace: WorkspaceKey,
        base: &ObjectId,
        before: Option<&str>,
    ) -> Result<Option<MergeRow>>;

    /// Merges of a workspace that were undone, by an index, oldest first.
    fn undone_merges(&self, workspace: WorkspaceKey) -> Result<Vec<MergeRow>>;

    /// Merges that landed as this snapshot of a project, by an index: one, or none.
    fn merges_landed_as(&self, project: WorkspaceKey, snapshot: &ObjectId)
    -> Result<Vec<MergeRow>>;

    /// Reviews whose decision landed as this snapshot of a project, by an index.
    fn reviews_landed_as(
        &self,
        project: WorkspaceKey,
        snapshot: &ObjectId,
    ) -> Result<Vec<ReviewRow>>;

    /// All reviews of what one workspace changed, in the order in which they were opened.
    fn reviews_of(&self, workspace: WorkspaceKey) -> Result<Vec<ReviewRow>>;

    /// A review by its name.
    fn review(&self, id: &str) -> Result<Option<ReviewRow>>;

    /// The names of reviews that begin so, in the order of names.
    fn review_ids(&self, prefix: &str) -> Result<Vec<String>>;

    /// Reviews in the order in which they were opened; of one project or of all, those that are
    /// not resolved only or all.
    fn reviews(&self, project: Option<WorkspaceKey>, unresolved: bool) -> Result<Vec<ReviewRow>>;

    /// Some of the reviews of a project, or of all, in the order in which they were opened: those
    /// after the one of this name, or from the first; at most `limit`, 0 means all. After one that
    /// is not among them there is none.
    fn reviews_after(
        &self,
        project: Option<WorkspaceKey>,
        unresolved: bool,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ReviewRow>>;

    /// Proposed resolutions of a review, in the order of numbers.
    fn candidates(&self, review: &str) -> Result<Vec<CandidateRow>>;

    /// The number of the last of them.
    fn last_candidate(&self, review: &str) -> Result<Option<i64>>;
}

/// What can be changed about merges and reviews.
pub trait MergeWrites {
    /// Adds or replaces a requested merge.
    fn put_completion(&mut self, row: &CompletionRow) -> Result<()>;

    /// Removes a requested merge.
    fn remove_completion(&mut self, id: &str) -> Result<()>;

    /// Sets the receipt of a merge.
    fn put_merge(&mut self, row: &MergeRow) -> Result<()>;

    /// Sets a review.
    fn put_review(&mut self, row: &ReviewRow) -> Result<()>;

    /// Adds a proposed resolution. Its number must be one more than the newest.
    fn add_candidate(&mut self, row: &CandidateRow) -> Result<()>;
}
