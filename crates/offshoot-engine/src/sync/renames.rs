//! Detecting renames among the changes that a sync found: a file is gone at one path, and a file with
//! equal content is new at another.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use offshoot_core::{EntryKind, ObjectId, RelPath, Result, cancel};

use crate::content::index::Index;
use crate::sync::scan::DiskChanges;

/// The old paths of renamed files, by their new paths.
#[derive(Default)]
pub(crate) struct Renames {
    from: HashMap<RelPath, RelPath>,
    sources: HashSet<RelPath>,
}

impl Renames {
    /// Pairs deleted files with new ones of equal content: first those of equal name, then the others
    /// in order. Empty files are not paired.
    pub(crate) fn find(index: &Index<'_>, found: &DiskChanges) -> Result<Renames> {
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
            // The deletion of the parent includes this path.
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
        for (id, sources) in went {
            renames.pair(&sources, came.remove(&id).unwrap_or_default())?;
        }
        Ok(renames)
    }

    /// Pairs files with equal content in linear time.
    fn pair(&mut self, sources: &[RelPath], mut targets: Vec<&RelPath>) -> Result<()> {
        cancel::check()?;
        let mut named: HashMap<&[u8], VecDeque<usize>> = HashMap::new();
        for (number, source) in sources.iter().enumerate() {
            named.entry(source.name()).or_default().push_back(number);
        }
        let mut is_left = vec![true; sources.len()];
        targets.retain(|target| {
            let same = named.get_mut(target.name()).and_then(VecDeque::pop_front);
            if let Some(number) = same {
                is_left[number] = false;
                self.add(sources[number].clone(), target);
            }
            same.is_none()
        });
        let left = sources.iter().zip(is_left).filter(|(_, is_left)| *is_left);
        for ((source, _), target) in left.zip(targets) {
            self.add(source.clone(), target);
        }
        Ok(())
    }

    fn add(&mut self, source: RelPath, target: &RelPath) {
        self.sources.insert(source.clone());
        self.from.insert(target.clone(), source);
    }

    /// The path that a file had before it was renamed to this one.
    pub(crate) fn from(&self, path: &RelPath) -> Option<&RelPath> {
        self.from.get(path)
    }

    /// Whether the file at a path was renamed.
    pub(crate) fn moved_away(&self, path: &RelPath) -> bool {
        self.sources.contains(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> Vec<RelPath> {
        let parse = |text: &&str| RelPath::parse(text.as_bytes()).unwrap();
        texts.iter().map(parse).collect()
    }

    #[test]
    fn files_of_the_same_name_belong_together_and_the_others_in_order() {
        let sources = paths(&["a/x", "a/y", "b/x", "b/z"]);
        let targets = paths(&["c/1", "c/x", "c/z", "d/x", "e/x"]);
        let mut renames = Renames::default();
        renames.pair(&sources, targets.iter().collect()).unwrap();
        let from = |text: &str| renames.from(&paths(&[text])[0]).map(RelPath::to_text);
        let found = ["c/1", "c/x", "c/z", "d/x", "e/x"].map(from);
        let expected = [Some("a/y"), Some("a/x"), Some("b/z"), Some("b/x"), None];
        assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
        assert!(renames.moved_away(&sources[0]) && renames.moved_away(&sources[3]));
    }

    /// Comparing every pair would take 10^10 comparisons, which is minutes.
    #[test]
    fn many_files_with_the_same_content_are_paired_at_once() {
        let many = |dir: &str| -> Vec<RelPath> {
            let path = |n: usize| format!("{dir}/{n:06}").into_bytes();
            (0..100_000)
                .map(|n| RelPath::parse(&path(n)).unwrap())
                .collect()
        };
        let (sources, mut targets) = (many("old"), many("new"));
        targets.reverse();
        let began = std::time::Instant::now();
        let mut renames = Renames::default();
        renames.pair(&sources, targets.iter().collect()).unwrap();
        assert_eq!(renames.from(&targets[0]), sources.last());
        assert_eq!(renames.sources.len(), sources.len());
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}
