//! `offshoot review …`: conflicts that wait for a decision.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use offshoot_core::{Error, ObjectId};
use offshoot_engine::{Content, LandsIn, Resolution, Review, Who};

use super::Context;
use super::files::source;
use super::snapshots::show_hunks;
use crate::output::{
    Align, Color, CommandResult, Exit, Failure, count, printable, short, shown, when,
};
use offshoot_wire as wire;
use offshoot_wire::diff::compare;

/// What can be done with reviews.
#[derive(Debug, Subcommand)]
pub(crate) enum ReviewCommand {
    /// List the conflicts that wait
    List {
        /// Only of this project
        #[arg(long, value_name = "P")]
        project: Option<String>,
        /// Also those that are resolved
        #[arg(long)]
        all: bool,
    },
    /// Show one: what each side did, and what was proposed
    Show {
        /// The review, or at least 4 digits of its id
        id: String,
    },
    /// Propose a resolution; nothing is decided by it
    Propose {
        /// The review, or at least 4 digits of its id
        id: String,
        /// The whole content of the file, or `-` for stdin
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        /// What to say about it
        #[arg(long)]
        note: Option<String>,
    },
    /// Decide; the project gets it as a new snapshot
    Resolve {
        /// The review, or at least 4 digits of its id
        id: String,
        /// Which side to take where the two conflict
        choice: ChoiceName,
        /// For `content` the file or `-`, for `candidate` its number
        #[arg(value_name = "FILE|-|N")]
        value: Option<OsString>,
    },
}

/// The choices by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChoiceName {
    /// What the project has
    Ours,
    /// What the workspace has
    Theirs,
    /// What both began with
    Base,
    /// Both, ours first
    Union,
    /// A content of your own
    Content,
    /// A proposed resolution
    Candidate,
}

/// Runs one of them.
pub(super) fn run(cx: &mut Context<'_>, command: &ReviewCommand) -> CommandResult {
    match command {
        ReviewCommand::List { project, all } => list(cx, project.as_deref(), *all),
        ReviewCommand::Show { id } => show(cx, id),
        ReviewCommand::Propose { id, file, note } => propose(cx, id, file, note.as_deref()),
        ReviewCommand::Resolve { id, choice, value } => resolve(cx, id, *choice, value.as_deref()),
    }
}

