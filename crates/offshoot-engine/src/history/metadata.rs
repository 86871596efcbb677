//! What is remembered about a path: metadata and history.

use std::collections::HashSet;

use offshoot_core::{
    EntryKind, ErrorCode, ObjectId, RelPath, Result, Timestamp, WorkspaceId, cancel, escape_bytes,
};
use offshoot_store::{HistoryFilter, HistoryRow, ReadTx, WorkspaceKey, WorkspaceRow};
use serde_json::{Value, json};

use crate::content::index::{Entry, Index};
use crate::content::mime::mime_by_name;
use crate::content::rows::{last_row_in, no_file};
use crate::history::History;
use crate::history::past::{ALL, LineFilter, brought_by, past};

/// The most entries in the metadata of a whole workspace: each may cost a read of its history, its
/// size and the first bytes of its content.
const MAX_ENTRIES: usize = 10_000;

/// Everything known about one path.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Its path.
    pub path: RelPath,
    /// Whether it is a file, a link or a directory.
    pub kind: EntryKind,
    /// Bytes.
    pub size: i64,
    /// Permission bits.
    pub perm: u32,
    /// Its content.
    pub id: Option<ObjectId>,
    /// Its MIME type; none for directories and links.
    pub mime: Option<String>,
    /// When it first appeared, if that is recorded.
    pub created_at: Option<Timestamp>,
    /// When it last changed, if that is recorded.
    pub modified_at: Option<Timestamp>,
    /// Who changed it last.
    pub operator: Option<String>,
    /// On whose behalf: the agent whose merge brought it, or else the operator.
    pub author: Option<String>,
    /// Its versions and what else happened to it, newest first.
    pub history: Vec<HistoryRow>,
}

impl History {
    /// Everything known about one path, under earlier names too. If the path was handed out, outside
    /// changes to it are recorded first.
    pub fn metadata(&self, id: &WorkspaceId, path: &RelPath) -> Result<Metadata> {
        self.metadata_as(id, path, ALL)
    }

    /// Like [`metadata`](Self::metadata), with the lines of history that the filter lets through.
    pub(crate) fn metadata_as(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        shown: LineFilter<'_>,
    ) -> Result<Metadata> {
        self.sync.lock_and_sync_path(id, path)?;
        let (entry, size, history, brought, row) = self.contents.with_index(id, |index| {
            let entry = index.entry(path)?.ok_or_else(|| no_file(path))?;
            let history = past(index, path, shown)?;
            let brought = match history.is_empty() {
                true => brought_by(index, path, shown)?,
                false => None,
            };
            let size = index.size(&entry)?;
            Ok((entry, size, history, brought, index.row.clone()))
        })?;
        let newest = history.first().or(brought.as_ref());
        let given = history
            .iter()
            .find(|row| row.line.after.is_some() && row.line.after == entry.id)
            .and_then(|row| row.line.mime.clone());
        let mime = match (entry.kind, given) {
            (EntryKind::File, Some(given)) => Some(given),
            (EntryKind::File, None) => Some(self.directories.mime_of(&row.id, path)?),
            _ => None,
        };
        let operator = |row: &HistoryRow| row.line.cause.operator.as_str().to_owned();
        Ok(Metadata {
            path: path.clone(),
            kind: entry.kind,
            size,
            perm: entry.perm,
            id: entry.id,
            mime,
            created_at: history.last().or(brought.as_ref()).map(|row| row.line.at),
            modified_at: newest.map(|row| row.line.at),
            operator: newest.map(operator),
            author: newest.map(|row| row.line.cause.claim.clone().unwrap_or(operator(row))),
            history,
        })
    }

    /// What happened in a workspace, or to one path of it, newest first; 0 means all of it. Also of
    /// one that was completed or deleted.
    pub fn lines(
        &self,
        id: &WorkspaceId,
        path: Option<&RelPath>,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        self.lines_before(id, path, None, limit)
    }

    /// Like [`lines`](Self::lines), of those before the line of this number.
    pub fn lines_before(
        &self,
        id: &WorkspaceId,
        path: Option<&RelPath>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        self.store().read(|tx| {
            tx.history(&HistoryFilter {
                workspace: Some(last_row_in(tx, id)?.key),
                path: path.cloned(),
                before_seq: before,
                newest_first: true,
                limit,
                ..HistoryFilter::default()
            })
        })
    }

