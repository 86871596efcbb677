//! What can be changed inside a transaction.

use offshoot_core::{Error, ErrorCode, ObjectId, Operator, RelPath, Result, Timestamp};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Params, ToSql, params};

use super::Tx;
use super::codec::{
    kind_number, layout_number, op_number, state_number, via_number, workspace_kind_number,
};
use super::error::SqlResult;
use super::read::{bounds_below, split};
use crate::objects::{object_key, removed_meanwhile};
use crate::rows::PresenceCheck;
use crate::{
    EntryRow, NewHistory, NewObject, ObjectPlace, SnapshotRow, TokenRow, WorkspaceKey,
    WorkspaceKind, WorkspaceRow, WriteTx,
};

/// An id as a parameter.
pub(super) struct Id<'a>(pub(super) &'a ObjectId);

impl ToSql for Id<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(&self.0.as_bytes()[..]))
    }
}

pub(super) fn optional(id: &Option<ObjectId>) -> Option<Id<'_>> {
    id.as_ref().map(Id)
}

impl Tx<'_> {
    pub(super) fn change(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        self.statement(sql)?.execute(parameters).sql()
    }

    /// The number of an operator, whose name is stored once.
    pub(super) fn operator(&mut self, operator: &Operator) -> Result<i64> {
        if let Some((known, key)) = &self.operator
            && known == operator
        {
            return Ok(*key);
        }
        let name = operator.as_str();
        let known = self.one("SELECT key FROM operator WHERE name = ?1", [name], |row| {
            row.get(0)
        })?;
        let key = match known {
            Some(key) => key,
            None => {
                self.change("INSERT INTO operator (name) VALUES (?1)", [name])?;
                self.connection.last_insert_rowid()
            }
        };
        self.operator = Some((operator.clone(), key));
        Ok(key)
    }
}

fn name_taken(row: &WorkspaceRow) -> impl FnOnce(Error) -> Error + '_ {
    |error| {
        let unique = std::error::Error::source(&error)
            .and_then(|source| source.downcast_ref::<rusqlite::Error>())
            .and_then(rusqlite::Error::sqlite_error)
            .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE);
        if unique {
            let what = match row.kind {
                WorkspaceKind::Project => "project",
                _ => "workspace",
            };
            Error::new(
                ErrorCode::AlreadyExists,
                format!("the {what} `{}` exists", row.id),
            )
            .with_hint(format!("choose another name, or delete that {what} first"))
        } else {
            error
        }
    }
}

