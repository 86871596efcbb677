//! The index of a workspace: the entry at every path, as the store has it.
//!
//! It consists of a shared, immutable [`State`] (the *base*) and of entry rows above it, so that a
//! workspace costs what differs from its base and nothing is copied when one is made. The index is the
//! truth and the directory on disk its projection.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use offshoot_core::{DEFAULT_DIR_PERM, EntryKind, Error, ErrorCode, ObjectId, RelPath, Result};
use offshoot_git::ObjectReader;
use offshoot_store::{EntryRow, ReadTx, Store, WorkspaceRow};

use crate::content::objects::StoredObjects;
use crate::content::state::{State, StateEntry};

/// How many links may follow each other, as in the kernel.
const MAX_LINKS: usize = 40;

/// The entry at a path of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits.
    pub perm: u32,
    /// The content of a file or link.
    pub id: Option<ObjectId>,
    /// The size if a row says it; [`Index::size`] looks up that of base entries.
    size: Option<i64>,
}

impl Entry {
    /// The entry of a row; none if the row marks a deletion.
    pub(crate) fn of_row(row: &EntryRow) -> Option<Entry> {
        row.kind.map(|kind| Entry {
            kind,
            perm: row.perm,
            id: row.id,
            size: Some(row.size),
        })
    }

    pub(crate) fn of_state(entry: StateEntry) -> Entry {
        Entry {
            kind: entry.kind,
            perm: entry.perm,
            id: entry.id,
            size: None,
        }
    }

    /// The entry as part of a state.
    pub(crate) fn to_state(self) -> StateEntry {
        StateEntry {
            kind: self.kind,
            perm: self.perm,
            id: self.id,
        }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == EntryKind::Dir
    }
}

/// The index of one workspace inside a transaction.
pub(crate) struct Index<'a> {
    pub(crate) tx: &'a dyn ReadTx,
    pub(crate) row: &'a WorkspaceRow,
    pub(crate) objects: StoredObjects<'a>,
    /// All rows, if they were read at once.
    rows: Option<BTreeMap<RelPath, EntryRow>>,
    cache: RefCell<IndexCache>,
}

/// Directories that were resolved, so that a path costs the same at any depth, and drafted rows.
#[derive(Default)]
struct IndexCache {
    dirs: BTreeMap<RelPath, DirView>,
    /// Rows that a draft will write; none where it will remove one.
    drafted: BTreeMap<RelPath, Option<EntryRow>>,
    /// Directories below which a draft will remove all rows of the store.
    cleared: BTreeSet<RelPath>,
}

/// Where the entries of a directory come from.
#[derive(Clone, Copy)]
struct DirView {
    /// The part of the base below the directory; none if rows hide it.
    base: Option<State>,
    /// Whether the rows of the store below the directory are valid.
    stored: bool,
}

impl IndexCache {
    /// Drops a directory that changes, and all below it.
    fn forget(&mut self, dir: &RelPath) {
        self.dirs.remove(dir);
        let below: Vec<RelPath> = below(&self.dirs, dir).map(|(dir, _)| dir.clone()).collect();
        for dir in below {
            self.dirs.remove(&dir);
        }
    }
}

/// The entries of a map by paths that are below a directory.
fn below<'m, T>(
    map: &'m BTreeMap<RelPath, T>,
    dir: &RelPath,
) -> impl Iterator<Item = (&'m RelPath, &'m T)> {
    // From `dir/` to before `dir0`, because `0` is the byte after `/`.
    let edge = |last: &[u8]| [dir.as_bytes(), last].concat();
    let (from, to) = match dir.is_root() {
        true => (Bound::Excluded(Vec::new()), Bound::Unbounded),
        false => (Bound::Excluded(edge(b"/")), Bound::Excluded(edge(b"0"))),
    };
    map.range::<[u8], _>((
        from.as_ref().map(Vec::as_slice),
        to.as_ref().map(Vec::as_slice),
    ))
}

impl<'a> Index<'a> {
    pub(crate) fn new(store: &'a Store, tx: &'a dyn ReadTx, row: &'a WorkspaceRow) -> Self {
        Index {
            tx,
            row,
            objects: StoredObjects::new(store, Some(tx)),
            rows: None,
            cache: RefCell::default(),
        }
    }

    /// Caches the trees that are read, for callers that look up many paths.
    pub(crate) fn with_tree_cache(mut self) -> Self {
        self.objects.cache_trees();
        self
    }

    /// Reads all rows at once, for callers that need most of them and write none meanwhile.
    pub(crate) fn with_rows(self) -> Result<Self> {
        let mut index = self.with_tree_cache();
        let rows = index.tx.entries_below(index.row.key, &RelPath::root())?;
        index.rows = Some(
            rows.into_iter()
                .map(|row| (row.path.clone(), row))
                .collect(),
        );
        Ok(index)
    }

