//! What can be asked inside a transaction.

use offshoot_core::{ObjectId, RelPath, Result, WorkspaceId};
use rusqlite::types::Value;
use rusqlite::{Params, Row, params, params_from_iter};

use super::Tx;
use super::codec::{self, columns};
use super::error::SqlResult;
use crate::{
    EntryRow, HistoryFilter, HistoryRow, ObjectRow, PackRow, ReadTx, SnapshotRow, TokenRow,
    WorkspaceKey, WorkspaceRow,
};

impl Tx<'_> {
    pub(super) fn one<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(parameters).sql()?;
        rows.next().sql()?.map(decode).transpose().sql()
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        decode: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.statement(sql)?;
        let rows = statement.query_map(parameters, decode).sql()?;
        rows.collect::<rusqlite::Result<_>>().sql()
    }
}

/// SQLite's way to say "no limit" is a negative number.
pub(super) fn limit_or_all(limit: usize) -> i64 {
    if limit == 0 {
        -1
    } else {
        i64::try_from(limit).unwrap_or(i64::MAX)
    }
}

/// The directory and name under which a path is stored. The root is the empty name in itself.
pub(super) fn split(path: &RelPath) -> (&[u8], &[u8]) {
    let name = path.name();
    let parent = path.as_bytes().len().saturating_sub(name.len() + 1);
    (&path.as_bytes()[..parent], name)
}

/// The bounds of the stored directories below `dir`: from `dir/` to before `dir0`, because `0` is
/// the byte after `/`. Not for the root, below which everything is.
pub(super) fn bounds_below(dir: &RelPath) -> (Vec<u8>, Vec<u8>) {
    (
        [dir.as_bytes(), b"/"].concat(),
        [dir.as_bytes(), b"0"].concat(),
    )
}

const OF_PROJECT_NAMED: &str = " AND +workspace IN (
        SELECT key FROM workspace WHERE id = ? AND kind = 2
        UNION ALL
        SELECT fork.workspace FROM workspace JOIN fork ON fork.project = workspace.key
        WHERE workspace.id = ? AND workspace.kind = 2)";

/// The statement for lines of the history, and its values: only the conditions that are asked for,
/// so that SQLite can choose the right index.
pub(super) fn history_query(filter: &HistoryFilter) -> (String, Vec<Value>) {
    let mut sql = String::from(concat!("SELECT ", columns!(history), " FROM history"));
    if filter.workspace.is_some() && filter.path.is_some() {
        // With a range of numbers SQLite would rather walk all lines of the workspace.
        sql.push_str(" INDEXED BY history_path");
    }
    sql.push_str(" WHERE seq > ?");
    let mut values = vec![Value::from(filter.after_seq)];
    if let Some(workspace) = filter.workspace {
        sql.push_str(" AND workspace = ?");
        values.push(workspace.0.into());
    }
    // With `+` the lines are read in the order of their numbers, each once however many pages there
    // are. By the index on workspaces every page would sort all lines that are left.
    if let Some(name) = &filter.workspace_named {
        sql.push_str(" AND +workspace IN (SELECT key FROM workspace WHERE id = ? AND kind <> 2)");
        values.push(name.as_str().to_owned().into());
    }
    if let Some(name) = &filter.project_named {
        sql.push_str(OF_PROJECT_NAMED);
        values.extend([
            name.as_str().to_owned().into(),
            name.as_str().to_owned().into(),
        ]);
    }
    if let Some(path) = &filter.path {
        sql.push_str(" AND path = ?");
        values.push(path.as_bytes().to_vec().into());
    }
    if let Some(seq) = filter.before_seq {
        sql.push_str(" AND seq < ?");
        values.push(seq.into());
    }
    if let Some(upto) = filter.upto {
        sql.push_str(" AND at <= ?");
        values.push(upto.0.into());
    }
    if filter.after_revision != 0 {
        sql.push_str(" AND revision > ?");
        values.push(filter.after_revision.into());
    }
    sql.push_str(if filter.newest_first {
        " ORDER BY seq DESC"
    } else {
        " ORDER BY seq"
    });
    sql.push_str(" LIMIT ?");
    values.push(limit_or_all(filter.limit).into());
    (sql, values)
}

