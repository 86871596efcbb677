//! What a path has from the directories above it, asked once for each directory.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use offshoot_core::{RelPath, Result};

/// Whether something is true of a directory or of one above it.
///
/// Who asks for every directory above every path asks depth times as often as there are paths.
/// This remembers the answers, so that it costs one question for each directory.
#[derive(Default)]
pub(crate) struct InheritedFlag(RefCell<HashMap<RelPath, bool>>);

impl InheritedFlag {
    /// Whether `here` is true of `dir` or of a directory above it, the root included. It must
    /// always answer the same.
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

/// Adds the directories above a path, without the root, to a set in which each path has all of its
/// own.
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
        // The root, `a`, `a/b`, `x` and `x/y`: nothing below `a/b` has to be asked.
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
