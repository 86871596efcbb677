//! Events: every line of the history, over all workspaces, in the order of their commits.

use std::collections::HashMap;
use std::path::PathBuf;

use offshoot_core::{ProjectId, Result, WorkspaceId};
use offshoot_store::{
    HistoryFilter, HistoryRow, ReadTx, WorkspaceKey, WorkspaceKind, WorkspaceRow,
};

use crate::content::rows::{ParentProject, parent_project, project_name};
use crate::history::History;

/// Something that happened in a workspace or a project.
#[derive(Clone, Debug)]
pub struct Event {
    /// The workspace in which it happened; none if it happened in a project.
    pub workspace: Option<WorkspaceId>,
    /// The project in which it happened, or of which the workspace is a fork.
    pub project: Option<ProjectId>,
    /// What it belongs to, also when names were taken again since.
    pub home: ParentProject,
    /// The line of history, with its number.
    pub row: HistoryRow,
}

impl History {
    /// The number of the newest event; 0 if there is none. Other processes' events count too.
    pub fn last_event(&self) -> Result<i64> {
        self.store().read(|tx| tx.last_seq())
    }

    /// Events with a greater number, oldest first. A caller that asks again with the last number
    /// misses none: numbers follow commits.
    pub fn events_after(
        &self,
        seq: i64,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        self.store().read(|tx| {
            let key = match workspace {
                None => None,
                Some(id) => match tx.workspace(id)? {
                    Some(row) => Some(row.key),
                    None => return Ok(Vec::new()),
                },
            };
            let rows = tx.history(&HistoryFilter {
                workspace: key,
                after_seq: seq,
                limit,
                ..HistoryFilter::default()
            })?;
            events_of(tx, rows)
        })
    }

    /// Events with a greater number that happened where the names say, oldest first. The store
    /// looks at each line since then; lines of other workspaces are not read.
    pub fn events_within(&self, seq: i64, named: &EventScope, limit: usize) -> Result<EventPage> {
        self.store().read(|tx| {
            let newest = tx.last_seq()?;
            let rows = tx.history(&HistoryFilter {
                workspace_named: named.workspace.clone(),
                project_named: named.project.clone(),
                after_seq: seq,
                limit,
                ..HistoryFilter::default()
            })?;
            let upto = match rows.last() {
                Some(last) if limit > 0 && rows.len() >= limit => last.seq,
                _ => newest.max(seq),
            };
            Ok(EventPage {
                events: events_of(tx, rows)?,
                upto,
            })
        })
    }
}

/// Where events happened, by name; everywhere if none is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventScope {
    /// In workspaces that have, or had, this name.
    pub workspace: Option<WorkspaceId>,
    /// In projects that have, or had, this name, and in their forks.
    pub project: Option<ProjectId>,
}

/// A part of the events of a place.
#[derive(Clone, Debug)]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// The next page begins after this number: up to it there are no other events.
    pub upto: i64,
}

fn events_of(tx: &dyn ReadTx, rows: Vec<HistoryRow>) -> Result<Vec<Event>> {
    let mut places: HashMap<WorkspaceKey, Option<EventLocation>> = HashMap::new();
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        let key = row.line.workspace;
        let place = match places.get(&key) {
            Some(place) => place.clone(),
            None => location_of(tx, key)?,
        };
        places.insert(key, place.clone());
        if let Some((workspace, project, home)) = place {
            events.push(Event {
                workspace,
                project,
                home,
                row,
            });
        }
    }
    Ok(events)
}

/// The names of where something happened, and what that belongs to.
type EventLocation = (Option<WorkspaceId>, Option<ProjectId>, ParentProject);

fn location_of(tx: &dyn ReadTx, key: WorkspaceKey) -> Result<Option<EventLocation>> {
    let Some(row) = tx.workspace_by_key(key)? else {
        return Ok(None);
    };
    let home = parent_project(tx, &row)?;
    Ok(Some(match row.kind {
        WorkspaceKind::Project => (None, Some(row.id.as_str().parse()?), home),
        WorkspaceKind::Fork => {
            let fork = tx.fork(key)?;
            let project = fork.map(|fork| project_name(tx, &fork)).transpose()?;
            (Some(row.id), project, home)
        }
        _ => (Some(row.id), None, home),
    }))
}

/// A workspace whose directory outside programs may change.
#[derive(Clone, Debug)]
pub struct HandedOutWorkspace {
    /// Its name.
    pub id: WorkspaceId,
    /// Its directory on this machine.
    pub path: PathBuf,
    /// How many directories it holds, as of the last sync.
    pub dirs: usize,
}

impl History {
    /// The workspaces whose path was handed out, for the watcher of their directories.
    pub fn handed_out(&self) -> Result<Vec<HandedOutWorkspace>> {
        let rows = self.store().read(|tx| tx.workspaces(None, 0))?;
        let place = |row: WorkspaceRow| HandedOutWorkspace {
            path: self.context.data.workspace(&row.id),
            dirs: row.dirs as usize,
            id: row.id,
        };
        Ok(rows
            .into_iter()
            .filter(|row| row.handed_out && row.materialized)
            .map(place)
            .collect())
    }
}
