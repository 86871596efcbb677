//! The texts of a review: what both began with, what each side has, what fits of both, what was
//! proposed, and the parts that conflict. Computed against what the project, or the workspace that
//! the decision goes to, has by now, as the decision will be.

use std::sync::Arc;

use offshoot_core::{EntryKind, Error, ErrorCode, ObjectId, RelPath, Result};
use offshoot_git::ObjectReader;
use offshoot_merge::{Conflict, Limits, MergeOptions, Part};
use offshoot_store::{ReadTx, ReviewRow};

use crate::content::index::Index;
use crate::content::objects::PendingObjects;
use crate::content::source::{OpenFile, Source};
use crate::content::state::{State, StateEdit, StateEdits};
use crate::merge::Merges;
use crate::merge::regions::{Region, merge_texts, regions_of, with_ours};
use crate::merge::review_row::{Details, LandsIn, details_of, find_review};
use crate::merge::reviews::Review;
use crate::merge::three_way::{ThreeStates, merge_into_project, merge_states};

/// One of the texts of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewSide {
    /// What both began with.
    Base,
    /// What the project has by now, or the workspace that the decision goes to.
    Ours,
    /// What the workspace has.
    Theirs,
    /// What fits of both, with ours where they conflict.
    Merged,
    /// A proposed resolution, by its number.
    Candidate(i64),
}

/// Texts up to this size are sent together with the parts; larger ones have a request of their own.
const MOST_SHOWN: u64 = 1 << 20;

/// One of the texts.
#[derive(Clone, Debug)]
pub struct SideContent {
    /// The id of its content; none for what was merged just now.
    pub id: Option<ObjectId>,
    /// How many bytes it has.
    pub size: u64,
    /// The bytes; none if they are too many to be sent with the parts.
    pub bytes: Option<Arc<[u8]>>,
}

/// The texts of a review and the parts that conflict.
#[derive(Clone, Debug)]
pub struct ReviewContent {
    /// The review.
    pub review: Review,
    /// What both began with; none where there was no file.
    pub base: Option<SideContent>,
    /// What is there now; none where there is no file.
    pub ours: Option<SideContent>,
    /// What the workspace has.
    pub theirs: Option<SideContent>,
    /// What fits of both, with ours where they conflict; none where that cannot be, such as for an
    /// image or a file that one side removed.
    pub merged: Option<SideContent>,
    /// What was proposed, by number.
    pub candidates: Vec<(i64, SideContent)>,
    /// The parts that conflict; none where it is decided as a whole.
    pub regions: Vec<Region>,
}

impl Merges {
    /// The texts of a review. Costs a merge of what belongs to it.
    pub fn review_content(&self, id: &str) -> Result<ReviewContent> {
        let review = self.review(id)?;
        self.store().read(|tx| {
            let row = find_review(tx, id)?;
            let sides = self.current_sides(tx, &row)?;
            let side = |id: Option<ObjectId>| id.map(|id| self.side(tx, id)).transpose();
            let candidates = review.candidates.iter();
            let candidates = candidates.map(|one| Ok((one.number, self.side(tx, one.content)?)));
            let mut content = ReviewContent {
                base: side(sides.base)?,
                ours: side(sides.ours)?,
                theirs: side(sides.theirs)?,
                candidates: candidates.collect::<Result<_>>()?,
                merged: None,
                regions: Vec::new(),
                review: review.clone(),
            };
            let parts = sides.conflict.as_ref().and_then(|one| one.content.as_ref());
            let regions = parts.map(regions_of).unwrap_or_default();
            if regions.iter().all(|region| region.part.is_some()) {
                content.regions = regions;
            }
            content.merged = match self.merged_now(tx, &row.path, &sides)? {
                Some(MergedContent::Text(text)) => Some(SideContent::of(text)),
                Some(MergedContent::Theirs) => content.theirs.clone(),
                None => None,
            };
            Ok(content)
        })
    }

