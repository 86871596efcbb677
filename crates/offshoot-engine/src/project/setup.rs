//! The setup of a project: a command of its owner whose ignored results every fork begins with.
//!
//! The command runs in a directory of its own that begins as the head of the project, once for each
//! hash of the files that it depends on. What it made there and the ignore rules name becomes a setup
//! layer ([`crate::directory::setup_layer`]); all else is left out and named. A process that is killed
//! meanwhile leaves a directory in `tmp/`, which recovery removes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use offshoot_core::{Cause, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result, Timestamp};
use offshoot_fs::{ForkDirs, LayerWriter, Provider, SafeDir, Stat, Walk, WorkspaceLock};
use offshoot_store::{Durability, HistoryOp, LayerRow, WorkspaceRow, WriteTx};
use offshoot_sys::FileKind;

use crate::content::change_set::topmost;
use crate::content::pattern::Pattern;
use crate::content::rows::{open_project, open_row_by_key, state_of_row};
use crate::content::state::State;
use crate::content::workspace_row::line_of;
use crate::context::describe_busy;
use crate::directory::layers::{COLLECTION_LOCK, Stack};
use crate::directory::setup_layer::{
    SETUP_LEVEL, is_made_for, key_files, setup_in, setup_key, setup_layer_name, setup_lock,
    setup_run_name,
};
use crate::formats::{self, Setup};
use crate::project::Projects;
use crate::project::policy::settings_row;
use crate::sync::disk::{is_too_deep, too_deep_reason};
use crate::sync::fork_ignore::{ForkIgnoreRules, rule_file};

/// The files that a setup depends on unless others are named: lock files at the top of the project.
const LOCK_FILES: [&str; 10] = [
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "uv.lock",
    "poetry.lock",
    "requirements*.txt",
    "Cargo.lock",
    "go.sum",
    "composer.lock",
    "Gemfile.lock",
];

/// How long a run waits for a collection to pass. A second run is told at once that there is one.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// The most paths that an error names.
const MOST_NAMED: usize = 5;

/// What is known about the setup of a project.
#[derive(Clone, Debug)]
pub struct SetupStatus {
    /// The command, and what it depends on.
    pub setup: Setup,
    /// The hash of that in the head; none if the head has none of the files.
    pub key: Option<ObjectId>,
    /// Whether new forks of the head have its results.
    pub state: SetupState,
    /// What it made, the newest first.
    pub layers: Vec<SetupLayer>,
}

/// Whether new forks of a project's head begin with the results of its setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupState {
    /// They do.
    Ready,
    /// The files that it depends on have changed since it ran.
    Stale,
    /// There are none: it never ran, or what it made was erased.
    Missing,
}

impl SetupState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            SetupState::Ready => "ready",
            SetupState::Stale => "stale",
            SetupState::Missing => "missing",
        }
    }
}

/// What one run of a setup made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupLayer {
    /// When it was made.
    pub made_at: Timestamp,
    /// Files, links and directories in it.
    pub entries: i64,
    /// Bytes in it.
    pub bytes: i64,
    /// Whether it is for the head of the project.
    pub is_current: bool,
}

/// What became of a run.
#[derive(Clone, Debug)]
pub struct SetupMade {
    /// The ignored paths that every fork has from now on, without what is below them.
    pub taken: Vec<RelPath>,
    /// What the command changed and no fork gets, with the reason.
    pub left_out: Vec<(RelPath, String)>,
    /// Files, links and directories in the layer.
    pub entries: i64,
    /// Bytes in the layer.
    pub bytes: i64,
}

/// A directory in which the command of a setup is to run. It is removed when this is dropped.
pub struct SetupRun {
    projects: Projects,
    setup: Setup,
    /// Who sets this setup, if it is not the one of the project yet.
    new: Option<Cause>,
    row: WorkspaceRow,
    key: ObjectId,
    stack: Stack,
    provider: Box<dyn Provider>,
    dirs: ForkDirs,
    /// Keeps a second run out, and the layers of the stack from being collected.
    _lock: WorkspaceLock,
}

