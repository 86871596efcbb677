//! The row of a review: what it keeps of a conflict, how one is opened and how it is marked.

use std::collections::{BTreeSet, HashMap};

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, GitMode, ObjectId, Operator, RelPath, Result, Timestamp,
};
use offshoot_git::ObjectReader;
use offshoot_merge::{Conflict, Part};
use offshoot_store::{ReadTx, ReviewRow, ReviewState, WorkspaceKey, WorkspaceRow, WriteTx};
use serde::{Deserialize, Serialize};

use crate::content::state::{State, StateChange, StateEntry};
use crate::context::prefixes::{MIN_PREFIX_DIGITS, prefix_too_short, random_name, unique_match};
use crate::formats;
use crate::merge::Merges;
use crate::merge::review_decision::CheckedResolution;

pub(crate) use crate::formats::{ContentAtOpening, Decision, Details};

/// Who wrote one side of a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The operator.
    pub operator: String,
    /// On whose behalf, as was claimed; for a merge the agent.
    pub claim: Option<String>,
    /// The message of a conversation that led to it.
    pub message_id: Option<String>,
    /// When it was made.
    pub at: String,
}

/// The choice that closes a review in whose place another one came.
pub(crate) const SUPERSEDED: &str = "superseded";
/// The choice that closes a review because there is nothing left to decide.
pub(crate) const SETTLED: &str = "settled";

impl Decision {
    /// Whether somebody chose, and the review did not close by itself.
    pub(crate) fn is_chosen(&self) -> bool {
        self.choice != SUPERSEDED && self.choice != SETTLED
    }

    /// What closes a review without anybody's choice.
    pub(crate) fn by_itself(choice: &str) -> Decision {
        Decision {
            choice: choice.to_owned(),
            content: None,
            parts: None,
            over_protected: false,
            by: who(&Cause::by(Operator::system()), Timestamp::now()),
        }
    }
}

/// The reviews of a workspace, by their paths.
pub(crate) struct KnownReviews(HashMap<RelPath, Vec<(ReviewRow, Details)>>);

impl KnownReviews {
    pub(crate) fn read(tx: &dyn ReadTx, workspace: WorkspaceKey) -> Result<KnownReviews> {
        let mut known: HashMap<RelPath, Vec<(ReviewRow, Details)>> = HashMap::new();
        for row in tx.reviews_of(workspace)? {
            let details = details_of(&row)?;
            known
                .entry(row.path.clone())
                .or_default()
                .push((row, details));
        }
        Ok(KnownReviews(known))
    }

    pub(crate) fn at(&self, path: &RelPath) -> impl Iterator<Item = &(ReviewRow, Details)> {
        self.0.get(path).into_iter().flatten()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &(ReviewRow, Details)> {
        self.0.values().flatten()
    }

    /// Those that wait for somebody, in the order in which they were opened.
    pub(crate) fn open(&self) -> Vec<&(ReviewRow, Details)> {
        let waits = |(row, _): &&(ReviewRow, Details)| row.state != ReviewState::Resolved;
        let mut open: Vec<_> = self.all().filter(waits).collect();
        open.sort_by_key(|(row, _)| (row.opened_at, &row.path));
        open
    }
}

/// Where a decision goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LandsIn {
    /// Into the project: a merge found the conflict.
    #[default]
    Project,
    /// Into the workspace: an update of it found the conflict.
    Workspace,
}

impl LandsIn {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            LandsIn::Project => "project",
            LandsIn::Workspace => "workspace",
        }
    }
}

/// The merge or update in which conflicts were found: what their reviews are made from.
pub(crate) struct ConflictContext<'a> {
    pub(crate) project: &'a WorkspaceRow,
    /// What the project has.
    pub(crate) ours: &'a State,
    pub(crate) objects: &'a dyn ObjectReader,
    /// The workspace.
    pub(crate) row: &'a WorkspaceRow,
    /// What the workspace changed since the base.
    pub(crate) changes: &'a ChangedPaths,
    /// Those of its reviews that go on waiting, by their paths.
    pub(crate) waiting: &'a HashMap<&'a RelPath, &'a ReviewRow>,
    /// The snapshot of the project that both began with.
    pub(crate) base: ObjectId,
    /// The snapshot of the workspace that was merged before, from the same base.
    pub(crate) since: Option<ObjectId>,
    /// The snapshot of the workspace that holds its side; none for a plan.
    pub(crate) snapshot: Option<ObjectId>,
    /// The name of the merge; empty for an update.
    pub(crate) merge: &'a str,
    pub(crate) lands_in: LandsIn,
}

