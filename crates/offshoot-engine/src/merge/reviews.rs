//! Reviews: conflicts that wait for a decision, and the decisions.
//!
//! A review keeps what the workspace changed at the path and around it, not only three contents. So
//! it can be computed again against whatever the project has become by the time somebody decides.

use offshoot_core::{Cause, Error, ObjectId, Operator, ProjectId, RelPath, Result, Timestamp};
use offshoot_store::{
    CandidateRow, Durability, HistoryOp, NewHistory, ReadTx, ReviewRow, ReviewState, WorkspaceKey,
    WorkspaceRow,
};

use crate::content::incoming::Content;
use crate::content::index::Index;
use crate::content::rows::{open_project, state_of};
use crate::content::state::State;
use crate::content::workspace_row::line_of;
use crate::formats;
use crate::merge::Merges;
use crate::merge::complete::{Completed, receipt};
use crate::merge::regions::PartChoices;
use crate::merge::review_decision::CheckedResolution;
use crate::merge::review_land::{DecidedReview, LandingRequest};
use crate::merge::review_row::{
    ContentAtOpening, Decision, LandsIn, Who, already_resolved, details_of, find_review,
    refuse_other, who,
};
use crate::sync::ignored::IgnoredFiles;
use crate::workspace::snapshot::Snapshot;

/// The most resolutions that may be proposed for one review: a person has to read them.
const MOST_CANDIDATES: i64 = 32;

/// A conflict that waits for a decision, or waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// Its name.
    pub id: String,
    /// The project.
    pub project: String,
    /// The workspace whose change it is.
    pub workspace: String,
    /// The merge that found it; none if an update did.
    pub merge_id: Option<String>,
    /// Where the decision goes.
    pub lands_in: LandsIn,
    /// Its path.
    pub path: RelPath,
    /// Which parts of it; empty for all of it.
    pub parts: Vec<String>,
    /// Why; `protected` if it fits and waits because its path is protected.
    pub kind: String,
    /// Whether only the owner or an admin decides it.
    pub protected: bool,
    /// `open`, `decided` (it lands with the others of its merge) or `resolved`.
    pub state: &'static str,
    /// Content that both began with.
    pub base: Option<ObjectId>,
    /// Content of the project when the conflict was found.
    pub ours: Option<ObjectId>,
    /// Content of the workspace.
    pub theirs: Option<ObjectId>,
    /// Who wrote what the project has.
    pub ours_by: Option<Who>,
    /// Who wrote what the workspace has.
    pub theirs_by: Option<Who>,
    /// Whether the path has changed since where the decision goes: it is computed against that.
    pub changed_since: bool,
    /// When it was found.
    pub opened_at: Timestamp,
    /// What was decided: the choice and by whom.
    pub decision: Option<(String, Who)>,
    /// The snapshot of the project that the decision made; none if it went into the workspace.
    pub snapshot: Option<ObjectId>,
    /// Proposed resolutions.
    pub candidates: Vec<Candidate>,
}

/// A proposed resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number, from 1.
    pub number: i64,
    /// The content.
    pub content: ObjectId,
    /// Who proposed it.
    pub by: Who,
    /// What the proposer says about it.
    pub note: Option<String>,
}

/// How a review is decided.
pub enum Resolution<'a> {
    /// What the project has.
    Ours,
    /// What the workspace has.
    Theirs,
    /// What both began with.
    Base,
    /// Both, ours first.
    Union,
    /// This content.
    Content(Content<'a>),
    /// A proposed resolution, by its number.
    Candidate(i64),
    /// A choice for each part that conflicts.
    Parts(PartChoices),
}

/// What a decision did.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The review as it is now.
    pub review: Review,
    /// The snapshot that it made; none if the project had it already, or if it waits for the other
    /// conflicts of its merge.
    pub snapshot: Option<Snapshot>,
    /// Whether the project had changed the path since the conflict was found.
    pub recomputed: bool,
    /// Why the workspace that was kept for its reviews did not go with the last of them, and what
    /// removes it.
    pub waits: Option<String>,
    /// Ignored files that went with the workspace, if it went with this decision.
    pub ignored_removed: IgnoredFiles,
}

