//! The ignore rules of a fork, applied to what differs from its layers.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use offshoot_core::{EntryKind, RelPath, Result};
use offshoot_fs::{Difference, SafeDir, Stat};
use offshoot_git::IgnoreRules;

use crate::content::change_set::topmost;
use crate::content::index::Index;
use crate::content::inherited::InheritedFlag;
use crate::content::state::dir_of_nested_git;
use crate::directory::setup_layer::SetupFiles;
use crate::sync::disk::read_rule_file;
use crate::sync::fork::ForkView;
use crate::sync::scan::Synced;

impl ForkView<'_> {
    /// The differences that the ignore rules do not leave out. The others go to `synced.ignored`.
    pub(crate) fn without_ignored(
        &self,
        mut all: Vec<Difference>,
        synced: &mut Synced,
    ) -> Vec<Difference> {
        if self.include_ignored && self.included.is_empty() {
            return all;
        }
        // A rule file that does not differ is read from the store, as the layers have it, or is one
        // that came with the setup.
        let setup = SetupFiles::of_stack(self.stack);
        let differs: HashSet<RelPath> = all.iter().map(|one| one.path.clone()).collect();
        let read = |path: &RelPath| match differs.contains(path) {
            true => rule_file(self.dir, path),
            false => {
                let Some(entry) = self.stack.state.entry(&self.index.objects, path).ok()? else {
                    return setup.as_ref()?.rule_file(path).map(Arc::from);
                };
                let id = entry.id.filter(|_| entry.kind == EntryKind::File)?;
                self.index.content(&id).ok()
            }
        };
        let rules = ForkIgnoreRules::new(&read);
        all.retain(|one| {
            let is_dir = one.now.is_some_and(|now| now.is_dir());
            if one.now.is_none() || !self.leaves_out(&rules, &one.path, is_dir) {
                return true;
            }
            synced.ignored.push(one.path.clone());
            false
        });
        self.leave_out_dirs_of_included(&mut all);
        synced.ignored = topmost(std::mem::take(&mut synced.ignored).into_iter());
        all
    }

    /// Leaves out directories that only hold files that were copied from the person's work tree.
    fn leave_out_dirs_of_included(&self, all: &mut Vec<Difference>) {
        let above: HashSet<RelPath> = (self.included.iter())
            .flat_map(RelPath::ancestors)
            .collect();
        if above.is_empty() {
            return;
        }
        let others = all.iter().filter(|one| !above.contains(&one.path));
        let needed: HashSet<RelPath> = others.flat_map(|one| one.path.ancestors()).collect();
        all.retain(|one| {
            let is_dir = one.now.is_some_and(|now| now.is_dir());
            let holds_them = is_dir && above.contains(&one.path) && !needed.contains(&one.path);
            !holds_them || is_tracked(self.index, &one.path)
        });
    }

    /// Whether the ignore rules leave a path out.
    pub(crate) fn leaves_out(
        &self,
        rules: &ForkIgnoreRules<'_>,
        path: &RelPath,
        is_dir: bool,
    ) -> bool {
        if self.included.contains(path) {
            return !is_tracked(self.index, path);
        }
        !self.include_ignored && leaves_out(self.index, rules, path, is_dir)
    }
}

/// Whether the ignore rules of a fork leave a path out.
fn leaves_out(
    index: &Index<'_>,
    rules: &ForkIgnoreRules<'_>,
    path: &RelPath,
    is_dir: bool,
) -> bool {
    if is_tracked(index, path) {
        return false;
    }
    match dir_of_nested_git(path) {
        Some(around) => rules.ignores(&around, true),
        None => rules.ignores(path, is_dir),
    }
}

/// Whether the base has a path: what is tracked stays tracked. After an error the path is walked.
fn is_tracked(index: &Index<'_>, path: &RelPath) -> bool {
    !matches!(index.base().entry(&index.objects, path), Ok(None))
}

/// Calls `ask` with a function that says of directories below `dir` whether the ignore rules leave them
/// out.
pub(crate) fn leaves_out_dirs(
    index: &Index<'_>,
    dir: &SafeDir,
    ask: impl FnOnce(SkipDir<'_>) -> Result<()>,
) -> Result<()> {
    let on_disk = |path: &RelPath| rule_file(dir, path);
    let rules = ForkIgnoreRules::new(&on_disk);
    ask(&mut |path, _| leaves_out(index, &rules, path, true))
}

/// Whether a walk skips a directory; see [`offshoot_fs::Provider::changes_pruned`].
pub(crate) type SkipDir<'a> = &'a mut dyn FnMut(&RelPath, &Stat) -> bool;

/// The ignore rules of a fork, read when they are needed.
pub(crate) struct ForkIgnoreRules<'a> {
    read: &'a dyn Fn(&RelPath) -> Option<Arc<[u8]>>,
    rules: RefCell<HashMap<RelPath, IgnoreRules>>,
    ignored: InheritedFlag,
}

impl<'a> ForkIgnoreRules<'a> {
    pub(crate) fn new(read: &'a dyn Fn(&RelPath) -> Option<Arc<[u8]>>) -> Self {
        ForkIgnoreRules {
            read,
            rules: RefCell::default(),
            ignored: InheritedFlag::default(),
        }
    }

    /// Whether the path, or a directory above it, is ignored.
    pub(crate) fn ignores(&self, path: &RelPath, is_dir: bool) -> bool {
        let Some(parent) = path.parent() else {
            return false;
        };
        let own = |path: &RelPath, is_dir| match path.parent() {
            Some(above) => self.rules_in(&above).is_ignored(path, is_dir),
            None => false,
        };
        let above = self.ignored.holds(&parent, |dir| Ok(own(dir, true)));
        above.unwrap_or(false) || own(path, is_dir)
    }

    fn rules_in(&self, dir: &RelPath) -> IgnoreRules {
        if let Some(rules) = self.rules.borrow().get(dir) {
            return rules.clone();
        }
        let above = match dir.parent() {
            Some(parent) => self.rules_in(&parent),
            None => IgnoreRules::root(),
        };
        let read = |name: &[u8]| (self.read)(&dir.join_name(name));
        let (git, own) = (read(b".gitignore"), read(b".offshootignore"));
        let rules = if git.is_none() && own.is_none() {
            above
        } else {
            above.child(dir, git.as_deref(), own.as_deref())
        };
        self.rules.borrow_mut().insert(dir.clone(), rules.clone());
        rules
    }
}

/// The content of a rule file on disk.
pub(crate) fn rule_file(dir: &SafeDir, path: &RelPath) -> Option<Arc<[u8]>> {
    read_rule_file(dir, path).map(Arc::from)
}
