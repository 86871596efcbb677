//! Reading: whole files, windows, listings, the directory tree, counts.

use std::io::Read;

use offshoot_core::{EntryKind, ObjectId, RelPath, Result, Timestamp, WorkspaceId, escape_bytes};
use offshoot_store::WorkspaceRow;

use crate::content::incoming::unreadable;
use crate::content::index::Index;
use crate::content::left_out::is_reserved_in;
use crate::content::rows::is_a_directory;
use crate::content::source::{OpenFile, Source, characters, count_characters};
use crate::content::workspace_row::is_session_metadata;
use crate::directory::disk_entry::count_on_disk;
use crate::directory::read::ReadFor;
use crate::history::past::{ALL, LineFilter};
use crate::workspace::Workspaces;

/// The most that one window holds: characters of text or bytes of anything else.
pub const MAX_WINDOW: usize = 5000;

/// Text or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowContent {
    /// UTF-8 text.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

/// A part of a file. All counts are in characters for text and in bytes for anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The part.
    pub content: WindowContent,
    /// Where it begins.
    pub start: u64,
    /// How much the file holds.
    pub total: u64,
    /// How much was read.
    pub read_length: u64,
    /// The MIME type.
    pub mime: String,
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Its path.
    pub path: RelPath,
    /// Whether it is a file, a link or a directory.
    pub kind: EntryKind,
    /// Bytes; 0 for directories.
    pub size: i64,
    /// When it last changed.
    pub modified_at: Timestamp,
    /// Its MIME type; none for directories and links.
    pub mime: Option<String>,
    /// Who changed it last, if that is known.
    pub operator: Option<String>,
}

/// Counts of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Files and links.
    pub file_count: i64,
    /// Directories.
    pub dir_count: i64,
    /// Bytes of all files.
    pub total_size: i64,
    /// Bytes that the directory takes on disk; 0 while there is none.
    pub disk_usage: i64,
    /// When a file last changed.
    pub last_modified: Timestamp,
    /// When the workspace was created.
    pub created_at: Timestamp,
    /// Whether the directory exists.
    pub materialized: bool,
}

/// A part of a source.
fn window_of(mut source: Source, path: &RelPath, offset: u64, length: usize) -> Result<Window> {
    let length = length.min(MAX_WINDOW);
    let mime = source.mime(path)?;
    if let Some(text) = source.take_text() {
        return Ok(window_of_text(text, offset, length, mime));
    }
    match count_characters(&mut source)? {
        Some(total) => {
            source.rewind()?;
            let text = characters(&mut source, offset, length)?;
            let read_length = text.chars().count() as u64;
            let start = offset.min(total);
            Ok(Window {
                content: WindowContent::Text(text),
                start,
                total,
                read_length,
                mime,
            })
        }
        None => {
            let total = source.size;
            let start = offset.min(total);
            source.select(start, length as u64)?;
            let mut bytes = Vec::new();
            (&mut source)
                .take(length as u64)
                .read_to_end(&mut bytes)
                .map_err(unreadable)?;
            let read_length = bytes.len() as u64;
            Ok(Window {
                content: WindowContent::Bytes(bytes),
                start,
                total,
                read_length,
                mime,
            })
        }
    }
}

/// A part of a text that is in memory.
fn window_of_text(mut text: String, offset: u64, length: usize, mime: String) -> Window {
    let total = text.chars().count() as u64;
    let start = offset.min(total);
    let read_length = (total - start).min(length as u64);
    if read_length < total {
        let begin = byte_of_character(&text, start);
        text.drain(..begin);
        text.truncate(byte_of_character(&text, read_length));
    }
    Window {
        content: WindowContent::Text(text),
        start,
        total,
        read_length,
        mime,
    }
}

/// Where a character begins; the end of the text for the one after the last.
fn byte_of_character(text: &str, number: u64) -> usize {
    let mut places = text.char_indices().map(|(place, _)| place);
    places.nth(number as usize).unwrap_or(text.len())
}

/// Whether a path may name what is computed when it is read, which takes longer than a file does.
pub fn is_computed(path: &RelPath) -> bool {
    path.parts().next() == Some(b".meta")
}

impl Workspaces {
    /// Reads a part of a file: at most [`MAX_WINDOW`] characters, or bytes of what is no text.
    /// Characters are never split.
    pub fn read_window(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        offset: u64,
        length: usize,
    ) -> Result<Window> {
        self.read_window_as(id, path, offset, length, ALL)
    }

    /// Like [`read_window`](Self::read_window); made-up files show the lines of
    /// history that the filter lets through.
    pub(crate) fn read_window_as(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        offset: u64,
        length: usize,
        shown: LineFilter<'_>,
    ) -> Result<Window> {
        window_of(
            self.source(id, path, ReadFor::Content, shown)?,
            path,
            offset,
            length,
        )
    }

    /// Like [`read_window`](Self::read_window) if the file is small enough to be read on the thread
    /// of the request; none, without reading, if it is not.
    pub fn read_window_if_small(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        offset: u64,
        length: usize,
    ) -> Result<Option<Window>> {
        self.read_window_if_small_as(id, path, offset, length, ALL)
    }

