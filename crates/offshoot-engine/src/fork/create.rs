//! Forks: workspaces that begin as a snapshot of a project.
//!
//! A fork is a row at first. Its directory is made when its path is asked for or something is
//! written: the provider shows a stack of layers there ([`crate::directory::layers`]). Until its first change a
//! fork holds nothing of a user, so its rows do not wait for the disk; a note beside its directory
//! lets recovery bring the rows back that a power cut took.
//!
//! Two states belong to a fork. Its *base* is the snapshot of the project that its changes are told
//! and merged against. Its *origin* is what its layers show, which is the base unless it was forked
//! from the snapshot of another fork.

use std::path::PathBuf;

use offshoot_core::{
    AgentId, Cause, Error, ErrorCode, Layout, ObjectId, ProjectId, Result, Timestamp, WorkspaceId,
};
use offshoot_fs::ProviderName;
use offshoot_store::{
    Durability, ForkRow, HistoryOp, NewObject, ReadTx, SnapshotRow, WorkspaceKey, WorkspaceKind,
    WorkspaceRow, WorkspaceState, WriteTx,
};

use crate::content::agent_rows::assign_fork;
use crate::content::left_out::without_left_out;
use crate::content::objects::PendingObjects;
use crate::content::rows::{fork_row, open_project, project_name, state_of, state_of_row};
use crate::content::workspace_row::{Quota, check_quota, line_of, new_row};
use crate::context::idempotency::ExtraWrite;
use crate::directory::fork_dir::{ForkRows, LAYER_TRIES};
use crate::directory::included::Included;
use crate::fork::Forks;
use crate::workspace::life::Workspace;

/// How often another caller may take the name of a new fork first.
const TRIES: usize = 1_000;

/// How a fork is made.
#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    /// Its name; else that of its agent, or one that is free.
    pub id: Option<WorkspaceId>,
    /// The agent that owns it. Its first fork has its name, further ones `agent~2`, `agent~3`.
    pub agent: Option<AgentId>,
    /// The snapshot it begins with, of the project or of another fork of it; none is the head.
    pub at: Option<String>,
    /// The provider that must be used.
    pub provider: Option<ProviderName>,
    /// Its weight where a policy decides by priority; none is that of its agent.
    pub priority: Option<i64>,
    /// Its limits.
    pub quota: Quota,
    /// Whether its directory has a `.git` at its base, so that git commands work in it.
    pub git: bool,
    /// The agent goes on working where it does. Otherwise one of the tree that has no fork yet works
    /// in this one from now on.
    pub leave_agent: bool,
}

/// A workspace that is a fork.
#[derive(Clone, Debug)]
pub struct Fork {
    /// The workspace.
    pub workspace: Workspace,
    /// The project that it is merged into.
    pub project: ProjectId,
    /// The snapshot of the project that its changes are relative to.
    pub base: ObjectId,
    /// The agent that owns it.
    pub agent: Option<AgentId>,
    /// Its weight where a policy decides by priority.
    pub priority: i64,
    /// The provider that made its directory, or that was required for it; none before that.
    pub provider: Option<ProviderName>,
    /// Whether its directory has a `.git` at its base.
    pub git: bool,
    /// What was copied into it from the person's working tree, if it was made just now.
    pub included: Included,
}

/// What came of one attempt to make a fork.
pub(super) enum Attempt<T> {
    Made(T),
    /// An open workspace has the name.
    NameTaken,
    /// Layers went, or the project had to be cleared first.
    Again,
}

/// What a new fork begins with.
pub(super) struct ForkStart {
    pub(super) project: WorkspaceRow,
    pub(super) origin: SnapshotRow,
    pub(super) base: SnapshotRow,
    /// What the origin is made of, where it is new.
    pub(super) objects: Vec<NewObject>,
    pub(super) priority: i64,
    /// The agent of the tree that may get it.
    pub(super) for_agent: Option<AgentId>,
}

impl ForkStart {
    /// The rows must be durable if they hold what the note beside the directory does not: a
    /// snapshot of this fork alone, the agent that works in it, or what `also` writes.
    fn durability(&self, also: Option<ExtraWrite<'_>>) -> Durability {
        match self.objects.is_empty() && self.for_agent.is_none() && also.is_none() {
            true => Durability::Relaxed,
            false => Durability::Synced,
        }
    }

