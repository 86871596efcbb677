//! Projects, layers, forks and agents inside a transaction.

use offshoot_core::{AgentId, ObjectId, ProjectId, Result, Timestamp, WorkspaceId};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use super::Tx;
use super::codec::{self, Decoded, bad, columns};
use super::read::limit_or_all;
use super::write::Id;
use crate::{
    AgentRow, AuthorRow, ForkRow, Landing, LayerRow, ProjectReads, ProjectRow, ProjectWrites,
    RefRow, WorkspaceKey, WorkspaceRow,
};

const LAYER: &str = "SELECT key, name, project, below, depth, level, tree, sidecar, entries, \
                     bytes, made_at, synced FROM layer";
const FORK: &str = "workspace, project, base, base_tree, base_sidecar, agent, priority, git, \
                    provider, layer, place, setup";
const AUTHOR: &str = "SELECT project, agent, name, email FROM author";
const AGENT: &str = "SELECT id, parent, role, workspace, created_at, ended_at, priority,
    workspace_key FROM agent";

fn name<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> Decoded<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().or_else(|_| bad(column, Type::Text))
}

pub(super) fn optional_name<T: std::str::FromStr>(
    row: &Row<'_>,
    column: usize,
) -> Decoded<Option<T>> {
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(None),
        Some(_) => name(row, column).map(Some),
    }
}

fn author(row: &Row<'_>) -> Decoded<AuthorRow> {
    let project: i64 = row.get(0)?;
    Ok(AuthorRow {
        project: (project != 0).then_some(WorkspaceKey(project)),
        agent: match row.get_ref(1)?.as_str()? {
            "" => None,
            _ => Some(name(row, 1)?),
        },
        name: row.get(2)?,
        email: row.get(3)?,
    })
}

fn layer(row: &Row<'_>) -> Decoded<LayerRow> {
    Ok(LayerRow {
        key: row.get(0)?,
        name: row.get(1)?,
        project: WorkspaceKey(row.get(2)?),
        below: row.get(3)?,
        depth: row.get(4)?,
        level: row.get(5)?,
        tree: codec::id(row, 6)?,
        sidecar: codec::id(row, 7)?,
        entries: row.get(8)?,
        bytes: row.get(9)?,
        made_at: codec::time(row, 10)?,
        synced: row.get(11)?,
    })
}

fn fork(row: &Row<'_>, from: usize) -> Decoded<ForkRow> {
    Ok(ForkRow {
        workspace: WorkspaceKey(row.get(from)?),
        project: WorkspaceKey(row.get(from + 1)?),
        base: codec::id(row, from + 2)?,
        base_tree: codec::id(row, from + 3)?,
        base_sidecar: codec::id(row, from + 4)?,
        agent: optional_name(row, from + 5)?,
        priority: row.get(from + 6)?,
        git: row.get(from + 7)?,
        provider: row.get(from + 8)?,
        layer: row.get(from + 9)?,
        place: row.get(from + 10)?,
        setup: row.get(from + 11)?,
    })
}

fn agent(row: &Row<'_>) -> Decoded<AgentRow> {
    Ok(AgentRow {
        id: name(row, 0)?,
        parent: optional_name(row, 1)?,
        role: row.get(2)?,
        workspace: optional_name(row, 3)?,
        created_at: codec::time(row, 4)?,
        ended_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        priority: row.get(6)?,
        workspace_key: row.get::<_, Option<i64>>(7)?.map(WorkspaceKey),
    })
}