    /// What fits of both sides; none where that cannot be, or is too large to be merged.
    fn merged_now(
        &self,
        tx: &dyn ReadTx,
        path: &RelPath,
        sides: &CurrentSides,
    ) -> Result<Option<MergedContent>> {
        if let Some(conflict) = &sides.conflict {
            let parts = conflict.content.as_ref();
            let parts =
                parts.filter(|parts| !parts.parts.iter().any(|one| one.part == Part::Whole));
            return Ok(parts.map(|parts| MergedContent::Text(with_ours(parts))));
        }
        // Nothing conflicts by now, or it waits because its path is protected.
        let (Some(ours), Some(theirs)) = (sides.ours, sides.theirs) else {
            return Ok(Some(MergedContent::Theirs));
        };
        for id in sides.base.into_iter().chain([ours, theirs]) {
            // Nothing is read that a merge would not look into.
            if tx.object_size(&id)?.unwrap_or(0) > Limits::default().bytes {
                return Ok(None);
            }
        }
        let bytes = |id: ObjectId| self.contents.whole_object(&id);
        let base = sides.base.map(bytes).transpose()?.unwrap_or_default();
        let all = [&*base, &*bytes(ours)?, &*bytes(theirs)?];
        let merged = merge_texts(path, all, None)?;
        Ok(merged.clean.then_some(MergedContent::Text(merged.content)))
    }

    fn side(&self, tx: &dyn ReadTx, id: ObjectId) -> Result<SideContent> {
        let size = tx.object_size(&id)?.unwrap_or(0);
        Ok(SideContent {
            id: Some(id),
            size,
            bytes: match size <= MOST_SHOWN {
                true => Some(self.contents.whole_object(&id)?),
                false => None,
            },
        })
    }

    /// Opens one of the texts of a review, as it is.
    pub fn open_review_side(&self, id: &str, side: ReviewSide) -> Result<OpenFile> {
        let review = self.review(id)?;
        let missing = |what: &str| {
            Error::new(
                ErrorCode::FileNotFound,
                format!("the review `{id}` has no content for {what}"),
            )
        };
        let (content, what) = match side {
            ReviewSide::Merged => {
                let (fitting, theirs) = self.store().read(|tx| {
                    let sides = self.current_sides(tx, &find_review(tx, id)?)?;
                    Ok((self.merged_now(tx, &review.path, &sides)?, sides.theirs))
                })?;
                if let Some(MergedContent::Text(text)) = fitting {
                    return OpenFile::of(Source::of_bytes(text), &review.path);
                }
                (theirs.filter(|_| fitting.is_some()), "`merged`".to_owned())
            }
            ReviewSide::Candidate(number) => {
                let mut candidates = review.candidates.iter();
                let found = candidates.find(|one| one.number == number);
                let content = found.map(|found| found.content);
                (content, format!("the candidate {number}"))
            }
            _ => {
                let sides = self
                    .store()
                    .read(|tx| self.current_sides(tx, &find_review(tx, id)?))?;
                match side {
                    ReviewSide::Base => (sides.base, "`base`".to_owned()),
                    ReviewSide::Theirs => (sides.theirs, "`theirs`".to_owned()),
                    _ => (sides.ours, "`ours`".to_owned()),
                }
            }
        };
        let content = content.ok_or_else(|| missing(&what))?;
        OpenFile::of(Source::of_object(&self.contents, content)?, &review.path)
    }

    /// The three sides of a review as they are now, and what of them conflicts.
    fn current_sides(&self, tx: &dyn ReadTx, row: &ReviewRow) -> Result<CurrentSides> {
        let details = details_of(row)?;
        let objects = self.contents.objects_in(tx);
        let mut bench = PendingObjects::new(&objects);
        let (base, theirs) = self.base_and_theirs(&mut bench, row, &details)?;
        let Some(head) = self.head_of(tx, row, &details, &mut bench)? else {
            // The project or workspace that the decision goes to is gone: only the stored sides can
            // be shown.
            return Ok(CurrentSides {
                base: row.base,
                ours: row.ours,
                theirs: row.theirs,
                conflict: None,
            });
        };
        let states = ThreeStates {
            base: &base,
            ours: &head,
            theirs: &theirs,
        };
        let options = MergeOptions::default();
        let again = match details.lands_in {
            LandsIn::Project => merge_into_project(self.store(), &bench, states, &options)?,
            LandsIn::Workspace => merge_states(self.store(), &bench, states, &options)?,
        };
        let mut conflicts = again.conflicts;
        let place = conflicts
            .iter()
            .position(|conflict| conflict.path == row.path);
        let conflict = match conflicts.is_empty() {
            true => None,
            false => Some(conflicts.swap_remove(place.unwrap_or(0))),
        };
        let moved = conflict.as_ref().and_then(|one| one.ours_path.clone());
        let there = |state: &State, path: &RelPath| file_in(&bench, state, path);
        Ok(CurrentSides {
            base: there(&base, &row.path)?.or(row.base),
            ours: there(&head, moved.as_ref().unwrap_or(&row.path))?,
            theirs: there(&theirs, &row.path)?,
            conflict,
        })
    }

