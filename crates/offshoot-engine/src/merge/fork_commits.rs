//! What an agent committed with git in its fork: its commits become parents of the merge.
//!
//! The `.git` of a fork is the agent's, so it is read as a push of a stranger would be: by our own
//! reader, below the directory alone, within limits, every object hashed and checked. Nothing of it
//! runs, and nothing that is wrong with it fails the merge: commits that cannot be taken are named
//! in the receipt. They are history and no snapshots: no fork begins with one of them.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, ObjectId, ObjectKind, RelPath, Result, escape_bytes};
use offshoot_fs::{FileKind, SafeDir};
use offshoot_git::{
    CommitGraph, GitFiles, MAX_TAG_DEPTH, NewCommits, ObjectReader, UntrustedRepository,
    short_branch_name, tag_target,
};
use offshoot_store::{Bulk, ForkRow, ReadTx, RefRow, WorkspaceKey, WorkspaceRow, WriteTx};

use crate::content::objects::StoredObjects;
use crate::directory::git_layer::git_path;
use crate::directory::git_move::BEFORE_UPDATE;
use crate::merge::Merges;
use crate::merge::complete::{BroughtCommits, LeftOutCommit, receipt};
use crate::project::import_git::RepositoryReader;

/// The most commits that one merge brings.
const MOST_COMMITS: usize = 5_000;
/// The most objects that one merge brings as history.
const MOST_OBJECTS: usize = 100_000;
/// The largest object that comes along as history.
const LARGEST_OBJECT: u64 = 64 << 20;
/// How many bytes are read of the `.git` of a fork before it is given up. What comes along is read
/// twice: when it is looked at, and when it is stored.
const MOST_BYTES: u64 = 1 << 30;
/// How long it is looked at and stored: the merges of others wait.
const LONGEST: Duration = Duration::from_secs(10);
/// The most commits that become parents of one merge.
const MOST_TIPS: usize = 16;
/// The most left out commits that a receipt names.
const MOST_NAMED: usize = 20;
/// The most branches and tags that are looked at for commits that do not come along.
const MOST_REFS: usize = 500;
/// How much of the name of a branch a receipt tells.
const LONGEST_NAME: usize = 100;

/// What an agent committed in its fork.
#[derive(Default)]
pub(crate) struct ForkCommits {
    pub(crate) brought: BroughtCommits,
    /// Those of the tips that earlier merges of the fork did not bring.
    pub(crate) new_tips: Vec<ObjectId>,
    /// All that the new commits reach and the project does not have; durable, and named by no row.
    bulk: Option<Bulk>,
}

impl ForkCommits {
    /// Names what the commits hold.
    pub(crate) fn insert(&self, tx: &mut dyn WriteTx) -> Result<()> {
        self.bulk.as_ref().map_or(Ok(()), |bulk| bulk.insert(tx))
    }
}

/// The files of the `.git` of a workspace. Links are not followed, and what is no regular file is
/// not there.
struct ForkFiles(SafeDir);

impl GitFiles for ForkFiles {
    fn open(&self, path: &str) -> Result<Option<File>> {
        let Ok(path) = RelPath::parse(git_path(path).as_bytes()) else {
            return Ok(None);
        };
        // The last name may be a link as well, which opening would follow.
        match self.0.stat(&path) {
            Ok(Some(stat)) if stat.kind == FileKind::File => {}
            _ => return Ok(None),
        }
        Ok(self.0.open_file(&path).ok().map(|(file, _)| file))
    }

    fn names(&self, dir: &str) -> Result<Vec<String>> {
        let names = self.0.names(&git_path(dir)).unwrap_or_default();
        let text = names.into_iter().map(|(name, _)| String::from_utf8(name));
        Ok(text.flatten().collect())
    }
}

/// What an agent has: its own objects, and those that its fork began with.
struct OwnObjects<'a> {
    fork: &'a UntrustedRepository<'a>,
    layer: Option<&'a UntrustedRepository<'a>>,
}

impl ObjectReader for OwnObjects<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        match (self.fork.read(id)?, self.layer) {
            (None, Some(layer)) => layer.read(id),
            (found, _) => Ok(found),
        }
    }
}

impl Merges {
    /// What an agent committed since its fork began or was merged last. With `store` it is made
    /// durable. The caller holds the exclusive lock.
    pub(crate) fn fork_commits(
        &self,
        row: &WorkspaceRow,
        fork: &ForkRow,
        store: bool,
    ) -> Result<ForkCommits> {
        if !fork.git || !row.materialized {
            return Ok(ForkCommits::default());
        }
        match self.read_fork_commits(row, fork, store) {
            Ok(commits) => Ok(commits),
            // These end the merge as well.
            Err(error)
                if matches!(
                    error.code(),
                    ErrorCode::Timeout | ErrorCode::StoreUnavailable | ErrorCode::QuotaExceeded
                ) =>
            {
                Err(error)
            }
            Err(error) => Ok(ForkCommits {
                brought: BroughtCommits {
                    left_out: vec![LeftOutCommit {
                        id: None,
                        reason: error.message().to_owned(),
                    }],
                    ..BroughtCommits::default()
                },
                ..ForkCommits::default()
            }),
        }
    }

