//! Writing a history into a branch of a repository of the user.
//!
//! Objects are added and one ref moves, forward only: the repository loses nothing.

use std::collections::HashSet;
use std::path::Path;

use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::export::{
    ExportProgress, ExportReport, add_objects, check_ref_name, existing_objects, write_ref_if,
};
use crate::history::{reachable_objects_shallow, read_commit};
use crate::import::GitRepository;
use crate::object::ObjectReader;

/// Adds everything that `head` reaches to the repository at `target`, and makes or moves a branch.
///
/// The branch moves forward only: if it has a commit that `head` does not reach, if it is checked
/// out somewhere, or if another program moves it meanwhile, nothing moves and the error says so.
/// The parents of commits in `shallow` are missing; such commits must be in the repository already.
pub fn export_branch(
    target: &Path,
    reader: &dyn ObjectReader,
    branch: &str,
    head: ObjectId,
    shallow: &HashSet<ObjectId>,
    progress: &mut dyn FnMut(ExportProgress),
) -> Result<ExportReport> {
    let name = match branch.starts_with("refs/heads/") {
        true => branch.to_owned(),
        false => format!("refs/heads/{branch}"),
    };
    check_ref_name(&name)?;
    let repository = GitRepository::open(target)?;
    let place = repository.common_dir();
    refuse_checked_out(&repository, &name)?;
    let old = check_fast_forward(&repository, &name, reader, head, shallow)?;
    let existing = existing_objects(place)?;
    if !shallow.is_subset(&existing) {
        return Err(Error::new(
            ErrorCode::Unsupported,
            "the history is cut off and the repository does not have its beginning",
        )
        .with_hint("export into a new directory, without a branch"));
    }
    // Not pruned at existing objects: an unreachable one may lack what it refers to.
    let mut ids = reachable_objects_shallow(reader, &[head], shallow, &mut HashSet::new())?;
    ids.retain(|id| !existing.contains(id));
    let report = add_objects(place, reader, &ids, progress)?;
    if old != Some(head) {
        write_ref_if(place, &name, &format!("{head}\n"), &|| {
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

/// Refuses a branch that is checked out: its work tree would seem to undo the new commits.
fn refuse_checked_out(repository: &GitRepository, name: &str) -> Result<()> {
    if !repository.checked_out()?.contains(name) {
        return Ok(());
    }
    let branch = name.trim_start_matches("refs/heads/");
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
    reader: &dyn ObjectReader,
    head: ObjectId,
    shallow: &HashSet<ObjectId>,
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
    let mut next = vec![head];
    let mut seen = HashSet::new();
    while let Some(id) = next.pop() {
        if id == old {
            return Ok(Some(old));
        }
        if seen.insert(id) && !shallow.contains(&id) {
            next.extend(read_commit(reader, &id)?.parents);
        }
    }
    let branch = name.trim_start_matches("refs/heads/");
    Err(Error::new(
        ErrorCode::PreconditionFailed,
        format!("the branch `{branch}` has commits that are not in what is exported"),
    )
    .with_hint("nothing was changed; name another branch and merge the two with git"))
}
