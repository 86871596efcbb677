//! Projects that are made from a branch of a repository and stay linked to it.

use std::path::{Path, PathBuf};

use offshoot_core::{Cause, Error, ErrorCode, ProjectId, Result};
use offshoot_git::{GitRepository, Head, full_branch_name, short_branch_name};

use crate::formats::Link;
use crate::link::Links;
use crate::link::push::OWN_BRANCH;
use crate::project::import::{ImportProgress, Imported};
use crate::project::import_refs::GitSource;
use crate::project::link::put_link;

/// What a new project is linked to.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The repository on this machine, or what was fetched of one elsewhere.
    pub place: PathBuf,
    /// The address of the repository, if it is elsewhere.
    pub address: Option<String>,
    /// The branch to follow; none is the one that is checked out.
    pub branch: Option<String>,
    /// Whether forks pull first and merges push.
    pub auto: bool,
}

impl Links {
    /// Creates a project with the history of a branch, and links it to the repository.
    pub fn create_linked(
        &self,
        id: &ProjectId,
        options: &LinkOptions,
        progress: &mut dyn FnMut(ImportProgress),
        cause: &Cause,
    ) -> Result<Imported> {
        self.projects.refuse_taken_project(id)?;
        let place = match options.address {
            Some(_) => options.place.clone(),
            None => self.projects.source_place(&options.place)?,
        };
        let repository = GitRepository::open(&place)?;
        let branch = match &options.branch {
            Some(branch) => short_branch_name(branch).to_owned(),
            None => checked_out_branch(&repository)?,
        };
        let tip = repository
            .branch(&branch)?
            .ok_or_else(|| no_branch(&branch))?;
        let link = Link {
            repository: match &options.address {
                Some(address) => address.clone(),
                None => text_of(&place)?,
            },
            branch,
            auto: options.auto,
            taken: tip,
            pulled_at: Some(self.context.now().0),
            pushed: None,
            pending: None,
            purged: false,
        };
        let also = |tx: &mut dyn offshoot_store::WriteTx, row: &offshoot_store::WorkspaceRow| {
            put_link(tx, row.key, &link)
        };
        let from = GitSource {
            repository: &repository,
            place: options.address.is_none().then_some(place.as_path()),
            head: tip,
            branch: Some(full_branch_name(&link.branch)?),
            // What is pushed there is what the project has.
            without: Some(full_branch_name(OWN_BRANCH)?),
        };
        self.projects
            .import_commit(id, from, progress, Some(&also), cause)
    }
}

fn checked_out_branch(repository: &GitRepository) -> Result<String> {
    match repository.head()? {
        Head::Branch(name) => Ok(short_branch_name(&name).to_owned()),
        Head::Detached(_) => Err(Error::invalid("the repository is on no branch")
            .with_hint("say which one to follow: `--branch NAME`")),
    }
}

pub(crate) fn no_branch(branch: &str) -> Error {
    Error::new(
        ErrorCode::FileNotFound,
        format!("the repository has no commit on the branch `{branch}`"),
    )
    .with_hint("`git branch` in it shows those there are")
}

fn text_of(place: &Path) -> Result<String> {
    let text = place.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Error::new(
            ErrorCode::Unsupported,
            "the path of the repository is no text, so it cannot be remembered",
        )
        .with_hint("import it without a link, or rename the directory")
    })
}
