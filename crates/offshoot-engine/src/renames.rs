//! Which files that a sync found were only renamed: gone at one path and new, with the same content,
//! at another.

use std::collections::{BTreeMap, HashMap, HashSet};

use offshoot_core::{EntryKind, ObjectId, RelPath, Result};

use crate::index::Index;
use crate::sync::Found;

/// Files that were renamed, by where they are now.
#[derive(Default)]
pub(crate) struct Renames {
    from: HashMap<RelPath, RelPath>,
    sources: HashSet<RelPath>,
}

impl Renames {
    /// Pairs what went with what came. Of several files with the same content those of the same name
    /// belong together, then those that come first. An empty file is nobody's in particular.
    pub(crate) fn find(index: &Index<'_>, found: &Found) -> Result<Renames> {
        let mut renames = Renames::default();
        let is_gone = |path: &RelPath| matches!(found.get(path), Some(None));
        if !found.values().any(Option::is_none) {
            return Ok(renames);
        }
        let mut came: BTreeMap<ObjectId, Vec<&RelPath>> = BTreeMap::new();
        for (path, entry) in found {
            let file = entry.filter(|entry| entry.kind == EntryKind::File && entry.size > 0);
            if let Some(id) = file.and_then(|file| file.id)
                && index.entry(path)?.is_none()
            {
                came.entry(id).or_default().push(path);
            }
        }
        if came.is_empty() {
            return Ok(renames);
        }
        let mut went: BTreeMap<ObjectId, Vec<RelPath>> = BTreeMap::new();
        for path in found.keys().filter(|path| is_gone(path)) {
            // Its parent went too and takes it along.
            if path.parent().is_some_and(|parent| is_gone(&parent)) {
                continue;
            }
            let mut note = |path: &RelPath, kind: EntryKind, id: Option<ObjectId>| {
                if let Some(id) = id.filter(|id| kind == EntryKind::File && came.contains_key(id)) {
                    went.entry(id).or_default().push(path.clone());
                }
            };
            match index.entry(path)? {
                Some(dir) if dir.is_dir() => index.walk(path, &mut |path, entry| {
                    note(path, entry.kind, entry.id);
                    Ok(())
                })?,
                Some(entry) => note(path, entry.kind, entry.id),
                None => {}
            }
        }
        for (id, mut sources) in went {
            let mut targets = came.remove(&id).unwrap_or_default();
            targets.retain(|target| {
                let same_name = |source: &RelPath| source.name() == target.name();
                match sources.iter().position(same_name) {
                    Some(at) => {
                        renames.add(sources.remove(at), target);
                        false
                    }
                    None => true,
                }
            });
            for (source, target) in sources.into_iter().zip(targets) {
                renames.add(source, target);
            }
        }
        Ok(renames)
    }

    fn add(&mut self, source: RelPath, target: &RelPath) {
        self.sources.insert(source.clone());
        self.from.insert(target.clone(), source);
    }

    /// Where what stands at a path now was before.
    pub(crate) fn from(&self, path: &RelPath) -> Option<&RelPath> {
        self.from.get(path)
    }

    /// Whether what was at a path is elsewhere now.
    pub(crate) fn moved_away(&self, path: &RelPath) -> bool {
        self.sources.contains(path)
    }
}