    /// Like [`read_window_if_small`](Self::read_window_if_small); made-up files show the lines of
    /// history that the filter lets through.
    pub(crate) fn read_window_if_small_as(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        offset: u64,
        length: usize,
        shown: LineFilter<'_>,
    ) -> Result<Option<Window>> {
        match self.source_if_ready(id, path, ReadFor::Content, shown)? {
            Some(source) if source.bytes_in_memory().is_some() => {
                window_of(source, path, offset, length).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads a whole file into memory, with the id of its content.
    pub fn read_whole(&self, id: &WorkspaceId, path: &RelPath) -> Result<(Vec<u8>, ObjectId)> {
        let mut bytes = Vec::new();
        self.source(id, path, ReadFor::Content, ALL)?
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        let content = offshoot_git::hash(offshoot_core::ObjectKind::Blob, &bytes)?;
        Ok((bytes, content))
    }

    /// Opens a file for streaming.
    pub fn open_file(&self, id: &WorkspaceId, path: &RelPath) -> Result<OpenFile> {
        self.open_file_as(id, path, ALL)
    }

    /// Like [`open_file`](Self::open_file); made-up files show the lines of
    /// history that the filter lets through.
    pub(crate) fn open_file_as(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        shown: LineFilter<'_>,
    ) -> Result<OpenFile> {
        OpenFile::of(self.source(id, path, ReadFor::ContentAndTime, shown)?, path)
    }

    /// Opens a file for streaming; none if that would have to wait for a lock.
    pub(crate) fn open_file_if_ready_as(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        shown: LineFilter<'_>,
    ) -> Result<Option<OpenFile>> {
        let source = self.source_if_ready(id, path, ReadFor::ContentAndTime, shown)?;
        source.map(|source| OpenFile::of(source, path)).transpose()
    }

    /// Where the bytes of a file are, or the text that is read in its place.
    fn source(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        what: ReadFor,
        shown: LineFilter<'_>,
    ) -> Result<Source> {
        let made_up = |row: &WorkspaceRow| self.made_up_file(row, path, shown);
        self.directories.source_or(id, path, what, made_up)
    }

    /// Like [`Self::source`]; none if that would have to wait for a lock.
    fn source_if_ready(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        what: ReadFor,
        shown: LineFilter<'_>,
    ) -> Result<Option<Source>> {
        let made_up = |row: &WorkspaceRow| self.made_up_file(row, path, shown);
        self.directories.source_if_ready(id, path, what, made_up)
    }

    /// Files that are not in the workspace but read as if they were.
    fn made_up_file(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        shown: LineFilter<'_>,
    ) -> Result<Option<Source>> {
        if is_session_metadata(row, path) {
            let text = crate::content::workspace_row::session_metadata(row);
            return Ok(Some(Source::of_bytes(text.into_bytes())));
        }
        if !is_computed(path) {
            return Ok(None);
        }
        let real = RelPath::from_normal(".meta");
        // Only a file of that name that came with the base is real; one that was written since
        // would be a forgery.
        let is_made_up = self
            .store()
            .read(|tx| is_reserved_in(&Index::new(self.store(), tx, row), &real))?;
        if !is_made_up {
            return Ok(None);
        }
        let about = path.strip_prefix(&real).unwrap_or_default();
        let value = if about.as_bytes() == b".meta" {
            self.history.workspace_as_json(row)?
        } else if about.is_root() {
            return Err(is_a_directory(path));
        } else {
            self.history.metadata_as_json(&row.id, &about, shown)?
        };
        Ok(Some(Source::of_json(&value)))
    }

    /// Counts the files of a workspace. Costs a walk of the directory if there is one, because disk
    /// usage is not recorded.
    pub fn info(&self, id: &WorkspaceId) -> Result<Info> {
        let row = self.contents.open_row(id)?;
        let mut info = Info {
            file_count: row.files,
            dir_count: row.dirs,
            total_size: row.bytes,
            disk_usage: 0,
            last_modified: row.changed_at,
            created_at: row.created_at,
            materialized: row.materialized,
        };
        if row.materialized {
            let dir = self.directories.dir_for_reader(&row)?.following_no_links();
            let counted = count_on_disk(&row, &dir)?;
            info.disk_usage = counted.disk_usage;
            // The counts of the directory, as listings show it: a program may have written there
            // although the path was never handed out.
            info.file_count = counted.files;
            info.dir_count = counted.dirs;
            info.total_size = counted.bytes;
            info.last_modified = info.last_modified.max(counted.newest);
        }
        Ok(info)
    }
}

/// A listing as text, as the tools show it.
pub fn listing_as_text(entries: &[ListEntry]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for entry in entries {
        let path = escape_bytes(entry.path.as_bytes());
        let _ = match entry.kind {
            EntryKind::Dir => writeln!(text, "[DIR]  {path}/"),
            EntryKind::Symlink => writeln!(text, "[LINK] {path}"),
            EntryKind::File => writeln!(text, "[FILE] {path} ({} bytes)", entry.size),
        };
    }
    text
}