    /// All rows, in the order of paths.
    pub(crate) fn all_rows(&self) -> Result<Vec<EntryRow>> {
        match &self.rows {
            Some(rows) => Ok(rows.values().cloned().collect()),
            None => self.tx.entries_below(self.row.key, &RelPath::root()),
        }
    }

    /// Whether there are rows below a directory, if all of them were read at once.
    pub(crate) fn has_rows_below(&self, dir: &RelPath) -> bool {
        let rows = self.rows.as_ref();
        rows.is_some_and(|rows| below(rows, dir).next().is_some())
    }

    /// The row that the store has at a path.
    fn stored_row(&self, path: &RelPath) -> Result<Option<EntryRow>> {
        match &self.rows {
            Some(rows) => Ok(rows.get(path).cloned()),
            None => self.tx.entry_at(self.row.key, path),
        }
    }

    /// The row at a path: the drafted one, or else that of the store if it is valid.
    fn effective_row(
        &self,
        path: &RelPath,
        counts: bool,
        stored: Option<EntryRow>,
    ) -> Option<EntryRow> {
        match self.cache.borrow().drafted.get(path) {
            Some(drafted) => drafted.clone(),
            None => stored.filter(|_| counts),
        }
    }

    /// Where the entries of the directory at this path come from, if there is one.
    fn dir(&self, path: &RelPath) -> Result<DirView> {
        let mut unknown = Vec::new();
        let mut dir = DirView {
            base: Some(self.base()),
            stored: true,
        };
        let mut next = Some(path.clone());
        let mut nothing_known = true;
        while let Some(path) = next {
            if let Some(known) = self.cache.borrow().dirs.get(&path) {
                dir = *known;
                nothing_known = false;
                break;
            }
            next = path.parent();
            unknown.push(path);
        }
        // The first look-up reads the rows of the whole path at once.
        let mut rows = match nothing_known && self.rows.is_none() {
            true => Some(
                self.tx
                    .entries_on_path(self.row.key, path)?
                    .into_iter()
                    .peekable(),
            ),
            false => None,
        };
        for path in unknown.into_iter().rev() {
            let row = match &mut rows {
                Some(rows) => rows.next_if(|row| row.path == path),
                None => self.stored_row(&path)?,
            };
            let row = self.effective_row(&path, dir.stored, row);
            dir = self.resolve_entry(&path, dir, row)?.1;
            self.cache.borrow_mut().dirs.insert(path, dir);
        }
        Ok(dir)
    }

    /// The entry at a path, and where the entries below it come from, given its row and where the
    /// entries of its parent come from.
    fn resolve_entry(
        &self,
        path: &RelPath,
        above: DirView,
        row: Option<EntryRow>,
    ) -> Result<(Option<Entry>, DirView)> {
        let hidden = row.as_ref().is_some_and(hides_base);
        let (shown, base) = match above.base.filter(|_| !hidden) {
            None => (None, None),
            Some(base) if path.is_root() => (Some(StateEntry::dir(DEFAULT_DIR_PERM)), Some(base)),
            Some(base) => {
                let (shown, below) = base.step(&self.objects, path)?;
                (shown, Some(below))
            }
        };
        let entry = match &row {
            Some(row) => Entry::of_row(row),
            None => shown.map(Entry::of_state),
        };
        let stored = above.stored && !self.cache.borrow().cleared.contains(path);
        Ok((entry, DirView { base, stored }))
    }

    /// Where the entries of a path's parent come from.
    fn above(&self, path: &RelPath) -> Result<DirView> {
        match path.parent() {
            Some(parent) => self.dir(&parent),
            None => Ok(DirView {
                base: Some(self.base()),
                stored: true,
            }),
        }
    }

    /// The row at a path.
    pub(crate) fn own_row(&self, path: &RelPath) -> Result<Option<EntryRow>> {
        let counts = self.above(path)?.stored;
        Ok(self.effective_row(path, counts, self.stored_row(path)?))
    }

    /// What the base has at a path, unless a row of a directory above hides it. The row of the path
    /// itself is ignored.
    pub(crate) fn shown_by_base(&self, path: &RelPath) -> Result<Option<Entry>> {
        match self.above(path)?.base {
            Some(base) => Ok(base.step(&self.objects, path)?.0.map(Entry::of_state)),
            None => Ok(None),
        }
    }

    /// Drafts a row at a path, or its removal. Nothing is written.
    pub(crate) fn draft(&self, path: &RelPath, row: Option<EntryRow>) {
        let mut cache = self.cache.borrow_mut();
        cache.forget(path);
        cache.drafted.insert(path.clone(), row);
    }

