//! Listings of directories, whole or by page, and the tree of directories.
//!
//! A page sorted by name costs the names of the directory and a look at what the page shows, not a
//! look at everything that is there.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use offshoot_core::{
    EntryKind, Error, ErrorCode, RelPath, Result, Timestamp, WorkspaceId, escape_bytes,
    unescape_bytes,
};
use offshoot_fs::SafeDir;
use offshoot_store::WorkspaceRow;

use crate::content::index::{Entry, Index};
use crate::content::paths_with_history::{PathsWithHistory, changed_at};
use crate::content::rows::no_file;
use crate::content::workspace_row::is_session_metadata;
use crate::workspace::Workspaces;
use crate::workspace::read::ListEntry;

/// What a listing is sorted by; entries that are alike in it are sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListSort {
    /// The bytes of the name.
    #[default]
    Name,
    /// Bytes; directories have none.
    Size,
    /// When it last changed.
    Modified,
}

/// Which part of a listing is wanted, and in which order.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// What it is sorted by.
    pub sort: ListSort,
    /// From the last to the first.
    pub descending: bool,
    /// Directories come before everything else, whatever the order.
    pub dirs_first: bool,
    /// Only what comes after this: [`ListPage::next`] of a page in the same order. In a listing by
    /// name alone it is the name of an entry, which need not be there any more.
    pub after: Option<String>,
    /// At most so many; 0 means all.
    pub limit: usize,
}

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The entries.
    pub entries: Vec<ListEntry>,
    /// Where the next page begins; none if this is the last.
    pub next: Option<String>,
    /// How many entries all pages have together.
    pub total: usize,
}

/// A directory with the directories in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirNode {
    /// Its path.
    pub path: RelPath,
    /// What is in it.
    pub children: Vec<DirNode>,
}

/// Where an entry stands in the order of a listing. It holds all that the order looks at, so that
/// a page can begin after an entry that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SortKey {
    /// Whether it belongs to those that come second, because directories come first.
    second: bool,
    key: i64,
    name: Vec<u8>,
}

impl ListOptions {
    fn sort_key(&self, name: Vec<u8>, kind: EntryKind, size: i64, modified: Timestamp) -> SortKey {
        SortKey {
            second: self.dirs_first && kind != EntryKind::Dir,
            key: match self.sort {
                ListSort::Name => 0,
                ListSort::Size => size,
                ListSort::Modified => modified.0,
            },
            name,
        }
    }

    fn compare(&self, a: &SortKey, b: &SortKey) -> Ordering {
        let mut within = (a.key, &a.name).cmp(&(b.key, &b.name));
        if self.descending {
            within = within.reverse();
        }
        a.second.cmp(&b.second).then(within)
    }

    /// Whether the name alone says where an entry stands.
    fn is_plain(&self) -> bool {
        self.sort == ListSort::Name && !self.dirs_first
    }

    /// The letter of a cursor, so that one of another order is not taken for one of this.
    fn letter(&self) -> char {
        let letter = match self.sort {
            ListSort::Name => 'n',
            ListSort::Size => 's',
            ListSort::Modified => 'm',
        };
        match self.descending {
            true => letter.to_ascii_uppercase(),
            false => letter,
        }
    }

    fn cursor(&self, sort_key: &SortKey) -> String {
        let name = escape_bytes(&sort_key.name);
        match self.is_plain() {
            true => name,
            false => {
                let second = u8::from(sort_key.second);
                format!("{}{second}:{}:{name}", self.letter(), sort_key.key)
            }
        }
    }