impl Projects {
    /// The setup of a project; none if it has none.
    pub fn setup(&self, id: &ProjectId) -> Result<Option<SetupStatus>> {
        self.store().read(|tx| {
            let row = open_project(tx, id)?;
            let Some(setup) = setup_in(tx, row.key)? else {
                return Ok(None);
            };
            let objects = self.contents.objects_in(tx);
            let key = setup_key(&objects, &setup, &state_of_row(&row))?;
            let rows = tx.layers_of_level(row.key, SETUP_LEVEL)?;
            let is_current = |layer: &LayerRow| key.is_some_and(|key| is_made_for(layer, key));
            let layers: Vec<SetupLayer> = rows
                .iter()
                .map(|layer| SetupLayer {
                    made_at: layer.made_at,
                    entries: layer.entries,
                    bytes: layer.bytes,
                    is_current: is_current(layer),
                })
                .collect();
            let state = match layers.iter().any(|layer| layer.is_current) {
                true => SetupState::Ready,
                false if layers.is_empty() => SetupState::Missing,
                false => SetupState::Stale,
            };
            Ok(Some(SetupStatus {
                setup,
                key,
                state,
                layers,
            }))
        })
    }

    /// A command that is to prepare forks of a project; it is not set yet. Without patterns it depends
    /// on the lock files that the head has at its top.
    pub fn new_setup(
        &self,
        id: &ProjectId,
        command: Vec<String>,
        on: Vec<String>,
    ) -> Result<Setup> {
        if command.first().is_none_or(String::is_empty) {
            return Err(Error::invalid("the setup has no command"));
        }
        self.store().read(|tx| {
            let state = state_of_row(&open_project(tx, id)?);
            let objects = self.contents.objects_in(tx);
            let has_files = |text: &str| -> Result<bool> {
                let files = key_files(&objects, &[Pattern::parse(text)?], &state)?;
                Ok(!files.is_empty())
            };
            let mut kept = on.clone();
            if on.is_empty() {
                for text in LOCK_FILES {
                    if has_files(text)? {
                        kept.push(text.to_owned());
                    }
                }
            }
            for text in &on {
                if !has_files(text)? {
                    return Err(Error::invalid(format!(
                        "the project has no file that `{}` means",
                        text.escape_debug()
                    ))
                    .with_hint("patterns are like `package-lock.json` or `packages/*/go.sum`"));
                }
            }
            if kept.is_empty() {
                return Err(Error::invalid("the project has no lock file at its top")
                    .with_hint("name the files that the setup depends on: `--on PATTERN`"));
            }
            Ok(Setup {
                command: command.clone(),
                on: kept,
            })
        })
    }

    /// Sets the command of [`new_setup`](Self::new_setup), which has yet to run.
    pub fn set_setup(
        &self,
        id: &ProjectId,
        command: Vec<String>,
        on: Vec<String>,
        cause: &Cause,
    ) -> Result<Setup> {
        let setup = self.new_setup(id, command, on)?;
        self.put_setup(id, Some(&setup), cause)?;
        Ok(setup)
    }

    /// Removes the setup of a project. Forks that stand on its results keep them.
    pub fn remove_setup(&self, id: &ProjectId, cause: &Cause) -> Result<()> {
        self.put_setup(id, None, cause)
    }

    fn put_setup(&self, id: &ProjectId, setup: Option<&Setup>, cause: &Cause) -> Result<()> {
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let row = open_project(tx, id)?;
            put_setup_in(tx, &row, setup, cause, at)
        })
    }

    /// Makes the directory in which the setup of a project is to run, with what its head holds.
    pub fn begin_setup(&self, id: &ProjectId) -> Result<SetupRun> {
        self.begin(id, None)
    }

    /// The same for a setup that becomes the one of the project only together with what it made: if
    /// its command fails, all is as before.
    pub fn begin_new_setup(&self, id: &ProjectId, setup: Setup, cause: &Cause) -> Result<SetupRun> {
        self.begin(id, Some((setup, cause.clone())))
    }

    fn begin(&self, id: &ProjectId, new: Option<(Setup, Cause)>) -> Result<SetupRun> {
        self.context.require_space()?;
        let (new, cause) = new.unzip();
        let (row, setup, key) = self.store().read(|tx| {
            let row = open_project(tx, id)?;
            let setup = match &new {
                Some(new) => new.clone(),
                None => setup_in(tx, row.key)?.ok_or_else(|| no_setup(id))?,
            };
            let objects = self.contents.objects_in(tx);
            let key = setup_key(&objects, &setup, &state_of_row(&row))?;
            let key = key.ok_or_else(|| {
                Error::invalid("the project has none of the files that its setup depends on")
                    .with_hint("name others: `offshoot project setup NAME --on PATTERN -- COMMAND`")
            })?;
            Ok((row, setup, key))
        })?;
        let lock = (self.context.locks).exclusive(&setup_lock(row.key), LOCK_PATIENCE);
        let lock = lock.map_err(|error| describe_busy(error, "the setup of the project"))?;
        let stack = (self.directories).stack_for(row.key, state_of_row(&row), row.head)?;
        let provider = self.directories.provider_for_setup()?;
        let outer = self.context.data.tmp().join(setup_run_name(row.key));
        // Programs may use the name of the directory that they are in.
        let dirs = ForkDirs::new(outer.join(".private"), outer.join(id.as_str()));
        std::fs::create_dir(&outer).map_err(|cause| {
            Error::new(ErrorCode::WriteFailed, "the setup could not begin").with_source(cause)
        })?;
        let run = SetupRun {
            projects: self.clone(),
            setup,
            new: cause,
            row,
            key,
            stack,
            provider,
            dirs,
            _lock: lock,
        };
        run.provider.create(&run.stack.layers, &run.dirs)?;
        Ok(run)
    }
}