/// Paths that have lines, from `?2` on and before `?3` if there is one. Each is found by a look-up
/// in the index behind the one before: `DISTINCT` would read every line, and a log may have a
/// million.
pub(super) const PATHS_WITH_HISTORY: &str = "
    WITH RECURSIVE found (path) AS (
        SELECT (SELECT path FROM history INDEXED BY history_path
                WHERE workspace = ?1 AND path >= ?2 ORDER BY path LIMIT 1)
        UNION ALL
        SELECT (SELECT path FROM history INDEXED BY history_path
                WHERE workspace = ?1 AND path > found.path ORDER BY path LIMIT 1)
        FROM found WHERE found.path IS NOT NULL AND (?3 IS NULL OR found.path < ?3)
    )
    SELECT path FROM found WHERE path IS NOT NULL AND (?3 IS NULL OR path < ?3) LIMIT ?4";

/// The least and the greatest id that begin with these hex digits; none if there cannot be any.
fn id_bounds(prefix: &str) -> Option<([u8; 20], [u8; 20])> {
    if prefix.len() > 40 {
        return None;
    }
    let (mut least, mut greatest) = ([0x00u8; 20], [0xffu8; 20]);
    for (index, character) in prefix.chars().enumerate() {
        let digit = character.to_digit(16)? as u8;
        let shift = if index % 2 == 0 { 4 } else { 0 };
        least[index / 2] |= digit << shift;
        greatest[index / 2] &= !((0x0f ^ digit) << shift);
    }
    Some((least, greatest))
}

