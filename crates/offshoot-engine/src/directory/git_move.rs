//! Moving the `.git` of a fork when the fork moves to another base.
//!
//! Commits of an agent are kept, and come along when its fork is merged: its objects, branches, logs, settings and
//! hooks move to the new directory. Its current branch then points to the new base, and the agent's
//! changes show as not committed. If the branch pointed to a commit of the agent, that commit gets a
//! branch `before-update-…`. Staged changes are not staged any more.
//!
//! The move runs after the commit that makes the new directory the fork's, while neither directory is
//! mounted. It may be interrupted: each step can be repeated.

use std::fs;
use std::path::PathBuf;

use offshoot_core::{Error, ErrorCode, ObjectId, RelPath, Result};
use offshoot_fs::{FileKind, ForkDirs, OverlayXattrs, Provider, SafeDir, Sync, Walk};
use offshoot_git::BASE_BRANCH;
use offshoot_store::{ForkRow, WorkspaceRow};

use crate::directory::Directories;
use crate::directory::git_layer::{
    GIT_MARKER, cannot_write, git_path, is_git_layer, write_head_and_config,
};

/// How the names of branches begin that keep the agent's commits when its fork moves.
pub(crate) const BEFORE_UPDATE: &str = "before-update-";

/// Files that git has while an operation is unfinished.
const UNFINISHED: [&str; 7] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "index.lock",
];

impl Directories {
    /// Refuses to move a fork in which a git operation such as a merge or a rebase is unfinished,
    /// because its base would change under it.
    pub(crate) fn refuse_unfinished_git(&self, row: &WorkspaceRow) -> Result<()> {
        if !row.materialized || !self.has_git(row)? {
            return Ok(());
        }
        let dir = self.dir_of(row)?;
        for name in UNFINISHED {
            // An error, such as a file where `.git` was, means that git is not at work.
            if matches!(dir.stat(&git_path(name)), Ok(Some(_))) {
                return Err(Error::new(
                    ErrorCode::WorkspaceBusy,
                    format!("git is at work in `{}`: there is `.git/{name}`", row.id),
                )
                .with_hint("finish or abort what git was asked to do there, then try again"));
            }
        }
        Ok(())
    }

    /// Moves `.git` from the old directory of a fork to the new one. Neither is mounted.
    pub(crate) fn move_git(
        &self,
        provider: &dyn Provider,
        old: &ForkDirs,
        new: &ForkDirs,
        row: &WorkspaceRow,
        fork: &ForkRow,
        from: &str,
    ) -> Result<()> {
        let mounts = provider.capabilities().mounts;
        let own = |dirs: &ForkDirs| {
            if mounts {
                dirs.upper()
            } else {
                dirs.target.clone()
            }
        };
        // The old directory is removed after the move, so if it is missing the move was done.
        if !own(old).is_dir() {
            return Ok(());
        }
        let open = |dir: PathBuf| SafeDir::open(dir).map(SafeDir::following_no_links);
        let (there, here) = (open(own(old))?, open(own(new))?);
        let git = RelPath::from_normal(".git");
        let was = there.stat(&git)?.filter(|stat| !stat.is_whiteout());
        let fresh = if mounts {
            here.stat(&git)?.is_none()
        } else {
            here.stat(&git_path(GIT_MARKER))?.is_some()
        };
        let Some(was) = was else {
            // The agent removed `.git`, or an earlier attempt moved it. In the first case the fork gets
            // a new one.
            return if fresh {
                write_head_and_config(&here, row, fork, &self.author_of(row, fork)?)
            } else {
                Ok(())
            };
        };
        let ours = was.is_dir()
            && if mounts {
                let opaque = OverlayXattrs::best().opaque().to_bytes();
                !there.xattr_names(&git)?.iter().any(|name| name == opaque)
            } else {
                there.stat(&git_path(GIT_MARKER))?.is_some()
            };
        if !ours {
            // A repository that the agent made in place of Offshoot's moves unchanged.
            if here.stat(&git)?.is_some() {
                here.remove_tree(&git)?;
            }
            return provider.move_path(old, new, &git);
        }
        self.move_git_files(provider, old, new, &there, &here)?;
        let layer = self.git_layer_path(fork)?;
        Refs { here: &here, layer }.move_to_base(from.parse().ok(), fork.base)
    }