/// The files and links that a workspace changed.
pub(crate) struct ChangedPaths(BTreeSet<RelPath>);

impl ChangedPaths {
    pub(crate) fn new(changes: &[StateChange]) -> ChangedPaths {
        let leaf =
            |entry: Option<StateEntry>| entry.is_some_and(|entry| entry.kind != EntryKind::Dir);
        let leaves = changes
            .iter()
            .filter(|change| leaf(change.before) || leaf(change.after));
        ChangedPaths(leaves.map(|change| change.path.clone()).collect())
    }

    pub(crate) fn contains(&self, path: &RelPath) -> bool {
        self.0.contains(path)
    }

    /// What is at a path, above it and below it.
    fn near<'a>(&'a self, path: &RelPath) -> impl Iterator<Item = &'a RelPath> {
        let above = path.dirs_above().into_iter().chain([path.clone()]);
        let above = above.filter_map(|path| self.0.get(&path));
        // Whatever is below comes after `path/`, with others between it and the path itself.
        let (from, path) = (path.join_name(b"\x01"), path.clone());
        let below = self.0.range(from..);
        above.chain(below.take_while(move |other| other.starts_with(&path)))
    }
}

/// What a review is opened about.
pub(crate) struct Subject {
    pub(crate) path: RelPath,
    /// Content that both began with, of the project and of the workspace.
    pub(crate) contents: [Option<ObjectId>; 3],
    pub(crate) kind: String,
    pub(crate) parts: Vec<String>,
    pub(crate) related: Vec<RelPath>,
    /// The paths of the workspace that belong to it.
    pub(crate) paths: Vec<RelPath>,
    /// Who wrote what the project and the workspace have.
    pub(crate) by: (Option<Who>, Option<Who>),
    pub(crate) protected: bool,
}

/// The review of a conflict: the one that waits for it already, or a new one.
pub(crate) fn new_review(
    conflict: &Conflict,
    context: &ConflictContext<'_>,
    by: (Option<Who>, Option<Who>),
    protected: bool,
) -> Result<ReviewRow> {
    let places = [&conflict.path].into_iter();
    let places = places.chain(&conflict.related).chain(&conflict.ours_path);
    let paths: BTreeSet<&RelPath> = places.flat_map(|path| context.changes.near(path)).collect();
    let content = |entry: Option<offshoot_merge::TreeEntry>| {
        entry
            .filter(|entry| entry.mode != GitMode::Dir)
            .map(|entry| entry.id)
    };
    let subject = Subject {
        path: conflict.path.clone(),
        contents: [conflict.base, conflict.ours, conflict.theirs].map(content),
        kind: conflict.kind.as_str().to_owned(),
        parts: parts_of(conflict),
        related: conflict.related.clone(),
        paths: paths.into_iter().cloned().collect(),
        by,
        protected,
    };
    open_review(subject, context)
}

/// The review of something: the one that waits for it already, or a new one.
pub(crate) fn open_review(subject: Subject, context: &ConflictContext<'_>) -> Result<ReviewRow> {
    let same = context.waiting.get(&subject.path);
    let (ours_by, theirs_by) = subject.by;
    let there = context.ours.entry(context.objects, &subject.path)?;
    let details = Details {
        kind: subject.kind,
        parts: subject.parts,
        related: subject.related,
        base_snapshot: context.base,
        since: context.since,
        theirs_snapshot: context.snapshot,
        paths: subject.paths,
        there: ContentAtOpening::Content(there.and_then(|entry| entry.id)),
        ours_by,
        theirs_by,
        decision: None,
        lands_in: context.lands_in,
        protected: subject.protected,
    };
    let [base, ours, theirs] = subject.contents;
    Ok(ReviewRow {
        id: same.map_or_else(random_name, |row| row.id.clone()),
        project: context.project.key,
        workspace: context.row.key,
        merge: context.merge.to_owned(),
        path: subject.path,
        state: ReviewState::Open,
        base,
        ours,
        theirs,
        opened_at: same.map_or_else(Timestamp::now, |row| row.opened_at),
        details: formats::to_text(&details)?,
        snapshot: None,
    })
}

