//! Changing the content of single files: write, edit, upload.
//!
//! Each is one transaction (object, entry, history, counters) and then, if the workspace has a
//! directory, its projection. Several callers may change files of one workspace at once, from
//! several processes, as long as its path was never handed out; they share commits.

use std::time::SystemTime;

use offshoot_core::{
    Cause, EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, SESSION_METADATA, WorkspaceId,
};
use offshoot_fs::SafeDir;
use offshoot_store::{ReadTx, Via, WorkspaceRow};

use crate::content::incoming::{Content, Incoming};
use crate::content::index::{Entry, Index};
use crate::content::rows::open_row_by_key;
use crate::context::idempotency::IdempotencyRecord;
use crate::workspace::Workspaces;

/// What must be there for a write to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Anything or nothing.
    #[default]
    Anything,
    /// Nothing.
    Absent,
    /// Something, whatever it is.
    Present,
    /// A file with this content.
    Content(ObjectId),
}

/// How a file is written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The MIME type, if the caller knows it better than the content and the name tell.
    pub mime: Option<String>,
    /// Whether the file is executable; none keeps what it was.
    pub executable: Option<bool>,
    /// What must be there.
    pub expect: Expect,
    /// When it was last modified; none is now. Listings show it, and so does the
    /// file on disk as long as it is there.
    pub modified: Option<SystemTime>,
    /// Records the write under the idempotency key of its request.
    pub noting: Option<IdempotencyRecord>,
}

/// A file that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// Where it really is: links inside the workspace are followed.
    pub path: RelPath,
    /// Its bytes.
    pub size: i64,
    /// Its MIME type.
    pub mime: String,
    /// The revision of the workspace that this write made.
    pub version: i64,
    /// Its content.
    pub id: ObjectId,
    /// Whether it is new.
    pub created: bool,
}

impl Workspaces {
    /// Writes a file whole. Parents are made on the way. When this returns, the write survives a
    /// power cut.
    pub fn write_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        content: Content<'_>,
        options: &WriteOptions,
        cause: &Cause,
    ) -> Result<Written> {
        self.refuse_early(id, path)?;
        let mut incoming = self.contents.receive(content)?;
        self.write_incoming(
            id,
            &Target::Exactly(path.clone()),
            &mut incoming,
            options,
            Via::Call,
            cause,
        )
    }

    /// Puts a file next to those there are, where uploads go in workspaces of its layout: if the
    /// name is taken, it becomes `name (1).ext`.
    pub fn upload(
        &self,
        id: &WorkspaceId,
        name: &[u8],
        content: Content<'_>,
        options: &WriteOptions,
        cause: &Cause,
    ) -> Result<Written> {
        let dir = self.contents.open_row(id)?.layout.upload_dir();
        self.upload_into(id, &dir, name, content, options, cause)
    }

    /// Like [`upload`](Self::upload), into any directory, which is made if it is not there.
    pub fn upload_into(
        &self,
        id: &WorkspaceId,
        dir: &RelPath,
        name: &[u8],
        content: Content<'_>,
        options: &WriteOptions,
        cause: &Cause,
    ) -> Result<Written> {
        let row = self.contents.open_row(id)?;
        // A browser may send a whole path of its own machine: only the last part counts.
        let last = name
            .rsplit(|&byte| byte == b'/' || byte == b'\\')
            .next()
            .unwrap_or_default();
        let path = dir.join(&RelPath::parse(last)?);
        if path == *dir {
            return Err(Error::invalid("an upload needs a file name"));
        }
        refuse_unmakeable(&row, &path)?;
        let mut incoming = self.contents.receive(content)?;
        self.write_incoming(
            id,
            &Target::FreeName(path),
            &mut incoming,
            options,
            Via::Upload,
            cause,
        )
    }

    /// Replaces text in a file. Returns how many places were replaced.
    ///
    /// `old` must be there exactly once, unless `all` of its occurrences are meant.
    pub fn edit_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        old: &str,
        new: &str,
        all: bool,
        cause: &Cause,
    ) -> Result<(usize, Written)> {
        if old.is_empty() {
            return Err(Error::invalid(
                "`old` is empty, so there is nothing to look for",
            ));
        }
        let row = self.contents.open_row(id)?;
        refuse_unmakeable(&row, path)?;
        for _ in 0..16 {
            let (content, content_id) = self.read_whole(id, path)?;
            let text = String::from_utf8(content).map_err(|_| {
                Error::invalid(format!("`{path}` is not UTF-8 text"))
                    .with_hint("write the whole file instead")
            })?;
            let count = text.matches(old).count();
            if count == 0 {
                return Err(Error::invalid(format!("`old` does not occur in `{path}`"))
                    .with_hint("read the file again: it must match to the byte"));
            }
            if count > 1 && !all {
                return Err(
                    Error::invalid(format!("`old` occurs {count} times in `{path}`"))
                        .with_hint("give more of its surroundings, or set `all`"),
                );
            }
            let edited = text.replace(old, new);
            let options = WriteOptions {
                expect: Expect::Content(content_id),
                ..WriteOptions::default()
            };
            match self.write_file(id, path, Content::Bytes(edited.as_bytes()), &options, cause) {
                // Another writer was quicker: try again on the new content.
                Err(error) if error.code() == ErrorCode::PreconditionFailed => {}
                Err(error) => return Err(error),
                Ok(written) => return Ok((count, written)),
            }
        }
        Err(Error::new(
            ErrorCode::WorkspaceBusy,
            format!("`{path}` keeps changing while it is edited"),
        ))
    }

    /// Refuses a path that nobody may change before its content is taken in.
    fn refuse_early(&self, id: &WorkspaceId, path: &RelPath) -> Result<()> {
        refuse_unmakeable(&self.contents.open_row(id)?, path)
    }

    pub(crate) fn write_incoming(
        &self,
        id: &WorkspaceId,
        target: &Target,
        incoming: &mut Incoming,
        options: &WriteOptions,
        via: Via,
        cause: &Cause,
    ) -> Result<Written> {
        let held = self.sync.lock_for_path(id, target.path())?;
        if let (Some(dir), Target::FreeName(path)) = (&held.dir, target) {
            self.sync_names_like(&held.row, dir, path)?;
        }
        let written = self.write_held(&held, target, incoming, options, via, cause)?;
        self.after_writes(held);
        Ok(written)
    }

    /// Records what outside programs put at the names that an upload would take, until the next
    /// one is really free.
    fn sync_names_like(&self, row: &WorkspaceRow, dir: &SafeDir, path: &RelPath) -> Result<()> {
        loop {
            let free = |tx: &dyn ReadTx| {
                let row = open_row_by_key(tx, row)?;
                free_name(&Index::new(self.store(), tx, &row), path)
            };
            let name = self.store().read(free)?;
            self.sync.sync_path(row, dir, &name)?;
            if self.store().read(free)? == name {
                return Ok(());
            }
        }
    }
}

