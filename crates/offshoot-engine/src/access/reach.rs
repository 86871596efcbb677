//! What a principal reaches: everything, a project with its forks, or one workspace.
//!
//! Which workspace an agent works in and which are forks of a project is in the store, so it is
//! looked up each time: a fork is reached from the moment it exists, and no longer than it does.

use std::sync::Arc;

use offshoot_core::{AgentId, ErrorCode, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_store::{HistoryRow, ReadTx, WorkspaceKey};

use super::{Access, Operation, Principal};
use crate::access::AccessControl;
use crate::content::rows::{ParentProject, no_project, no_workspace, parent_project};
use crate::{Event, Workspace};

/// Which workspaces a principal reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of them, and what concerns the store as a whole.
    Everything,
    /// The one that an agent works in: its own, or that of its nearest ancestor that has one. An
    /// agent that the tree does not know works in the workspace of its name.
    Agent(AgentId),
    /// One.
    Workspace(WorkspaceId),
    /// One project and those forked from it.
    Project(ProjectId),
}

impl AccessControl {
    /// The workspace that an agent completes, open or merged; none if it has none.
    pub(super) fn completed_by_agent(&self, agent: &AgentId) -> Result<Option<WorkspaceId>> {
        self.store()
            .read(|tx| crate::access::agent_tree::workspace_to_complete(tx, agent))
    }

    /// Whether there is or was a workspace of that name.
    pub(super) fn knows(&self, id: &WorkspaceId) -> Result<bool> {
        self.store().read(|tx| Ok(tx.workspace(id)?.is_some()))
    }

    /// Whether a workspace, open or closed, is a fork of a project.
    fn is_fork_of(&self, id: &WorkspaceId, project: &ProjectId) -> Result<bool> {
        self.store().read(|tx| {
            let Some(row) = tx.workspace(id)? else {
                return Ok(false);
            };
            let Some(fork) = tx.fork(row.key)? else {
                return Ok(false);
            };
            // The project of that name, and none that had the name before.
            let named = tx.project(project)?;
            Ok(named.is_some_and(|named| named.key == fork.project))
        })
    }

    /// Refuses a snapshot that belongs to neither a project nor a fork of it, in the words of one
    /// that does not exist.
    pub(super) fn check_fork_point(&self, project: &ProjectId, at: &str) -> Result<()> {
        self.store().read(|tx| {
            let row = crate::content::rows::open_project(tx, project)?;
            let Err(error) = self.contents.find_snapshot(tx, &row, at) else {
                return Ok(());
            };
            let elsewhere = self.contents.find_snapshot_anywhere(tx, at).ok();
            let fork = match &elsewhere {
                Some((from, _)) => tx.fork(from.key)?,
                None => None,
            };
            match fork {
                Some(fork) if fork.project == row.key => Ok(()),
                _ => Err(error),
            }
        })
    }

    /// The open forks of a project as workspaces, in the order of names; none if there is no such
    /// project.
    pub(super) fn fork_workspaces(&self, project: &ProjectId) -> Result<Vec<Workspace>> {
        let forks = match self.forks.list_forks(project) {
            Ok(forks) => forks,
            Err(error) if error.code() == ErrorCode::ProjectNotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found: Vec<Workspace> = forks.into_iter().map(|fork| fork.workspace).collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }
}

impl Access {
    /// The one workspace, open or closed, that the credential stands for; none if it has none, or
    /// if another project has got its name.
    pub(super) fn one_workspace(&self) -> Result<Option<WorkspaceId>> {
        self.rooms.store().read(|tx| {
            let named = match &self.principal.scope.reach {
                Reach::Workspace(id) => Some(id.clone()),
                Reach::Agent(agent) => crate::access::agent_tree::workspace_reached(tx, agent)?,
                Reach::Everything | Reach::Project(_) => None,
            };
            match named {
                Some(id) if self.is_at_home(tx, &id)? => Ok(Some(id)),
                _ => Ok(None),
            }
        })
    }

    /// Whether the workspace of that name belongs to what the token is bound to.
    fn is_at_home(&self, tx: &dyn ReadTx, id: &WorkspaceId) -> Result<bool> {
        let Some(home) = self.principal.home else {
            return Ok(true);
        };
        match tx.workspace(id)? {
            Some(row) => Ok(parent_project(tx, &row)? == home),
            None => Ok(true),
        }
    }

    /// What the share of a server is counted by: the workspace, open or closed, that the credential
    /// stands for, and a name for its holder. Whatever an agent spawns takes of the share of the
    /// agent below root that it belongs to.
    pub fn share(&self) -> Result<(String, Option<WorkspaceId>)> {
        let token = self.principal.token.clone().unwrap_or_default();
        match &self.principal.scope.reach {
            Reach::Everything | Reach::Project(_) => Ok((token, None)),
            Reach::Workspace(_) => Ok((token, self.one_workspace()?)),
            Reach::Agent(agent) => {
                let top = self
                    .rooms
                    .store()
                    .read(|tx| crate::access::agent_tree::top_of(tx, agent))?;
                Ok((format!("agent {top}"), self.one_workspace()?))
            }
        }
    }

