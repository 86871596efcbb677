//! What blame knows about a workspace or project besides the history of a path: snapshots, merges,
//! updates. Read once for each, and never changed.

use std::collections::HashMap;

use offshoot_core::{ObjectId, RelPath, Result, Timestamp};
use offshoot_store::{
    HistoryFilter, HistoryOp, HistoryRow, MergeRow, ReadTx, ReviewRow, SnapshotRow, WorkspaceKey,
    WorkspaceKind, WorkspaceRow,
};

/// A workspace or project, with what its lines of history do not say themselves.
pub(crate) struct HistoryOwner {
    pub(crate) row: WorkspaceRow,
    /// For a fork.
    pub(crate) project: Option<WorkspaceKey>,
    pub(crate) agent: Option<String>,
    /// Oldest first.
    pub(crate) snapshots: Vec<SnapshotRow>,
    /// How many of them came with the import that the project began with.
    pub(crate) imported: usize,
    /// For a fork: the revision of each update and the base that it moved to.
    pub(crate) updates: HashMap<i64, ObjectId>,
    /// Whether it began as a snapshot of something else.
    pub(crate) has_origin: bool,
    /// For a project, newest first.
    pub(crate) merges: Vec<MergeRow>,
    pub(crate) reviews: Vec<ReviewRow>,
}

impl HistoryOwner {
    /// The first snapshot that has what was written at that time.
    pub(crate) fn snapshot_since(&self, at: Timestamp) -> Option<&SnapshotRow> {
        // Those that came with an import have times of their own.
        let taken_here = &self.snapshots[self.imported..];
        let first = taken_here.partition_point(|one| one.at < at);
        taken_here.get(first)
    }

    pub(crate) fn is_project(&self) -> bool {
        self.row.kind == WorkspaceKind::Project
    }

    /// Reads the rows of a workspace or project.
    pub(crate) fn read(tx: &dyn ReadTx, row: WorkspaceRow) -> Result<HistoryOwner> {
        let mut snapshots = tx.snapshots(row.key, 0)?;
        snapshots.reverse();
        let mut place = HistoryOwner {
            project: None,
            agent: None,
            snapshots,
            imported: 0,
            updates: HashMap::new(),
            has_origin: false,
            merges: Vec::new(),
            reviews: Vec::new(),
            row,
        };
        let key = place.row.key;
        if place.is_project() {
            place.imported = imported_snapshots(tx, &place)?;
            place.merges = tx.merges(Some(key), None, 0)?;
            place.reviews = tx.reviews(Some(key), false)?;
            return Ok(place);
        }
        if let Some(fork) = tx.fork(key)? {
            place.project = Some(fork.project);
            let agent = fork.agent.as_ref().map(ToString::to_string);
            place.agent = Some(agent.unwrap_or_else(|| place.row.id.to_string()));
        }
        let about_all = tx.history(&HistoryFilter {
            workspace: Some(key),
            path: Some(RelPath::root()),
            ..HistoryFilter::default()
        })?;
        for HistoryRow { line, .. } in about_all {
            match (line.op, line.after) {
                (HistoryOp::WorkspaceCreate, after) => place.has_origin = after.is_some(),
                (HistoryOp::Update, Some(base)) => {
                    place.updates.insert(line.revision, base);
                }
                _ => {}
            }
        }
        Ok(place)
    }

    /// The merges that a snapshot of a project brought to a path: it landed one, or a decision about a
    /// conflict that one had found.
    pub(crate) fn merges_behind(
        &self,
        path: &RelPath,
        landed: ObjectId,
    ) -> impl Iterator<Item = &MergeRow> {
        let reviews = self.reviews.iter();
        let decided: Vec<&str> = reviews
            .filter(|review| review.snapshot == Some(landed) && review.path == *path)
            .map(|review| review.merge.as_str())
            .collect();
        self.merges.iter().filter(move |merge| {
            merge.snapshot == Some(landed) || decided.contains(&merge.id.as_str())
        })
    }
}

/// An import is the first thing that happens to a project, if it happens.
fn imported_snapshots(tx: &dyn ReadTx, place: &HistoryOwner) -> Result<usize> {
    let first = tx.history(&HistoryFilter {
        workspace: Some(place.row.key),
        path: Some(RelPath::root()),
        limit: 1,
        ..HistoryFilter::default()
    })?;
    let import = first
        .first()
        .filter(|row| row.line.op == HistoryOp::Import)
        .and_then(|row| row.line.after);
    let last = place
        .snapshots
        .iter()
        .position(|row| Some(row.id) == import);
    Ok(last.map_or(0, |last| last + 1))
}
