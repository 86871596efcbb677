//! One file of a workspace as it was at a version: what its history says, without a snapshot.

use offshoot_core::{
    EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, Timestamp, WorkspaceId,
};
use offshoot_store::{HistoryOp, HistoryRow, ReadTx, WorkspaceRow};

use crate::content::index::Index;
use crate::content::rows::open_row_in;
use crate::content::source::{OpenFile, Source};
use crate::history::History;
use crate::history::trail::Trail;

impl History {
    /// Opens a file as it was when its workspace had this version, which is the number that each
    /// change answers with and each line of the history has. A file that was deleted at a version
    /// is there in the one before. Of a file that was moved away, the name that it had before keeps
    /// what it last held.
    ///
    /// Costs one line of history for each change of the path since.
    pub fn open_file_version(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        version: i64,
    ) -> Result<OpenFile> {
        let (content, at) = self.store().read(|tx| {
            let row = open_row_in(tx, id)?;
            if version > row.revision {
                let message = format!("the workspace `{id}` has no version {version} yet");
                return Err(Error::invalid(message)
                    .with_hint(format!("its present version is {}", row.revision)));
            }
            self.content_then(tx, &row, path, version)
        })?;
        let mut file = OpenFile::of(Source::of_object(&self.contents, content)?, path)?;
        file.modified_at = at;
        Ok(file)
    }

    /// The content of a path at a version, and when it came if that is in the history.
    fn content_then(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        path: &RelPath,
        version: i64,
    ) -> Result<(ObjectId, Option<Timestamp>)> {
        let mut trail = Trail::new(tx, row.key, path);
        let mut later: Option<HistoryRow> = None;
        while let Some(found) = trail.next()? {
            if found.line.revision > version {
                later = Some(found);
                continue;
            }
            let line = found.line;
            let content = line
                .after
                .ok_or_else(|| no_such_version(path, version, line.kind))?;
            return Ok((content, Some(line.at)));
        }
        // The history has no line up to then: the file came with the base, or later.
        let content = match later.map(|row| row.line) {
            Some(line) if line.op == HistoryOp::Move => None,
            Some(line) => line.before,
            None => {
                let index = Index::new(self.store(), tx, row);
                let entry = index.base().entry(&index.objects, path)?;
                if entry.is_some_and(|entry| entry.kind == EntryKind::Dir) {
                    return Err(no_such_version(path, version, Some(EntryKind::Dir)));
                }
                entry.and_then(|entry| entry.id)
            }
        };
        let content = content.ok_or_else(|| no_such_version(path, version, None))?;
        Ok((content, None))
    }
}

fn no_such_version(path: &RelPath, version: i64, kind: Option<EntryKind>) -> Error {
    match kind {
        Some(EntryKind::Dir) => {
            Error::new(ErrorCode::IsADirectory, format!("`{path}` is a directory"))
        }
        _ => Error::new(
            ErrorCode::FileNotFound,
            format!("`{path}` was not there at version {version}"),
        )
        .with_hint("its history lists its versions; before a deletion it is the version before"),
    }
}