impl SetupRun {
    /// Where the command has to run.
    pub fn dir(&self) -> &Path {
        &self.dirs.target
    }

    /// The program and its arguments.
    pub fn command(&self) -> &[String] {
        &self.setup.command
    }

    /// Freezes the ignored files that the command made: forks have them from now on.
    pub fn finish(self) -> Result<SetupMade> {
        // An erasure takes layers from everybody.
        if self.projects.directories.is_gone(&self.stack)? {
            return Err(Error::new(
                ErrorCode::WorkspaceBusy,
                "files that the setup began with were erased while it ran",
            )
            .with_hint("run it again; the setup is as before"));
        }
        let found = self.find_results()?;
        if found.taken.is_empty() {
            return Err(made_nothing(found));
        }
        let context = &self.projects.context;
        // The layer has no row until it is whole.
        let patience = context.options.lock_timeout.max(Duration::from_secs(600));
        let collecting = context.locks.shared(COLLECTION_LOCK, patience);
        let _collecting =
            collecting.map_err(|error| describe_busy(error, "the layers of the project"))?;
        let name = setup_layer_name(self.key);
        let layers = context.data.layers();
        let mut results = Results {
            dir: SafeDir::open(&self.dirs.target)?.following_no_links(),
            writer: LayerWriter::new(layers.join(&name))?,
            largest: context.options.max_file_bytes,
            dirs: 0,
            left_out: found.left_out,
        };
        for path in &found.taken {
            results.take(path)?;
        }
        let counts = results.writer.finish()?;
        SafeDir::open(&layers)?.sync_all()?;
        let State { tree, sidecar } = self.stack.state;
        let row = LayerRow {
            key: 0,
            name,
            project: self.row.key,
            below: None,
            depth: 1,
            level: SETUP_LEVEL,
            tree,
            sidecar,
            entries: (counts.files + counts.links) as i64 + results.dirs,
            bytes: counts.bytes as i64,
            made_at: context.now(),
            synced: true,
        };
        context.store.write(Durability::Synced, |tx| {
            if let Some(cause) = &self.new {
                let project = open_row_by_key(tx, &self.row)?;
                put_setup_in(tx, &project, Some(&self.setup), cause, row.made_at)?;
            }
            tx.add_layer(&row).map(drop)
        })?;
        Ok(SetupMade {
            taken: found.taken,
            left_out: results.left_out,
            entries: row.entries,
            bytes: row.bytes,
        })
    }

    /// What the command changed: ignored paths, and all others with the reason why forks do not get
    /// them.
    fn find_results(&self) -> Result<Found> {
        let dir = SafeDir::open(&self.dirs.target)?.following_no_links();
        let on_disk = |path: &RelPath| rule_file(&dir, path);
        let rules = ForkIgnoreRules::new(&on_disk);
        let mut prune = |path: &RelPath, _: &Stat| rules.ignores(path, true);
        let layers = &self.stack.layers;
        let seen = self
            .provider
            .changes_pruned(layers, &self.dirs, &mut prune)?;
        let (mut taken, mut others) = (Vec::new(), Vec::new());
        for one in seen.differences {
            let is_dir = one.now.is_some_and(|now| now.is_dir());
            let ignored = one.base.is_none() && rules.ignores(&one.path, is_dir);
            match ignored && !crate::content::state::belongs_to_nested_git(&one.path) {
                true => taken.push(one.path),
                false => others.push((one.path, one.now.is_some())),
            }
        }
        let taken = topmost(taken.into_iter());
        let above: BTreeSet<RelPath> = taken.iter().flat_map(RelPath::ancestors).collect();
        others.retain(|(path, _)| !above.contains(path));
        let reason = |(path, exists)| match exists {
            true => (path, "the ignore rules do not name it".to_owned()),
            false => (path, "it was deleted, and the project has it".to_owned()),
        };
        Ok(Found {
            taken,
            left_out: others.into_iter().map(reason).collect(),
        })
    }
}