    pub(super) fn rows(
        &self,
        id: &WorkspaceId,
        options: &ForkOptions,
        at: Timestamp,
    ) -> (WorkspaceRow, ForkRow) {
        let mut row = new_row(id, Layout::Plain, options.quota, at);
        row.kind = WorkspaceKind::Fork;
        row.head = Some(self.origin.id);
        row.tree = self.origin.tree;
        row.sidecar = self.origin.sidecar;
        row.files = self.origin.files;
        row.dirs = self.origin.dirs;
        row.bytes = self.origin.bytes;
        let fork = ForkRow {
            workspace: WorkspaceKey(0),
            project: self.project.key,
            base: self.base.id,
            base_tree: self.base.tree,
            base_sidecar: self.base.sidecar,
            agent: options.agent.clone(),
            priority: self.priority,
            git: options.git,
            provider: options.provider.map(|name| name.as_str().to_owned()),
            layer: None,
            setup: None,
            place: 1,
        };
        (row, fork)
    }

    /// Adds the rows of the fork. Returns none if its layers are gone by now.
    pub(super) fn insert(
        &self,
        tx: &mut dyn WriteTx,
        mut row: WorkspaceRow,
        mut fork: ForkRow,
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Option<(WorkspaceRow, ForkRow)>> {
        for layer in fork.layer.iter().chain(&fork.setup) {
            if tx.layer(*layer)?.is_none() {
                return Ok(None);
            }
        }
        self.objects
            .iter()
            .try_for_each(|object| tx.put_object(object).map(drop))?;
        row.key = tx.add_workspace(&row)?;
        fork.workspace = row.key;
        tx.put_fork(&fork)?;
        tx.add_snapshot(&SnapshotRow {
            workspace: row.key,
            number: 1,
            ..self.origin.clone()
        })?;
        let mut line = line_of(&row, HistoryOp::WorkspaceCreate, cause, row.created_at);
        line.after = Some(self.base.id);
        tx.add_history(&line)?;
        if let Some(agent) = &self.for_agent {
            assign_fork(tx, agent, &row)?;
        }
        also.map_or(Ok(()), |also| also(tx, &row))?;
        Ok(Some((row, fork)))
    }
}

impl Forks {
    /// Forks a project: a row and nothing more. The directory is made when it is needed.
    pub fn fork(&self, project: &ProjectId, options: &ForkOptions, cause: &Cause) -> Result<Fork> {
        self.fork_and(project, options, None, cause)
    }