/// Where a write goes.
#[derive(Clone)]
pub(crate) enum Target {
    /// To this path.
    Exactly(RelPath),
    /// To this path or, if it is taken, to the next free name like it.
    FreeName(RelPath),
}

impl Target {
    pub(crate) fn path(&self) -> &RelPath {
        match self {
            Target::Exactly(path) | Target::FreeName(path) => path,
        }
    }

    /// The path after links, and the entries on the way to it.
    pub(crate) fn resolve(
        &self,
        index: &Index<'_>,
    ) -> Result<(RelPath, Vec<(RelPath, Option<Entry>)>)> {
        let path = match self {
            Target::Exactly(path) => {
                let steps = index.steps(path)?;
                // Without a link on the way the path is already resolved.
                let is_link = |entry: &Entry| entry.kind == EntryKind::Symlink;
                if !steps
                    .iter()
                    .any(|(_, entry)| entry.as_ref().is_some_and(is_link))
                {
                    return Ok((path.clone(), steps));
                }
                index.resolve(path)?
            }
            Target::FreeName(path) => free_name(index, path)?,
        };
        let steps = index.steps(&path)?;
        Ok((path, steps))
    }
}

/// `name.ext`, `name (1).ext`, `name (2).ext` …: the first that is free. Links on the way to the
/// directory are followed.
fn free_name(index: &Index<'_>, path: &RelPath) -> Result<RelPath> {
    let parent = index.resolve(&path.parent().unwrap_or_default())?;
    let name = path.name();
    let first = parent.join_name(name);
    if index.entry(&first)?.is_none() {
        return Ok(first);
    }
    // A leading dot begins a name, not an extension.
    let dot = name
        .iter()
        .rposition(|&byte| byte == b'.')
        .filter(|&at| at > 0);
    let (stem, extension) = name.split_at(dot.unwrap_or(name.len()));
    for number in 1..100_000 {
        let suffix = format!(" ({number})");
        let room = offshoot_core::MAX_NAME.saturating_sub(suffix.len() + extension.len());
        let mut candidate = truncate_utf8(stem, room).to_vec();
        candidate.extend_from_slice(suffix.as_bytes());
        candidate.extend_from_slice(extension);
        let candidate = parent.join_name(&candidate);
        if index.entry(&candidate)?.is_none() {
            return Ok(candidate);
        }
    }
    Err(Error::new(
        ErrorCode::AlreadyExists,
        format!("too many files are named like `{path}`"),
    ))
}

/// At most `room` bytes of a name, without cutting a character in two.
fn truncate_utf8(name: &[u8], room: usize) -> &[u8] {
    if name.len() <= room {
        return name;
    }
    let mut end = room;
    while end > 0 && name[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    &name[..end]
}

pub(crate) fn check_expectation(
    path: &RelPath,
    before: Option<&Entry>,
    expect: Expect,
) -> Result<()> {
    let met = match expect {
        Expect::Anything => true,
        Expect::Absent => before.is_none(),
        Expect::Present => before.is_some(),
        Expect::Content(id) => before.and_then(|entry| entry.id) == Some(id),
    };
    if met {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PreconditionFailed,
        format!("`{path}` is not what the request expects"),
    )
    .with_hint("read it again and decide anew"))
}

/// Refuses a path that nobody may change, or that is deeper than anything new may be. What was
/// stored before there was such a limit can still be read, moved up and deleted.
pub(crate) fn refuse_unmakeable(row: &WorkspaceRow, path: &RelPath) -> Result<()> {
    refuse_unwritable(row, path)?;
    path.check_depth()
}

/// Refuses a path that nobody may change in this workspace.
pub(crate) fn refuse_unwritable(row: &WorkspaceRow, path: &RelPath) -> Result<()> {
    if path.is_root() {
        return Err(Error::new(
            ErrorCode::IsADirectory,
            "the workspace itself is a directory",
        ));
    }
    if path
        .parts()
        .next()
        .is_some_and(|part| part.starts_with(offshoot_fs::STAGE_PREFIX))
    {
        return Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("names like `{path}` are kept for files on their way"),
        ));
    }
    if row.layout == offshoot_core::Layout::Session
        && path.as_bytes() == SESSION_METADATA.as_bytes()
    {
        return Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("`{path}` is read-only"),
        ));
    }
    row.layout.check_writable(path)
}
