//! The `.git` of a fork, in which git commands of an agent work on the history of its project.
//!
//! For each base that was forked with a `.git` there is one layer with a complete `.git`. Its packs are
//! hard links to those of such layers of other bases. Its index has the `stat` data of the files in the
//! layers below, so that `git status` reads no file. A fork adds three small files: `HEAD`, its branch,
//! and the config that says who commits. The layer is the topmost of its stack and not part of the
//! state that the stack shows: nothing below `.git` is a change, is in a snapshot, or is merged.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use offshoot_core::{Error, ErrorCode, ObjectId, ObjectKind, RelPath, Result};
use offshoot_fs::{
    ForkDirs, LayerStack, LayerState, OWN_LAYER, Provider, SafeDir, Stat, Sync, Walk, freeze_layer,
    layer_state,
};
use offshoot_git::{
    Commit, IndexStat, ObjectReader, fork_config, read_commit, write_fork_git, write_index,
};
use offshoot_store::{
    Durability, ForkRow, LayerRow, ReadTx, WorkspaceKey, WorkspaceKind, WorkspaceRow,
};

use crate::content::credit::Author;
use crate::content::objects::StoredObjects;
use crate::content::rows::{agent_of, fork_row};
use crate::content::state::State;
use crate::directory::Directories;
use crate::directory::layers::{Stack, state_of_layer};

/// The level of a `.git` layer, which no compaction has.
const GIT_LEVEL: i64 = -1;
/// The file that marks a `.git` that Offshoot made, with the base that it was made for.
pub(crate) const GIT_MARKER: &str = "offshoot";

/// Whether a layer holds the `.git` of forks.
pub(crate) fn is_git_layer(row: &LayerRow) -> bool {
    row.level == GIT_LEVEL
}

/// The commit that a `.git` layer was made for, which is part of its name.
fn base_of(row: &LayerRow) -> Result<ObjectId> {
    let stem = row.name.strip_suffix(OWN_LAYER).unwrap_or_default();
    let commit = stem.trim_end_matches('.').rsplit('-').next();
    commit
        .and_then(|commit| commit.parse().ok())
        .ok_or_else(|| Error::internal("the name of a layer cannot be read"))
}

impl Directories {
    /// The layers of a fork that begins with a state, including its `.git` layer if it has one, and
    /// what the setup of the project made for that state.
    pub(crate) fn stack_for_fork(&self, fork: &ForkRow, state: State) -> Result<Stack> {
        let stack = self.stack_with_git(fork, state)?;
        self.with_setup(stack, fork, state)
    }

    fn stack_with_git(&self, fork: &ForkRow, state: State) -> Result<Stack> {
        loop {
            let stack = self.stack_for(fork.project, state, Some(fork.base))?;
            if !fork.git {
                return Ok(stack);
            }
            if let Some(found) = self.find_git_stack(&stack, fork, false)? {
                return Ok(found);
            }
            let _lock = self.layers_lock(fork.project)?;
            // The lock prevents a collection from here on, but there may have been one before.
            if self.is_gone(&stack)? {
                continue;
            }
            if let Some(found) = self.find_git_stack(&stack, fork, true)? {
                return Ok(found);
            }
            let top = self.build_git_layer(fork.project, &stack, fork.base)?;
            return self
                .open_stack(top, true)?
                .ok_or_else(|| Error::internal("a layer vanished while it was made"));
        }
    }

    fn find_git_stack(&self, on: &Stack, fork: &ForkRow, repair: bool) -> Result<Option<Stack>> {
        let rows = (self.store()).read(|tx| tx.layers_of_level(fork.project, GIT_LEVEL))?;
        for row in rows {
            if row.below == Some(on.top)
                && base_of(&row)? == fork.base
                && let Some(stack) = self.open_stack(row.key, repair)?
            {
                return Ok(Some(stack));
            }
        }
        Ok(None)
    }

    /// Writes the layer and its row. Under the lock.
    fn build_git_layer(&self, project: WorkspaceKey, on: &Stack, base: ObjectId) -> Result<i64> {
        let unique = uuid::Uuid::now_v7().simple();
        let mut row = LayerRow {
            key: 0,
            name: format!("{unique}-{base}.{OWN_LAYER}"),
            project,
            below: Some(on.top),
            depth: on.rows.len() as i64 + 1,
            level: GIT_LEVEL,
            tree: on.state.tree,
            sidecar: on.state.sidecar,
            entries: 0,
            bytes: 0,
            made_at: self.context.now(),
            synced: false,
        };
        row.bytes = self.write_git_layer(&row, &on.layers)?;
        self.store()
            .write(Durability::Relaxed, |tx| tx.add_layer(&row))
    }

    /// Writes a layer again that an unclean stop may have torn. Those below it are whole.
    pub(crate) fn write_git_layer_again(&self, row: &LayerRow, below: &[LayerRow]) -> Result<()> {
        let layers: Vec<PathBuf> = below.iter().map(|row| self.layer_path(row)).collect();
        self.write_git_layer(row, &layers).map(drop)
    }