impl ProjectReads for Tx<'_> {
    fn project(&self, id: &ProjectId) -> Result<Option<WorkspaceRow>> {
        // Two statements, for the reason given at `workspace`.
        let open = self.one(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE id = ?1 AND (kind = 2) = 1 AND state = 0"
            ),
            [id.as_str()],
            codec::workspace,
        )?;
        if open.is_some() {
            return Ok(open);
        }
        self.one(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE id = ?1 AND kind = 2 ORDER BY key DESC LIMIT 1"
            ),
            [id.as_str()],
            codec::workspace,
        )
    }

    fn projects(&self, after: Option<&ProjectId>, limit: usize) -> Result<Vec<WorkspaceRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE state = 0 AND kind = 2 AND id > ?1 ORDER BY id LIMIT ?2"
            ),
            params![after.map_or("", ProjectId::as_str), limit_or_all(limit)],
            codec::workspace,
        )
    }

    fn project_settings(&self, key: WorkspaceKey) -> Result<Option<ProjectRow>> {
        self.one(
            "SELECT landing, include_ignored, policy, protect, link, branch, source, setup
             FROM project WHERE key = ?1",
            [key.0],
            |row| {
                Ok(ProjectRow {
                    key,
                    landing: match row.get(0)? {
                        0i64 => Landing::Partial,
                        1 => Landing::Atomic,
                        _ => return bad(0, Type::Integer),
                    },
                    include_ignored: row.get(1)?,
                    policy: row.get(2)?,
                    protect: row.get(3)?,
                    link: row.get(4)?,
                    branch: row.get(5)?,
                    source: row.get(6)?,
                    setup: row.get(7)?,
                })
            },
        )
    }

    fn fork(&self, workspace: WorkspaceKey) -> Result<Option<ForkRow>> {
        self.one(
            &format!("SELECT {FORK} FROM fork WHERE workspace = ?1"),
            [workspace.0],
            |row| fork(row, 0),
        )
    }

    fn forks_of(&self, project: WorkspaceKey) -> Result<Vec<WorkspaceRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE state = 0",
                " AND key IN (SELECT workspace FROM fork WHERE project = ?1) ORDER BY key"
            ),
            [project.0],
            codec::workspace,
        )
    }

    fn forks_after(
        &self,
        project: WorkspaceKey,
        after: WorkspaceKey,
        limit: usize,
    ) -> Result<Vec<(WorkspaceRow, ForkRow)>> {
        /// How many columns of the workspace come first.
        const OF_WORKSPACE: usize = 21;
        let sql = format!(
            concat!(
                "SELECT ",
                columns!(workspace),
                ", {} FROM fork CROSS JOIN workspace ON key = workspace",
                " WHERE project = ?1 AND workspace > ?2 AND state = 0",
                " ORDER BY workspace LIMIT ?3"
            ),
            FORK
        );
        let parameters = params![project.0, after.0, limit_or_all(limit)];
        self.all(&sql, parameters, |row| {
            Ok((codec::workspace(row)?, fork(row, OF_WORKSPACE)?))
        })
    }

    fn layer(&self, key: i64) -> Result<Option<LayerRow>> {
        self.one(&format!("{LAYER} WHERE key = ?1"), [key], layer)
    }

    fn layers_showing(&self, tree: &ObjectId, sidecar: &ObjectId) -> Result<Vec<LayerRow>> {
        self.all(
            &format!(
                "{LAYER} WHERE tree = ?1 AND sidecar = ?2 AND level >= 0 ORDER BY depth, key DESC"
            ),
            params![Id(tree), Id(sidecar)],
            layer,
        )
    }

    fn layers(&self) -> Result<Vec<LayerRow>> {
        self.all(&format!("{LAYER} ORDER BY key"), [], layer)
    }

    fn layers_of_level(&self, project: WorkspaceKey, level: i64) -> Result<Vec<LayerRow>> {
        self.all(
            &format!("{LAYER} WHERE project = ?1 AND level = ?2 ORDER BY key DESC"),
            [project.0, level],
            layer,
        )
    }

    fn layers_in_use(&self) -> Result<Vec<i64>> {
        self.all(
            "SELECT layer FROM fork JOIN workspace ON workspace.key = fork.workspace
             WHERE layer IS NOT NULL AND workspace.state = 0
             UNION
             SELECT setup FROM fork JOIN workspace ON workspace.key = fork.workspace
             WHERE setup IS NOT NULL AND workspace.state = 0
             ORDER BY 1",
            [],
            |row| row.get(0),
        )
    }

    fn agent(&self, id: &AgentId) -> Result<Option<AgentRow>> {
        self.one(&format!("{AGENT} WHERE id = ?1"), [id.as_str()], agent)
    }

    fn agents(&self) -> Result<Vec<AgentRow>> {
        self.all(
            &format!("{AGENT} WHERE ended_at IS NULL ORDER BY id"),
            [],
            agent,
        )
    }

    fn author(&self, project: WorkspaceKey, agent: Option<&AgentId>) -> Result<Option<AuthorRow>> {
        self.one(
            &format!(
                "{AUTHOR} WHERE project IN (0, ?1) AND agent IN ('', ?2)
                 ORDER BY agent = '', project = 0 LIMIT 1"
            ),
            params![project.0, agent.map_or("", AgentId::as_str)],
            author,
        )
    }

    fn authors(&self) -> Result<Vec<AuthorRow>> {
        self.all(&format!("{AUTHOR} ORDER BY project, agent"), [], author)
    }

    fn refs(&self, project: WorkspaceKey, prefix: &str) -> Result<Vec<RefRow>> {
        self.all(
            "SELECT name, target, peeled FROM ref
             WHERE project = ?1 AND name >= ?2 AND substr(name, 1, length(?2)) = ?2 ORDER BY name",
            params![project.0, prefix],
            |row| {
                Ok(RefRow {
                    project,
                    name: row.get(0)?,
                    target: codec::id(row, 1)?,
                    peeled: codec::id(row, 2)?,
                })
            },
        )
    }
}

