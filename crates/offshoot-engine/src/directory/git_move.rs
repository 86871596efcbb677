//! What becomes of a fork's `.git` when the fork moves to another base.
//!
//! Commits of an agent are not merged, and they are not lost either: its objects, branches, logs,
//! settings and hooks follow it. The branch that it is on then stands at the new base, and what the
//! agent changed shows as not committed; where the branch stood before, if that was a commit of the
//! agent's own, gets a branch `before-update-…`. What was staged is not staged any more.
//!
//! This happens while neither directory is shown, after the commit that says which one is the
//! fork's, and may be interrupted: each step can be done again.

use std::fs;
use std::path::PathBuf;

use offshoot_core::{Error, ErrorCode, ObjectId, RelPath, Result};
use offshoot_fs::{FileKind, ForkDirs, OverlayXattrs, Provider, SafeDir, Sync, Walk};
use offshoot_git::BASE_BRANCH;
use offshoot_store::{ForkRow, WorkspaceRow};

use crate::directory::Directories;
use crate::directory::git_layer::{MARK, cannot_write, git_path, write_own_git};

/// What git leaves while it waits for the user to go on, or while it works.
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
    /// Refuses to move a fork in whose `.git` a merge, a rebase or the like waits to be finished:
    /// what that is about would be gone from under it.
    pub(crate) fn refuse_unfinished_git(&self, row: &WorkspaceRow) -> Result<()> {
        if !row.materialized || !self.has_git(row)? {
            return Ok(());
        }
        let dir = self.dir_of(row)?;
        for name in UNFINISHED {
            // Something else in the way of the path is no business of ours.
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

    /// Lets `.git` follow a fork from its old directory to the new one. Both are closed.
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
        // The old one goes only when all of this is done, so if it is going this was.
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
            here.stat(&git_path(MARK))?.is_some()
        };
        let Some(was) = was else {
            // The agent removed it; unless an earlier attempt moved it, the fork gets a new one.
            return if fresh {
                write_own_git(&here, row, fork)
            } else {
                Ok(())
            };
        };
        let ours = was.is_dir()
            && if mounts {
                let opaque = OverlayXattrs::best().opaque().to_bytes();
                !there.xattr_names(&git)?.iter().any(|name| name == opaque)
            } else {
                there.stat(&git_path(MARK))?.is_some()
            };
        if !ours {
            // A repository that the agent made in place of ours is the agent's.
            if here.stat(&git)?.is_some() {
                here.remove_tree(&git)?;
            }
            return provider.move_path(old, new, &git);
        }
        self.move_git_files(provider, old, new, &there, &here)?;
        let layer = self.git_layer_path(fork)?;
        Refs { here: &here, layer }.settle(from.parse().ok(), fork.base)
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
            // The index is that of the new base; objects of one name are equal.
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

    fn git_layer_path(&self, fork: &ForkRow) -> Result<PathBuf> {
        let layer = fork.layer.unwrap_or_default();
        let row = self.store().read(|tx| tx.layer(layer))?;
        let row = row.ok_or_else(|| Error::internal("the layers of the workspace are gone"))?;
        Ok(self.layer_path(&row).join(".git"))
    }
}

/// The refs of a `.git` whose lower part, in an overlay, is a layer.
struct Refs<'a> {
    here: &'a SafeDir,
    layer: PathBuf,
}

impl Refs<'_> {
    /// Lets `HEAD` and the branch of the base stand at a new base.
    fn settle(&self, from: Option<ObjectId>, base: ObjectId) -> Result<()> {
        let head = self.text("HEAD").unwrap_or_default();
        match head.trim().strip_prefix("ref: ").map(str::trim) {
            Some(name) if is_branch(name) => self.advance(name, "", from, base)?,
            // Something that git itself would not follow.
            Some(_) => {}
            None => {
                self.keep(head.trim().parse().ok(), "", from, base)?;
                self.put("HEAD", &format!("{base}\n"))?;
            }
        }
        let main = format!("refs/heads/{BASE_BRANCH}");
        // Written only if the agent's own refs hide what the layer says.
        if self.read(&main) != Some(base) {
            self.advance(&main, "-main", from, base)?;
        }
        Ok(())
    }

    fn advance(
        &self,
        name: &str,
        what: &str,
        from: Option<ObjectId>,
        base: ObjectId,
    ) -> Result<()> {
        self.keep(self.read(name), what, from, base)?;
        self.put(name, &format!("{base}\n"))
    }

    /// A commit of the agent's own that a branch leaves gets a branch of its own.
    fn keep(
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
        let name = format!("refs/heads/before-update-{short}{what}");
        self.put(&name, &format!("{tip}\n"))
    }

    /// What a ref points to: in a file of its own, or among the packed ones.
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

/// Whether this is a name below `refs/` that leads nowhere else.
fn is_branch(name: &str) -> bool {
    let normal =
        RelPath::parse(name.as_bytes()).is_ok_and(|path| path.as_bytes() == name.as_bytes());
    name.starts_with("refs/") && normal
}