impl ReadTx for Tx<'_> {
    fn setting(&self, key: &str) -> Result<Option<String>> {
        self.one("SELECT value FROM setting WHERE key = ?1", [key], |row| {
            row.get(0)
        })
    }

    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRow>> {
        // Two statements: one that orders by the column of the partial index is compiled anew by
        // SQLite each time it is bound, which made this the most expensive look-up of all.
        let open = self.one(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE id = ?1 AND (kind = 2) = 0 AND state = 0"
            ),
            [id.as_str()],
            codec::workspace,
        )?;
        if open.is_some() {
            return Ok(open);
        }
        // A name is used by one workspace after the other, so keys follow the order of closing.
        self.one(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE id = ?1 AND kind <> 2 ORDER BY key DESC LIMIT 1"
            ),
            [id.as_str()],
            codec::workspace,
        )
    }

    fn workspace_by_key(&self, key: WorkspaceKey) -> Result<Option<WorkspaceRow>> {
        self.one(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE key = ?1"
            ),
            [key.0],
            codec::workspace,
        )
    }

    fn workspaces(&self, after: Option<&WorkspaceId>, limit: usize) -> Result<Vec<WorkspaceRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE state = 0 AND kind <> 2 AND id > ?1 ORDER BY id LIMIT ?2"
            ),
            params![after.map_or("", WorkspaceId::as_str), limit_or_all(limit)],
            codec::workspace,
        )
    }

    fn all_workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace ORDER BY key"
            ),
            [],
            codec::workspace,
        )
    }

    fn unsynced_workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(workspace),
                " FROM workspace WHERE state = 0 AND revision > synced_revision AND kind <> 2",
                " ORDER BY key"
            ),
            [],
            codec::workspace,
        )
    }

    fn entries_on_path(&self, workspace: WorkspaceKey, path: &RelPath) -> Result<Vec<EntryRow>> {
        // A loop over one statement: inside the process that is cheaper than a list of values.
        let mut found = Vec::new();
        let mut places = path.ancestors();
        places.push(path.clone());
        for place in &places {
            found.extend(self.entry_at(workspace, place)?);
        }
        Ok(found)
    }

    fn entry_at(&self, workspace: WorkspaceKey, path: &RelPath) -> Result<Option<EntryRow>> {
        let (parent, name) = split(path);
        self.one(
            concat!(
                "SELECT ",
                columns!(entry),
                " FROM entry WHERE workspace = ?1 AND parent = ?2 AND name = ?3"
            ),
            params![workspace.0, parent, name],
            codec::entry,
        )
    }

    fn entries_in(&self, workspace: WorkspaceKey, dir: &RelPath) -> Result<Vec<EntryRow>> {
        // The root's own row has an empty name.
        self.all(
            concat!(
                "SELECT ",
                columns!(entry),
                " FROM entry WHERE workspace = ?1 AND parent = ?2 AND name > x'' ORDER BY name"
            ),
            params![workspace.0, dir.as_bytes()],
            codec::entry,
        )
    }

    fn entries_below(&self, workspace: WorkspaceKey, dir: &RelPath) -> Result<Vec<EntryRow>> {
        let mut rows = if dir.is_root() {
            self.all(
                concat!(
                    "SELECT ",
                    columns!(entry),
                    " FROM entry WHERE workspace = ?1 AND (parent, name) > (x'', x'')"
                ),
                [workspace.0],
                codec::entry,
            )?
        } else {
            let (from, to) = bounds_below(dir);
            let mut rows = self.entries_in(workspace, dir)?;
            rows.extend(self.all(
                concat!(
                    "SELECT ",
                    columns!(entry),
                    " FROM entry WHERE workspace = ?1 AND parent >= ?2 AND parent < ?3"
                ),
                params![workspace.0, from, to],
                codec::entry,
            )?);
            rows
        };
        // Stored by directory, wanted by path.
        rows.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(rows)
    }

    fn object(&self, id: &ObjectId) -> Result<Option<ObjectRow>> {
        self.one(
            concat!("SELECT ", columns!(object), " FROM object WHERE id = ?1"),
            [id.as_bytes()],
            codec::object,
        )
    }

    fn object_size(&self, id: &ObjectId) -> Result<Option<u64>> {
        self.one(
            "SELECT size FROM object WHERE id = ?1",
            [id.as_bytes()],
            |row| row.get::<_, i64>(0).map(|size| size as u64),
        )
    }

    fn has_objects(&self, ids: &[ObjectId]) -> Result<Vec<bool>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = self.statement("SELECT 1 FROM object WHERE id = ?1")?;
        ids.iter()
            .map(|id| statement.exists([id.as_bytes()]).sql())
            .collect()
    }

    fn objects_after(
        &self,
        after: Option<&ObjectId>,
        limit: usize,
        with_bytes: bool,
    ) -> Result<Vec<ObjectRow>> {
        let sql = if with_bytes {
            concat!(
                "SELECT ",
                columns!(object),
                " FROM object WHERE id > ?1 ORDER BY id LIMIT ?2"
            )
        } else {
            concat!(
                "SELECT ",
                columns!(object_without_bytes),
                " FROM object WHERE id > ?1 ORDER BY id LIMIT ?2"
            )
        };
        let after: &[u8] = after.map_or(&[], |id| id.as_bytes());
        self.all(sql, params![after, limit_or_all(limit)], codec::object)
    }

    fn pack(&self, key: i64) -> Result<Option<PackRow>> {
        self.one(
            concat!("SELECT ", columns!(pack), " FROM pack WHERE key = ?1"),
            [key],
            codec::pack,
        )
    }

    fn packs(&self) -> Result<Vec<PackRow>> {
        self.all(
            concat!("SELECT ", columns!(pack), " FROM pack ORDER BY key"),
            [],
            codec::pack,
        )
    }

    fn pack_objects(&self, key: i64) -> Result<Vec<ObjectRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(object_without_bytes),
                " FROM object WHERE pack = ?1 ORDER BY start"
            ),
            [key],
            codec::object,
        )
    }

    fn snapshot(&self, workspace: WorkspaceKey, id: &ObjectId) -> Result<Option<SnapshotRow>> {
        // With `+` SQLite sorts the few rows that the index on ids finds, instead of reading all
        // snapshots of the workspace because they are in the wanted order already.
        self.one(
            concat!(
                "SELECT ",
                columns!(snapshot),
                " FROM snapshot WHERE workspace = ?1 AND id = ?2 ORDER BY +number DESC LIMIT 1"
            ),
            params![workspace.0, id.as_bytes()],
            codec::snapshot,
        )
    }

    fn snapshots_by_prefix(
        &self,
        workspace: WorkspaceKey,
        prefix: &str,
    ) -> Result<Vec<SnapshotRow>> {
        let Some((least, greatest)) = id_bounds(prefix) else {
            return Ok(Vec::new());
        };
        self.all(
            concat!(
                "SELECT ",
                columns!(snapshot),
                " FROM snapshot WHERE workspace = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY +number DESC"
            ),
            params![workspace.0, least, greatest],
            codec::snapshot,
        )
    }

    fn snapshots(&self, workspace: WorkspaceKey, limit: usize) -> Result<Vec<SnapshotRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(snapshot),
                " FROM snapshot WHERE workspace = ?1 ORDER BY number DESC LIMIT ?2"
            ),
            params![workspace.0, limit_or_all(limit)],
            codec::snapshot,
        )
    }

    fn snapshots_before(
        &self,
        workspace: WorkspaceKey,
        number: i64,
        limit: usize,
    ) -> Result<Vec<SnapshotRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(snapshot),
                " FROM snapshot WHERE workspace = ?1 AND number < ?2",
                " ORDER BY number DESC LIMIT ?3"
            ),
            params![workspace.0, number, limit_or_all(limit)],
            codec::snapshot,
        )
    }

    fn history(&self, filter: &HistoryFilter) -> Result<Vec<HistoryRow>> {
        let (sql, values) = history_query(filter);
        self.all(&sql, params_from_iter(values), codec::history)
    }

    fn last_write(&self, workspace: WorkspaceKey, path: &RelPath) -> Result<Option<HistoryRow>> {
        self.one(
            concat!(
                "SELECT ",
                columns!(history),
                " FROM history WHERE workspace = ?1 AND path = ?2 AND after IS NOT NULL",
                " ORDER BY seq DESC LIMIT 1"
            ),
            params![workspace.0, path.as_bytes()],
            codec::history,
        )
    }

    fn paths_with_history(
        &self,
        workspace: WorkspaceKey,
        dir: &RelPath,
        limit: usize,
    ) -> Result<Vec<RelPath>> {
        let (from, to) = bounds_below(dir);
        // Everything but the root itself, which has no name, is below it.
        let (from, to) = match dir.is_root() {
            true => (b"\x01".to_vec(), None),
            false => (from, Some(to)),
        };
        self.all(
            PATHS_WITH_HISTORY,
            params![workspace.0, from, to, limit_or_all(limit)],
            |row| codec::path(row, 0),
        )
    }

    fn last_seq(&self) -> Result<i64> {
        // Not the greatest number in the table: lines may have been erased.
        let given = self.one(
            "SELECT seq FROM sqlite_sequence WHERE name = 'history'",
            [],
            |row| row.get(0),
        )?;
        Ok(given.unwrap_or(0))
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>> {
        self.one(
            concat!("SELECT ", columns!(token), " FROM token WHERE hash = ?1"),
            [&hash[..]],
            codec::token,
        )
    }

    fn tokens(&self, after: Option<&str>, limit: usize) -> Result<Vec<TokenRow>> {
        self.all(
            concat!(
                "SELECT ",
                columns!(token),
                " FROM token WHERE id > ?1 ORDER BY id LIMIT ?2"
            ),
            params![after.unwrap_or_default(), limit_or_all(limit)],
            codec::token,
        )
    }

    fn visit_roots(&self, visit: &mut dyn FnMut(ObjectId)) -> Result<()> {
        for (sql, width) in [
            ("SELECT before, after FROM history", 2),
            ("SELECT id FROM entry WHERE id IS NOT NULL", 1),
            ("SELECT head, tree, sidecar FROM workspace", 3),
            ("SELECT id, parent, tree, sidecar FROM snapshot", 4),
            ("SELECT base, base_tree, base_sidecar FROM fork", 3),
            ("SELECT base, ours, theirs FROM review", 3),
            ("SELECT content FROM candidate", 1),
            ("SELECT target FROM ref", 1),
        ] {
            let mut statement = self.statement(sql)?;
            let mut rows = statement.query([]).sql()?;
            while let Some(row) = rows.next().sql()? {
                for column in 0..width {
                    if let Some(id) = codec::optional_id(row, column).sql()? {
                        visit(id);
                    }
                }
            }
        }
        Ok(())
    }
}
