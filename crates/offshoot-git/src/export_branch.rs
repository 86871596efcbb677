//! Writing a history into a branch of a repository of the user.
//!
//! Objects are added and one ref moves, forward only: the repository loses nothing.

use std::collections::HashSet;
use std::path::Path;

use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::export::{
    ExportProgress, ExportReport, add_objects, existing_objects, full_branch_name,
    short_branch_name, write_ref_if,
};
use crate::fetch::{CommitGraph, FetchRequest};
use crate::history::reachable_objects_shallow;
use crate::import::GitRepository;
use crate::object::{Kind, ObjectReader};

/// Adds everything that `head` reaches to the repository at `target`, and makes or moves a branch.
///
/// The branch moves forward only: if it has a commit that `head` does not reach, if it is checked
/// out somewhere, or if another program moves it meanwhile, nothing moves and the error says so.
/// Objects are complete and durable before the branch moves; neither hooks nor settings of the
/// repository are used. The cost follows what none of its branches has yet.
///
/// `shallow` finds the commits whose parents are missing, which must be in the repository already;
/// it is asked only if there are any.
pub fn export_branch(
    target: &Path,
    reader: &dyn ObjectReader,
    branch: &str,
    head: ObjectId,
    shallow: &dyn Fn() -> Result<HashSet<ObjectId>>,
    progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportReport> {
    let name = full_branch_name(branch)?;
    let repository = GitRepository::open(target)?;
    let place = repository.common_dir();
    refuse_checked_out(&repository, &name)?;
    let mut graph = CommitGraph::new(reader);
    let old = check_fast_forward(&repository, &name, &mut graph, head)?;
    let ids = missing_objects(&repository, reader, &mut graph, head, shallow)?;
    let report = add_objects(place, reader, &ids, progress)?;
    if old != Some(head) {
        write_ref_if(place, &name, &format!("{head}\n"), &|| {
            refuse_checked_out(&repository, &name)?;
            let now = repository.refs()?.get(&name).copied();
            if now == old {
                return Ok(());
            }
            Err(Error::new(
                ErrorCode::PreconditionFailed,
                format!("the branch `{branch}` was moved by another program"),
            )
            .with_hint("try again"))
        })?;
    }
    Ok(report)
}

/// What `head` reaches and the repository does not have.
fn missing_objects(
    repository: &GitRepository,
    reader: &dyn ObjectReader,
    graph: &mut CommitGraph<'_>,
    head: ObjectId,
    shallow: &dyn Fn() -> Result<HashSet<ObjectId>>,
) -> Result<Vec<ObjectId>> {
    // A ref stands for all that it reaches; an object that no ref reaches may lack what it names.
    let mut common: Vec<ObjectId> = Vec::new();
    for id in repository.refs()?.into_values() {
        if matches!(reader.read(&id)?, Some((Kind::Commit, _))) {
            common.push(id);
        }
    }
    let plan = graph.plan(&FetchRequest {
        wants: vec![head],
        common,
        shallow: repository.shallow()?,
        ..FetchRequest::default()
    })?;
    if plan.shallow.is_empty() {
        return Ok(plan.objects);
    }
    let shallow = shallow()?;
    let existing = existing_objects(repository.common_dir())?;
    if !shallow.is_subset(&existing) {
        return Err(Error::new(
            ErrorCode::Unsupported,
            "the history is cut off and the repository does not have its beginning",
        )
        .with_hint("export into a new directory, without a branch"));
    }
    let mut ids = reachable_objects_shallow(reader, &[head], &shallow, &mut HashSet::new())?;
    ids.retain(|id| !existing.contains(id));
    Ok(ids)
}

/// Refuses a branch that is checked out: its work tree would seem to undo the new commits.
fn refuse_checked_out(repository: &GitRepository, name: &str) -> Result<()> {
    if !repository.checked_out()?.contains(name) {
        return Ok(());
    }
    let branch = short_branch_name(name);
    Err(Error::new(
        ErrorCode::AlreadyExists,
        format!("the branch `{branch}` is checked out in the repository"),
    )
    .with_hint("name another branch and merge it there with `git merge`"))
}

/// Where the branch is now; an error unless it can move to `head`.
fn check_fast_forward(
    repository: &GitRepository,
    name: &str,
    graph: &mut CommitGraph<'_>,
    head: ObjectId,
) -> Result<Option<ObjectId>> {
    let refs = repository.refs()?;
    let in_the_way = |other: &&String| {
        let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        below(other, name) || below(name, other)
    };
    if let Some(other) = refs.keys().find(in_the_way) {
        return Err(Error::new(
            ErrorCode::AlreadyExists,
            format!("`{name}` cannot be written: the repository has `{other}`"),
        )
        .with_hint("choose another branch"));
    }
    let Some(old) = refs.get(name).copied() else {
        return Ok(None);
    };
    if graph.is_ancestor(old, head)? {
        return Ok(Some(old));
    }
    let branch = short_branch_name(name);
    Err(Error::new(
        ErrorCode::PreconditionFailed,
        format!("the branch `{branch}` has commits that are not in what is exported"),
    )
    .with_hint("nothing was changed; name another branch and merge the two with git"))
}