    /// Like [`fork`](Self::fork); `also` writes further rows in the
    /// same transaction.
    pub(crate) fn fork_and(
        &self,
        project: &ProjectId,
        options: &ForkOptions,
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<Fork> {
        self.context.require_space()?;
        self.projects.clear_earlier_merges(project)?;
        self.try_names(project, options, |id| {
            let Some(start) = self.start_if_name_is_free(id, project, options)? else {
                return Ok(Attempt::NameTaken);
            };
            let (row, fork) = start.rows(id, options, self.context.now());
            check_quota(
                &new_row(id, Layout::Plain, options.quota, row.created_at),
                &row,
            )?;
            let made = self.store().write(start.durability(also), |tx| {
                start.insert(tx, row.clone(), fork.clone(), also, cause)
            })?;
            Ok(match made {
                Some((row, fork)) => Attempt::Made(as_fork(project.clone(), row, fork)),
                None => Attempt::Again,
            })
        })
    }

    /// Forks a project and hands out the path of the fork's directory.
    pub fn fork_out(
        &self,
        project: &ProjectId,
        options: &ForkOptions,
        cause: &Cause,
    ) -> Result<(Fork, PathBuf)> {
        self.fork_out_and(project, options, None, cause)
    }

    /// Like [`fork_out`](Self::fork_out); `also` writes further rows in the
    /// same transaction.
    pub(crate) fn fork_out_and(
        &self,
        project: &ProjectId,
        options: &ForkOptions,
        also: Option<ExtraWrite<'_>>,
        cause: &Cause,
    ) -> Result<(Fork, PathBuf)> {
        self.context.require_space()?;
        self.projects.clear_earlier_merges(project)?;
        let provider = self.directories.provider_for_new(options.provider)?;
        self.try_names(project, options, |id| {
            let Some(start) = self.start_if_name_is_free(id, project, options)? else {
                return Ok(Attempt::NameTaken);
            };
            let (mut row, mut fork) = start.rows(id, options, self.context.now());
            // Layers are written from the store.
            if !start.objects.is_empty() {
                self.store().write(Durability::Relaxed, |tx| {
                    let put = |object| tx.put_object(object).map(drop);
                    start.objects.iter().try_for_each(put)
                })?;
            }
            let stack = self
                .directories
                .stack_for_fork(&fork, state_of(&start.origin))?;
            check_quota(
                &new_row(id, Layout::Plain, options.quota, row.created_at),
                &row,
            )?;
            row.materialized = true;
            row.handed_out = true;
            fork.layer = Some(stack.top);
            fork.setup = stack.setup;
            fork.provider = Some(provider.name().as_str().to_owned());
            let dirs = self.directories.fork_dirs(&row, fork.place);
            let durability = start.durability(also);
            let made = match durability {
                Durability::Synced => ForkRows::OnDisk,
                Durability::Relaxed => ForkRows::InNote,
            };
            let made = self.directories.make_fork_dir(
                &*provider,
                &stack,
                &dirs,
                (&row, &fork, made),
                project,
            );
            if let Err(error) = made {
                return if self.directories.is_gone(&stack)? {
                    Ok(Attempt::Again)
                } else {
                    Err(error)
                };
            }
            let begun = self
                .directories
                .write_new_fork_git(&*provider, &stack, &dirs, &row, &fork)
                .and_then(|()| self.directories.copy_included(&stack, &dirs));
            let included = match begun {
                Ok(included) => included,
                Err(error) => {
                    provider.cleanup(&dirs)?;
                    return if self.directories.is_gone(&stack)? {
                        Ok(Attempt::Again)
                    } else {
                        Err(error)
                    };
                }
            };
            let made = self.store().write(durability, |tx| {
                start.insert(tx, row.clone(), fork.clone(), also, cause)
            });
            match made {
                Ok(Some((row, fork))) => {
                    let path = self.context.data.workspace(id);
                    let fork = Fork {
                        included: included.clone(),
                        ..as_fork(project.clone(), row, fork)
                    };
                    Ok(Attempt::Made((fork, path)))
                }
                Ok(None) => {
                    self.directories.forget_stack(stack.top);
                    provider.cleanup(&dirs).map(|()| Attempt::Again)
                }
                Err(error) => {
                    let _ = provider.cleanup(&dirs);
                    Err(error)
                }
            }
        })
    }

    /// What makes a workspace a fork; none for one that is not.
    pub fn fork_of(&self, id: &WorkspaceId) -> Result<Option<Fork>> {
        self.store().read(|tx| {
            let row = crate::content::rows::open_row_in(tx, id)?;
            fork_in(tx, row)
        })
    }

    /// Like [`fork_of`](Self::fork_of), also of a workspace that was completed or deleted, if none
    /// of that name is open.
    pub fn last_fork_of(&self, id: &WorkspaceId) -> Result<Option<Fork>> {
        self.store().read(|tx| {
            let row = crate::content::rows::last_row_in(tx, id)?;
            fork_in(tx, row)
        })
    }

    /// Open forks of a project in the order in which they were made.
    pub fn list_forks(&self, project: &ProjectId) -> Result<Vec<Fork>> {
        self.forks_page(project, None, 0)
    }

    /// One page of [`list_forks`](Self::list_forks): the forks after one of them, at most `limit`;
    /// 0 means all. The page after a name that is no open fork of the project is empty.
    pub fn forks_page(
        &self,
        project: &ProjectId,
        after: Option<&WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Fork>> {
        self.store().read(|tx| {
            let key = open_project(tx, project)?.key;
            let after = match after {
                None => WorkspaceKey(0),
                Some(id) => match open_fork_of(tx, key, id)? {
                    Some(after) => after,
                    None => return Ok(Vec::new()),
                },
            };
            let rows = tx.forks_after(key, after, limit)?.into_iter();
            let forks = rows.map(|(row, fork)| as_fork(project.clone(), row, fork));
            Ok(forks.collect())
        })
    }

    /// Mounts every fork again whose path was handed out. For the start of a server. Returns how
    /// many could not be; each says why when it is used.
    pub fn remount_handed_out(&self) -> Result<usize> {
        let rows = self.store().read(|tx| tx.workspaces(None, 0))?;
        let mut failed = 0;
        for row in rows {
            if row.kind == WorkspaceKind::Fork && row.materialized && row.handed_out {
                let shown = self.directories.show_directory(&row);
                failed += usize::from(shown.is_err());
            }
        }
        Ok(failed)
    }

    /// Calls `make` with one free name after the other, each locked, until it makes the fork.
    pub(super) fn try_names<T>(
        &self,
        project: &ProjectId,
        options: &ForkOptions,
        mut make: impl FnMut(&WorkspaceId) -> Result<Attempt<T>>,
    ) -> Result<T> {
        for number in 1..=TRIES {
            let id = match (&options.id, &options.agent) {
                (Some(id), _) => id.clone(),
                (None, Some(agent)) if number == 1 => agent.as_str().parse()?,
                (None, Some(agent)) => format!("{agent}~{number}").parse()?,
                (None, None) => random_name(project)?,
            };
            self.workspaces.refuse_case_twin(&id)?;
            let _name = self.context.name_lock(&id)?;
            for _ in 0..LAYER_TRIES {
                match make(&id)? {
                    Attempt::Made(made) => return Ok(made),
                    Attempt::Again => {}
                    Attempt::NameTaken if options.id.is_some() => {
                        return Err(Error::new(
                            ErrorCode::AlreadyExists,
                            format!("the workspace `{id}` exists"),
                        )
                        .with_hint("choose another name, or delete that workspace first"));
                    }
                    Attempt::NameTaken => break,
                }
            }
        }
        Err(Error::new(
            ErrorCode::WorkspaceBusy,
            "no free name was found for the fork",
        )
        .with_hint("delete forks of this agent, or give a name"))
    }

    /// The start of a fork of this name; none if an open workspace has the name.
    fn start_if_name_is_free(
        &self,
        id: &WorkspaceId,
        project: &ProjectId,
        options: &ForkOptions,
    ) -> Result<Option<ForkStart>> {
        self.store().read(|tx| match is_open(tx, id)? {
            true => Ok(None),
            false => self.start_of_fork(tx, project, options).map(Some),
        })
    }

    fn start_of_fork(
        &self,
        tx: &dyn ReadTx,
        project: &ProjectId,
        options: &ForkOptions,
    ) -> Result<ForkStart> {
        let agent = match &options.agent {
            Some(agent) => tx.agent(agent)?,
            None => None,
        };
        // Its own weight, or that of its agent.
        let of_agent = agent.as_ref().map_or(0, |agent| agent.priority);
        let priority = options.priority.unwrap_or(of_agent);
        let agent = agent.filter(|_| !options.leave_agent);
        let for_agent = agent.map(|agent| agent.id);
        let project = open_project(tx, project)?;
        let find = |id: &ObjectId| -> Result<Option<SnapshotRow>> { tx.snapshot(project.key, id) };
        let origin = match (&options.at, project.head) {
            (Some(text), _) => match self.contents.find_snapshot(tx, &project, text) {
                Ok(found) => found,
                Err(error) if error.code() == ErrorCode::SnapshotNotFound => {
                    let start = self.start_from_fork(tx, project, text, priority)?;
                    return Ok(ForkStart { for_agent, ..start });
                }
                Err(error) => return Err(error),
            },
            (None, Some(head)) => {
                find(&head)?.ok_or_else(|| Error::internal("the head of the project has no row"))?
            }
            (None, None) => {
                return Err(Error::invalid(format!(
                    "the project `{}` has no snapshot to fork",
                    project.id
                ))
                .with_hint(format!(
                    "put a file into it first: `offshoot project put {} PATH`",
                    project.id
                )));
            }
        };
        let start = ForkStart {
            base: origin.clone(),
            origin,
            project,
            objects: Vec::new(),
            priority,
            for_agent,
        };
        match options.at {
            Some(_) => self.without_left_out_paths(tx, start),
            None => Ok(start),
        }
    }

    /// Replaces what never gets from one agent to another by what the head of the project has
    /// there: a snapshot of another fork holds what its agent has there, and an old one of the
    /// project may hold what merges of earlier versions brought.
    fn without_left_out_paths(&self, tx: &dyn ReadTx, mut start: ForkStart) -> Result<ForkStart> {
        let head = state_of_row(&start.project);
        let objects = self.contents.objects_in(tx);
        let mut bench = PendingObjects::new(&objects);
        let base = without_left_out(&mut bench, &head, &state_of(&start.base))?;
        (start.base.tree, start.base.sidecar) = (base.tree, base.sidecar);
        let origin = without_left_out(&mut bench, &head, &state_of(&start.origin))?;
        if origin != state_of(&start.origin) {
            start.origin = self
                .workspaces
                .snapshot_on(tx, &mut bench, &start.origin, origin)?;
        }
        start.objects = bench.prepare(self.store())?;
        Ok(start)
    }

    /// A snapshot of another fork of the project, open or closed: what it holds, on the base that
    /// it has in the project.
    fn start_from_fork(
        &self,
        tx: &dyn ReadTx,
        project: WorkspaceRow,
        text: &str,
        priority: i64,
    ) -> Result<ForkStart> {
        let (from, origin) = self.contents.find_snapshot_anywhere(tx, text)?;
        let fork = tx
            .fork(from.key)?
            .filter(|fork| fork.project == project.key);
        let base = match fork {
            Some(fork) => tx.snapshot(project.key, &fork.base)?,
            None => None,
        };
        let base = base.ok_or_else(|| {
            Error::invalid(format!(
                "the snapshot `{text}` belongs to `{}`, which is no fork of `{}`",
                from.id, project.id
            ))
            .with_hint(
                "`offshoot workspace create --from SNAP` begins a workspace with any snapshot",
            )
        })?;
        let start = ForkStart {
            project,
            origin,
            base,
            objects: Vec::new(),
            priority,
            for_agent: None,
        };
        self.without_left_out_paths(tx, start)
    }
}

/// Whether an open workspace has the name.
pub(super) fn is_open(tx: &dyn ReadTx, id: &WorkspaceId) -> Result<bool> {
    let row = tx.workspace(id)?;
    Ok(row.is_some_and(|row| row.state == WorkspaceState::Open))
}

/// The number of an open fork of a project.
fn open_fork_of(
    tx: &dyn ReadTx,
    project: WorkspaceKey,
    id: &WorkspaceId,
) -> Result<Option<WorkspaceKey>> {
    let row = tx.workspace(id)?;
    let Some(row) = row.filter(|row| row.state == WorkspaceState::Open) else {
        return Ok(None);
    };
    let fork = tx.fork(row.key)?.filter(|fork| fork.project == project);
    Ok(fork.map(|fork| fork.workspace))
}

fn fork_in(tx: &dyn ReadTx, row: WorkspaceRow) -> Result<Option<Fork>> {
    if row.kind != WorkspaceKind::Fork {
        return Ok(None);
    }
    let fork = fork_row(tx, &row)?;
    let project = project_name(tx, &fork)?;
    Ok(Some(as_fork(project, row, fork)))
}

fn as_fork(project: ProjectId, row: WorkspaceRow, fork: ForkRow) -> Fork {
    Fork {
        workspace: Workspace::of_fork(row, project.clone(), &fork),
        project,
        base: fork.base,
        agent: fork.agent,
        priority: fork.priority,
        provider: fork.provider.and_then(|name| name.parse().ok()),
        git: fork.git,
        included: Included::default(),
    }
}

fn random_name(project: &ProjectId) -> Result<WorkspaceId> {
    let random = uuid::Uuid::now_v7().simple().to_string();
    let mut name = project.to_string();
    name.truncate(56);
    format!("{name}-{}", &random[26..]).parse()
}