/// What became of a workspace that was kept for its reviews.
#[derive(Default)]
struct AfterReviews {
    waits: Option<String>,
    ignored_removed: IgnoredFiles,
}

impl Merges {
    /// Conflicts that wait, of one project or of all; with `all` those that are resolved too.
    pub fn reviews(&self, project: Option<&ProjectId>, all: bool) -> Result<Vec<Review>> {
        self.store().read(|tx| {
            let key = match project {
                Some(id) => Some(open_project(tx, id)?.key),
                None => None,
            };
            let rows = tx.reviews(key, !all)?;
            rows.into_iter()
                .map(|row| self.as_review(tx, row))
                .collect()
        })
    }

    /// One review.
    pub fn review(&self, id: &str) -> Result<Review> {
        self.store()
            .read(|tx| self.as_review(tx, find_review(tx, id)?))
    }

    /// Proposes a resolution. Nothing is decided by it.
    pub fn propose(
        &self,
        id: &str,
        content: Content<'_>,
        note: Option<&str>,
        cause: &Cause,
    ) -> Result<Review> {
        let incoming = self.contents.receive(content)?;
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let review = find_review(tx, id)?;
            if review.state == ReviewState::Resolved {
                return Err(already_resolved(id));
            }
            tx.put_object(&incoming.object)?;
            let number = tx.last_candidate(id)?.map_or(1, |last| last + 1);
            if number > MOST_CANDIDATES {
                return Err(Error::invalid(format!(
                    "the review `{id}` has {MOST_CANDIDATES} candidates, and takes no more"
                ))
                .with_hint("decide it, or resolve it with content of your own"));
            }
            tx.add_candidate(&CandidateRow {
                review: id.to_owned(),
                number,
                content: incoming.id,
                cause: cause.clone(),
                at,
                note: note.map(str::to_owned),
            })?;
            let line = line_at(tx, &review, HistoryOp::ReviewPropose, cause, at)?;
            tx.add_history(&line).map(drop)
        })?;
        self.review(id)
    }

    /// Decides a review. The project gets what was chosen as a new snapshot; a merge that lands
    /// whole waits until its last conflict is decided.
    pub fn resolve(&self, id: &str, how: Resolution<'_>, cause: &Cause) -> Result<Resolved> {
        self.resolve_as(id, how, true, cause)
    }

    /// Like [`resolve`](Self::resolve), for a caller that may or may not change protected paths.
    /// That right is checked when the decision lands.
    pub(crate) fn resolve_as(
        &self,
        id: &str,
        how: Resolution<'_>,
        over_protected: bool,
        cause: &Cause,
    ) -> Result<Resolved> {
        let (row, merge) = self.store().read(|tx| {
            let row = find_review(tx, id)?;
            let merge = tx.merge(&row.merge)?;
            Ok((row, merge))
        })?;
        if row.state == ReviewState::Resolved {
            // The process that decided it may have died before the merge landed, or before the
            // workspace was removed.
            if let Some(merge) = &merge {
                self.land_finished_merges(row.workspace)?;
                self.tidy_after_reviews(&row, &receipt(merge)?, cause);
            }
            return Err(already_resolved(id));
        }
        let (word, resolution) = self.check_resolution(&row, how)?;
        let decision = Decision {
            choice: word,
            content: match &resolution {
                CheckedResolution::Content(content, _) => Some(*content),
                CheckedResolution::Choice(_) | CheckedResolution::Parts(_) => None,
            },
            parts: match &resolution {
                CheckedResolution::Parts(parts) => Some(parts.clone()),
                _ => None,
            },
            over_protected,
            by: who(cause, self.context.now()),
        };
        if details_of(&row)?.lands_in == LandsIn::Workspace {
            let recomputed = self.review(id)?.changed_since;
            self.decide_in_workspace(&row, &resolution, &decision, cause)?;
            return Ok(Resolved {
                review: self.review(id)?,
                snapshot: None,
                recomputed,
                waits: None,
                ignored_removed: IgnoredFiles::default(),
            });
        }
        let completed = merge.as_ref().map(receipt).transpose()?;
        let whole = completed.as_ref().is_some_and(|merge| merge.atomic);
        if whole {
            return self.decide((row, resolution, decision), cause);
        }
        let recomputed = self.review(id)?.changed_since;
        let snapshot = self.land(&LandingRequest {
            decided: &[(row.clone(), resolution, decision)],
            merge: None,
            cause,
        })?;
        let after = match &completed {
            Some(completed) => self.tidy_after_reviews(&row, completed, cause),
            None => AfterReviews::default(),
        };
        Ok(Resolved {
            review: self.review(id)?,
            snapshot,
            recomputed,
            waits: after.waits,
            ignored_removed: after.ignored_removed,
        })
    }

    /// Notes a decision of a merge that lands whole, and lands it with the last one.
    fn decide(&self, decided: DecidedReview, cause: &Cause) -> Result<Resolved> {
        self.check_decision(&decided)?;
        let (row, resolution, decision) = &decided;
        let recomputed = self.review(&row.id)?.changed_since;
        let open = self.store().write(Durability::Synced, |tx| {
            if let CheckedResolution::Content(_, object) = resolution {
                tx.put_object(object)?;
            }
            let mut now = find_review(tx, &row.id)?;
            if now.state == ReviewState::Resolved {
                return Err(already_resolved(&row.id));
            }
            refuse_other(&now, row)?;
            let mut details = details_of(&now)?;
            details.decision = Some(decision.clone());
            now.details = formats::to_text(&details)?;
            now.state = ReviewState::Decided;
            tx.put_review(&now)?;
            let open = tx.reviews_of(row.workspace)?;
            let open = open
                .iter()
                .filter(|other| other.merge == row.merge && other.state == ReviewState::Open)
                .count();
            if open > 0 {
                // The last one makes a line when all of it lands.
                let line = line_at(tx, row, HistoryOp::ReviewResolve, cause, self.context.now())?;
                tx.add_history(&line)?;
            }
            Ok(open)
        })?;
        let (snapshot, after) = if open == 0 {
            self.land_whole(row, cause)?
        } else {
            (None, AfterReviews::default())
        };
        Ok(Resolved {
            review: self.review(&row.id)?,
            snapshot,
            recomputed,
            waits: after.waits,
            ignored_removed: after.ignored_removed,
        })
    }

    /// Lands a merge whose conflicts are all decided. Also returns what became of its workspace.
    fn land_whole(
        &self,
        row: &ReviewRow,
        cause: &Cause,
    ) -> Result<(Option<Snapshot>, AfterReviews)> {
        let (reviews, merge) = self.store().read(|tx| {
            let mut reviews = tx.reviews_of(row.workspace)?;
            reviews
                .retain(|other| other.merge == row.merge && other.state != ReviewState::Resolved);
            Ok((reviews, tx.merge(&row.merge)?))
        })?;
        let Some(merge) = merge else {
            return Err(Error::internal("a review belongs to no merge"));
        };
        let decided = self.as_decided(reviews)?;
        let snapshot = self.land(&LandingRequest {
            decided: &decided,
            merge: match self.is_last_merge(&merge)? {
                true => Some(&merge),
                false => None,
            },
            cause,
        })?;
        let after = self.tidy_after_reviews(row, &receipt(&merge)?, cause);
        Ok((snapshot, after))
    }

    /// The state of a snapshot that a merge or a review names.
    pub(crate) fn state_at(&self, of: WorkspaceKey, snapshot: &ObjectId) -> Result<State> {
        let row = self.store().read(|tx| tx.snapshot(of, snapshot))?;
        let gone = || Error::internal("a snapshot of a merge is gone");
        row.map(|row| state_of(&row)).ok_or_else(gone)
    }

    /// The base of a merge. It is a snapshot of the project, or a commit of the linked repository
    /// that only the workspace has as a snapshot.
    pub(crate) fn base_of(
        &self,
        project: WorkspaceKey,
        workspace: WorkspaceKey,
        base: &ObjectId,
    ) -> Result<State> {
        let own = self.store().read(|tx| tx.snapshot(workspace, base))?;
        match own {
            Some(own) => Ok(state_of(&own)),
            None => self.state_at(project, base),
        }
    }

    /// What happens to a workspace when one of its reviews has closed by itself: the same as if
    /// somebody had decided it.
    pub(crate) fn tidy_after_closing(&self, review: &ReviewRow) -> Result<()> {
        if let Some(merge) = self.store().read(|tx| tx.merge(&review.merge))? {
            let cause = Cause::by(Operator::system());
            self.tidy_after_reviews(review, &receipt(&merge)?, &cause);
        }
        Ok(())
    }

    /// A workspace that was kept because of its reviews goes with the last of them. What was
    /// decided has landed: if the workspace cannot go now, that is reported and is no failure.
    fn tidy_after_reviews(
        &self,
        review: &ReviewRow,
        completed: &Completed,
        cause: &Cause,
    ) -> AfterReviews {
        let tidy = || -> Result<IgnoredFiles> {
            let row = self
                .store()
                .read(|tx| tx.workspace_by_key(review.workspace))?;
            let open = row.filter(|row| row.state == offshoot_store::WorkspaceState::Open);
            if let Some(row) = open.filter(|_| !completed.keep) {
                let removal = self.remove_after_merge(&row, completed, cause)?;
                if let Some(file) = removal.too_large.first() {
                    return Err(file.refuse());
                }
                return Ok(removal.ignored);
            }
            Ok(IgnoredFiles::default())
        };
        let id = &completed.workspace;
        match tidy() {
            Ok(ignored_removed) => AfterReviews {
                waits: None,
                ignored_removed,
            },
            Err(error) => AfterReviews {
                waits: Some(format!(
                    "{error}; `offshoot complete {id}` removes it later"
                )),
                ..AfterReviews::default()
            },
        }
    }

    pub(crate) fn as_review(&self, tx: &dyn ReadTx, row: ReviewRow) -> Result<Review> {
        let details = details_of(&row)?;
        let name = |key| -> Result<(String, Option<WorkspaceRow>)> {
            let found = tx.workspace_by_key(key)?;
            Ok((
                found
                    .as_ref()
                    .map_or_else(String::new, |row| row.id.to_string()),
                found,
            ))
        };
        let (project, project_row) = name(row.project)?;
        let (workspace, workspace_row) = name(row.workspace)?;
        let lands_in = match details.lands_in {
            LandsIn::Project => project_row,
            LandsIn::Workspace => workspace_row,
        };
        let now = match &lands_in {
            Some(row_there) => Index::new(self.store(), tx, row_there).entry(&row.path)?,
            None => None,
        };
        let candidates = tx.candidates(&row.id)?.into_iter().map(|one| Candidate {
            number: one.number,
            content: one.content,
            by: who(&one.cause, one.at),
            note: one.note,
        });
        let then = match details.there {
            ContentAtOpening::Content(content) => content,
            ContentAtOpening::Unknown => row.ours,
        };
        Ok(Review {
            candidates: candidates.collect(),
            changed_since: row.state != ReviewState::Resolved
                && now.and_then(|entry| entry.id) != then,
            project,
            workspace,
            merge_id: Some(row.merge).filter(|merge| !merge.is_empty()),
            lands_in: details.lands_in,
            path: row.path,
            parts: details.parts,
            kind: details.kind,
            protected: details.protected,
            state: match row.state {
                ReviewState::Open => "open",
                ReviewState::Decided => "decided",
                ReviewState::Resolved => "resolved",
            },
            base: row.base,
            ours: row.ours,
            theirs: row.theirs,
            ours_by: details.ours_by,
            theirs_by: details.theirs_by,
            opened_at: row.opened_at,
            decision: details.decision.map(|one| (one.choice, one.by)),
            snapshot: row.snapshot,
            id: row.id,
        })
    }
}

/// A line in the history of the project about the path of a review.
fn line_at(
    tx: &dyn ReadTx,
    review: &ReviewRow,
    op: HistoryOp,
    cause: &Cause,
    at: Timestamp,
) -> Result<NewHistory> {
    let row = tx
        .workspace_by_key(review.project)?
        .ok_or_else(|| Error::internal("the project of a review is gone"))?;
    let mut line = line_of(&row, op, cause, at);
    line.path = review.path.clone();
    Ok(line)
}