    /// Drafts the removal of all rows below a directory. Nothing is written.
    pub(crate) fn draft_clear_below(&self, dir: &RelPath) {
        let mut cache = self.cache.borrow_mut();
        cache.forget(dir);
        let drafted = below(&cache.drafted, dir).map(|(path, _)| path.clone());
        for path in drafted.collect::<Vec<_>>() {
            cache.drafted.remove(&path);
        }
        cache.cleared.insert(dir.clone());
    }

    /// The base: the state below the rows.
    pub(crate) fn base(&self) -> State {
        State {
            tree: self.row.tree,
            sidecar: self.row.sidecar,
        }
    }

    /// The entry at `path` itself; links on the way are not followed.
    pub(crate) fn entry(&self, path: &RelPath) -> Result<Option<Entry>> {
        let above = self.above(path)?;
        let row = self.effective_row(path, above.stored, self.stored_row(path)?);
        let (entry, dir) = self.resolve_entry(path, above, row)?;
        if entry.is_some_and(|entry| entry.is_dir()) {
            self.cache.borrow_mut().dirs.insert(path.clone(), dir);
        }
        Ok(entry)
    }

    /// The entry at each directory above `path`, the root first, and at `path` itself. Costs little
    /// more than [`Index::entry`].
    pub(crate) fn steps(&self, path: &RelPath) -> Result<Vec<(RelPath, Option<Entry>)>> {
        let mut places = path.ancestors();
        places.push(path.clone());
        let look = |place: RelPath| {
            let entry = self.entry(&place)?;
            Ok((place, entry))
        };
        places.into_iter().map(look).collect()
    }

    /// The size of a file or link, 0 for a directory.
    pub(crate) fn size(&self, entry: &Entry) -> Result<i64> {
        match (entry.size, entry.id) {
            (Some(size), _) => Ok(size),
            (None, None) => Ok(0),
            (None, Some(id)) => Ok(self.tx.object_size(&id)?.unwrap_or(0) as i64),
        }
    }

    /// The entries of `dir` by name; empty if there is no such directory.
    pub(crate) fn children(&self, dir: &RelPath) -> Result<BTreeMap<Vec<u8>, Entry>> {
        let listed = self.list(dir, self.dir(dir)?)?.into_iter();
        Ok(listed.map(|(name, (entry, _))| (name, entry)).collect())
    }

    /// The entries of a directory by name, each with where the entries below it come from.
    fn list(&self, path: &RelPath, dir: DirView) -> Result<BTreeMap<Vec<u8>, (Entry, DirView)>> {
        let mut children = BTreeMap::new();
        if let Some(base) = dir.base {
            for (name, (entry, below)) in base.list(&self.objects, path)? {
                let below = DirView {
                    base: Some(below),
                    ..dir
                };
                children.insert(name, (Entry::of_state(entry), below));
            }
        }
        let mut rows = match dir.stored {
            true => self.tx.entries_in(self.row.key, path)?,
            false => Vec::new(),
        };
        let cache = self.cache.borrow();
        if !cache.drafted.is_empty() {
            rows.retain(|row| !cache.drafted.contains_key(&row.path));
            let here = below(&cache.drafted, path)
                .filter(|(drafted, _)| drafted.parent().as_ref() == Some(path));
            rows.extend(here.filter_map(|(_, row)| row.clone()));
        }
        for row in rows {
            let name = row.path.name().to_vec();
            let Some(entry) = Entry::of_row(&row) else {
                children.remove(&name);
                continue;
            };
            let shown = match children.get(&name) {
                Some((_, shown)) => shown.base,
                None => dir.base.map(|_| State::default()),
            };
            let below = DirView {
                base: shown.filter(|_| !hides_base(&row)),
                ..dir
            };
            children.insert(name, (entry, below));
        }
        if !cache.cleared.is_empty() {
            for (name, (_, below)) in &mut children {
                below.stored &= !cache.cleared.contains(&path.join_name(name));
            }
        }
        Ok(children)
    }

    /// Visits everything below `dir`, directories before what is in them.
    pub(crate) fn walk(
        &self,
        dir: &RelPath,
        visit: &mut dyn FnMut(&RelPath, &Entry) -> Result<()>,
    ) -> Result<()> {
        let mut open = vec![(dir.clone(), self.dir(dir)?)];
        while let Some((path, dir)) = open.pop() {
            let mut below = Vec::new();
            for (name, (entry, dir)) in self.list(&path, dir)? {
                let path = path.join_name(&name);
                visit(&path, &entry)?;
                if entry.is_dir() {
                    below.push((path, dir));
                }
            }
            open.extend(below.into_iter().rev());
        }
        Ok(())
    }