    fn parse_cursor(&self, text: &str) -> Result<SortKey> {
        let refuse = || {
            Error::invalid(format!(
                "`after` is no place in a listing in this order: `{text}`"
            ))
            .with_hint("give `next` of the page before, with the same order")
        };
        if self.is_plain() {
            return Ok(SortKey {
                second: false,
                key: 0,
                name: unescape_bytes(text).map_err(|_| refuse())?,
            });
        }
        let rest = text.strip_prefix(self.letter()).ok_or_else(refuse)?;
        let mut parts = rest.splitn(3, ':');
        let mut part = || parts.next().ok_or_else(refuse);
        let second = match part()? {
            "0" => false,
            "1" => true,
            _ => return Err(refuse()),
        };
        if second && !self.dirs_first {
            return Err(refuse());
        }
        let key = part()?.parse().map_err(|_| refuse())?;
        let name = unescape_bytes(part()?).map_err(|_| refuse())?;
        Ok(SortKey { second, key, name })
    }

    /// The names of the page, in order, and where the next one begins. Sorts the page alone.
    fn page(&self, mut places: Vec<SortKey>) -> Result<(Vec<Vec<u8>>, Option<String>)> {
        if let Some(after) = &self.after {
            let after = self.parse_cursor(after)?;
            places.retain(|sort_key| self.compare(sort_key, &after).is_gt());
        }
        let mut next = None;
        let is_cut = self.limit > 0 && places.len() > self.limit;
        if is_cut {
            places.select_nth_unstable_by(self.limit, |a, b| self.compare(a, b));
            places.truncate(self.limit);
        }
        places.sort_unstable_by(|a, b| self.compare(a, b));
        if is_cut {
            next = places.last().map(|last| self.cursor(last));
        }
        let names = places.into_iter().map(|sort_key| sort_key.name).collect();
        Ok((names, next))
    }
}

impl Workspaces {
    /// What is directly in a directory, by name.
    pub fn list(&self, id: &WorkspaceId, path: &RelPath) -> Result<Vec<ListEntry>> {
        let all = ListOptions::default();
        Ok(self.list_page(id, path, &all, &|_| true)?.entries)
    }

    /// A part of what is directly in a directory and wanted. Entries that come and go between two
    /// pages let no other be shown twice or not at all.
    ///
    /// By name it costs the names and a look at each entry of the page; by size or time a look at
    /// all entries.
    pub fn list_page(
        &self,
        id: &WorkspaceId,
        path: &RelPath,
        options: &ListOptions,
        wanted: &dyn Fn(&RelPath) -> bool,
    ) -> Result<ListPage> {
        let row = self.contents.open_row(id)?;
        let mut page = match row.materialized {
            true => self.page_on_disk(&row, path, options, wanted)?,
            false => {
                self.directories.note_use(&row);
                self.page_of_index(&row, path, options, wanted)?
            }
        };
        self.add_operators(&row, path, &mut page.entries)?;
        Ok(page)
    }

    fn page_on_disk(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        options: &ListOptions,
        wanted: &dyn Fn(&RelPath) -> bool,
    ) -> Result<ListPage> {
        let dir = self.directories.dir_for_reader(row)?;
        match dir.stat_follow(path)? {
            None => return Err(no_file(path)),
            Some(stat) if !stat.is_dir() => return Err(not_a_directory(path)),
            Some(_) => {}
        }
        let shows = |name: &[u8]| {
            let path = path.join_name(name);
            !is_session_metadata(row, &path) && wanted(&path)
        };
        let mut places = Vec::new();
        if options.sort == ListSort::Name {
            for (name, kind) in dir.names(path)? {
                let Some(kind) = kind.entry_kind().filter(|_| shows(&name)) else {
                    continue;
                };
                places.push(options.sort_key(name, kind, 0, Timestamp(0)));
            }
        } else {
            for found in dir.list(path)? {
                let Some(kind) = found.stat.entry_kind().filter(|_| shows(&found.name)) else {
                    continue;
                };
                let size = size_shown(kind, found.stat.size);
                places.push(options.sort_key(found.name, kind, size, found.stat.modified()));
            }
        }
        let total = places.len();
        let (names, next) = options.page(places)?;
        let mut entries = Vec::with_capacity(names.len());
        for found in dir.stat_names(path, names)? {
            let Some(kind) = found.stat.entry_kind() else {
                continue;
            };
            let path = path.join_name(&found.name);
            let mime = match kind {
                EntryKind::File => Some(self.mime_on_disk(&dir, &path)),
                _ => None,
            };
            entries.push(ListEntry {
                kind,
                size: size_shown(kind, found.stat.size),
                modified_at: found.stat.modified(),
                mime,
                operator: None,
                path,
            });
        }
        Ok(ListPage {
            entries,
            next,
            total,
        })
    }