    /// The content of one version, by the id that the history names.
    pub fn version(&self, id: &WorkspaceId, content: &ObjectId) -> Result<Vec<u8>> {
        let known = self.contents.with_index(id, |index| {
            let lines = index.tx.history(&HistoryFilter {
                workspace: Some(index.row.key),
                ..HistoryFilter::default()
            })?;
            Ok(lines.iter().any(|row| {
                row.line.after.as_ref() == Some(content)
                    || row.line.before.as_ref() == Some(content)
            }))
        })?;
        if !known {
            return Err(offshoot_core::Error::new(
                offshoot_core::ErrorCode::FileNotFound,
                format!("no version `{content}` is in the history of `{id}`"),
            ));
        }
        Ok(self.contents.whole_object(content)?.to_vec())
    }

    /// The content of `.meta/.meta`. Tells of the first [`MAX_ENTRIES`] entries, and how many there are
    /// beyond them.
    pub(crate) fn workspace_as_json(&self, row: &WorkspaceRow) -> Result<Value> {
        let mut files = Vec::new();
        let mut more = 0;
        self.store().read(|tx| {
            (files, more) = (Vec::new(), 0);
            let index = Index::new(self.store(), tx, row);
            let project = tx.fork(row.key)?.map(|fork| fork.project);
            let places = [Some(row.key), project].into_iter().flatten();
            let places: Result<Vec<PathsWithHistory>> = places
                .map(|place| PathsWithHistory::read(tx, place))
                .collect();
            let places = places?;
            index.walk(&RelPath::root(), &mut |path, entry| {
                cancel::check()?;
                match files.len() < MAX_ENTRIES {
                    true => files.push(self.entry_as_json(&index, &places, path, entry)?),
                    false => more += 1,
                }
                Ok(())
            })
        })?;
        let mut told = json!({
            "workspace": row.id.as_str(),
            "layout": row.layout,
            "state": if row.materialized { "materialized" } else { "assigned" },
            "revision": row.revision,
            "head": row.head.map(ObjectId::to_hex),
            "created_at": row.created_at.to_string(),
            "last_sync": row.last_sync.map(|at| at.to_string()),
            "files": files,
        });
        if more > 0 {
            told["more_files"] = json!(more);
        }
        Ok(told)
    }

    /// One entry of `.meta/.meta`: the newest line of its path says when it changed, in a fork that
    /// of the project; without any it came with the workspace.
    fn entry_as_json(
        &self,
        index: &Index<'_>,
        places: &[PathsWithHistory],
        path: &RelPath,
        entry: &Entry,
    ) -> Result<Value> {
        let mut last = None;
        for place in places {
            last = place.newest(index.tx, path)?;
            // What the project changed since is not in this workspace.
            last = last.filter(|row| place.key == index.row.key || row.line.after == entry.id);
            if last.is_some() {
                break;
            }
        }
        let given = last.as_ref().and_then(|row| row.line.mime.clone());
        let mime = match (entry.kind, entry.id) {
            (EntryKind::File, Some(id)) => match given.or_else(|| mime_by_name(path.name())) {
                Some(told) => Some(told),
                None => Some(self.contents.mime_in_store(path, id)?),
            },
            _ => None,
        };
        let modified_at = last.map_or(index.row.created_at, |row| row.line.at);
        Ok(json!({
            "path": path.to_text(),
            "type": entry.kind,
            "size": index.size(entry)?,
            "id": entry.id.map(ObjectId::to_hex),
            "mime_type": mime,
            "modified_at": modified_at.to_string(),
        }))
    }

    /// The content of `.meta/{path}`, also of a path that is gone.
    pub(crate) fn metadata_as_json(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        shown: LineFilter<'_>,
    ) -> Result<Value> {
        let metadata = match self.metadata_as(id, path, shown) {
            Err(error) if error.code() == ErrorCode::FileNotFound => {
                let history = self
                    .contents
                    .with_index(id, |index| past(index, path, shown))?;
                return deleted_as_json(path, &history).ok_or(error);
            }
            other => other?,
        };
        Ok(json!({
            "path": metadata.path.to_text(),
            "type": metadata.kind,
            "deleted": false,
            "size": metadata.size,
            "mode": format!("{:04o}", metadata.perm),
            "id": metadata.id.map(ObjectId::to_hex),
            "mime_type": metadata.mime,
            "created_at": metadata.created_at.map(|at| at.to_string()),
            "modified_at": metadata.modified_at.map(|at| at.to_string()),
            "operator": metadata.operator,
            "author": metadata.author,
            "message_ids": messages(&metadata.history),
            "history": history_of(&metadata.history),
        }))
    }
}