    fn move_git_files(
        &self,
        provider: &dyn Provider,
        old: &ForkDirs,
        new: &ForkDirs,
        there: &SafeDir,
        here: &SafeDir,
    ) -> Result<()> {
        let mut files = Vec::new();
        there.walk(&RelPath::from_normal(".git"), |path, stat| {
            if matches!(stat.kind, FileKind::File | FileKind::Symlink) {
                files.push(path.clone());
            }
            Ok(Walk::Enter)
        })?;
        let objects = git_path("objects");
        for path in files {
            let name = path.as_bytes().strip_prefix(b".git/").unwrap_or_default();
            // The new directory has the index of its base already; objects of equal names are equal.
            let stays = matches!(name, b"index" | b"shallow" | b"offshoot")
                || name.ends_with(b".lock")
                || (path.starts_with(&objects) && here.stat(&path)?.is_some());
            if stays {
                continue;
            }
            here.mkdir_all(&path.parent().unwrap_or_default(), 0o755)?;
            provider.move_path(old, new, &path)?;
        }
        Ok(())
    }

    /// The layer with the `.git` that a fork began with; none if it is gone.
    pub(crate) fn git_layer_of(&self, fork: &ForkRow) -> Result<Option<PathBuf>> {
        let row = match fork.layer {
            Some(layer) => self.store().read(|tx| tx.layer(layer))?,
            None => None,
        };
        let place = row.filter(is_git_layer).map(|row| self.layer_path(&row));
        Ok(place.filter(|place| place.is_dir()))
    }

    fn git_layer_path(&self, fork: &ForkRow) -> Result<PathBuf> {
        let layer = fork.layer.unwrap_or_default();
        let row = self.store().read(|tx| tx.layer(layer))?;
        let row = row.ok_or_else(|| Error::internal("the layers of the workspace are gone"))?;
        Ok(self.layer_path(&row).join(".git"))
    }
}

/// The refs of a `.git`, which in an overlay are partly in a layer.
struct Refs<'a> {
    here: &'a SafeDir,
    layer: PathBuf,
}

impl Refs<'_> {
    /// Points `HEAD` and the branch of the base to a new base.
    fn move_to_base(&self, from: Option<ObjectId>, base: ObjectId) -> Result<()> {
        let head = self.text("HEAD").unwrap_or_default();
        match head.trim().strip_prefix("ref: ").map(str::trim) {
            Some(name) if is_branch(name) => self.set_branch(name, "", from, base)?,
            // A symbolic ref that git would not follow either.
            Some(_) => {}
            None => {
                self.keep_agent_commit(head.trim().parse().ok(), "", from, base)?;
                self.put("HEAD", &format!("{base}\n"))?;
            }
        }
        let main = format!("refs/heads/{BASE_BRANCH}");
        // Written only if refs of the agent hide those of the layer.
        if self.read(&main) != Some(base) {
            self.set_branch(&main, "-main", from, base)?;
        }
        Ok(())
    }

    fn set_branch(
        &self,
        name: &str,
        what: &str,
        from: Option<ObjectId>,
        base: ObjectId,
    ) -> Result<()> {
        self.keep_agent_commit(self.read(name), what, from, base)?;
        self.put(name, &format!("{base}\n"))
    }

    /// Keeps a commit of the agent under a `before-update-…` branch.
    fn keep_agent_commit(
        &self,
        tip: Option<ObjectId>,
        what: &str,
        from: Option<ObjectId>,
        base: ObjectId,
    ) -> Result<()> {
        let Some(tip) = tip.filter(|tip| Some(*tip) != from && *tip != base) else {
            return Ok(());
        };
        let short = &base.to_hex()[..8];
        let name = format!("refs/heads/{BEFORE_UPDATE}{short}{what}");
        self.put(&name, &format!("{tip}\n"))
    }

    /// The commit that a loose or packed ref points to.
    fn read(&self, name: &str) -> Option<ObjectId> {
        if let Some(text) = self.text(name) {
            return text.trim().parse().ok();
        }
        let packed = match self.text("packed-refs") {
            Some(text) => text,
            None => fs::read_to_string(self.layer.join("packed-refs")).ok()?,
        };
        packed.lines().find_map(|line| {
            let (id, other) = line.split_once(' ')?;
            (other == name).then(|| id.parse().ok())?
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        let bytes = self.here.read(&git_path(name)).ok()?;
        String::from_utf8(bytes).ok()
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let written = self
            .here
            .write(&git_path(name), text.as_bytes(), 0o644, Sync::None);
        written
            .map(drop)
            .map_err(|error| cannot_write(std::io::Error::other(error)))
    }
}

/// Whether this is a normalised path below `refs/`.
fn is_branch(name: &str) -> bool {
    let normal =
        RelPath::parse(name.as_bytes()).is_ok_and(|path| path.as_bytes() == name.as_bytes());
    name.starts_with("refs/") && normal
}