    fn mime_on_disk(&self, dir: &SafeDir, path: &RelPath) -> String {
        let head = dir
            .read_window(path, 0, crate::content::mime::HEAD)
            .map(|(bytes, _)| bytes);
        crate::content::mime::of(None, path.name(), &head.unwrap_or_default())
    }

    fn page_of_index(
        &self,
        row: &WorkspaceRow,
        path: &RelPath,
        options: &ListOptions,
        wanted: &dyn Fn(&RelPath) -> bool,
    ) -> Result<ListPage> {
        let (entries, next, total) = self.store().read(|tx| {
            let index = Index::new(self.store(), tx, row);
            let dir = index.resolve(path)?;
            match index.entry(&dir)? {
                None => return Err(no_file(path)),
                Some(entry) if !entry.is_dir() => return Err(not_a_directory(path)),
                Some(_) => {}
            }
            let children = index.children(&dir)?;
            let touched = match options.sort {
                ListSort::Modified => PathsWithHistory::read(tx, row, path, children.len())?,
                _ => PathsWithHistory::default(),
            };
            let mut places = Vec::new();
            for (name, entry) in &children {
                let path = path.join_name(name);
                if !wanted(&path) {
                    continue;
                }
                let size = match options.sort {
                    ListSort::Size => index.size(entry)?,
                    _ => 0,
                };
                let modified = match options.sort {
                    ListSort::Modified if touched.may_have(&path) => changed_at(tx, row, &path)?,
                    ListSort::Modified => row.changed_at,
                    _ => Timestamp(0),
                };
                places.push(options.sort_key(name.clone(), entry.kind, size, modified));
            }
            let total = places.len();
            let (names, next) = options.page(places)?;
            let mut entries: Vec<(RelPath, Entry, i64)> = Vec::with_capacity(names.len());
            for name in names {
                if let Some(entry) = children.get(&name) {
                    entries.push((path.join_name(&name), *entry, index.size(entry)?));
                }
            }
            Ok((entries, next, total))
        })?;
        let mut listed = Vec::with_capacity(entries.len());
        for (path, entry, size) in entries {
            let mime = match (entry.kind, entry.id) {
                (EntryKind::File, Some(id)) => Some(self.contents.mime_in_store(&path, id)?),
                _ => None,
            };
            listed.push(ListEntry {
                kind: entry.kind,
                size,
                modified_at: row.changed_at,
                mime,
                operator: None,
                path,
            });
        }
        Ok(ListPage {
            entries: listed,
            next,
            total,
        })
    }

    /// Who wrote each entry last, and for entries that are in the store alone also when.
    fn add_operators(
        &self,
        row: &WorkspaceRow,
        dir: &RelPath,
        entries: &mut [ListEntry],
    ) -> Result<()> {
        self.store().read(|tx| {
            let touched = PathsWithHistory::read(tx, row, dir, entries.len())?;
            for entry in &mut *entries {
                if !touched.may_have(&entry.path) {
                    continue;
                }
                if let Some(last) = tx.last_write(row.key, &entry.path)? {
                    entry.operator = Some(last.line.cause.operator.as_str().to_owned());
                    if let Some(given) = last.line.mime {
                        entry.mime = Some(given);
                    }
                    if !row.materialized {
                        entry.modified_at = last.line.modified.unwrap_or(last.line.at);
                    }
                }
            }
            Ok(())
        })
    }