fn list(cx: &mut Context<'_>, project: Option<&str>, all: bool) -> CommandResult {
    let project = project.map(str::parse).transpose()?;
    let reviews = cx.engine.merges.reviews(project.as_ref(), all)?;
    if cx.output.json() {
        cx.output
            .document(&wire::Reviews::from(reviews.as_slice()))?;
        return Ok(Exit::Done);
    }
    if reviews.is_empty() {
        cx.output.note("nothing waits for a decision");
    }
    let rows: Vec<Vec<String>> = reviews
        .iter()
        .map(|review| {
            vec![
                short(&review.id).to_owned(),
                review.project.clone(),
                review.workspace.clone(),
                when(review.opened_at),
                state(review),
                review.kind.replace('_', " "),
                part(review),
                shown(&review.path),
            ]
        })
        .collect();
    cx.output.table(
        &[
            ("REVIEW", Align::Left),
            ("PROJECT", Align::Left),
            ("WORKSPACE", Align::Left),
            ("OPENED", Align::Left),
            ("STATE", Align::Left),
            ("KIND", Align::Left),
            ("PART", Align::Left),
            ("PATH", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn state(review: &Review) -> String {
    match review.changed_since {
        true => format!("{}, changed since", review.state),
        false => review.state.to_owned(),
    }
}

fn part(review: &Review) -> String {
    match review.parts.is_empty() {
        true => "all".to_owned(),
        false => printable(&review.parts.join(", ")),
    }
}

fn show(cx: &mut Context<'_>, id: &str) -> CommandResult {
    let review = cx.engine.merges.review(&cx.engine.merges.review_id(id)?)?;
    if cx.output.json() {
        let ours = difference(cx, review.base, review.ours)?;
        let theirs = difference(cx, review.base, review.theirs)?;
        cx.output
            .document(&wire::Review::with_differences(&review, ours, theirs))?;
        return Ok(Exit::Done);
    }
    let mut rows = vec![
        ("review", review.id.clone()),
        ("path", shown(&review.path)),
        ("part", part(&review)),
        ("conflict", review.kind.replace('_', " ")),
        ("project", review.project.clone()),
        ("workspace", review.workspace.clone()),
        (
            "found by",
            match &review.merge_id {
                Some(merge) => format!("merge {}", short(merge)),
                None => format!("an update of `{}`", review.workspace),
            },
        ),
        ("opened", when(review.opened_at)),
        ("state", state(&review)),
    ];
    if review.protected {
        let who = "only the owner or an admin decides".to_owned();
        rows.push(("protected", who));
    }
    if let Some((choice, by)) = &review.decision {
        rows.push(("decided", format!("{choice}, by {}", name(by))));
    }
    if let Some(snapshot) = review.snapshot {
        rows.push(("snapshot", short(&snapshot.to_hex()).to_owned()));
    }
    super::workspace::fields(cx, &rows)?;
    let project = format!("the project `{}`", review.project);
    let workspace = format!("the workspace `{}`", review.workspace);
    let (base, ours, theirs) = (review.base, review.ours, review.theirs);
    side(cx, "ours", &project, review.ours_by.as_ref(), base, ours)?;
    side(
        cx,
        "theirs",
        &workspace,
        review.theirs_by.as_ref(),
        base,
        theirs,
    )?;
    for candidate in &review.candidates {
        let title = format!("candidate {}", candidate.number);
        side(
            cx,
            &title,
            "against ours",
            Some(&candidate.by),
            ours,
            Some(candidate.content),
        )?;
        if let Some(note) = &candidate.note {
            cx.output.line(format_args!("note: {}", printable(note)))?;
        }
    }
    if review.state != "resolved" {
        if review.changed_since {
            cx.output.note(format_args!(
                "the {} has changed the path since: a decision is computed against that",
                review.lands_in.as_str()
            ));
        }
        let id = short(&review.id);
        let decide = cx.command_line(&["review", "resolve", id, "ours"]);
        cx.output.note(format_args!(
            "decide with: {decide}\n         or theirs, base, union, content FILE, candidate N"
        ));
    }
    Ok(Exit::Done)
}

/// Who it was, for people: the agent if one is named.
fn name(who: &Who) -> String {
    let operator = printable(&who.operator);
    let text = match &who.claim {
        Some(claim) => format!("{} ({operator})", printable(claim)),
        None => operator,
    };
    match &who.message_id {
        Some(message) => format!("{text}, message {}", printable(message)),
        None => text,
    }
}

/// One column of the three-way view: what a side made of what both began with.
fn side(
    cx: &mut Context<'_>,
    title: &str,
    whose: &str,
    by: Option<&Who>,
    before: Option<ObjectId>,
    after: Option<ObjectId>,
) -> Result<(), Failure> {
    let by = by.map_or_else(String::new, |who| format!(", by {}", name(who)));
    let heading = format!("\n{title}: {whose}{by}");
    let heading = cx.output.paint(Color::Bold, &heading);
    cx.output.line(heading)?;
    match (before, after) {
        (None, None) => cx.output.line("has nothing there")?,
        (Some(_), None) => cx.output.line("removed it")?,
        (before, after) if before == after => cx.output.line("left it as it was")?,
        _ => match difference(cx, before, after)? {
            Some(hunks) => show_hunks(cx.output, &hunks)?,
            None => cx.output.line("changed it; it is no text")?,
        },
    }
    Ok(())
}

/// The hunks between two contents. None if there are no lines to compare.
fn difference(
    cx: &Context<'_>,
    before: Option<ObjectId>,
    after: Option<ObjectId>,
) -> offshoot_core::Result<Option<Vec<u8>>> {
    let content = |id: Option<ObjectId>| match id {
        Some(id) => cx.engine.workspaces.content_of(&id),
        None => Ok(Vec::new()),
    };
    let (before, after) = (content(before)?, content(after)?);
    Ok(compare(&before, &after).map(|text| text.hunks))
}

fn propose(cx: &mut Context<'_>, id: &str, file: &Path, note: Option<&str>) -> CommandResult {
    let id = cx.engine.merges.review_id(id)?;
    let mut content = source(cx, file)?;
    let review = cx
        .engine
        .merges
        .propose(&id, Content::Stream(&mut content), note, &cx.cause)?;
    drop(content);
    if cx.output.json() {
        cx.output.document(&wire::Review::from(&review))?;
        return Ok(Exit::Done);
    }
    let number = review.candidates.last().map_or(0, |last| last.number);
    cx.output.line(format_args!(
        "candidate {number} for `{}`",
        shown(&review.path)
    ))?;
    let number = number.to_string();
    let accept = cx.command_line(&["review", "resolve", short(&id), "candidate", &number]);
    cx.output.note(format_args!("accept it with: {accept}"));
    Ok(Exit::Done)
}

fn resolve(
    cx: &mut Context<'_>,
    id: &str,
    choice: ChoiceName,
    value: Option<&OsStr>,
) -> CommandResult {
    let id = cx.engine.merges.review_id(id)?;
    let mut content = match (choice, value) {
        (ChoiceName::Content, Some(file)) => Some(source(cx, Path::new(file))?),
        (ChoiceName::Content, None) => {
            return Err(Error::invalid("the content is missing")
                .with_hint("name a file, or `-` for stdin")
                .into());
        }
        (ChoiceName::Candidate, _) | (_, None) => None,
        (_, Some(_)) => {
            return Err(Error::invalid("only `content` and `candidate` take a value").into());
        }
    };
    let how = match (choice, &mut content) {
        (ChoiceName::Ours, _) => Resolution::Ours,
        (ChoiceName::Theirs, _) => Resolution::Theirs,
        (ChoiceName::Base, _) => Resolution::Base,
        (ChoiceName::Union, _) => Resolution::Union,
        (ChoiceName::Content, Some(content)) => Resolution::Content(Content::Stream(content)),
        (ChoiceName::Content | ChoiceName::Candidate, _) => {
            Resolution::Candidate(candidate(value)?)
        }
    };
    let resolved = cx.engine.merges.resolve(&id, how, &cx.cause)?;
    drop(content);
    if resolved.snapshot.is_some() {
        super::link::push_after_merge(cx, &resolved.review.project.parse()?);
    }
    if cx.output.json() {
        cx.output.document(&wire::Resolved::from(&resolved))?;
        return Ok(Exit::Done);
    }
    let path = shown(&resolved.review.path);
    let what = match (&resolved.snapshot, resolved.review.state) {
        (Some(snapshot), _) => {
            format!(
                "`{path}` is resolved: snapshot {}",
                short(&snapshot.id.to_hex())
            )
        }
        (None, "decided") => {
            format!("`{path}` is decided and lands with the last conflict of its merge")
        }
        (None, _) if resolved.review.lands_in == LandsIn::Workspace => {
            format!("`{path}` is resolved in `{}`", resolved.review.workspace)
        }
        (None, _) => format!("`{path}` is resolved; the project had it already"),
    };
    cx.output.line(what)?;
    if resolved.recomputed {
        cx.output
            .note("the project had changed the path since: this was computed against it");
    }
    let left = cx
        .engine
        .merges
        .reviews(Some(&resolved.review.project.parse()?), false)?;
    if !left.is_empty() {
        let number = count(left.len() as i64, "conflict waits", "conflicts wait");
        let list = cx.command_line(&["review", "list"]);
        cx.output.note(format_args!(
            "{number} in `{}`: {list}",
            resolved.review.project
        ));
    }
    Ok(Exit::Done)
}

fn candidate(value: Option<&OsStr>) -> offshoot_core::Result<i64> {
    let number = value
        .and_then(OsStr::to_str)
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        Error::invalid("the number of the candidate is missing")
            .with_hint("`offshoot review show ID` lists them")
    })
}
