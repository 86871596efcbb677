//! Reading a file of a workspace from its directory, or from the store if it has none.

use std::sync::Arc;

use offshoot_core::{Error, ObjectId, RelPath, Result, WorkspaceId};
use offshoot_fs::SafeDir;
use offshoot_store::{ReadTx, WorkspaceRow};

use crate::content::index::Index;
use crate::content::objects::missing_content;
use crate::content::rows::{is_a_directory, no_file, open_row_in};
use crate::content::source::{SMALL, Source};
use crate::content::too_large::TooLarge;
use crate::directory::Directories;

impl Directories {
    /// The MIME type of a file.
    pub(crate) fn mime_of(&self, id: &WorkspaceId, path: &RelPath) -> Result<String> {
        self.source_or(id, path, |_| Ok(None))?.mime(path)
    }

    /// The bytes of a file, from the directory or the store. `instead` may give other bytes, such as
    /// those of a computed file.
    pub(crate) fn source_or(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        instead: impl FnOnce(&WorkspaceRow) -> Result<Option<Source>>,
    ) -> Result<Source> {
        let open = |row: &WorkspaceRow| self.dir_for_reader(row).map(Some);
        let source = self.source_from(id, path, instead, open)?;
        source.ok_or_else(|| Error::internal("a reader got no directory"))
    }

    /// The bytes of a file as [`Self::source_or`] gives them; none if that would have to wait for a lock.
    pub(crate) fn source_if_ready(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        instead: impl FnOnce(&WorkspaceRow) -> Result<Option<Source>>,
    ) -> Result<Option<Source>> {
        self.source_from(id, path, instead, |row| self.dir_if_ready(row))
    }

    fn source_from(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        instead: impl FnOnce(&WorkspaceRow) -> Result<Option<Source>>,
        open: impl FnOnce(&WorkspaceRow) -> Result<Option<SafeDir>>,
    ) -> Result<Option<Source>> {
        // One view of the store is enough for a small file.
        let mut stored = None;
        let row = self.store().read(|tx| {
            let row = open_row_in(tx, id)?;
            stored = match row.materialized {
                true => None,
                false => Some(self.stored_content(tx, &row, path)),
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
            let (id, bytes) = stored?;
            return match bytes {
                Some(bytes) => Ok(Some(Source::of_object_bytes(bytes.to_vec(), Some(id)))),
                None => Source::of_object(&self.contents, id).map(Some),
            };
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

    /// The content id of a file of the index, with its bytes if the file is small.
    fn stored_content(
        &self,
        tx: &dyn ReadTx,
        row: &WorkspaceRow,
        path: &RelPath,
    ) -> Result<(ObjectId, Option<Arc<[u8]>>)> {
        let index = Index::new(self.store(), tx, row);
        let real = index.resolve(path)?;
        let entry = index.entry(&real)?.ok_or_else(|| no_file(&real))?;
        if entry.is_dir() {
            return Err(is_a_directory(path));
        }
        let id = entry.id.ok_or_else(missing_content)?;
        Ok((id, self.store().small_object_in(tx, &id, SMALL)?))
    }
}
