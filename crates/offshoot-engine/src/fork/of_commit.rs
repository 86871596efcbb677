//! The workspace in which commits of a linked repository are merged: a fork without a directory.

use offshoot_core::{AgentId, Cause, ProjectId, Result, WorkspaceId};
use offshoot_store::{Durability, SnapshotRow};

use crate::content::rows::open_project;
use crate::context::idempotency::ExtraWrite;
use crate::fork::Forks;
use crate::fork::create::{Attempt, ForkOptions, ForkStart, is_open};

impl Forks {
    /// Forks a project at a commit that need not be a snapshot of it. `also` fills the workspace in
    /// the same transaction. The name is that of its agent; if it is taken, a number follows.
    pub(crate) fn fork_of_commit(
        &self,
        project: &ProjectId,
        agent: &str,
        base: SnapshotRow,
        also: ExtraWrite<'_>,
        cause: &Cause,
    ) -> Result<WorkspaceId> {
        let agent: AgentId = agent.parse()?;
        let options = ForkOptions {
            agent: Some(agent),
            leave_agent: true,
            ..ForkOptions::default()
        };
        let project_row = self.store().read(|tx| open_project(tx, project))?;
        let start = ForkStart {
            project: project_row,
            origin: base.clone(),
            base,
            objects: Vec::new(),
            priority: 0,
            for_agent: None,
        };
        self.try_names(project, &options, |id| {
            if self.store().read(|tx| is_open(tx, id))? {
                return Ok(Attempt::NameTaken);
            }
            let (row, fork) = start.rows(id, &options, self.context.now());
            let made = self.store().write(Durability::Synced, |tx| {
                start.insert(tx, row.clone(), fork.clone(), Some(also), cause)
            })?;
            Ok(match made {
                Some((row, _)) => Attempt::Made(row.id),
                None => Attempt::Again,
            })
        })
    }
}