impl Drop for SetupRun {
    fn drop(&mut self) {
        let _ = self.provider.cleanup(&self.dirs);
        let outer: Option<PathBuf> = self.dirs.target.parent().map(Path::to_owned);
        let trash: Vec<PathBuf> = outer.into_iter().collect();
        self.projects.directories.empty_trash(&trash);
    }
}

struct Found {
    taken: Vec<RelPath>,
    left_out: Vec<(RelPath, String)>,
}

/// Copies results into a layer. Copies, because a package manager may share their files with a cache
/// of its own by hard links, and a layer never changes (INV-2).
struct Results {
    dir: SafeDir,
    writer: LayerWriter,
    largest: u64,
    dirs: i64,
    left_out: Vec<(RelPath, String)>,
}

impl Results {
    fn take(&mut self, root: &RelPath) -> Result<()> {
        let Some(stat) = self.dir.stat(root)? else {
            return Ok(());
        };
        let dir = self.dir.clone();
        if self.entry(root, &stat)? == Walk::Enter && stat.is_dir() {
            dir.walk(root, |path, stat| self.entry(path, stat))?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &RelPath, stat: &Stat) -> Result<Walk> {
        if is_too_deep(path.as_bytes()) {
            self.left_out.push((path.clone(), too_deep_reason()));
            return Ok(Walk::Skip);
        }
        match stat.kind {
            FileKind::Dir => {
                self.dirs += 1;
                self.writer.dir(path, stat.perm)?;
            }
            FileKind::Symlink => {
                let target = self.dir.read_link(path)?;
                self.writer.symlink(path, &target)?;
            }
            FileKind::File if stat.size > self.largest => {
                self.left_out
                    .push((path.clone(), "it is too large".to_owned()));
            }
            FileKind::File => match self.dir.open_file(path) {
                Err(error) if error.code() == ErrorCode::PermissionDenied => {
                    self.left_out
                        .push((path.clone(), "it cannot be read".to_owned()));
                }
                opened => {
                    let (mut file, stat) = opened?;
                    let (perm, mtime) = (stat.perm, stat.mtime_ns);
                    self.writer.file_of_time(path, perm, mtime, &mut file)?;
                }
            },
            FileKind::Other(_) => {
                let why = "it is neither a file, nor a directory, nor a link";
                self.left_out.push((path.clone(), why.to_owned()));
            }
        }
        Ok(Walk::Enter)
    }
}

fn put_setup_in(
    tx: &mut dyn WriteTx,
    project: &WorkspaceRow,
    setup: Option<&Setup>,
    cause: &Cause,
    at: Timestamp,
) -> Result<()> {
    let mut settings = settings_row(tx, project.key)?;
    settings.setup = setup.map(formats::to_text).transpose()?;
    tx.put_project(&settings)?;
    tx.add_history(&line_of(project, HistoryOp::WorkspaceUpdate, cause, at))
        .map(drop)
}

/// Says what it made instead, without what is below that.
fn made_nothing(found: Found) -> Error {
    let others = topmost(found.left_out.into_iter().map(|(path, _)| path));
    let named: Vec<String> = others.iter().take(MOST_NAMED).map(quoted).collect();
    let mut message = "the setup made nothing that the ignore rules name".to_owned();
    if !named.is_empty() {
        message.push_str(&format!(", only {}", named.join(", ")));
    }
    if others.len() > named.len() {
        message.push_str(&format!(" and {} more", others.len() - named.len()));
    }
    Error::invalid(message).with_hint(
        "forks begin with ignored files only: name what it makes in `.gitignore`; the setup is as \
         before",
    )
}

fn quoted(path: &RelPath) -> String {
    format!("`{path}`")
}

fn no_setup(id: &ProjectId) -> Error {
    Error::invalid(format!("the project `{id}` has no setup"))
        .with_hint(format!("set one: `offshoot project setup {id} -- COMMAND`"))
}