    /// Returns how many bytes are new.
    fn write_git_layer(&self, row: &LayerRow, below: &[PathBuf]) -> Result<i64> {
        let place = self.layer_path(row);
        let mut building = place.clone().into_os_string();
        building.push(format!(".building-{}-git", std::process::id()));
        let building = PathBuf::from(building);
        let written = self
            .fill_git_layer(row, below, &building)
            .and_then(|bytes| freeze_layer(&building, &place).map(|()| bytes));
        if written.is_err() {
            let _ = fs::remove_dir_all(&building);
        }
        written
    }

    fn fill_git_layer(&self, row: &LayerRow, below: &[PathBuf], building: &Path) -> Result<i64> {
        let base = base_of(row)?;
        let objects = StoredObjects::new(self.store(), None);
        let _ = fs::remove_dir_all(building);
        fs::create_dir(building).map_err(cannot_write)?;
        // The root of a fork has the permission bits of its topmost layer.
        let top = below.first().ok_or_else(|| Error::internal("no layer"))?;
        let root = fs::metadata(top).map_err(cannot_write)?;
        fs::set_permissions(building, root.permissions()).map_err(cannot_write)?;
        let git = building.join(".git");
        let earlier = self.earlier_git(row)?;
        let cut = match &earlier {
            // Newer snapshots have all their parents, so the history is cut off at the same commits.
            Some(earlier) => read_shallow(&earlier.join("shallow")),
            None => commits_without_parents(&objects, &[base])?,
        };
        let packed = write_fork_git(&git, earlier.as_deref(), &objects, base, &cut)?;
        fs::write(git.join(GIT_MARKER), format!("{base}\n")).map_err(cannot_write)?;
        let stack = LayerStack::open(below)?;
        let mut stats = HashMap::new();
        for entry in stack.flatten() {
            let entry = entry?;
            if !entry.stat.is_dir() {
                stats.insert(entry.path, entry.stat);
            }
        }
        let index = self.index_of(base, state_of_layer(row), top, &stats)?;
        fs::write(git.join("index"), &index).map_err(cannot_write)?;
        Ok(packed as i64 + index.len() as i64)
    }

    /// The newest other `.git` of the project, to share its packs.
    fn earlier_git(&self, row: &LayerRow) -> Result<Option<PathBuf>> {
        let rows = (self.store()).read(|tx| tx.layers_of_level(row.project, GIT_LEVEL))?;
        for other in rows {
            let place = self.layer_path(&other);
            if other.name != row.name && layer_state(&place)? == LayerState::Complete {
                return Ok(Some(place.join(".git")));
            }
        }
        Ok(None)
    }

    /// The git index of a base with the `stat` data of its files. If the files are those of another
    /// state, as in a fork of a fork, only files that are equal in both get `stat` data.
    fn index_of(
        &self,
        base: ObjectId,
        shown: State,
        owned_like: &Path,
        stats: &HashMap<RelPath, Stat>,
    ) -> Result<Vec<u8>> {
        use std::os::unix::fs::MetadataExt;
        let owner = fs::metadata(owned_like).map_err(cannot_write)?;
        let objects = StoredObjects::new(self.store(), None);
        let tree = read_commit(&objects, &base)?.tree;
        let mut differs = HashSet::new();
        if shown.tree != tree {
            let sidecar = shown.sidecar;
            let changes = shown.diff(&objects, &State { tree, sidecar }, &RelPath::root())?;
            differs.extend(changes.into_iter().map(|change| change.path));
        }
        write_index(&objects, tree, &mut |path| {
            let stat = stats.get(path).filter(|_| !differs.contains(path));
            Ok(stat.map(|stat| IndexStat {
                ctime_ns: stat.ctime_ns,
                mtime_ns: stat.mtime_ns,
                dev: stat.dev,
                ino: stat.ino,
                uid: owner.uid(),
                gid: owner.gid(),
                size: stat.size,
            }))
        })
    }

    /// Writes the files that the `.git` of a new fork does not share; nothing for a fork without one.
    pub(crate) fn write_new_fork_git(
        &self,
        provider: &dyn Provider,
        stack: &Stack,
        dirs: &ForkDirs,
        row: &WorkspaceRow,
        fork: &ForkRow,
    ) -> Result<()> {
        if !fork.git {
            return Ok(());
        }
        self.write_index_of_copy(provider, stack, dirs, fork.base)?;
        let dir = self.open_dir(&dirs.target)?.following_no_links();
        write_head_and_config(&dir, row, fork, &self.author_of(row, fork)?)
    }

    /// The author of what is committed in a fork.
    pub(crate) fn author_of(&self, row: &WorkspaceRow, fork: &ForkRow) -> Result<Author> {
        let agent = agent_of(row, fork);
        self.store()
            .read(|tx| Author::of_agent(tx, fork.project, &agent))
    }

