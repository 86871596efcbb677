//! Reading a file of a workspace from its directory, or from the store if it has none.

use std::sync::Arc;

use offshoot_core::{Error, ObjectId, RelPath, Result, Timestamp, WorkspaceId};
use offshoot_fs::SafeDir;
use offshoot_store::{ReadTx, WorkspaceRow};

use crate::content::index::Index;
use crate::content::objects::missing_content;
use crate::content::paths_with_history::modified_at;
use crate::content::rows::{is_a_directory, no_file, open_row_in};
use crate::content::source::{SMALL, Source};
use crate::content::too_large::TooLarge;
use crate::directory::Directories;

/// What a reader wants of a file. The time of one that only the store has costs one more look there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFor {
    Content,
    ContentAndTime,
}

/// What the store has of a file.
struct StoredFile {
    id: ObjectId,
    /// The content, if it is small.
    bytes: Option<Arc<[u8]>>,
    /// When it was last modified, if that was asked for.
    modified_at: Option<Timestamp>,
}

impl Directories {
    /// The MIME type of a file.
    pub(crate) fn mime_of(&self, id: &WorkspaceId, path: &RelPath) -> Result<String> {
        let content = ReadFor::Content;
        self.source_or(id, path, content, |_| Ok(None))?.mime(path)
    }

    /// The bytes of a file, from the directory or the store. `instead` may give other bytes, such as
    /// those of a computed file.
    pub(crate) fn source_or(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        what: ReadFor,
        instead: impl FnOnce(&WorkspaceRow) -> Result<Option<Source>>,
    ) -> Result<Source> {
        let open = |row: &WorkspaceRow| self.dir_for_reader(row).map(Some);
        let source = self.source_from(id, path, what, instead, open)?;
        source.ok_or_else(|| Error::internal("a reader got no directory"))
    }

    /// The bytes of a file as [`Self::source_or`] gives them; none if that would have to wait for a lock.
    pub(crate) fn source_if_ready(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        what: ReadFor,
        instead: impl FnOnce(&WorkspaceRow) -> Result<Option<Source>>,
    ) -> Result<Option<Source>> {
        self.source_from(id, path, what, instead, |row| self.dir_if_ready(row))
    }

    fn source_from(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        what: ReadFor,
        instead: impl FnOnce(&WorkspaceRow) -> Result<Option<Source>>,
        open: impl FnOnce(&WorkspaceRow) -> Result<Option<SafeDir>>,
    ) -> Result<Option<Source>> {
        // One view of the store is enough for a small file.
        let mut stored = None;
        let row = self.store().read(|tx| {
            let row = open_row_in(tx, id)?;
            stored = match row.materialized {
                true => None,
                false => Some(self.stored_content(tx, &row, path, what)),
            };
            Ok(row)
        })?;
        if path.is_root() {
            return Err(is_a_directory(path));
        }
        if let Some(answer) = instead(&row)? {
            return Ok(Some(answer));
        }
        if let Some(stored) = stored {
            self.note_use(&row);
            let StoredFile {
                id,
                bytes,
                modified_at,
            } = stored?;
            let mut source = match bytes {
                Some(bytes) => Source::of_object_bytes(bytes.to_vec(), Some(id)),
                None => Source::of_object(&self.contents, id)?,
            };
            source.modified_at = modified_at;
            return Ok(Some(source));
        }
        let Some(dir) = open(&row)? else {
            return Ok(None);
        };
        let (file, stat) = dir.open_file(path)?;
        if stat.is_dir() {
            return Err(is_a_directory(path));
        }
        let limit = self.context.options.max_file_bytes;
        if stat.size > limit {
            let (path, size) = (path.clone(), stat.size);
            return Err(TooLarge { path, size, limit }.refuse());
        }
        let source = Source::of_file(&self.contents, file, stat);
        source.load_if_small().map(Some)
    }

    /// What the store has of a file of the index.
    fn stored_content(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        path: &RelPath,
        what: ReadFor,
    ) -> Result<StoredFile> {
        let index = Index::new(self.store(), tx, row);
        let real = index.resolve(path)?;
        let entry = index.entry(&real)?.ok_or_else(|| no_file(&real))?;
        if entry.is_dir() {
            return Err(is_a_directory(path));
        }
        let id = entry.id.ok_or_else(missing_content)?;
        Ok(StoredFile {
            id,
            bytes: self.store().small_object_in(tx, &id, SMALL)?,
            modified_at: match what {
                ReadFor::Content => None,
                ReadFor::ContentAndTime => modified_at(tx, row, &real)?,
            },
        })
    }
}