    /// What the decision about a review goes to, as it is recorded; none if it is gone.
    fn head_of(
        &self,
        tx: &dyn ReadTx,
        row: &ReviewRow,
        details: &Details,
        bench: &mut PendingObjects<'_>,
    ) -> Result<Option<State>> {
        let key = match details.lands_in {
            LandsIn::Project => row.project,
            LandsIn::Workspace => row.workspace,
        };
        let Some(target) = tx.workspace_by_key(key)? else {
            return Ok(None);
        };
        let index = Index::new(self.store(), tx, &target).with_rows()?;
        let edits = index.plan_snapshot(false)?.edits;
        index.base().edit(bench, &edits).map(Some)
    }

    /// The base of a review, and that with what of the workspace belongs to it.
    pub(crate) fn base_and_theirs(
        &self,
        bench: &mut PendingObjects<'_>,
        review: &ReviewRow,
        details: &Details,
    ) -> Result<(State, State)> {
        let theirs_snapshot = details
            .theirs_snapshot
            .ok_or_else(|| Error::internal("a review has no snapshot of its workspace"))?;
        let (project, workspace) = (review.project, review.workspace);
        let base = self.base_of(project, workspace, &details.base_snapshot)?;
        let full = self.state_at(workspace, &theirs_snapshot)?;
        let base = match &details.since {
            // The workspace was merged before, and this path with it.
            Some(since) => {
                let merged = self.state_at(workspace, since)?;
                let content = merged
                    .entry(bench, &review.path)?
                    .and_then(|entry| entry.id);
                match content == review.base {
                    true => with_paths_of(bench, &base, &merged, &details.paths)?,
                    false => base,
                }
            }
            None => base,
        };
        let theirs = with_paths_of(bench, &base, &full, &details.paths)?;
        Ok((base, theirs))
    }
}

/// A state with what another has at some paths.
fn with_paths_of(
    bench: &mut PendingObjects<'_>,
    state: &State,
    other: &State,
    paths: &[RelPath],
) -> Result<State> {
    let mut edits = StateEdits::new();
    for path in paths {
        let edit = match other.entry(bench, path)? {
            Some(entry) => StateEdit::Put(entry),
            None => StateEdit::Remove,
        };
        edits.insert(path.clone(), edit);
    }
    state.edit(bench, &edits)
}

impl SideContent {
    /// What was merged just now.
    fn of(bytes: Vec<u8>) -> Self {
        let size = bytes.len() as u64;
        SideContent {
            id: None,
            size,
            bytes: (size <= MOST_SHOWN).then(|| bytes.into()),
        }
    }
}

/// What fits of both sides of a review.
enum MergedContent {
    /// This text.
    Text(Vec<u8>),
    /// What the workspace has, if that is anything.
    Theirs,
}

/// See [`Merges::current_sides`].
struct CurrentSides {
    base: Option<ObjectId>,
    ours: Option<ObjectId>,
    theirs: Option<ObjectId>,
    conflict: Option<Conflict>,
}

/// The content of a file or a link in a state.
fn file_in(objects: &dyn ObjectReader, state: &State, path: &RelPath) -> Result<Option<ObjectId>> {
    let entry = state.entry(objects, path)?;
    Ok(entry
        .filter(|entry| entry.kind != EntryKind::Dir)
        .and_then(|entry| entry.id))
}