    /// Follows links inside the workspace. The last part need not exist. A link that leaves the
    /// workspace is refused.
    pub(crate) fn resolve(&self, path: &RelPath) -> Result<RelPath> {
        // The common case: the entry is no link, or it is new in a directory.
        match self.entry(path)? {
            Some(entry) if entry.kind != EntryKind::Symlink => return Ok(path.clone()),
            None => {
                let parent = path.parent().unwrap_or_default();
                if self.entry(&parent)?.is_some_and(|entry| entry.is_dir()) {
                    return Ok(path.clone());
                }
            }
            Some(_) => {}
        }
        self.follow(RelPath::root(), path.as_bytes(), path)
    }

    /// The path that a link in `dir` with this target leads to. A target that leaves the workspace is
    /// refused.
    pub(crate) fn resolve_link(
        &self,
        dir: &RelPath,
        target: &[u8],
        link: &RelPath,
    ) -> Result<RelPath> {
        if target.starts_with(b"/") {
            return Err(leaves_workspace(link));
        }
        self.follow(dir.clone(), target, link)
    }

    /// Follows `way` from a directory that was resolved already. Errors name `path`.
    fn follow(&self, from: RelPath, way: &[u8], path: &RelPath) -> Result<RelPath> {
        let parts = |way: &[u8]| -> Vec<Vec<u8>> {
            way.split(|&byte| byte == b'/')
                .map(<[u8]>::to_vec)
                .collect()
        };
        let mut done = from;
        let mut rest = VecDeque::from(parts(way));
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            match &part[..] {
                b"" | b"." => continue,
                b".." => {
                    done = done.parent().ok_or_else(|| leaves_workspace(path))?;
                    continue;
                }
                _ => {}
            }
            let next = done.join_name(&part);
            match self.entry(&next)? {
                Some(Entry {
                    kind: EntryKind::Symlink,
                    id: Some(id),
                    ..
                }) => {
                    links += 1;
                    let target = self.content(&id)?;
                    if links > MAX_LINKS {
                        return Err(Error::invalid(format!("`{path}` follows too many links")));
                    }
                    if target.starts_with(b"/") {
                        return Err(leaves_workspace(path));
                    }
                    for part in parts(&target).into_iter().rev() {
                        rest.push_front(part);
                    }
                }
                _ => done = next,
            }
        }
        Ok(done)
    }

    /// The bytes of a small object, such as a link's target or a rule file.
    pub(crate) fn content(&self, id: &ObjectId) -> Result<std::sync::Arc<[u8]>> {
        match self.objects.read(id)? {
            Some((_, bytes)) => Ok(bytes),
            None => Err(
                Error::new(ErrorCode::ReadFailed, "content is missing from the store")
                    .with_hint("run `offshoot check` to see what is damaged"),
            ),
        }
    }
}

/// Whether this row hides the base at and below its path.
fn hides_base(row: &EntryRow) -> bool {
    row.opaque || row.kind != Some(EntryKind::Dir)
}

fn leaves_workspace(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::PathTraversalBlocked,
        format!("`{path}` follows a link that leaves the workspace"),
    )
}

/// The directories above `path` that do not exist, the topmost first. An error if one is a file.
pub(crate) fn missing_dirs(index: &Index<'_>, path: &RelPath) -> Result<Vec<RelPath>> {
    missing_dirs_in(&index.steps(path)?)
}

/// The missing directories of a path whose [`Index::steps`] are known.
pub(crate) fn missing_dirs_in(steps: &[(RelPath, Option<Entry>)]) -> Result<Vec<RelPath>> {
    let mut missing = Vec::new();
    let above = steps.split_last().map_or(steps, |(_, above)| above);
    for (above, entry) in above.iter().skip(1) {
        match entry {
            Some(entry) if entry.is_dir() => {}
            Some(_) => {
                return Err(Error::new(
                    ErrorCode::NotADirectory,
                    format!("`{above}` is a file, so nothing can be below it"),
                ));
            }
            None => missing.push(above.clone()),
        }
    }
    Ok(missing)
}

/// The rows of new directories, each of which is in the one before.
pub(crate) fn new_dir_rows(
    index: &Index<'_>,
    missing: &[RelPath],
    revision: i64,
) -> Result<Vec<EntryRow>> {
    let Some(above) = missing.first().and_then(RelPath::parent) else {
        return Ok(Vec::new());
    };
    let mut part = index.base().at(&index.objects, &above)?;
    let row = |path: &RelPath| {
        let (shown, below) = part.step(&index.objects, path)?;
        part = below;
        Ok(EntryRow {
            path: path.clone(),
            kind: Some(EntryKind::Dir),
            // What the base has there was deleted, and must stay deleted.
            opaque: shown.is_some(),
            perm: DEFAULT_DIR_PERM,
            id: None,
            size: 0,
            revision,
        })
    };
    missing.iter().map(row).collect()
}
