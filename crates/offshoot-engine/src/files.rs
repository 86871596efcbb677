//! Changing single files: write, edit, make a directory, delete, move, upload.
//!
//! Each is one transaction (object, entry, history, counters) and then its projection. Several
//! callers may change files of one workspace at once, from several processes, as long as its path
//! was never handed out; they share commits and keep out of each other's way by path.

use offshoot_core::{
    Cause, DEFAULT_DIR_PERM, EntryKind, Error, ErrorCode, ObjectId, PLAIN_FILE_PERM, RelPath,
    Result, SESSION_METADATA, Timestamp, WorkspaceId,
};
use offshoot_fs::{SafeDir, Staged, Sync, WorkspaceLock};
use offshoot_store::{
    Durability, EntryRow, HistoryOp, NewHistory, ReadTx, Via, WorkspaceRow, WriteTx,
};

use crate::engine::{Engine, no_file, open_row_by_key};
use crate::incoming::{Content, Incoming};
use crate::index::{Entry, Index, missing_parents, new_dir_row};
use crate::workspace::put_row;

/// What must be there for a write to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Anything or nothing.
    #[default]
    Anything,
    /// Nothing.
    Absent,
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

/// A workspace that is held for a change.
pub(crate) struct Held {
    pub(crate) row: WorkspaceRow,
    pub(crate) dir: SafeDir,
    /// Nobody else changes anything meanwhile.
    exclusive: bool,
    _lock: WorkspaceLock,
}

/// What a transaction did, for the projection after it.
struct Landed {
    entry: Entry,
    path: RelPath,
    revision: i64,
    created: bool,
}

