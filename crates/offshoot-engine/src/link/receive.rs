//! What people and agents send with `git push`: which refs it may change, and what comes of it.
//!
//! A pack is received into files without names and checked as `git fsck --strict` would before a row
//! is written. What is refused leaves nothing behind, and neither does a client that goes away.

use std::io::{self, Read, Write};

use offshoot_core::{Cause, Error, ErrorCode, ObjectId, ObjectKind, Result};
use offshoot_git::{
    GitProtocol, PackFiles, PackLimits, PushReport, PushRequest, ReceivedPack, RefCommand,
    VisibleHistory, advertise_refs, short_branch_name,
};
use offshoot_store::{ReadTx, WorkspaceKind, WorkspaceRow};

use crate::content::objects::StoredObjects;
use crate::content::rows::{open_project, open_row_in};
use crate::link::Links;
use crate::project::clone::Repository;
use crate::workspace::export::{ProjectRefs, refs_of};

/// The option of a push that lets conflicts wait for a review.
const REVIEW_OPTION: &str = "review";
/// How many paths a person is told.
const MOST_TOLD: usize = 20;

/// A repository that somebody pushes to.
pub struct GitPush {
    links: Links,
    repository: Repository,
    /// Whether protected paths may be changed.
    over_protected: bool,
    cause: Cause,
}

/// One ref of a push that may land, and the objects that came with it.
pub(crate) struct Arrival<'a> {
    pub(crate) command: &'a RefCommand,
    pub(crate) tip: ObjectId,
    pub(crate) pack: &'a ReceivedPack,
    /// Whether conflicts wait for a review.
    pub(crate) review: bool,
    pub(crate) over_protected: bool,
    pub(crate) cause: &'a Cause,
}

/// What became of a ref: lines for the person who pushed, and why it is not where they wanted it.
#[derive(Default)]
pub(crate) struct Landed {
    pub(crate) messages: Vec<String>,
    pub(crate) refused: Option<String>,
}

impl Links {
    /// Opens a project or a workspace for a push. Whether the caller may push is asked before.
    pub(crate) fn open_push(
        &self,
        repository: &Repository,
        over_protected: bool,
        cause: &Cause,
    ) -> Result<GitPush> {
        let push = GitPush {
            links: self.clone(),
            repository: repository.clone(),
            over_protected,
            cause: cause.clone(),
        };
        push.row()?;
        Ok(push)
    }
}

/// Why a ref cannot be pushed, whatever it is to point at; none if it can.
fn refused_ref(command: &RefCommand, branch: &str) -> Option<String> {
    let short = short_branch_name(branch);
    if command.name != branch {
        return Some(format!("only the branch `{short}` can be pushed here"));
    }
    match command.new {
        Some(_) => None,
        None => Some(format!("the branch `{short}` cannot be deleted")),
    }
}

