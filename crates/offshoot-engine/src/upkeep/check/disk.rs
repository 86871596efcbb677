//! Layers and forks on disk against their rows.

use offshoot_core::{RelPath, Result, WorkspaceId};
use offshoot_fs::{LayerState, SafeDir, is_fork_mounted, layer_state};
use offshoot_store::{LayerRow, WorkspaceRow, WorkspaceState};

use super::{Check, Problem, unless_busy};
use crate::directory::fork_dir::parse_fork_dir_name;
use crate::directory::git_layer::is_git_layer;
use crate::directory::layers::state_of_layer;
use crate::directory::setup_layer::is_setup_layer;
use crate::upkeep::recovery_forks::names_in;

impl Check<'_> {
    /// Layers that rows name. One that is missing is built again when it is needed.
    pub(super) fn layers(&mut self) -> Result<()> {
        let mut rows = Vec::new();
        self.look_repeatedly("layer", |check, _| {
            rows = check.upkeep.store().read(|tx| tx.layers())?;
            Ok(())
        })?;
        for row in &rows {
            if self.layer_is_right(row).is_ok_and(|right| right) {
                continue;
            }
            self.look_repeatedly("layer", |check, found| {
                // Nobody builds, repairs or collects it now.
                let Some(_locks) = unless_busy(check.upkeep.directories.layers_lock(row.project))?
                else {
                    return Ok(());
                };
                let row = check.upkeep.store().read(|tx| tx.layer(row.key))?;
                if let Some(row) = row
                    && !check.layer_is_right(&row)?
                {
                    found.add(
                        "layer",
                        format!("layer `{}` does not show its state", row.name),
                    );
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn layer_is_right(&self, row: &LayerRow) -> Result<bool> {
        let place = self.upkeep.directories.layer_path(row);
        // A `.git` holds what its forks have committed, and no row says what a setup made.
        if is_git_layer(row)
            || is_setup_layer(row)
            || layer_state(&place)? == LayerState::Incomplete
        {
            return Ok(true);
        }
        let Some(below) = row.below else {
            return self.upkeep.directories.layer_is_intact(row);
        };
        let store = self.upkeep.store();
        let changes = store.read(|tx| {
            let Some(below) = tx.layer(below)? else {
                return Ok(None);
            };
            let objects = self.upkeep.contents.objects_in(tx);
            let changes =
                state_of_layer(&below).diff(&objects, &state_of_layer(row), &RelPath::root())?;
            Ok(Some(changes))
        })?;
        let Some(changes) = changes else {
            return Ok(false);
        };
        let dir = SafeDir::open(place)?.following_no_links();
        for change in &changes {
            if let Some(entry) = &change.after
                && !self
                    .upkeep
                    .directories
                    .entry_is_intact(&dir, &change.path, entry)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Directories and mounts of forks that no row explains.
    pub(super) fn forks(&mut self) -> Result<()> {
        for name in names_in(&self.upkeep.context.data.forks()) {
            let Some((id, place)) = parse_fork_dir_name(&name) else {
                self.report_unowned(format!("`{name}` among the forks belongs to nobody"));
                continue;
            };
            let private = self.upkeep.context.data.forks().join(&name);
            self.report_unless_busy(&id, |check, row| {
                let fork = match row {
                    Some(row) => check.upkeep.store().read(|tx| tx.fork(row.key))?,
                    None => None,
                };
                let known = fork.is_some_and(|fork| fork.place == place);
                Ok((!known && private.is_dir())
                    .then(|| format!("the private directory `{name}` belongs to no fork")))
            })?;
        }
        for name in names_in(&self.upkeep.context.data.workspaces()) {
            let target = self.upkeep.context.data.workspaces().join(&name);
            if !is_fork_mounted(&target).unwrap_or(true) {
                continue;
            }
            let Ok(id) = name.parse() else {
                self.report_unowned(format!("a mount at `{name}` belongs to no workspace"));
                continue;
            };
            self.report_unless_busy(&id, |_, row| {
                Ok((row.is_none() && is_fork_mounted(&target)?)
                    .then(|| format!("a mount at `{name}` belongs to no workspace")))
            })?;
        }
        Ok(())
    }

    /// Reports a file that no fork can own. It needs no second look.
    fn report_unowned(&mut self, message: String) {
        let what = "directory";
        self.report.problems.push(Problem { what, message });
    }

    /// Reports what is wrong with the files on disk under a name, under the lock of that name. If
    /// the lock stays busy, its holder is at work on these files and nothing is reported.
    fn report_unless_busy(
        &mut self,
        id: &WorkspaceId,
        wrong: impl Fn(&Self, Option<&WorkspaceRow>) -> Result<Option<String>>,
    ) -> Result<()> {
        let open = |check: &Self| {
            let row = check.upkeep.store().read(|tx| tx.workspace(id))?;
            Ok(row.filter(|row| row.state == WorkspaceState::Open))
        };
        let row = open(self)?;
        if wrong(self, row.as_ref()).is_ok_and(|wrong| wrong.is_none()) {
            return Ok(());
        }
        self.look_repeatedly("directory", |check, found| {
            let locks = check.upkeep.context.name_lock(id).and_then(|name| {
                let row = open(check)?;
                let lock = row
                    .as_ref()
                    .map(|row| check.upkeep.directories.exclusive(row));
                Ok((name, lock.transpose()?))
            });
            let Some(_locks) = unless_busy(locks)? else {
                return Ok(());
            };
            let row = open(check)?;
            if let Some(message) = wrong(check, row.as_ref())? {
                found.add("directory", message);
            }
            Ok(())
        })
    }
}