impl Engine {
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
        let row = self.open_row(id)?;
        refuse_unwritable(&row, path)?;
        let mut incoming = self.take_in(content)?;
        self.write_incoming(
            id,
            &Target::Exactly(path),
            &mut incoming,
            options,
            Via::Call,
            cause,
        )
    }

    /// Puts a file next to those there are: if the name is taken, it becomes `name (1).ext`.
    pub fn upload(
        &self,
        id: &WorkspaceId,
        name: &[u8],
        content: Content<'_>,
        options: &WriteOptions,
        cause: &Cause,
    ) -> Result<Written> {
        let row = self.open_row(id)?;
        // A browser may send a whole path of its own machine: only the last part counts.
        let last = name
            .rsplit(|&byte| byte == b'/' || byte == b'\\')
            .next()
            .unwrap_or_default();
        let path = row.layout.upload_dir().join(&RelPath::parse(last)?);
        if path == row.layout.upload_dir() {
            return Err(Error::invalid("an upload needs a file name"));
        }
        refuse_unwritable(&row, &path)?;
        let mut incoming = self.take_in(content)?;
        self.write_incoming(
            id,
            &Target::FreeName(&path),
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
        let row = self.open_row(id)?;
        refuse_unwritable(&row, path)?;
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
                // Someone else was quicker: look again at what is there now.
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

    fn write_incoming(
        &self,
        id: &WorkspaceId,
        target: &Target<'_>,
        incoming: &mut Incoming,
        options: &WriteOptions,
        via: Via,
        cause: &Cause,
    ) -> Result<Written> {
        let held = self.hold(id, target.path(), cause)?;
        if let (true, Target::FreeName(path)) = (held.row.handed_out, target) {
            self.sync_names_like(&held, path, cause)?;
        }
        let outcome = self.write_held(&held, target, incoming, options, via, cause);
        let outcome = outcome.or_else(|error| self.unmake_dir(&held, error));
        if self
            .inner
            .checkpoint_due
            .swap(false, std::sync::atomic::Ordering::Relaxed)
        {
            drop(held);
            // The write itself is done; a checkpoint that fails is tried again with a later one.
            let _ = self.checkpoint();
        }
        outcome
    }

    /// Records what outside programs put at the names that an upload would take, until the next
    /// one is really free.
    fn sync_names_like(&self, held: &Held, path: &RelPath, cause: &Cause) -> Result<()> {
        loop {
            let free = |tx: &dyn ReadTx| {
                let row = open_row_by_key(tx, &held.row)?;
                free_name(&Index::new(self.store(), tx, &row), path)
            };
            let name = self.store().read(free)?;
            self.sync_path(&held.row, &held.dir, &name, cause)?;
            if self.store().read(free)? == name {
                return Ok(());
            }
        }
    }

    /// A change that failed leaves no directory behind that was made for it alone. Whoever makes
    /// the directory of a workspace holds it alone, so nobody else can have put anything there.
    fn unmake_dir<T>(&self, held: &Held, error: Error) -> Result<T> {
        if !held.row.materialized
            && let Ok(now) = self.store().read(|tx| open_row_by_key(tx, &held.row))
            && !now.materialized
        {
            self.discard_dir(&now)?;
        }
        Err(error)
    }

    fn write_held(
        &self,
        held: &Held,
        target: &Target<'_>,
        incoming: &mut Incoming,
        options: &WriteOptions,
        via: Via,
        cause: &Cause,
    ) -> Result<Written> {
        // The bytes go to disk before the commit, so that a full disk is found in time.
        let mut staged = held.dir.stage(PLAIN_FILE_PERM)?;
        incoming.copy_to(&mut staged)?;
        let at = self.now();
        let landed = self.store().write(Durability::Synced, |tx| {
            let row = open_row_by_key(tx, &held.row)?;
            self.land_write(tx, &row, target, incoming, options, via, cause, at)
        })?;
        let Landed {
            entry,
            path,
            revision,
            created,
        } = landed;
        self.project_write(held, &path, &entry, staged)
            .or_else(|error| self.projection_failed(held, std::slice::from_ref(&path), error))?;
        if Self::checkpoint_is_due(&held.row, revision) {
            self.inner
                .checkpoint_due
                .store(true, std::sync::atomic::Ordering::Relaxed);
        }
        let mime = crate::mime::of(options.mime.as_deref(), path.name(), &incoming.head);
        Ok(Written {
            path,
            size: incoming.size,
            mime,
            version: revision,
            id: incoming.id,
            created,
        })
    }

    fn land_write(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        target: &Target<'_>,
        incoming: &Incoming,
        options: &WriteOptions,
        via: Via,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<Landed> {
        let mut next = row.clone();
        next.revision += 1;
        next.materialized = true;
        next.changed_at = at;
        next.used_at = at;
        let revision = next.revision;
        let (path, before, new_dirs) = {
            let index = Index::new(self.store(), tx, row);
            let path = target.settle(&index)?;
            refuse_unwritable(row, &path)?;
            let before = index.entry(&path)?;
            check_expectation(&path, before.as_ref(), options.expect)?;
            if before.is_some_and(|entry| entry.is_dir()) {
                return Err(Error::new(
                    ErrorCode::IsADirectory,
                    format!("`{path}` is a directory"),
                ));
            }
            next.bytes += incoming.size - before.map_or(Ok(0), |entry| index.size(&entry))?;
            let missing = missing_parents(&index, &path)?;
            let rows: Result<Vec<EntryRow>> = missing
                .iter()
                .map(|dir| new_dir_row(&index, dir, revision))
                .collect();
            (path, before, rows?)
        };
        let perm = match (options.executable, before) {
            (Some(true), _) => offshoot_core::EXEC_FILE_PERM,
            (Some(false), _) => PLAIN_FILE_PERM,
            (None, Some(before)) if before.kind == EntryKind::File => before.perm,
            (None, _) => PLAIN_FILE_PERM,
        };
        next.files += i64::from(before.is_none());
        next.dirs += new_dirs.len() as i64;
        tx.put_object(&incoming.object)?;
        let line = LineFor {
            row: &next,
            at,
            via,
            cause,
        };
        for dir in &new_dirs {
            tx.put_entry(row.key, dir)?;
            tx.add_history(&line.mkdir(&dir.path))?;
        }
        tx.put_entry(
            row.key,
            &EntryRow {
                path: path.clone(),
                kind: Some(EntryKind::File),
                opaque: false,
                perm,
                id: Some(incoming.id),
                size: incoming.size,
                revision,
            },
        )?;
        let op = if before.is_none() {
            HistoryOp::Create
        } else {
            HistoryOp::Write
        };
        let mut written = line.file(op, &path, EntryKind::File);
        written.before = before.and_then(|entry| entry.id);
        written.after = Some(incoming.id);
        written.size = incoming.size;
        written.mime = options.mime.clone();
        tx.add_history(&written)?;
        put_row(tx, row, &next)?;
        let index = Index::new(self.store(), tx, &next);
        let entry = index
            .entry(&path)?
            .ok_or_else(|| Error::internal("a write left no entry"))?;
        Ok(Landed {
            entry,
            path,
            revision,
            created: before.is_none(),
        })
    }

    fn project_write(
        &self,
        held: &Held,
        path: &RelPath,
        entry: &Entry,
        mut staged: Staged,
    ) -> Result<()> {
        let _turn = self.turn(held)?;
        if !held.exclusive && !self.still(&held.row, path, Some(entry))? {
            // Someone newer waits for its turn. We may not leave before the directory holds a
            // version at least as new as ours: our caller would read one from before its write.
            return self.project(&held.row, std::slice::from_ref(path));
        }
        staged.set_perm(entry.perm);
        held.dir.commit(staged, path, true, Sync::None).map(drop)
    }

    /// The right to project, one at a time unless the workspace is ours alone.
    fn turn(&self, held: &Held) -> Result<Option<WorkspaceLock>> {
        if held.exclusive {
            return Ok(None);
        }
        self.inner
            .locks
            .projection(&Self::lock_name(&held.row))
            .map(Some)
    }

    /// Whether the index still says this of the path.
    fn still(&self, row: &WorkspaceRow, path: &RelPath, entry: Option<&Entry>) -> Result<bool> {
        self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            let current = Index::new(self.store(), tx, &now).entry(path)?;
            Ok(current.map(Entry::to_state) == entry.map(|entry| entry.to_state()))
        })
    }

    /// The change is committed but the directory did not take it. It is tried once more from the
    /// store; if that fails too, the next start of any process puts it right.
    fn projection_failed(&self, held: &Held, paths: &[RelPath], error: Error) -> Result<()> {
        let retried = self
            .turn(held)
            .and_then(|_turn| self.project(&held.row, paths));
        if retried.is_err() {
            self.inner
                .needs_recovery
                .store(true, std::sync::atomic::Ordering::Relaxed);
            return Err(error);
        }
        Ok(())
    }

    /// Holds a workspace for the change of one path: its directory exists, and what outside
    /// programs did to the path is recorded.
    pub(crate) fn hold(&self, id: &WorkspaceId, path: &RelPath, cause: &Cause) -> Result<Held> {
        loop {
            let row = self.open_row(id)?;
            let lone = row.handed_out || !row.materialized;
            let lock = if lone {
                self.exclusive(&row)?
            } else {
                self.shared(&row)?
            };
            let now = self.store().read(|tx| open_row_by_key(tx, &row))?;
            if now.handed_out != row.handed_out || now.materialized != row.materialized {
                continue;
            }
            let dir = self.materialize(&now)?;
            if now.handed_out {
                self.sync_path(&now, &dir, path, cause)?;
            }
            return Ok(Held {
                row: now,
                dir,
                exclusive: lone,
                _lock: lock,
            });
        }
    }

    /// Holds a workspace alone, for changes of whole directories. None if it has no directory.
    pub(crate) fn hold_alone(&self, id: &WorkspaceId) -> Result<(WorkspaceRow, WorkspaceLock)> {
        let row = self.open_row(id)?;
        let lock = self.exclusive(&row)?;
        let now = self.store().read(|tx| open_row_by_key(tx, &row))?;
        Ok((now, lock))
    }

    /// Records a path that a caller names even if it is ignored, which a walk leaves out.
    fn sync_named(&self, row: &WorkspaceRow, path: &RelPath, cause: &Cause) -> Result<()> {
        if !row.handed_out || !row.materialized {
            return Ok(());
        }
        self.sync_path(row, &self.dir_of(row)?, path, cause)
    }

    /// Makes a directory and those above it. It is no error if it exists.
    pub fn make_dir_in(&self, id: &WorkspaceId, path: &RelPath, cause: &Cause) -> Result<RelPath> {
        refuse_unwritable(&self.open_row(id)?, path)?;
        let held = self.hold(id, path, cause)?;
        let outcome = self.make_dir_held(&held, path, cause);
        outcome.or_else(|error| self.unmake_dir(&held, error))
    }

    fn make_dir_held(&self, held: &Held, path: &RelPath, cause: &Cause) -> Result<RelPath> {
        let at = self.now();
        let (path, made) = self.store().write(Durability::Synced, |tx| {
            let row = open_row_by_key(tx, &held.row)?;
            let mut next = changed_row(&row, at);
            next.materialized = true;
            let (path, rows) = {
                let index = Index::new(self.store(), tx, &row);
                let path = index.resolve(path)?;
                refuse_unwritable(&row, &path)?;
                let mut missing = missing_parents(&index, &path)?;
                match index.entry(&path)? {
                    Some(entry) if entry.is_dir() => {
                        // Nothing changes, but the directory of the workspace is there now.
                        next.revision = row.revision;
                        tx.update_workspace(&next)?;
                        return Ok((path, Vec::new()));
                    }
                    Some(_) => {
                        return Err(Error::new(
                            ErrorCode::AlreadyExists,
                            format!("`{path}` is a file"),
                        ));
                    }
                    None => missing.push(path.clone()),
                }
                let rows: Result<Vec<EntryRow>> = missing
                    .iter()
                    .map(|dir| new_dir_row(&index, dir, next.revision))
                    .collect();
                (path, rows?)
            };
            next.dirs += rows.len() as i64;
            let line = LineFor {
                row: &next,
                at,
                via: Via::Call,
                cause,
            };
            for dir in &rows {
                tx.put_entry(row.key, dir)?;
                tx.add_history(&line.mkdir(&dir.path))?;
            }
            put_row(tx, &row, &next)?;
            Ok((path, rows.into_iter().map(|row| row.path).collect()))
        })?;
        if !made.is_empty() {
            self.turn(held)
                .and_then(|_turn| self.project(&held.row, &made))
                .or_else(|error| self.projection_failed(held, &made, error))?;
        }
        Ok(path)
    }

    /// Deletes a file, a link or a directory; one that holds something only if `recursive`.
    /// Every content that goes stays in the history. Returns how many files and links went.
    pub fn delete_file(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        recursive: bool,
        cause: &Cause,
    ) -> Result<usize> {
        let row = self.open_row(id)?;
        refuse_unwritable(&row, path)?;
        let (row, _lock) = self.hold_alone(id)?;
        self.sync_below(&row, path, cause)?;
        self.sync_named(&row, path, cause)?;
        let at = self.now();
        let (gone, files) = self.store().write(Durability::Synced, |tx| {
            let row = open_row_by_key(tx, &row)?;
            let mut next = changed_row(&row, at);
            let (top, below, parent) = {
                let index = Index::new(self.store(), tx, &row);
                let top = index.entry(path)?.ok_or_else(|| no_file(path))?;
                let mut below = Vec::new();
                if top.is_dir() {
                    index.walk(path, &mut |path, entry| {
                        below.push((path.clone(), *entry, index.size(entry)?));
                        Ok(())
                    })?;
                    if !below.is_empty() && !recursive {
                        return Err(Error::new(
                            ErrorCode::IsADirectory,
                            format!("`{path}` is a directory that holds {} entries", below.len()),
                        )
                        .with_hint("ask for a recursive deletion"));
                    }
                }
                let size = index.size(&top)?;
                below.insert(0, (path.clone(), top, size));
                (top, below, path.parent().unwrap_or_default())
            };
            let _ = top;
            let line = LineFor {
                row: &next,
                at,
                via: Via::Call,
                cause,
            };
            for (path, entry, _) in below.iter().rev() {
                let mut line = line.file(HistoryOp::Delete, path, entry.kind);
                line.before = entry.id;
                tx.add_history(&line)?;
            }
            self.remove_in_index(tx, &row, path, next.revision)?;
            self.keep_parent(tx, &row, &parent, next.revision)?;
            let files = below.iter().filter(|(_, entry, _)| !entry.is_dir()).count();
            next.files -= files as i64;
            next.dirs -= (below.len() - files) as i64;
            next.bytes -= below.iter().map(|(_, _, size)| size).sum::<i64>();
            put_row(tx, &row, &next)?;
            let paths: Vec<RelPath> = below.into_iter().map(|(path, ..)| path).collect();
            Ok((paths, files))
        })?;
        if row.materialized {
            self.project_deletion(&row, path, recursive, &gone)
                .or_else(|error| self.retry_projection(&row, &gone, error))?;
        }
        Ok(files)
    }

    fn project_deletion(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        recursive: bool,
        gone: &[RelPath],
    ) -> Result<()> {
        if !recursive {
            return self.project(row, gone);
        }
        let dir = self.dir_of(row)?;
        match dir.stat(path)? {
            None => Ok(()),
            // Ignored files below go too: their deletion was asked for by name.
            Some(_) => dir.remove_tree(path),
        }
    }

    /// Moves a file, a link or a directory. Nothing is overwritten.
    pub fn move_file(
        &self,
        id: &WorkspaceId,
        from: &RelPath,
        to: &RelPath,
        cause: &Cause,
    ) -> Result<Written> {
        let row = self.open_row(id)?;
        refuse_unwritable(&row, from)?;
        refuse_unwritable(&row, to)?;
        if to.starts_with(from) {
            return Err(Error::invalid(format!(
                "`{from}` cannot be moved into itself"
            )));
        }
        let (row, _lock) = self.hold_alone(id)?;
        self.sync_below(&row, from, cause)?;
        self.sync_named(&row, from, cause)?;
        self.sync_named(&row, to, cause)?;
        let at = self.now();
        let (to, top, size, version) = self.store().write(Durability::Synced, |tx| {
            let row = open_row_by_key(tx, &row)?;
            let next = changed_row(&row, at);
            self.land_move(tx, &row, next, from, to, cause, at)
        })?;
        if row.materialized {
            let moved = self
                .dir_of(&row)
                .and_then(|dir| dir.rename(from, &to, true));
            moved.or_else(|error| self.retry_projection_of_move(&row, from, &to, error))?;
        }
        let mime = self
            .mime_of(&row.id, &to)
            .unwrap_or_else(|_| crate::mime::UNKNOWN.to_owned());
        let id = top.id.unwrap_or(offshoot_core::EMPTY_TREE);
        Ok(Written {
            path: to,
            size,
            mime,
            version,
            id,
            created: true,
        })
    }

    fn land_move(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        mut next: WorkspaceRow,
        from: &RelPath,
        to: &RelPath,
        cause: &Cause,
        at: Timestamp,
    ) -> Result<(RelPath, Entry, i64, i64)> {
        let (to, top, all, new_dirs) = {
            let index = Index::new(self.store(), tx, row);
            let top = index.entry(from)?.ok_or_else(|| no_file(from))?;
            let parent = index.resolve(&to.parent().unwrap_or_default())?;
            let to = parent.join_name(to.name());
            refuse_unwritable(row, &to)?;
            if to.starts_with(from) {
                return Err(Error::invalid(format!(
                    "`{from}` cannot be moved into itself"
                )));
            }
            if index.entry(&to)?.is_some() {
                return Err(
                    Error::new(ErrorCode::AlreadyExists, format!("`{to}` exists already"))
                        .with_hint("delete it first, or choose another name"),
                );
            }
            let missing = missing_parents(&index, &to)?;
            let mut all = vec![(from.clone(), top, index.size(&top)?)];
            if top.is_dir() {
                index.walk(from, &mut |path, entry| {
                    all.push((path.clone(), *entry, index.size(entry)?));
                    Ok(())
                })?;
            }
            let rows: Result<Vec<EntryRow>> = missing
                .iter()
                .map(|dir| new_dir_row(&index, dir, next.revision))
                .collect();
            (to, top, all, rows?)
        };
        next.dirs += new_dirs.len() as i64;
        let line = LineFor {
            row: &next,
            at,
            via: Via::Call,
            cause,
        };
        for dir in &new_dirs {
            tx.put_entry(row.key, dir)?;
            tx.add_history(&line.mkdir(&dir.path))?;
        }
        self.remove_in_index(tx, row, from, next.revision)?;
        self.keep_parent(tx, row, &from.parent().unwrap_or_default(), next.revision)?;
        for (path, entry, size) in &all {
            let below = path.strip_prefix(from).unwrap_or_default();
            let target = to.join(&below);
            let opaque = entry.is_dir()
                && Index::new(self.store(), tx, row)
                    .base()
                    .entry(
                        &crate::objects::StoredObjects {
                            store: self.store(),
                            tx: Some(tx),
                        },
                        &target,
                    )?
                    .is_some();
            tx.put_entry(
                row.key,
                &EntryRow {
                    path: target.clone(),
                    kind: Some(entry.kind),
                    opaque,
                    perm: entry.perm,
                    id: entry.id,
                    size: *size,
                    revision: next.revision,
                },
            )?;
            let mut moved = line.file(HistoryOp::Move, &target, entry.kind);
            moved.from = Some(path.clone());
            moved.before = entry.id;
            moved.after = entry.id;
            moved.size = *size;
            tx.add_history(&moved)?;
        }
        put_row(tx, row, &next)?;
        let size = all.first().map_or(0, |(_, _, size)| *size);
        Ok((to, top, size, next.revision))
    }

    /// Makes the index forget a path with everything below.
    pub(crate) fn remove_in_index(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        path: &RelPath,
        revision: i64,
    ) -> Result<()> {
        tx.remove_entries_below(row.key, path)?;
        tx.remove_entry(row.key, path)?;
        let shows_through = Index::new(self.store(), tx, row).entry(path)?.is_some();
        if shows_through {
            let gone = EntryRow {
                path: path.clone(),
                kind: None,
                opaque: false,
                perm: 0,
                id: None,
                size: 0,
                revision,
            };
            tx.put_entry(row.key, &gone)?;
        }
        Ok(())
    }

    /// A directory stays when its last entry goes, so the index has to say so by itself.
    pub(crate) fn keep_parent(
        &self,
        tx: &mut dyn WriteTx,
        row: &WorkspaceRow,
        parent: &RelPath,
        revision: i64,
    ) -> Result<()> {
        if parent.is_root() {
            return Ok(());
        }
        let has_row = tx
            .entries_on_path(row.key, parent)?
            .last()
            .is_some_and(|row| row.path == *parent);
        if has_row {
            return Ok(());
        }
        let perm = Index::new(self.store(), tx, row)
            .entry(parent)?
            .map_or(DEFAULT_DIR_PERM, |entry| entry.perm);
        let stays = EntryRow {
            path: parent.clone(),
            kind: Some(EntryKind::Dir),
            opaque: false,
            perm,
            id: None,
            size: 0,
            revision,
        };
        tx.put_entry(row.key, &stays)
    }

    pub(crate) fn retry_projection(
        &self,
        row: &WorkspaceRow,
        paths: &[RelPath],
        error: Error,
    ) -> Result<()> {
        if self.project(row, paths).is_err() {
            self.inner
                .needs_recovery
                .store(true, std::sync::atomic::Ordering::Relaxed);
            return Err(error);
        }
        Ok(())
    }

    /// A rename that the directory refused: each path is brought in line by itself.
    fn retry_projection_of_move(
        &self,
        row: &WorkspaceRow,
        from: &RelPath,
        to: &RelPath,
        error: Error,
    ) -> Result<()> {
        let mut paths = vec![from.clone(), to.clone()];
        let collected = self.store().read(|tx| {
            let now = open_row_by_key(tx, row)?;
            Index::new(self.store(), tx, &now).walk(to, &mut |path, _| {
                paths.push(path.clone());
                let below = path.strip_prefix(to).unwrap_or_default();
                paths.push(from.join(&below));
                Ok(())
            })
        });
        match collected {
            Ok(()) => self.retry_projection(row, &paths, error),
            Err(_) => {
                self.inner
                    .needs_recovery
                    .store(true, std::sync::atomic::Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

/// Where a write goes.
enum Target<'a> {
    /// To this path.
    Exactly(&'a RelPath),
    /// To this path or, if it is taken, to the next free name like it.
    FreeName(&'a RelPath),
}

impl Target<'_> {
    fn path(&self) -> &RelPath {
        match self {
            Target::Exactly(path) | Target::FreeName(path) => path,
        }
    }

    fn settle(&self, index: &Index<'_>) -> Result<RelPath> {
        match self {
            Target::Exactly(path) => index.resolve(path),
            Target::FreeName(path) => free_name(index, path),
        }
    }
}

/// `name.ext`, `name (1).ext`, `name (2).ext` …: the first that is free.
fn free_name(index: &Index<'_>, path: &RelPath) -> Result<RelPath> {
    if index.entry(path)?.is_none() {
        return Ok(path.clone());
    }
    let name = path.name();
    // A leading dot begins a name, not an extension.
    let dot = name
        .iter()
        .rposition(|&byte| byte == b'.')
        .filter(|&at| at > 0);
    let (stem, extension) = name.split_at(dot.unwrap_or(name.len()));
    let parent = path.parent().unwrap_or_default();
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

fn check_expectation(path: &RelPath, before: Option<&Entry>, expect: Expect) -> Result<()> {
    let met = match expect {
        Expect::Anything => true,
        Expect::Absent => before.is_none(),
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

/// The workspace row with one more revision.
pub(crate) fn changed_row(row: &WorkspaceRow, at: Timestamp) -> WorkspaceRow {
    let mut next = row.clone();
    next.revision += 1;
    next.changed_at = at;
    next.used_at = at;
    next
}

/// Makes lines of history for one change.
pub(crate) struct LineFor<'a> {
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) at: Timestamp,
    pub(crate) via: Via,
    pub(crate) cause: &'a Cause,
}

impl LineFor<'_> {
    pub(crate) fn file(&self, op: HistoryOp, path: &RelPath, kind: EntryKind) -> NewHistory {
        NewHistory {
            workspace: self.row.key,
            revision: self.row.revision,
            at: self.at,
            op,
            via: self.via,
            path: path.clone(),
            from: None,
            cause: self.cause.clone(),
            kind: Some(kind),
            before: None,
            after: None,
            size: 0,
            mime: None,
        }
    }

    pub(crate) fn mkdir(&self, path: &RelPath) -> NewHistory {
        self.file(HistoryOp::Mkdir, path, EntryKind::Dir)
    }
}
