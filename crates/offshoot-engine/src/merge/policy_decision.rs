//! Conflicts that a policy decides, part by part, and the record of what lost.

use std::cmp::Ordering;

use offshoot_core::{Cause, EntryKind, ObjectId, Operator, RelPath, Result};
use offshoot_merge::{Choice, Conflict, ConflictKind, Edit};
use offshoot_store::{HistoryOp, WriteTx};

use crate::content::history_writer::LineTemplate;
use crate::content::state::StateEdit;
use crate::history::trail::LOST;
use crate::merge::authors::{Author, Authors, ConflictAuthors};
use crate::merge::review_row::parts_of;
use crate::project::head::Proposal;
use crate::project::policy::Policy;

/// A conflict that a policy decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Its path.
    pub path: RelPath,
    /// Which parts of it; empty for all of it.
    pub parts: Vec<String>,
    /// By which policy; `review` if somebody had decided the same before.
    pub policy: Policy,
    /// Who won: `ours`, `theirs` or `both`.
    pub winner: String,
    /// The whole content of the side that lost; none if that side had removed it.
    pub lost: Option<ObjectId>,
    /// The agent, or else the operator, that had written what lost in these parts.
    pub lost_by: Option<String>,
    /// The message that had led to it.
    pub lost_message_id: Option<String>,
    /// The agent, or else the operator, that had written what the project has, or had, in these
    /// parts, whichever side won.
    pub ours_by: Option<String>,
    /// The message that had led to it.
    pub ours_message_id: Option<String>,
}

/// What a policy makes of a conflict.
pub(crate) struct Verdict {
    pub(crate) edits: Vec<Edit>,
    /// One for each side that won something.
    pub(crate) decided: Vec<Decided>,
}

/// Decides a conflict by a policy, each part on its own; none if it needs a review.
pub(crate) fn decide(
    policy: Policy,
    conflict: &Conflict,
    sides: &ConflictAuthors,
    priority: i64,
) -> Option<Verdict> {
    let choices: Vec<Choice> = sides
        .ours
        .iter()
        .map(|ours| choice(policy, ours.as_ref(), priority))
        .collect::<Option<_>>()?;
    let edits = match &conflict.content {
        Some(_) => conflict.resolve_parts(&choices)?,
        None => conflict.resolve(*choices.first()?)?,
    };
    let all = [Choice::Theirs, Choice::Ours, Choice::Union];
    let decided = all
        .into_iter()
        .filter(|choice| choices.contains(choice))
        .map(|choice| {
            let parts: Vec<usize> = (0..choices.len())
                .filter(|&part| choices[part] == choice)
                .collect();
            record(policy, conflict, sides, choice, &parts)
        })
        .collect();
    Some(Verdict { edits, decided })
}

fn choice(policy: Policy, ours: Option<&Author>, priority: i64) -> Option<Choice> {
    match policy {
        Policy::Review => None,
        Policy::LastWriterWins | Policy::Theirs => Some(Choice::Theirs),
        Policy::Ours => Some(Choice::Ours),
        Policy::Union => Some(Choice::Union),
        Policy::Priority => match priority.cmp(&ours.map_or(0, |ours| ours.priority)) {
            Ordering::Greater => Some(Choice::Theirs),
            Ordering::Less => Some(Choice::Ours),
            Ordering::Equal => None,
        },
    }
}

fn record(
    policy: Policy,
    conflict: &Conflict,
    sides: &ConflictAuthors,
    choice: Choice,
    parts: &[usize],
) -> Decided {
    let of = |side: &[Option<Author>]| {
        let side: Vec<Option<Author>> = parts.iter().map(|&part| side[part].clone()).collect();
        ConflictAuthors::first(&side).cloned()
    };
    let ours = of(&sides.ours);
    let (winner, lost, loser) = match choice {
        // What the project has there stands at other paths, which are told on their own.
        Choice::Theirs if conflict.kind == ConflictKind::FileOrDirectory => {
            ("theirs", None, ours.clone())
        }
        Choice::Theirs => ("theirs", conflict.ours, ours.clone()),
        Choice::Union => ("both", None, None),
        Choice::Ours | Choice::Base => ("ours", conflict.theirs, of(&sides.theirs)),
    };
    let names = parts_of(conflict);
    let message = |author: &Option<Author>| author.as_ref()?.cause.message_id.clone();
    Decided {
        path: conflict.path.clone(),
        parts: parts
            .iter()
            .filter_map(|&part| names.get(part).cloned())
            .collect(),
        policy,
        winner: winner.to_owned(),
        lost: lost.map(|entry| entry.id),
        lost_by: loser.as_ref().map(Author::name),
        lost_message_id: message(&loser),
        ours_by: ours.as_ref().map(Author::name),
        ours_message_id: message(&ours),
    }
}

/// What a verdict takes out of the way of the workspace's side: a file of the project where that side
/// has a directory, or files in a directory of the project where that side has a file.
pub(crate) fn taken_away(
    policy: Policy,
    conflict: &Conflict,
    verdict: &Verdict,
    authors: &Authors<'_>,
    proposal: &Proposal,
) -> Result<Vec<Decided>> {
    let put = verdict.edits.iter().filter(|edit| edit.to.is_some());
    let leaves = put.filter_map(|edit| conflict.blockers.get(&edit.path));
    let mut taken = Vec::new();
    for path in leaves.flatten() {
        let there = match proposal.edits.get(path) {
            Some(StateEdit::Put(entry) | StateEdit::Replace(entry)) => Some(*entry),
            Some(StateEdit::Remove) => None,
            None => authors.states.ours.entry(authors.objects, path)?,
        };
        let Some(lost) = there.and_then(|entry| entry.id) else {
            continue;
        };
        let author = authors.last_of_ours(path)?;
        let name = author.as_ref().map(Author::name);
        let message = author.and_then(|author| author.cause.message_id);
        taken.push(Decided {
            path: path.clone(),
            parts: Vec::new(),
            policy,
            winner: "theirs".to_owned(),
            lost: Some(lost),
            lost_by: name.clone(),
            lost_message_id: message.clone(),
            ours_by: name,
            ours_message_id: message,
        });
    }
    Ok(taken)
}

/// Adds what was taken away and is not told as the loser of a conflict of its own.
pub(crate) fn add_taken_away(decided: &mut Vec<Decided>, taken: Vec<Decided>) {
    for one in taken {
        let is_told = |told: &Decided| told.path == one.path && told.lost == one.lost;
        if !decided.iter().any(is_told) {
            decided.push(one);
        }
    }
}

/// Keeps what lost as a version of its path, although it never stood there (INV-5).
pub(crate) fn keep_lost(
    tx: &mut dyn WriteTx,
    line: &LineTemplate<'_>,
    decided: &Decided,
    merge: &str,
) -> Result<()> {
    let Some(lost) = decided.lost else {
        return Ok(());
    };
    let mut kept = line.file(HistoryOp::Write, &decided.path, EntryKind::File);
    kept.cause = Cause {
        operator: Operator::new(decided.lost_by.as_deref().unwrap_or("system")),
        claim: Some(format!(
            "{LOST}{} by {} in merge {merge}",
            decided.winner,
            decided.policy.as_str(),
        )),
        message_id: decided.lost_message_id.clone(),
    };
    kept.after = Some(lost);
    tx.add_history(&kept).map(drop)
}
