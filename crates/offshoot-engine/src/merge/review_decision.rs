//! What a decision about a review comes to: edits of the head, whatever the head is by then.

use offshoot_core::{
    EXEC_FILE_PERM, EntryKind, Error, ErrorCode, ObjectId, ObjectKind, PLAIN_FILE_PERM, RelPath,
    Result,
};
use offshoot_git::ObjectReader;
use offshoot_merge::{Choice, MergeOptions};
use offshoot_store::{ReviewRow, Store};

use crate::content::left_out::{git_refuses_any, refuse_what_git_refuses};
use crate::content::objects::{PendingObjects, StoredObjects};
use crate::content::state::{State, StateEdit, StateEdits, StateEntry};
use crate::merge::Merges;
use crate::merge::regions::{PartChoices, cannot_join_parts};
use crate::merge::review_row::{LandsIn, details_of};
use crate::merge::reviews::Resolution;
use crate::merge::three_way::{
    ThreeStates, ThreeWay, merge_into_project, merge_states, state_edits,
};
use crate::project::head::Proposal;

/// A resolution of a review that was checked and can be applied to any head.
pub(crate) enum CheckedResolution {
    Choice(Choice),
    Parts(PartChoices),
    Content(ObjectId, offshoot_store::NewObject),
}

impl Merges {
    /// The edits of the head that a decision about one review comes to.
    pub(crate) fn edits_of_decision(
        &self,
        objects: &StoredObjects<'_>,
        head: &State,
        review: &ReviewRow,
        resolution: &CheckedResolution,
    ) -> Result<Proposal> {
        let details = details_of(review)?;
        // Only what belongs to this conflict.
        let mut bench = PendingObjects::new(objects);
        let (base, theirs) = self.base_and_theirs(&mut bench, review, &details)?;
        let states = ThreeStates {
            base: &base,
            ours: head,
            theirs: &theirs,
        };
        let options = MergeOptions::default();
        let again = match details.lands_in {
            LandsIn::Project => merge_into_project(self.store(), &bench, states, &options)?,
            LandsIn::Workspace => merge_states(self.store(), &bench, states, &options)?,
        };
        let conflict = again
            .conflicts
            .iter()
            .find(|conflict| conflict.path == review.path)
            .or(again.conflicts.first());
        match resolution {
            CheckedResolution::Choice(Choice::Ours) => Ok(Proposal::default()),
            CheckedResolution::Choice(choice) if details.protected => {
                edits_of_protected(self.store(), &bench, states, again, *choice)
            }
            CheckedResolution::Choice(choice) => match conflict {
                Some(conflict) => {
                    let edits = conflict
                        .resolve(*choice)
                        .ok_or_else(|| cannot_join(&review.path))?;
                    if details.lands_in == LandsIn::Project {
                        refuse_result(&bench, &review.path, &edits)?;
                    }
                    state_edits(self.store(), &bench, states, &edits)
                }
                // The project has come to agree: what the workspace has fits in.
                None if *choice == Choice::Theirs => Ok(again.proposal),
                None => put(head, &base, objects, &review.path, None),
            },
            CheckedResolution::Parts(parts) => {
                let conflict = conflict
                    .filter(|_| !details.protected)
                    .ok_or_else(|| nothing_in_parts(&review.path))?;
                let choices = parts.for_conflict(conflict)?;
                let edits = conflict
                    .resolve_parts(&choices)
                    .ok_or_else(|| cannot_join_parts(&review.path))?;
                if details.lands_in == LandsIn::Project {
                    refuse_result(&bench, &review.path, &edits)?;
                }
                state_edits(self.store(), &bench, states, &edits)
            }
            CheckedResolution::Content(content, object) => {
                let mut proposal = put(head, &theirs, &bench, &review.path, Some(*content))?;
                proposal.contents.push(object.clone());
                if let Some(moved) = conflict.and_then(|conflict| conflict.ours_path.as_ref()) {
                    proposal.edits.insert(moved.clone(), StateEdit::Remove);
                }
                Ok(proposal)
            }
        }
    }