impl ProjectWrites for Tx<'_> {
    fn put_project(&mut self, row: &ProjectRow) -> Result<()> {
        let landing = match row.landing {
            Landing::Partial => 0,
            Landing::Atomic => 1,
        };
        self.change(
            "INSERT OR REPLACE INTO project
                (key, landing, include_ignored, policy, protect, link, branch, source, setup)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                row.key.0,
                landing,
                row.include_ignored,
                row.policy,
                row.protect,
                row.link,
                row.branch,
                row.source,
                row.setup
            ],
        )?;
        Ok(())
    }

    fn put_fork(&mut self, row: &ForkRow) -> Result<()> {
        self.change(
            "INSERT OR REPLACE INTO fork (workspace, project, base, base_tree, base_sidecar, agent,
                priority, git, provider, layer, place, setup)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                row.workspace.0,
                row.project.0,
                Id(&row.base),
                Id(&row.base_tree),
                Id(&row.base_sidecar),
                row.agent.as_ref().map(AgentId::as_str),
                row.priority,
                row.git,
                row.provider,
                row.layer,
                row.place,
                row.setup,
            ],
        )?;
        Ok(())
    }

    fn add_layer(&mut self, row: &LayerRow) -> Result<i64> {
        self.change(
            "INSERT INTO layer (name, project, below, depth, level, tree, sidecar, entries, bytes,
                made_at, synced)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                row.name,
                row.project.0,
                row.below,
                row.depth,
                row.level,
                Id(&row.tree),
                Id(&row.sidecar),
                row.entries,
                row.bytes,
                row.made_at.0,
                row.synced,
            ],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    fn mark_layer_synced(&mut self, key: i64) -> Result<()> {
        self.change("UPDATE layer SET synced = 1 WHERE key = ?1", [key])?;
        Ok(())
    }

    fn remove_layer(&mut self, key: i64) -> Result<bool> {
        let used = self.one(
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM layer WHERE below = ?1)
                OR EXISTS (SELECT 1 FROM fork JOIN workspace ON workspace.key = fork.workspace
                           WHERE (layer = ?1 OR setup = ?1) AND workspace.state = 0)",
            [key],
            |_| Ok(()),
        )?;
        if used.is_some() {
            return Ok(false);
        }
        // The layers of closed forks are not in use.
        self.change("UPDATE fork SET layer = NULL WHERE layer = ?1", [key])?;
        self.change("UPDATE fork SET setup = NULL WHERE setup = ?1", [key])?;
        self.change("DELETE FROM layer WHERE key = ?1", [key])?;
        Ok(true)
    }

    fn put_agent(&mut self, row: &AgentRow) -> Result<()> {
        self.change(
            "INSERT INTO agent (id, parent, role, workspace, created_at, ended_at, priority,
                workspace_key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, role = excluded.role,
                workspace = excluded.workspace, created_at = excluded.created_at,
                ended_at = excluded.ended_at, priority = excluded.priority,
                workspace_key = excluded.workspace_key",
            params![
                row.id.as_str(),
                row.parent.as_ref().map(AgentId::as_str),
                row.role,
                row.workspace.as_ref().map(WorkspaceId::as_str),
                row.created_at.0,
                row.ended_at.map(|at| at.0),
                row.priority,
                row.workspace_key.map(|key| key.0),
            ],
        )?;
        Ok(())
    }

    fn put_author(&mut self, row: &AuthorRow) -> Result<()> {
        self.change(
            "INSERT OR REPLACE INTO author (project, agent, name, email) VALUES (?1, ?2, ?3, ?4)",
            params![
                row.project.map_or(0, |key| key.0),
                row.agent.as_ref().map_or("", AgentId::as_str),
                row.name,
                row.email,
            ],
        )?;
        Ok(())
    }

    fn remove_author(
        &mut self,
        project: Option<WorkspaceKey>,
        agent: Option<&AgentId>,
    ) -> Result<bool> {
        let removed = self.change(
            "DELETE FROM author WHERE project = ?1 AND agent = ?2",
            params![
                project.map_or(0, |key| key.0),
                agent.map_or("", AgentId::as_str)
            ],
        )?;
        Ok(removed > 0)
    }

    fn put_ref(&mut self, row: &RefRow) -> Result<()> {
        self.change(
            "INSERT OR REPLACE INTO ref (project, name, target, peeled) VALUES (?1, ?2, ?3, ?4)",
            params![row.project.0, row.name, Id(&row.target), Id(&row.peeled)],
        )?;
        Ok(())
    }

    fn remove_refs(&mut self, project: WorkspaceKey, prefix: &str) -> Result<usize> {
        self.change(
            "DELETE FROM ref
             WHERE project = ?1 AND name >= ?2 AND substr(name, 1, length(?2)) = ?2",
            params![project.0, prefix],
        )
    }

    fn remove_ref(&mut self, project: WorkspaceKey, name: &str) -> Result<bool> {
        let removed = self.change(
            "DELETE FROM ref WHERE project = ?1 AND name = ?2",
            params![project.0, name],
        )?;
        Ok(removed > 0)
    }
}