    /// Whether the workspace is one of this principal's; if not, it is not there.
    pub fn check_reach(&self, id: &WorkspaceId) -> Result<()> {
        let within = match &self.principal.scope.reach {
            Reach::Everything => true,
            Reach::Workspace(_) | Reach::Agent(_) => self.one_workspace()?.as_ref() == Some(id),
            Reach::Project(project) => self.rooms.is_fork_of(id, project)?,
        };
        if within {
            return Ok(());
        }
        Err(no_workspace(id))
    }

    /// Whether this principal may complete the workspace: an agent reaches the receipt of its own
    /// workspace also when it works elsewhere by now.
    pub(super) fn check_completes(&self, id: &WorkspaceId) -> Result<()> {
        if let Reach::Agent(agent) = &self.principal.scope.reach
            && self.rooms.completed_by_agent(agent)?.as_ref() == Some(id)
            && self.rooms.store().read(|tx| self.is_at_home(tx, id))?
        {
            return Ok(());
        }
        self.check_reach(id)
    }

    /// Whether the project is one of this principal's; if not, it is not there.
    pub fn check_project(&self, id: &ProjectId) -> Result<()> {
        match &self.principal.scope.reach {
            Reach::Everything => Ok(()),
            Reach::Project(own) if own == id => Ok(()),
            _ => Err(no_project(id)),
        }
    }

    /// Whether this may be done with the project as a whole: tokens that are limited to some paths
    /// may not.
    pub(super) fn check_whole_project(&self, operation: Operation, id: &ProjectId) -> Result<()> {
        self.check_project(id)?;
        self.principal.allows_all_below(operation, &RelPath::root())
    }

    /// Refuses all but admins and unlimited tokens of a project.
    pub(super) fn check_owner(&self) -> Result<()> {
        match &self.principal.scope.reach {
            Reach::Project(_) if !self.principal.is_limited() => Ok(()),
            _ => self.principal.check_everything(),
        }
    }

    /// Whether the path of a fork may be told.
    pub(super) fn sees_host_paths(&self) -> bool {
        self.check_owner().is_ok()
    }

    /// Whether the principal sees one workspace, and no ids of anything else.
    pub(super) fn sees_one_workspace(&self) -> bool {
        let reach = &self.principal.scope.reach;
        matches!(reach, Reach::Agent(_) | Reach::Workspace(_))
    }

    /// What the principal reaches at this moment, to filter many events.
    pub fn view(&self) -> Result<View> {
        let reached = match &self.principal.scope.reach {
            Reach::Everything => Reached::Everything,
            Reach::Workspace(_) | Reach::Agent(_) => match self.one_workspace()? {
                Some(id) => self.rooms.store().read(|tx| match tx.workspace(&id)? {
                    Some(row) => Ok(Reached::Workspace(
                        id.clone(),
                        parent_project(tx, &row)?,
                        row.key,
                    )),
                    None => Ok(Reached::Nothing),
                })?,
                None => Reached::Nothing,
            },
            Reach::Project(id) => match self.rooms.store().read(|tx| tx.project(id))? {
                Some(row) => Reached::Project(ParentProject::Project(row.key.0)),
                None => Reached::Nothing,
            },
        };
        Ok(View {
            principal: self.principal.clone(),
            reached,
        })
    }
}

enum Reached {
    Everything,
    /// What the workspace belongs to comes with its name, and its number: another one may have had
    /// the name before.
    Workspace(WorkspaceId, ParentProject, WorkspaceKey),
    Project(ParentProject),
    Nothing,
}

/// What a principal may see of the events of a moment.
pub struct View {
    principal: Arc<Principal>,
    reached: Reached,
}

impl View {
    /// Whether an event may be shown.
    pub fn sees(&self, event: &Event) -> bool {
        let within = match &self.reached {
            Reached::Everything => true,
            Reached::Workspace(own, home, key) => {
                // The forks that an agent had in one project, one after the other, are all its own.
                let is_own = event.row.line.workspace == *key || *home != ParentProject::None;
                event.workspace.as_ref() == Some(own) && event.home == *home && is_own
            }
            Reached::Project(own) => event.home == *own,
            Reached::Nothing => false,
        };
        within && self.principal.sees_line(&event.row)
    }
}

impl Principal {
    /// Whether a line of history may be shown: its paths may be read.
    pub(super) fn sees_line(&self, row: &HistoryRow) -> bool {
        let reads = |path: &RelPath| path.is_root() || self.reads(path);
        reads(&row.line.path) && row.line.from.as_ref().is_none_or(reads)
    }
}
