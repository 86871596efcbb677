//! Properties that a path has from the directories above it, computed once for each directory.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use offshoot_core::{RelPath, Result};

/// Caches whether something is true of a directory or of one above it, so that many paths cost one
/// check for each directory and not one for each level of each path.
#[derive(Default)]
pub(crate) struct InheritedFlag(RefCell<HashMap<RelPath, bool>>);

impl InheritedFlag {
    /// Whether `here` is true of `dir` or of a directory above it, the root included. `here` must
    /// always give the same result for a directory.
    pub(crate) fn holds(
        &self,
        dir: &RelPath,
        mut here: impl FnMut(&RelPath) -> Result<bool>,
    ) -> Result<bool> {
        let mut unknown = Vec::new();
        let mut holds = false;
        let mut next = Some(dir.clone());
        while let Some(path) = next {
            if let Some(known) = self.0.borrow().get(&path) {
                holds = *known;
                break;
            }
            next = path.parent();
            unknown.push(path);
        }
        for path in unknown.into_iter().rev() {
            holds = holds || here(&path)?;
            self.0.borrow_mut().insert(path, holds);
        }
        Ok(holds)
    }
}

/// Adds the directories above a path, without the root, to a set that holds all ancestors of each of
/// its paths.
pub(crate) fn add_dirs_above(set: &mut BTreeSet<RelPath>, path: &RelPath) {
    let mut next = path.parent();
    while let Some(dir) = next.filter(|dir| !dir.is_root()) {
        next = dir.parent();
        if !set.insert(dir) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_is_asked_once() {
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let inherited = InheritedFlag::default();
        let mut asked = 0;
        for (dir, expected) in [
            ("a/b/c", true),
            ("a/b", true),
            ("a", false),
            ("a/b/d", true),
            ("x/y", false),
        ] {
            let holds = inherited.holds(&path(dir), |at| {
                asked += 1;
                Ok(at.as_bytes() == b"a/b")
            });
            assert_eq!(holds.unwrap(), expected, "{dir}");
        }
        // The root, `a`, `a/b`, `x` and `x/y`: nothing below `a/b` is checked.
        assert_eq!(asked, 5);
    }

    #[test]
    fn directories_above_are_added_once() {
        let mut set = BTreeSet::new();
        for path in ["a/b/c/d", "a/b/x", "top"] {
            add_dirs_above(&mut set, &RelPath::parse(path.as_bytes()).unwrap());
        }
        let dirs: Vec<String> = set.iter().map(RelPath::to_text).collect();
        assert_eq!(dirs, ["a", "a/b", "a/b/c"]);
    }
}