    /// The directories below one, nested; at most `depth` levels of them, or all.
    pub fn tree(&self, id: &WorkspaceId, path: &RelPath, depth: Option<usize>) -> Result<DirNode> {
        let row = self.contents.open_row(id)?;
        let depth = depth.unwrap_or(usize::MAX);
        let mut dirs: Vec<RelPath> = Vec::new();
        if row.materialized {
            let dir = self.directories.dir_for_reader(&row)?;
            match dir.stat_follow(path)? {
                None => return Err(no_file(path)),
                Some(stat) if !stat.is_dir() => return Err(not_a_directory(path)),
                Some(_) => {}
            }
            dir.walk_dirs(path, depth, |found| dirs.push(found.clone()))?;
        } else {
            self.directories.note_use(&row);
            self.store().read(|tx| {
                dirs.clear();
                let index = Index::new(self.store(), tx, &row);
                let start = index.resolve(path)?;
                match index.entry(&start)? {
                    None => return Err(no_file(path)),
                    Some(entry) if !entry.is_dir() => return Err(not_a_directory(path)),
                    Some(_) => {}
                }
                // Shown below the path that was asked for, though a link may lead elsewhere.
                let mut open = vec![(start, path.clone(), depth)];
                while let Some((real, shown, depth)) = open.pop() {
                    if depth == 0 {
                        continue;
                    }
                    let children = index.children(&real)?;
                    for (name, _) in children.iter().filter(|(_, entry)| entry.is_dir()) {
                        let below = shown.join_name(name);
                        dirs.push(below.clone());
                        open.push((real.join_name(name), below, depth - 1));
                    }
                }
                Ok(())
            })?;
        }
        Ok(nest_dirs(path, dirs))
    }
}

fn size_shown(kind: EntryKind, size: u64) -> i64 {
    match kind {
        EntryKind::Dir => 0,
        _ => size as i64,
    }
}

/// Puts directories below `root`, given parents first, into each other.
pub(crate) fn nest_dirs(root: &RelPath, dirs: Vec<RelPath>) -> DirNode {
    let mut below: BTreeMap<RelPath, Vec<RelPath>> = BTreeMap::new();
    for dir in dirs {
        below
            .entry(dir.parent().unwrap_or_default())
            .or_default()
            .push(dir);
    }
    // Children are finished before their parents: longer paths first is not enough, depth is.
    let mut done: BTreeMap<RelPath, DirNode> = BTreeMap::new();
    let mut parents: Vec<RelPath> = below.keys().cloned().collect();
    parents.sort_by_key(|path| std::cmp::Reverse(path.parts().count()));
    for parent in parents {
        let mut children = Vec::new();
        for path in below.remove(&parent).unwrap_or_default() {
            let node = done.remove(&path);
            children.push(node.unwrap_or(DirNode {
                path,
                children: Vec::new(),
            }));
        }
        children.sort_by(|a, b| a.path.cmp(&b.path));
        done.insert(
            parent.clone(),
            DirNode {
                path: parent,
                children,
            },
        );
    }
    done.remove(root).unwrap_or(DirNode {
        path: root.clone(),
        children: Vec::new(),
    })
}

fn not_a_directory(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::NotADirectory,
        format!("`{path}` is no directory"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_another_order_are_refused() {
        let by = |sort, descending, dirs_first| ListOptions {
            sort,
            descending,
            dirs_first,
            ..ListOptions::default()
        };
        let size = by(ListSort::Size, false, false);
        let sort_key = size.sort_key(b"a:b\xff".to_vec(), EntryKind::File, 7, Timestamp(0));
        let cursor = size.cursor(&sort_key);
        assert_eq!(cursor, "s0:7:a:b\\xff");
        assert_eq!(size.parse_cursor(&cursor).unwrap(), sort_key);
        for other in [
            by(ListSort::Size, true, false),
            by(ListSort::Modified, false, false),
            by(ListSort::Name, false, true),
        ] {
            assert!(other.parse_cursor(&cursor).is_err());
        }
        for bad in ["", "s", "s2:7:a", "s1:7:a", "s0:x:a", "s0:7", "s0:7:\\y"] {
            assert!(size.parse_cursor(bad).is_err(), "{bad}");
        }
        let plain = by(ListSort::Name, true, false);
        assert_eq!(plain.cursor(&sort_key), "a:b\\xff");
    }
}