impl WriteTx for Tx<'_> {
    fn put_setting(&mut self, key: &str, value: &str) -> Result<()> {
        self.change(
            "INSERT INTO setting (key, value) VALUES (?1, ?2)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [key, value],
        )?;
        Ok(())
    }

    fn add_workspace(&mut self, row: &WorkspaceRow) -> Result<WorkspaceKey> {
        self.change(
            "INSERT INTO workspace (id, layout, state, head, tree, sidecar, revision,
                synced_revision, materialized, handed_out, created_at, changed_at, used_at,
                last_sync, files, dirs, bytes, quota_bytes, quota_inodes, kind)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                ?18, ?19, ?20)",
            params![
                row.id.as_str(),
                layout_number(row.layout),
                state_number(row.state),
                optional(&row.head),
                Id(&row.tree),
                Id(&row.sidecar),
                row.revision,
                row.synced_revision,
                row.materialized,
                row.handed_out,
                row.created_at.0,
                row.changed_at.0,
                row.used_at.0,
                row.last_sync.map(|time| time.0),
                row.files,
                row.dirs,
                row.bytes,
                row.quota_bytes,
                row.quota_inodes,
                workspace_kind_number(row.kind),
            ],
        )
        .map_err(name_taken(row))?;
        Ok(WorkspaceKey(self.connection.last_insert_rowid()))
    }

    fn update_workspace(&mut self, row: &WorkspaceRow) -> Result<()> {
        let changed = self
            .change(
                "UPDATE workspace SET layout = ?2, state = ?3, head = ?4, tree = ?5, sidecar = ?6,
                    revision = ?7, synced_revision = ?8, materialized = ?9, handed_out = ?10,
                    created_at = ?11, changed_at = ?12, used_at = ?13, last_sync = ?14,
                    files = ?15, dirs = ?16, bytes = ?17, quota_bytes = ?18, quota_inodes = ?19
                 WHERE key = ?1",
                params![
                    row.key.0,
                    layout_number(row.layout),
                    state_number(row.state),
                    optional(&row.head),
                    Id(&row.tree),
                    Id(&row.sidecar),
                    row.revision,
                    row.synced_revision,
                    row.materialized,
                    row.handed_out,
                    row.created_at.0,
                    row.changed_at.0,
                    row.used_at.0,
                    row.last_sync.map(|time| time.0),
                    row.files,
                    row.dirs,
                    row.bytes,
                    row.quota_bytes,
                    row.quota_inodes,
                ],
            )
            .map_err(name_taken(row))?;
        if changed == 0 {
            return Err(Error::new(
                ErrorCode::WorkspaceNotFound,
                format!("no workspace `{}`", row.id),
            ));
        }
        Ok(())
    }

    fn erase_workspace(&mut self, key: WorkspaceKey) -> Result<()> {
        for sql in [
            "DELETE FROM entry WHERE workspace = ?1",
            "DELETE FROM snapshot WHERE workspace = ?1",
            "DELETE FROM history WHERE workspace = ?1",
            "DELETE FROM candidate WHERE review IN
                (SELECT id FROM review WHERE workspace = ?1 OR project = ?1)",
            "DELETE FROM review WHERE workspace = ?1 OR project = ?1",
            "DELETE FROM completion WHERE workspace = ?1 OR project = ?1",
            "DELETE FROM merge WHERE workspace = ?1 OR project = ?1",
            "DELETE FROM request WHERE key IN
                (SELECT request FROM request_made WHERE workspace = ?1)
                AND NOT EXISTS (SELECT 1 FROM request_made AS other
                    WHERE other.request = request.key AND other.workspace IS NOT ?1)",
            "DELETE FROM request_made WHERE workspace = ?1",
            "DELETE FROM fork WHERE workspace = ?1",
            "DELETE FROM fork WHERE project = ?1",
            "DELETE FROM layer WHERE project = ?1",
            "DELETE FROM ref WHERE project = ?1",
            "DELETE FROM author WHERE project = ?1",
            "DELETE FROM project WHERE key = ?1",
            "DELETE FROM workspace WHERE key = ?1",
        ] {
            self.change(sql, [key.0])?;
        }
        Ok(())
    }

    fn erase_oldest_history(&mut self, workspace: WorkspaceKey, limit: usize) -> Result<usize> {
        self.change(
            "DELETE FROM history WHERE seq IN
                (SELECT seq FROM history WHERE workspace = ?1 ORDER BY seq LIMIT ?2)",
            params![workspace.0, i64::try_from(limit).unwrap_or(i64::MAX)],
        )
    }

    fn put_entry(&mut self, workspace: WorkspaceKey, row: &EntryRow) -> Result<()> {
        let (parent, name) = split(&row.path);
        self.change(
            "INSERT OR REPLACE INTO entry
                (workspace, parent, name, kind, opaque, perm, id, size, revision)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                workspace.0,
                parent,
                name,
                row.kind.map(kind_number),
                row.opaque,
                row.perm,
                optional(&row.id),
                row.size,
                row.revision,
            ],
        )?;
        Ok(())
    }

    fn remove_entry(&mut self, workspace: WorkspaceKey, path: &RelPath) -> Result<()> {
        let (parent, name) = split(path);
        self.change(
            "DELETE FROM entry WHERE workspace = ?1 AND parent = ?2 AND name = ?3",
            params![workspace.0, parent, name],
        )?;
        Ok(())
    }

    fn remove_entries_below(&mut self, workspace: WorkspaceKey, dir: &RelPath) -> Result<()> {
        self.change(
            "DELETE FROM entry WHERE workspace = ?1 AND parent = ?2 AND name > x''",
            params![workspace.0, dir.as_bytes()],
        )?;
        if dir.is_root() {
            self.change(
                "DELETE FROM entry WHERE workspace = ?1 AND parent > x''",
                [workspace.0],
            )?;
        } else {
            let (from, to) = bounds_below(dir);
            self.change(
                "DELETE FROM entry WHERE workspace = ?1 AND parent >= ?2 AND parent < ?3",
                params![workspace.0, from, to],
            )?;
        }
        Ok(())
    }

    fn put_object(&mut self, object: &NewObject) -> Result<bool> {
        let NewObject(row, assured) = object;
        if matches!(assured, PresenceCheck::Row) {
            let renewed = self.renew_object(&row.id)?;
            return renewed.then_some(false).ok_or_else(removed_meanwhile);
        }
        let (pack, start, length, bytes) = match &row.place {
            ObjectPlace::Row(bytes) => (None, None, None, Some(bytes.as_slice())),
            ObjectPlace::Blob => (None, None, None, None),
            ObjectPlace::Pack {
                pack,
                offset,
                length,
            } => (
                Some(*pack),
                Some(*offset as i64),
                Some(*length as i64),
                None,
            ),
        };
        let added = self.change(
            "INSERT INTO object (id, kind, size, compressed, stored_at, pack, start, length, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING",
            params![
                Id(&row.id),
                row.kind as u8,
                row.size as i64,
                row.compressed,
                row.stored_at.0,
                pack,
                start,
                length,
                bytes,
            ],
        )?;
        if added == 0 {
            self.renew_object(&row.id)?;
        } else if let PresenceCheck::Blob(blobs) = assured
            && blobs.size(&object_key(&row.id))?.is_none()
        {
            // Blobs are erased in transactions, so one that is there now stays.
            return Err(removed_meanwhile());
        }
        Ok(added == 1)
    }

    fn renew_object(&mut self, id: &ObjectId) -> Result<bool> {
        let changed = self.change(
            "UPDATE object SET stored_at = max(?2, stored_at + 1) WHERE id = ?1",
            params![Id(id), Timestamp::now().0],
        )?;
        Ok(changed == 1)
    }

    fn remove_object(&mut self, id: &ObjectId, before: Timestamp) -> Result<bool> {
        let removed = self.change(
            "DELETE FROM object WHERE id = ?1 AND stored_at < ?2",
            params![Id(id), before.0],
        )?;
        Ok(removed == 1)
    }

    fn add_pack(&mut self, blob: &str, size: u64) -> Result<i64> {
        self.change(
            "INSERT INTO pack (blob, size, stored_at) VALUES (?1, ?2, ?3)",
            params![blob, size as i64, Timestamp::now().0],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    fn remove_pack(&mut self, key: i64) -> Result<()> {
        // Refused by the foreign key of `object` while an object is in it.
        self.change("DELETE FROM pack WHERE key = ?1", [key])?;
        Ok(())
    }

    fn move_objects(&mut self, to_pack: i64, places: &[(ObjectId, u64, u64)]) -> Result<()> {
        for (id, offset, length) in places {
            self.change(
                "UPDATE object SET pack = ?2, start = ?3, length = ?4, bytes = NULL WHERE id = ?1",
                params![Id(id), to_pack, *offset as i64, *length as i64],
            )?;
        }
        Ok(())
    }

    fn add_snapshot(&mut self, row: &SnapshotRow) -> Result<()> {
        let operator = self.operator(&row.cause.operator)?;
        let added = self.change(
            "INSERT INTO snapshot (workspace, number, id, parent, tree, sidecar, label, at,
                operator, claim, message_id, files, dirs, bytes)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14
             WHERE ?2 = 1 + coalesce((SELECT max(number) FROM snapshot WHERE workspace = ?1), 0)",
            params![
                row.workspace.0,
                row.number,
                Id(&row.id),
                optional(&row.parent),
                Id(&row.tree),
                Id(&row.sidecar),
                row.label,
                row.at.0,
                operator,
                row.cause.claim,
                row.cause.message_id,
                row.files,
                row.dirs,
                row.bytes,
            ],
        )?;
        if added == 1 {
            return Ok(());
        }
        Err(Error::internal(format!(
            "snapshot number {} does not follow the newest",
            row.number
        )))
    }

    fn rewrite_snapshot(&mut self, row: &SnapshotRow) -> Result<()> {
        self.change(
            "UPDATE snapshot SET id = ?3, parent = ?4, tree = ?5, sidecar = ?6
             WHERE workspace = ?1 AND number = ?2",
            params![
                row.workspace.0,
                row.number,
                Id(&row.id),
                optional(&row.parent),
                Id(&row.tree),
                Id(&row.sidecar),
            ],
        )?;
        Ok(())
    }

    fn replace_object_id(&mut self, old: &ObjectId, new: &ObjectId) -> Result<()> {
        for sql in [
            "UPDATE history SET before = ?2 WHERE before = ?1",
            "UPDATE history SET after = ?2 WHERE after = ?1",
            "UPDATE entry SET id = ?2 WHERE id = ?1",
            "UPDATE review SET base = ?2 WHERE base = ?1",
            "UPDATE review SET ours = ?2 WHERE ours = ?1",
            "UPDATE review SET theirs = ?2 WHERE theirs = ?1",
            "UPDATE candidate SET content = ?2 WHERE content = ?1",
            "UPDATE fork SET base = ?2 WHERE base = ?1",
            "UPDATE merge SET base = ?2 WHERE base = ?1",
            "UPDATE merge SET ours = ?2 WHERE ours = ?1",
            "UPDATE merge SET theirs = ?2 WHERE theirs = ?1",
            "UPDATE merge SET snapshot = ?2 WHERE snapshot = ?1",
            "UPDATE merge SET undone_by = ?2 WHERE undone_by = ?1",
            "UPDATE review SET snapshot = ?2 WHERE snapshot = ?1",
        ] {
            self.change(sql, params![Id(old), Id(new)])?;
        }
        Ok(())
    }

    fn add_history(&mut self, line: &NewHistory) -> Result<i64> {
        let operator = self.operator(&line.cause.operator)?;
        self.change(
            "INSERT INTO history (workspace, revision, at, op, via, path, source, operator, claim,
                message_id, kind, before, after, size, mime, modified)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            params![
                line.workspace.0,
                line.revision,
                line.at.0,
                op_number(line.op),
                via_number(line.via),
                line.path.as_bytes(),
                line.from.as_ref().map(RelPath::as_bytes),
                operator,
                line.cause.claim,
                line.cause.message_id,
                line.kind.map(kind_number),
                optional(&line.before),
                optional(&line.after),
                line.size,
                line.mime,
                line.modified.map(|at| at.0),
            ],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    fn add_token(&mut self, row: &TokenRow) -> Result<()> {
        let sql = "INSERT INTO token (id, hash, scope, label, issued_by, created_at, expires_at,
                revoked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
        let added = self.change(
            sql,
            params![
                row.id,
                &row.hash[..],
                row.scope,
                row.label,
                row.issued_by.as_str(),
                row.created_at.0,
                row.expires_at.map(|at| at.0),
                row.revoked_at.map(|at| at.0),
            ],
        )?;
        if added == 1 {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::AlreadyExists,
            format!("the token `{}` exists", row.id),
        ))
    }

    fn revoke_token(&mut self, id: &str, at: Timestamp) -> Result<bool> {
        let revoked = self.change(
            "UPDATE token SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            params![id, at.0],
        )?;
        Ok(revoked == 1)
    }
}