/// The paths of a workspace or project that have lines of history. Most files of a fork have none,
/// and a query for each would cost more than all the rest.
struct PathsWithHistory {
    key: WorkspaceKey,
    /// None if there are too many.
    paths: Option<HashSet<RelPath>>,
}

impl PathsWithHistory {
    fn read(tx: &dyn ReadTx, key: WorkspaceKey) -> Result<PathsWithHistory> {
        let paths = tx.paths_with_history(key, &RelPath::root(), MAX_ENTRIES)?;
        let all = paths.len() < MAX_ENTRIES;
        let paths = all.then(|| paths.into_iter().collect());
        Ok(PathsWithHistory { key, paths })
    }

    /// The newest line of a path.
    fn newest(&self, tx: &dyn ReadTx, path: &RelPath) -> Result<Option<HistoryRow>> {
        if self
            .paths
            .as_ref()
            .is_some_and(|known| !known.contains(path))
        {
            return Ok(None);
        }
        let lines = tx.history(&HistoryFilter {
            workspace: Some(self.key),
            path: Some(path.clone()),
            newest_first: true,
            limit: 1,
            ..HistoryFilter::default()
        })?;
        Ok(lines.into_iter().next())
    }
}

/// The metadata of a path that is gone; none if it never existed.
fn deleted_as_json(path: &RelPath, history: &[HistoryRow]) -> Option<Value> {
    let (newest, oldest) = (history.first()?, history.last()?);
    let last = history.iter().find(|row| row.line.after.is_some());
    let content = newest.line.before.or(last.and_then(|row| row.line.after));
    let operator = newest.line.cause.operator.as_str();
    Some(json!({
        "path": path.to_text(),
        "type": newest.line.kind,
        "deleted": true,
        "size": last.map_or(0, |row| row.line.size),
        "id": content.map(ObjectId::to_hex),
        "mime_type": last.and_then(|row| row.line.mime.clone()).or_else(|| mime_by_name(path.name())),
        "created_at": oldest.line.at.to_string(),
        "modified_at": newest.line.at.to_string(),
        "operator": operator,
        "author": newest.line.cause.claim.as_deref().unwrap_or(operator),
        "message_ids": messages(history),
        "history": history_of(history),
    }))
}

fn history_of(history: &[HistoryRow]) -> Vec<Value> {
    history.iter().map(history_as_json).collect()
}

/// The messages that led to what happened, newest first, each once.
fn messages(history: &[HistoryRow]) -> Vec<&str> {
    let mut messages: Vec<&str> = Vec::new();
    for row in history {
        if let Some(message) = &row.line.cause.message_id
            && !messages.contains(&message.as_str())
        {
            messages.push(message);
        }
    }
    messages
}

/// One line of the history as every door shows it.
pub fn history_as_json(row: &HistoryRow) -> Value {
    let line = &row.line;
    let mut value = json!({
        "seq": row.seq,
        "at": line.at.to_string(),
        "op": line.op.as_str(),
        "via": line.via.as_str(),
        "path": escape_bytes(line.path.as_bytes()),
        "operator": line.cause.operator.as_str(),
        "version": line.revision,
    });
    let mut add = |key: &str, field: Option<Value>| {
        if let Some(field) = field {
            value[key] = field;
        }
    };
    add("from", line.from.as_ref().map(|path| json!(path.to_text())));
    add("claim", line.cause.claim.as_ref().map(|claim| json!(claim)));
    add(
        "message_id",
        line.cause.message_id.as_ref().map(|message| json!(message)),
    );
    add("type", line.kind.map(|kind| json!(kind)));
    add("before", line.before.map(|id| json!(id.to_hex())));
    add("after", line.after.map(|id| json!(id.to_hex())));
    add("size", line.after.map(|_| json!(line.size)));
    add("mime_type", line.mime.as_ref().map(|mime| json!(mime)));
    value
}
