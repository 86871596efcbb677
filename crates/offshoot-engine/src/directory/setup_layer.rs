//! Setup layers: what the setup command of a project made, as the lowest layer of its forks.
//!
//! A setup layer holds ignored files only (`node_modules`, `.venv`, `target`), so it shows no state and
//! can hide no file of the project, which lies above it. It is made by the owner (`project/setup.rs`)
//! and named by the hash of the command and of the files that it depends on; a fork gets the newest one
//! of the hash that its first state has, if there is one, and never waits for it. Unlike other layers
//! it cannot be written again from the store: it is synced before it has a row.

use std::path::PathBuf;
use std::time::Duration;

use offshoot_core::{EntryKind, Error, ObjectId, ObjectKind, RelPath, Result};
use offshoot_fs::{ForkDirs, LayerState, SETUP_LAYER, SafeDir, Stat, layer_state};
use offshoot_git::{IgnoreRules, ObjectReader};
use offshoot_store::{ForkRow, LayerRow, ProjectRow, ReadTx, WorkspaceKey, WorkspaceRow};

use crate::content::incoming::unreadable;
use crate::content::pattern::Pattern;
use crate::content::state::State;
use crate::directory::Directories;
use crate::directory::included::work_tree_of;
use crate::directory::layers::Stack;
use crate::formats::{self, Setup};

/// The level of a setup layer, which no compaction has.
pub(crate) const SETUP_LEVEL: i64 = -2;
/// The largest rule file that is read.
const LARGEST_RULE_FILE: u64 = 1 << 20;

/// Whether a layer holds what a setup made.
pub(crate) fn is_setup_layer(row: &LayerRow) -> bool {
    row.level == SETUP_LEVEL
}

/// The name of a new setup layer.
pub(crate) fn setup_layer_name(key: ObjectId) -> String {
    let unique = uuid::Uuid::now_v7().simple();
    format!("{unique}-{key}.{SETUP_LAYER}")
}

/// Whether a setup layer was made for this key, which is part of its name.
pub(crate) fn is_made_for(row: &LayerRow, key: ObjectId) -> bool {
    row.name.ends_with(&format!("-{key}.{SETUP_LAYER}"))
}

/// The lock of a project's setup, which its run holds.
pub(crate) fn setup_lock(project: WorkspaceKey) -> String {
    format!("setup-{}", project.0)
}

/// The name in `tmp/` of a directory in which a setup runs.
pub(crate) fn setup_run_name(project: WorkspaceKey) -> String {
    format!("{}-{}", setup_lock(project), uuid::Uuid::now_v7().simple())
}