    /// Checks a requested resolution. Returns it, and the word for it in the row.
    pub(crate) fn check_resolution(
        &self,
        row: &ReviewRow,
        how: Resolution<'_>,
    ) -> Result<(String, CheckedResolution)> {
        let review = row.id.as_str();
        let into_project = details_of(row)?.lands_in == LandsIn::Project;
        let check = |bytes: Option<&[u8]>| match into_project {
            true => refuse_what_git_refuses(&row.path, EntryKind::File, bytes),
            false => Ok(()),
        };
        let choice = |word: &str, choice| Ok((word.to_owned(), CheckedResolution::Choice(choice)));
        match how {
            Resolution::Ours => choice("ours", Choice::Ours),
            Resolution::Theirs => choice("theirs", Choice::Theirs),
            Resolution::Base => choice("base", Choice::Base),
            Resolution::Union => choice("union", Choice::Union),
            Resolution::Parts(parts) => Ok(("parts".to_owned(), CheckedResolution::Parts(parts))),
            Resolution::Content(content) => {
                let mut incoming = self.contents.receive(content)?;
                check(incoming.bytes_if_git_checks_content(&row.path)?.as_deref())?;
                let resolution = CheckedResolution::Content(incoming.id, incoming.object);
                Ok(("content".to_owned(), resolution))
            }
            Resolution::Candidate(number) => {
                let candidates = self.store().read(|tx| tx.candidates(review))?;
                let found = candidates.iter().find(|one| one.number == number);
                let found = found.ok_or_else(|| {
                    Error::invalid(format!("the review has no candidate {number}"))
                        .with_hint(format!("`offshoot review show {review}` lists them"))
                })?;
                check(Some(&self.contents.whole_object(&found.content)?))?;
                let resolution = self.resolution_with_content(found.content)?;
                Ok((format!("candidate {number}"), resolution))
            }
        }
    }

    pub(crate) fn resolution_with_content(&self, id: ObjectId) -> Result<CheckedResolution> {
        let bytes = self.contents.whole_object(&id)?;
        let object = self.store().prepare(ObjectKind::Blob, id, &bytes)?;
        Ok(CheckedResolution::Content(id, object))
    }
}

/// What a choice makes of protected changes: all that the workspace did there, and where that
/// conflicts by now the choice for each conflict. Taking the base takes nothing of it.
fn edits_of_protected(
    store: &Store,
    objects: &dyn ObjectReader,
    states: ThreeStates<'_>,
    again: ThreeWay,
    choice: Choice,
) -> Result<Proposal> {
    if choice == Choice::Base {
        return put_back(objects, states);
    }
    let mut proposal = again.proposal;
    for conflict in &again.conflicts {
        let edits = conflict
            .resolve(choice)
            .ok_or_else(|| cannot_join(&conflict.path))?;
        refuse_result(objects, &conflict.path, &edits)?;
        let more = state_edits(store, objects, states, &edits)?;
        proposal.edits.extend(more.edits);
        proposal.contents.extend(more.contents);
    }
    Ok(proposal)
}

/// What the base has at the paths that theirs changed.
fn put_back(objects: &dyn ObjectReader, states: ThreeStates<'_>) -> Result<Proposal> {
    let mut proposal = Proposal::default();
    for change in states.base.diff(objects, states.theirs, &RelPath::root())? {
        let edit = match change.before {
            Some(entry) => StateEdit::Put(entry),
            None => StateEdit::Remove,
        };
        proposal.edits.insert(change.path, edit);
    }
    Ok(proposal)
}

fn refuse_result(
    objects: &dyn ObjectReader,
    path: &RelPath,
    edits: &[offshoot_merge::Edit],
) -> Result<()> {
    match git_refuses_any(objects, edits)? {
        false => Ok(()),
        true => Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("git would refuse what comes of `{path}`"),
        )
        .with_hint("choose ours, or give other content")),
    }
}

fn nothing_in_parts(path: &RelPath) -> Error {
    Error::invalid(format!("no part of `{path}` conflicts any more"))
        .with_hint("look at the review again, and choose ours or theirs for all of it")
}

fn cannot_join(path: &RelPath) -> Error {
    Error::invalid(format!("`{path}` cannot be settled by taking both"))
        .with_hint("choose ours, theirs or base, or give the content")
}

/// A file at a path with the bits that the head has there, or else the other side.
fn put(
    head: &State,
    other: &State,
    objects: &dyn ObjectReader,
    path: &RelPath,
    content: Option<ObjectId>,
) -> Result<Proposal> {
    let file = |entry: Option<StateEntry>| entry.filter(|entry| entry.kind == EntryKind::File);
    let there = other.entry(objects, path)?;
    let entry = match content {
        Some(id) => {
            let like = file(head.entry(objects, path)?).or(file(there));
            let perm = like.map_or(PLAIN_FILE_PERM, |entry| entry.perm);
            Some(StateEntry {
                kind: EntryKind::File,
                perm: if perm & 0o111 != 0 && like.is_none() {
                    EXEC_FILE_PERM
                } else {
                    perm
                },
                id: Some(id),
            })
        }
        None => there,
    };
    let edit = match entry {
        Some(entry) => StateEdit::Put(entry),
        None => StateEdit::Remove,
    };
    Ok(Proposal {
        edits: StateEdits::from([(path.clone(), edit)]),
        contents: Vec::new(),
    })
}

pub(crate) fn choice_named(word: &str) -> Result<Choice> {
    match word {
        "ours" => Ok(Choice::Ours),
        "theirs" => Ok(Choice::Theirs),
        "base" => Ok(Choice::Base),
        "union" => Ok(Choice::Union),
        _ => Err(Error::internal("a decision cannot be read")),
    }
}