    fn read_fork_commits(
        &self,
        row: &WorkspaceRow,
        fork: &ForkRow,
        store: bool,
    ) -> Result<ForkCommits> {
        let until = Instant::now() + LONGEST;
        let files = ForkFiles(self.directories.dir_of(row)?);
        let layer_files = match self.directories.git_layer_of(fork)? {
            Some(place) => Some(ForkFiles(SafeDir::open(place)?.following_no_links())),
            None => None,
        };
        let layer = match &layer_files {
            Some(files) => Some(open_layer(files)?),
            None => None,
        };
        let shared: Vec<String> = match &layer_files {
            Some(files) => files.names("objects/pack")?,
            None => Vec::new(),
        };
        let skip = |name: &str| shared.iter().any(|other| other == name);
        let repository = UntrustedRepository::open(&files, &skip, LARGEST_OBJECT, MOST_BYTES)?;
        let mut tips: Vec<ObjectId> = repository.head()?.into_iter().collect();
        tips.extend(repository.branches(BEFORE_UPDATE, MOST_TIPS)?);
        tips.dedup();
        let before = self.store().read(|tx| tips_before(tx, row.key))?;
        let own = OwnObjects {
            fork: &repository,
            layer: layer.as_ref(),
        };
        let is_known = |id: &ObjectId| {
            if before.contains(id) || layer.as_ref().is_some_and(|one| has(one, id)) {
                return Ok(true);
            }
            let known = self.store().read(|tx| tx.snapshot(fork.project, id))?;
            Ok(known.is_some())
        };
        let stored = StoredObjects::new(self.store(), None);
        let elsewhere = Elsewhere {
            own: &own,
            is_known: &is_known,
            stored: &stored,
            before: &before,
            until,
        };
        let refs = repository.branches_and_tags(MOST_REFS)?;
        if tips
            .iter()
            .all(|tip| *tip == fork.base || before.contains(tip))
        {
            let left = elsewhere.left_behind(refs, &HashSet::new())?;
            return Ok(ForkCommits {
                brought: BroughtCommits {
                    left_out: left_out(left),
                    tips: before,
                    ..BroughtCommits::default()
                },
                ..ForkCommits::default()
            });
        }
        let mut taken = NewCommits {
            own: &own,
            known: &stored,
            is_known: &is_known,
            most_commits: MOST_COMMITS,
            most_objects: MOST_OBJECTS,
            until,
        }
        .take(&tips)?;
        if taken.tips.len() > MOST_TIPS {
            return Err(Error::invalid(format!(
                "there are more than {MOST_TIPS} newest commits"
            )));
        }
        let told = taken.refused.iter().map(|(id, _)| *id);
        let told = told.chain(taken.commits.iter().copied()).collect();
        taken.refused.extend(elsewhere.left_behind(refs, &told)?);
        let mut commits = ForkCommits {
            new_tips: taken.tips.clone(),
            ..ForkCommits::default()
        };
        commits.brought = BroughtCommits {
            count: taken.commits.len(),
            tips: match taken.tips.is_empty() {
                true => before.clone(),
                false => taken.tips,
            },
            left_out: left_out(taken.refused),
        };
        if store && !commits.new_tips.is_empty() {
            let bulk = self.store().bulk();
            let mut progress = |_| {};
            let mut reading = RepositoryReader::new(&self.projects, &own, &bulk, &mut progress);
            for id in &taken.objects {
                if Instant::now() > until {
                    return Err(Error::invalid("it takes too long to store all commits"));
                }
                reading.objects(std::slice::from_ref(id))?;
            }
            drop(reading);
            commits.bulk = Some(bulk.finish()?);
        }
        Ok(commits)
    }
}

/// What it takes to find commits that do not come along because they are not checked out.
struct Elsewhere<'a> {
    own: &'a dyn ObjectReader,
    is_known: &'a dyn Fn(&ObjectId) -> Result<bool>,
    stored: &'a dyn ObjectReader,
    /// What earlier merges brought.
    before: &'a [ObjectId],
    until: Instant,
}