/// The setup of a project; none if it has none.
pub(crate) fn setup_in(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<Option<Setup>> {
    let row = tx.project_settings(project)?;
    row.map_or(Ok(None), |row| setup_of(&row))
}

fn setup_of(row: &ProjectRow) -> Result<Option<Setup>> {
    row.setup.as_ref().map(formats::parse_text).transpose()
}

/// The files of a state that a setup depends on, with what they hold. Only directories that a pattern
/// may match in are read.
pub(crate) fn key_files(
    objects: &dyn ObjectReader,
    patterns: &[Pattern],
    state: &State,
) -> Result<Vec<(RelPath, ObjectId)>> {
    let mut files = Vec::new();
    let mut open = vec![(RelPath::root(), *state)];
    while let Some((dir, part)) = open.pop() {
        for (name, (entry, below)) in part.list(objects, &dir)? {
            let path = dir.join_name(&name);
            let is_dir = entry.kind == EntryKind::Dir;
            if is_dir && patterns.iter().any(|one| one.may_match_below(&path)) {
                open.push((path, below));
            } else if let Some(id) = entry.id
                && patterns.iter().any(|one| one.matches(&path))
            {
                files.push((path, id));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The hash of a setup and of the files of a state that it depends on; none if the state has none.
pub(crate) fn setup_key(
    objects: &dyn ObjectReader,
    setup: &Setup,
    state: &State,
) -> Result<Option<ObjectId>> {
    let patterns: Result<Vec<Pattern>> = setup.on.iter().map(|text| Pattern::parse(text)).collect();
    let files = key_files(objects, &patterns?, state)?;
    if files.is_empty() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    for argument in &setup.command {
        bytes.extend_from_slice(argument.as_bytes());
        bytes.push(0);
    }
    for (path, id) in files {
        bytes.extend_from_slice(b"\n");
        bytes.extend_from_slice(path.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(id.to_hex().as_bytes());
    }
    offshoot_git::hash(ObjectKind::Blob, &bytes).map(Some)
}

impl Directories {
    /// The layers that the directory of a fork stands on.
    pub(crate) fn stack_of_fork(&self, fork: &ForkRow) -> Result<Stack> {
        let stack = self.stack_of(fork.project, fork.layer.unwrap_or_default())?;
        let Some(key) = fork.setup else {
            return Ok(stack);
        };
        let row = self.store().read(|tx| tx.layer(key))?;
        let row = row.filter(|row| self.setup_is_whole(row).unwrap_or(false));
        let row = row.ok_or_else(|| {
            Error::internal("what the setup of the project made is gone").with_hint(
                "the files of the workspace are in the store: `offshoot check` says more",
            )
        })?;
        Ok(self.on_setup(stack, &row))
    }

    /// Adds what a fork begins with beside the files of a state: what the setup of the project made for
    /// that state, as the lowest layer, and where files of the person are. A fork that moves keeps the
    /// setup that it has if there is none for the new state.
    pub(crate) fn with_setup(
        &self,
        mut stack: Stack,
        fork: &ForkRow,
        state: State,
    ) -> Result<Stack> {
        let (found, work_tree) = self.store().read(|tx| {
            let Some(settings) = tx.project_settings(fork.project)? else {
                return Ok((Vec::new(), None));
            };
            let mut found = self.setups_for(tx, &settings, &state)?;
            if let Some(key) = fork.setup.filter(|_| found.is_empty()) {
                found.extend(tx.layer(key)?);
            }
            Ok((found, work_tree_of(&settings)?))
        })?;
        stack.work_tree = work_tree;
        for row in &found {
            if self.setup_is_whole(row)? && self.setup_is_ignored_by(row, &state)? {
                return Ok(self.on_setup(stack, row));
            }
        }
        Ok(stack)
    }

    /// The setup layers for a state of a project, the newest first.
    pub(crate) fn setups_for(
        &self,
        tx: &dyn ReadTx,
        project: &ProjectRow,
        state: &State,
    ) -> Result<Vec<LayerRow>> {
        let Some(setup) = setup_of(project)? else {
            return Ok(Vec::new());
        };
        let Some(key) = setup_key(&self.contents.objects_in(tx), &setup, state)? else {
            return Ok(Vec::new());
        };
        let mut rows = tx.layers_of_level(project.key, SETUP_LEVEL)?;
        rows.retain(|row| is_made_for(row, key));
        Ok(rows)
    }

    fn on_setup(&self, mut stack: Stack, row: &LayerRow) -> Stack {
        let below = std::iter::once(self.layer_path(row));
        stack.layers = stack.layers.iter().cloned().chain(below).collect();
        stack.setup = Some(row.key);
        stack
    }

    pub(crate) fn setup_is_whole(&self, row: &LayerRow) -> Result<bool> {
        Ok(match layer_state(&self.layer_path(row))? {
            LayerState::Complete => true,
            LayerState::CompleteBeforeBoot => row.synced,
            LayerState::Incomplete => false,
        })
    }

    /// Whether the rules of a state ignore all that a setup layer holds. The rules may have changed
    /// since it was made, and what they do not ignore would become part of a snapshot. Only
    /// directories that are not ignored are read, which are those on the way.
    fn setup_is_ignored_by(&self, row: &LayerRow, state: &State) -> Result<bool> {
        let layer = self.open_setup(row)?;
        self.store().read(|tx| {
            let objects = self.contents.objects_in(tx);
            let rule_file = |path: &RelPath| -> Result<Option<Vec<u8>>> {
                let entry = state.entry(&objects, path)?;
                match entry.and_then(|entry| entry.id) {
                    Some(id) => Ok(objects.read(&id)?.map(|(_, bytes)| bytes.to_vec())),
                    // Tools such as `uv` put a rule file of their own into what they make.
                    None => Ok(rule_file_of(&layer, path)),
                }
            };
            let mut open = vec![(RelPath::root(), IgnoreRules::root())];
            while let Some((dir, above)) = open.pop() {
                let git = rule_file(&dir.join_name(b".gitignore"))?;
                let own = rule_file(&dir.join_name(b".offshootignore"))?;
                let rules = above.child(&dir, git.as_deref(), own.as_deref());
                for entry in layer.list(&dir)? {
                    let path = dir.join_name(&entry.name);
                    if rules.is_ignored(&path, entry.stat.is_dir()) {
                        continue;
                    }
                    if !entry.stat.is_dir() {
                        return Ok(false);
                    }
                    open.push((path, rules.clone()));
                }
            }
            Ok(true)
        })
    }

    /// Removes the directory of a setup whose process was killed.
    pub(crate) fn recover_setup_run(&self, name: &str) -> Result<()> {
        let key = name.strip_prefix("setup-").and_then(|rest| {
            let key = rest.split('-').next()?;
            key.parse().ok().map(WorkspaceKey)
        });
        let Some(key) = key else {
            return Ok(());
        };
        let lock = self
            .context
            .locks
            .exclusive(&setup_lock(key), Duration::ZERO);
        let Ok(_lock) = lock else {
            return Ok(());
        };
        let outer = self.context.data.tmp().join(name);
        let private = outer.join(".private");
        let inner = std::fs::read_dir(&outer).map_err(unreadable)?;
        for entry in inner.flatten().filter(|entry| entry.path() != private) {
            let dirs = ForkDirs::new(&private, entry.path());
            self.provider_by_files(&dirs)?.cleanup(&dirs)?;
        }
        std::fs::rename(&outer, self.context.data.new_trash_path()).map_err(unreadable)
    }

    fn open_setup(&self, row: &LayerRow) -> Result<SafeDir> {
        Ok(SafeDir::open(self.layer_path(row))?.following_no_links())
    }

    /// The setup layer of a fork, to tell what came with it from what was changed since.
    pub(crate) fn setup_of(&self, row: &WorkspaceRow) -> Result<Option<SetupFiles>> {
        let found = self.store().read(|tx| {
            let setup = tx.fork(row.key)?.and_then(|fork| fork.setup);
            setup.map_or(Ok(None), |key| tx.layer(key))
        })?;
        let opened = found.map(|row| self.open_setup(&row)).transpose()?;
        Ok(opened.map(SetupFiles))
    }
}

/// The files of a setup layer.
pub(crate) struct SetupFiles(SafeDir);

impl SetupFiles {
    /// Those that a stack stands on.
    pub(crate) fn of_stack(stack: &Stack) -> Option<SetupFiles> {
        let dir = SafeDir::open(setup_place(stack)?).ok()?;
        Some(SetupFiles(dir.following_no_links()))
    }

    /// Whether a file that a fork shows at a path is the one of the setup, judged by its kind, size and
    /// time, which are the same in a mount and in a copy. A directory is if both have one.
    pub(crate) fn has(&self, path: &RelPath, now: &Stat) -> bool {
        let Ok(Some(was)) = self.0.stat(path) else {
            return false;
        };
        match was.kind == now.kind {
            true if now.is_dir() => true,
            // The times of links are not kept.
            true if now.entry_kind() == Some(EntryKind::Symlink) => was.size == now.size,
            true => was.size == now.size && was.mtime_ns == now.mtime_ns,
            false => false,
        }
    }

    pub(crate) fn rule_file(&self, path: &RelPath) -> Option<Vec<u8>> {
        rule_file_of(&self.0, path)
    }
}

/// The content of a rule file; none if it is no regular file, too large or unreadable.
pub(crate) fn rule_file_of(dir: &SafeDir, path: &RelPath) -> Option<Vec<u8>> {
    let stat = dir.stat(path).ok()??;
    if stat.entry_kind() != Some(EntryKind::File) || stat.size > LARGEST_RULE_FILE {
        return None;
    }
    dir.read(path).ok()
}

/// Where a setup layer of a stack lies, if it has one.
pub(crate) fn setup_place(stack: &Stack) -> Option<&PathBuf> {
    stack.setup.and(stack.layers.last())
}