    /// Writes the git index of a copy, whose files have other `stat` data than those of the layers.
    pub(crate) fn write_index_of_copy(
        &self,
        provider: &dyn Provider,
        stack: &Stack,
        dirs: &ForkDirs,
        base: ObjectId,
    ) -> Result<()> {
        if provider.capabilities().mounts {
            return Ok(());
        }
        let dir = self.open_dir(&dirs.target)?.following_no_links();
        let mut stats = HashMap::new();
        dir.walk(&RelPath::root(), |path, stat| {
            if path.as_bytes() == b".git" {
                return Ok(Walk::Skip);
            }
            if !stat.is_dir() {
                stats.insert(path.clone(), *stat);
            }
            Ok(Walk::Enter)
        })?;
        let index = self.index_of(base, stack.state, &dirs.target, &stats)?;
        dir.write(&git_path("index"), &index, 0o644, Sync::None)
            .map(drop)
    }

    /// Whether a workspace is a fork with a `.git`.
    pub(crate) fn has_git(&self, row: &WorkspaceRow) -> Result<bool> {
        self.store().read(|tx| has_git_in(tx, row))
    }

    /// Refuses a path below the `.git` of a fork, which only git changes.
    pub(crate) fn refuse_own_git(&self, row: &WorkspaceRow, path: &RelPath) -> Result<()> {
        if !may_be_own_git(row, path) {
            return Ok(());
        }
        self.store().read(|tx| refuse_own_git(tx, row, path))
    }
}

/// Refuses a path below the `.git` of a fork, which only git changes.
pub(crate) fn refuse_own_git(tx: &dyn ReadTx, row: &WorkspaceRow, path: &RelPath) -> Result<()> {
    if !may_be_own_git(row, path) || !has_git_in(tx, row)? {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PermissionDenied,
        "`.git` of this workspace belongs to git",
    )
    .with_hint("change it by git commands in the workspace's directory"))
}

fn may_be_own_git(row: &WorkspaceRow, path: &RelPath) -> bool {
    row.kind == WorkspaceKind::Fork && path.parts().next() == Some(b".git")
}

fn has_git_in(tx: &dyn ReadTx, row: &WorkspaceRow) -> Result<bool> {
    Ok(row.kind == WorkspaceKind::Fork && fork_row(tx, row)?.git)
}

/// Writes `HEAD`, its branch, and the config that says who commits.
pub(crate) fn write_head_and_config(
    dir: &SafeDir,
    row: &WorkspaceRow,
    fork: &ForkRow,
    author: &Author,
) -> Result<()> {
    let branch = branch_of(row.id.as_str());
    let who = (author.name.as_str(), author.email.as_str());
    let put = |path: RelPath, text: String| {
        dir.write(&path, text.as_bytes(), 0o644, Sync::None)
            .map(drop)
    };
    put(git_path("config"), fork_config(Some(who)))?;
    put(
        git_path(&format!("refs/heads/{branch}")),
        format!("{}\n", fork.base),
    )?;
    put(git_path("HEAD"), format!("ref: refs/heads/{branch}\n"))
}

/// A path below `.git`.
pub(crate) fn git_path(name: &str) -> RelPath {
    RelPath::from_normal(format!(".git/{name}"))
}

/// The branch name of a workspace. Ids may have characters that branch names may not.
fn branch_of(id: &str) -> String {
    let mut name = id.replace('~', "-");
    while name.contains("..") {
        name = name.replace("..", ".");
    }
    if name.ends_with('.') || name.ends_with(".lock") {
        name.push('-');
    }
    if name == "HEAD" {
        "head".to_owned()
    } else {
        name
    }
}

fn read_shallow(path: &Path) -> HashSet<ObjectId> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

pub(crate) fn cannot_write(cause: std::io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        "the `.git` of the fork could not be written",
    )
    .with_hint("check the space on the disk and try again")
    .with_source(cause)
}

/// Commits with parents that are not in the store, because they came from a shallow repository.
pub(crate) fn commits_without_parents(
    objects: &dyn ObjectReader,
    tips: &[ObjectId],
) -> Result<HashSet<ObjectId>> {
    let mut cut = HashSet::new();
    let mut missing = HashSet::new();
    let mut seen: HashSet<ObjectId> = tips.iter().copied().collect();
    let mut next = Vec::new();
    for tip in &seen {
        let found = objects.read(tip)?;
        let commit = found.filter(|(kind, _)| *kind == ObjectKind::Commit);
        next.extend(commit.map(|(_, bytes)| (*tip, bytes)));
    }
    while let Some((id, bytes)) = next.pop() {
        for parent in Commit::parse(&bytes)?.parents {
            if seen.insert(parent) {
                match objects.read(&parent)? {
                    Some((_, bytes)) => next.push((parent, bytes)),
                    None => drop(missing.insert(parent)),
                }
            }
            if missing.contains(&parent) {
                cut.insert(id);
            }
        }
    }
    Ok(cut)
}

#[cfg(test)]
mod tests {
    use super::branch_of;

    #[test]
    fn names_of_workspaces_become_names_of_branches() {
        for (id, branch) in [
            ("ada", "ada"),
            ("ada~2", "ada-2"),
            ("a...b", "a.b"),
            ("a.", "a.-"),
            ("a.lock", "a.lock-"),
            ("HEAD", "head"),
        ] {
            assert_eq!(branch_of(id), branch);
        }
    }
}