/// What a client may know: the newest commit and, in a project, the commits of all refs that it is
/// shown. A tag may be of something else.
pub(crate) fn visible_tips(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<Vec<ObjectId>> {
    let mut tips: Vec<ObjectId> = row.head.into_iter().collect();
    if row.kind == WorkspaceKind::Project {
        for other in refs_of(tx, row.key)?.others {
            let object = tx.object(&other.peeled)?;
            let commit = object.filter(|object| object.kind == ObjectKind::Commit);
            tips.extend(commit.map(|commit| commit.id));
        }
    }
    Ok(tips)
}

impl GitPush {
    fn row(&self) -> Result<WorkspaceRow> {
        self.links.store().read(|tx| match &self.repository {
            Repository::Project(id) => open_project(tx, id),
            Repository::Workspace(id) => open_row_in(tx, id),
        })
    }

    /// The branch that takes pushes, and the refs beside it.
    fn refs(&self, row: &WorkspaceRow) -> Result<ProjectRefs> {
        match &self.repository {
            Repository::Project(_) => self.links.store().read(|tx| refs_of(tx, row.key)),
            Repository::Workspace(_) => Ok(ProjectRefs::default()),
        }
    }

    /// Says what there is: the answer to `info/refs?service=git-receive-pack`.
    pub fn advertise(&self, protocol: GitProtocol, out: &mut dyn Write) -> Result<()> {
        let row = self.row()?;
        let known = self.refs(&row)?;
        let head = row.head.map(|head| (known.branch.as_str(), head));
        let others = known.others.iter();
        let others = others.map(|other| (other.name.as_str(), other.target));
        let refs: Vec<(&str, ObjectId)> = head.into_iter().chain(others).collect();
        advertise_refs(protocol, &refs, out)
    }

    /// Takes a push: commands, and the pack after them. What became of each ref goes to `out`; an
    /// error is a request that is none. It blocks as long as the client sends.
    pub fn receive(
        &self,
        input: &mut dyn Read,
        limits: &PackLimits,
        out: &mut dyn Write,
    ) -> Result<()> {
        let Some(request) = PushRequest::read(input)? else {
            return Ok(());
        };
        let report = self.take(&request, input, limits)?;
        request.write_report(&report, out)
    }

    fn take(
        &self,
        request: &PushRequest,
        input: &mut dyn Read,
        limits: &PackLimits,
    ) -> Result<PushReport> {
        let mut report = PushReport::default();
        for option in request.options.iter().filter(|one| *one != REVIEW_OPTION) {
            let told = format!("the option `{option}` is not known here and means nothing");
            report.messages.push(told);
        }
        let branch = self.refs(&self.row()?)?.branch;
        let mut wanted = None;
        for command in &request.commands {
            let again = wanted.is_some().then(|| "it is named twice".to_owned());
            let refused = refused_ref(command, &branch).or(again);
            if refused.is_none() {
                wanted = Some(command);
            }
            report.refs.push((command.name.clone(), refused));
        }
        let some_refused = report.refs.iter().any(|(_, refused)| refused.is_some());
        if request.atomic && some_refused {
            wanted = None;
            refuse_others(&mut report, "another ref of the atomic push is refused");
        }
        let Some((command, tip)) = wanted.and_then(|command| Some((command, command.new?))) else {
            // The client hears the answer when all is sent.
            if request.has_pack() {
                drain(input, limits.pack_bytes)?;
            }
            return Ok(report);
        };
        let pack = match self.receive_pack(request, input, limits) {
            Ok(pack) => pack,
            Err(error) => {
                let error = told(error)?;
                report.unpack_error = Some(error.message().to_owned());
                report.messages.extend(error.hint().map(str::to_owned));
                refuse_others(&mut report, "the pack is refused");
                return Ok(report);
            }
        };
        let arrival = Arrival {
            command,
            tip,
            pack: &pack,
            review: request.options.iter().any(|one| one == REVIEW_OPTION),
            over_protected: self.over_protected,
            cause: &self.cause,
        };
        let landed = match &self.repository {
            Repository::Project(id) => self.links.land_on_project(id, &arrival),
            Repository::Workspace(id) => self.links.land_in_workspace(id, &arrival),
        };
        let landed = match landed {
            Ok(landed) => landed,
            Err(error) => refusal(&told(shallow_hint(error, request))?),
        };
        report.messages.extend(landed.messages);
        if let Some(why) = landed.refused {
            refuse_others(&mut report, &why);
        }
        Ok(report)
    }

    fn receive_pack(
        &self,
        request: &PushRequest,
        input: &mut dyn Read,
        limits: &PackLimits,
    ) -> Result<ReceivedPack> {
        let context = &self.links.context;
        context.require_space()?;
        let files = PackFiles {
            pack: context.temp_file()?,
            built: context.temp_file()?,
        };
        let limits = PackLimits {
            object_bytes: limits.object_bytes.min(context.options.max_file_bytes),
            ..limits.clone()
        };
        let stored = StoredObjects::new(&context.store, None);
        let row = self.row()?;
        let tips = (self.links.store()).read(|tx| visible_tips(tx, &row))?;
        let mut history = VisibleHistory::new(&stored, tips);
        ReceivedPack::receive(input, files, &limits, &mut history)
            .map_err(|error| shallow_hint(error, request))
    }
}

/// Reads what nobody needs.
fn drain(input: &mut dyn Read, most: u64) -> Result<()> {
    io::copy(&mut input.take(most), &mut io::sink())
        .map(drop)
        .map_err(|cause| Error::invalid("the request broke off").with_source(cause))
}

fn refuse_others(report: &mut PushReport, why: &str) {
    for (_, refused) in &mut report.refs {
        refused.get_or_insert_with(|| why.to_owned());
    }
}

/// An error that a person may see. Our own failures go to the log, with their causes, and nobody
/// waits any more for what was cancelled.
fn told(error: Error) -> Result<Error> {
    if error.code() == ErrorCode::Timeout {
        return Err(error);
    }
    match error.code() {
        ErrorCode::Internal | ErrorCode::ReadFailed | ErrorCode::WriteFailed => {
            tracing::error!(?error, "a push failed");
            Ok(Error::internal(
                "the push failed; the log of the server says why",
            ))
        }
        _ => Ok(error),
    }
}

/// A clone without its history may lack what is missing.
fn shallow_hint(error: Error, request: &PushRequest) -> Error {
    match request.shallow.is_empty() || error.code() != ErrorCode::InvalidRequest {
        true => error,
        false => error.with_hint(
            "your clone is shallow: what its history lacks cannot be pushed; \
             `git fetch --unshallow`, then push again",
        ),
    }
}

/// What a person is told of an error.
fn refusal(error: &Error) -> Landed {
    let mut messages = Vec::new();
    let paths = error
        .details()
        .and_then(|details| details["conflicts"].as_array());
    for path in paths.into_iter().flatten().take(MOST_TOLD) {
        let path = path.as_str().unwrap_or_default();
        messages.push(format!("conflict: {path}"));
    }
    messages.extend(error.hint().map(|hint| format!("hint: {hint}")));
    Landed {
        messages,
        refused: Some(error.message().to_owned()),
    }
}