/// The conflicting parts of a file as text; empty for all of it.
pub(crate) fn parts_of(conflict: &Conflict) -> Vec<String> {
    let Some(content) = &conflict.content else {
        return Vec::new();
    };
    let names = content.parts.iter().map(|one| part_name(&one.part));
    names.flatten().collect()
}

/// The name of a part; none if it is the file as a whole.
pub(crate) fn part_name(part: &Part) -> Option<String> {
    match part {
        Part::Whole => None,
        Part::Lines { ours, .. } => Some(match ours.len() {
            0 => format!("after line {}", ours.start),
            1 => format!("line {}", ours.end),
            _ => format!("lines {}-{}", ours.start + 1, ours.end),
        }),
        Part::Json { pointer } => Some(match pointer.is_empty() {
            true => "/".to_owned(),
            false => pointer.clone(),
        }),
    }
}

pub(crate) fn who(cause: &Cause, at: Timestamp) -> Who {
    Who {
        operator: cause.operator.to_string(),
        claim: cause.claim.clone(),
        message_id: cause.message_id.clone(),
        at: at.to_string(),
    }
}

pub(crate) fn details_of(row: &ReviewRow) -> Result<Details> {
    formats::parse_text(&row.details)
}

/// Notes that a review is decided and where that went.
pub(crate) fn mark_resolved(
    tx: &mut dyn WriteTx,
    review: &ReviewRow,
    resolution: &CheckedResolution,
    decision: &Decision,
    snapshot: Option<ObjectId>,
) -> Result<()> {
    if let CheckedResolution::Content(_, object) = resolution {
        tx.put_object(object)?;
    }
    let mut now = find_review(tx, &review.id)?;
    if now.state == ReviewState::Resolved {
        return Err(already_resolved(&review.id));
    }
    refuse_other(&now, review)?;
    let mut details = details_of(&now)?;
    details.decision = Some(decision.clone());
    now.details = formats::to_text(&details)?;
    now.state = ReviewState::Resolved;
    now.snapshot = snapshot;
    tx.put_review(&now)
}

/// Refuses a decision about a review that has changed since it was read: its workspace may have
/// been completed again.
pub(crate) fn refuse_other(now: &ReviewRow, then: &ReviewRow) -> Result<()> {
    let about =
        |row: &ReviewRow| -> Result<_> { Ok((row.theirs, details_of(row)?.theirs_snapshot)) };
    if about(now)? == about(then)? {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PreconditionFailed,
        format!("the review `{}` is about something else by now", now.id),
    )
    .with_hint("look at it again; nothing was decided"))
}

pub(crate) fn find_review(tx: &dyn ReadTx, id: &str) -> Result<ReviewRow> {
    tx.review(id)?.ok_or_else(|| no_review(id))
}

pub(crate) fn no_review(id: &str) -> Error {
    Error::new(
        ErrorCode::ReviewNotFound,
        format!("there is no review `{}`", id.escape_debug()),
    )
    .with_hint("`offshoot review list` shows those that wait")
}

pub(crate) fn already_resolved(id: &str) -> Error {
    Error::new(
        ErrorCode::AlreadyExists,
        format!("the review `{id}` is resolved"),
    )
    .with_hint("edit the project, or undo the merge, to change what was decided")
}

impl Merges {
    /// The whole name of a review, of which at least four digits were given.
    pub fn review_id(&self, text: &str) -> Result<String> {
        if text.len() < MIN_PREFIX_DIGITS {
            return Err(prefix_too_short(text));
        }
        let found = self.store().read(|tx| tx.review_ids(text))?;
        unique_match(text, "reviews", found)?.ok_or_else(|| no_review(text))
    }
}