impl Elsewhere<'_> {
    /// The newest commits of branches and tags that go with the fork, without those of which the
    /// receipt tells anyway.
    fn left_behind(
        &self,
        refs: BTreeMap<String, ObjectId>,
        told: &HashSet<ObjectId>,
    ) -> Result<Vec<(ObjectId, String)>> {
        let mut found: Vec<(ObjectId, String)> = Vec::new();
        let mut graph = CommitGraph::new(self.stored);
        for (name, id) in refs {
            if Instant::now() > self.until || found.len() > MOST_NAMED {
                break;
            }
            // What is known need not be read, and what cannot be read is no commit.
            if told.contains(&id) || (self.is_known)(&id)? {
                continue;
            }
            let Some(commit) = self.commit_of(id) else {
                continue;
            };
            let is_told = told.contains(&commit) || found.iter().any(|(id, _)| *id == commit);
            if is_told
                || (self.is_known)(&commit)?
                || !graph.reachable(self.before, &[commit])?.is_empty()
            {
                continue;
            }
            let (what, short) = match name.strip_prefix("refs/tags/") {
                Some(tag) => ("with the tag", tag),
                None => ("on the branch", short_branch_name(&name)),
            };
            let short: String = short.chars().take(LONGEST_NAME).collect();
            let short = escape_bytes(short.as_bytes());
            found.push((
                commit,
                format!("{what} `{short}`: only the checked-out branch comes along"),
            ));
        }
        Ok(found)
    }

    /// The commit that a branch or a tag is of.
    fn commit_of(&self, mut id: ObjectId) -> Option<ObjectId> {
        for _ in 0..MAX_TAG_DEPTH {
            match self.own.read(&id).ok()?? {
                (ObjectKind::Commit, _) => return Some(id),
                (ObjectKind::Tag, bytes) => id = tag_target(&bytes).ok()?,
                _ => return None,
            }
        }
        None
    }
}

fn open_layer(files: &ForkFiles) -> Result<UntrustedRepository<'_>> {
    UntrustedRepository::open(files, &|_| false, LARGEST_OBJECT, MOST_BYTES)
}

/// Whether the layer that a fork began with has an object: then it is part of the project's history.
fn has(layer: &UntrustedRepository<'_>, id: &ObjectId) -> bool {
    layer.has_packed(id).unwrap_or(false)
}

/// The newest commits that merges of a workspace brought, or that wait with one.
fn tips_before(tx: &dyn ReadTx, workspace: WorkspaceKey) -> Result<Vec<ObjectId>> {
    let last = tx.last_merge(workspace)?;
    let receipt = last.as_ref().map(receipt).transpose()?;
    // What waits is brought again: the merge that waits may never land.
    let landed = receipt.filter(|receipt| !receipt.waits_whole());
    Ok(landed
        .map(|receipt| receipt.commits.tips)
        .unwrap_or_default())
}

fn left_out(mut refused: Vec<(ObjectId, String)>) -> Vec<LeftOutCommit> {
    let more = refused.len().saturating_sub(MOST_NAMED);
    refused.truncate(MOST_NAMED);
    let named = refused.into_iter().map(|(id, reason)| LeftOutCommit {
        id: Some(id),
        reason,
    });
    let mut all: Vec<LeftOutCommit> = named.collect();
    if more > 0 {
        all.push(LeftOutCommit {
            id: None,
            reason: format!("{more} more commits were left out"),
        });
    }
    all
}

/// The names under which commits of a merge that waits are kept, so that nothing collects them.
fn kept_names(workspace: WorkspaceKey) -> String {
    format!("refs/offshoot/waiting/{}/", workspace.0)
}

/// Keeps commits until their merge lands, in the place of those that were kept before.
pub(crate) fn keep_for_landing(
    tx: &mut dyn WriteTx,
    fork: &ForkRow,
    commits: &[ObjectId],
) -> Result<()> {
    if !fork.git {
        return Ok(());
    }
    let names = kept_names(fork.workspace);
    tx.remove_refs(fork.project, &names)?;
    for (number, commit) in commits.iter().enumerate() {
        tx.put_ref(&RefRow {
            project: fork.project,
            name: format!("{names}{number}"),
            target: *commit,
            peeled: *commit,
        })?;
    }
    Ok(())
}

/// The commits that wait for the merge of a workspace to land.
pub(crate) fn kept_for_landing(
    tx: &dyn ReadTx,
    project: WorkspaceKey,
    workspace: WorkspaceKey,
) -> Result<Vec<ObjectId>> {
    let rows = tx.refs(project, &kept_names(workspace))?;
    Ok(rows.into_iter().map(|row| row.target).collect())
}

/// Forgets the commits that waited: they have landed.
pub(crate) fn forget_kept(
    tx: &mut dyn WriteTx,
    project: WorkspaceKey,
    workspace: WorkspaceKey,
) -> Result<()> {
    tx.remove_refs(project, &kept_names(workspace)).map(drop)
}
