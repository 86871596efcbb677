//! Planning a snapshot: which rows of an index it takes, and which ones the ignore rules leave out.

use std::collections::{HashMap, HashSet};

use offshoot_core::{EntryKind, RelPath, Result};
use offshoot_git::IgnoreRules;
use offshoot_store::EntryRow;

use crate::content::index::{Entry, Index};
use crate::content::inherited::InheritedFlag;
use crate::content::state::{StateEdit, StateEdits, StateEntry};

/// The rows that a snapshot takes, as edits of the base, and those that it leaves.
#[derive(Default)]
pub(crate) struct SnapshotPlan {
    pub(crate) edits: StateEdits,
    /// The paths of the rows that the snapshot takes.
    pub(crate) taken: Vec<RelPath>,
    pub(crate) ignored: Vec<EntryRow>,
}

impl SnapshotPlan {
    /// The rows that a walk of the directory does not see: those that the rules in the index leave out,
    /// and those at or below paths that the walk left out by newer rules on disk.
    pub(crate) fn left_out(&self, index: &Index<'_>, by_walk: &[RelPath]) -> Result<Vec<EntryRow>> {
        let mut rows = self.ignored.clone();
        if by_walk.is_empty() || self.taken.is_empty() {
            return Ok(rows);
        }
        let (pruned, above) = (
            HashSet::<&RelPath>::from_iter(by_walk),
            InheritedFlag::default(),
        );
        for path in &self.taken {
            if above.holds(path, |dir| Ok(pruned.contains(dir)))?
                && let Some(row) = index.own_row(path)?.filter(|row| row.kind.is_some())
            {
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

impl Index<'_> {
    /// Plans a snapshot. Rows that the ignore rules match or the layout does not allow are left out.
    /// What the base tracks stays tracked, as in git.
    pub(crate) fn plan_snapshot(&self, include_ignored: bool) -> Result<SnapshotPlan> {
        let mut ignore = IndexIgnoreRules::new(self);
        let mut plan = SnapshotPlan::default();
        let base = self.base();
        for row in self.all_rows()? {
            let is_dir = row.kind == Some(EntryKind::Dir);
            if row.kind.is_some() && !self.row.layout.may_hold(&row.path, is_dir) {
                plan.ignored.push(row);
                continue;
            }
            if !include_ignored && row.kind.is_some() {
                let tracked = base.entry(&self.objects, &row.path)?;
                // Git tracks files and not directories, so a file in the place of a directory is new.
                let was_dir = |tracked: StateEntry| tracked.kind == EntryKind::Dir && !is_dir;
                let is_new = tracked.is_none_or(was_dir);
                if is_new && ignore.matches(&row.path, is_dir)? {
                    if tracked.is_some() {
                        plan.edits.insert(row.path.clone(), StateEdit::Remove);
                    }
                    plan.ignored.push(row);
                    continue;
                }
            }
            let edit = match Entry::of_row(&row) {
                None => StateEdit::Remove,
                Some(entry) if row.opaque => StateEdit::Replace(entry.to_state()),
                Some(entry) => StateEdit::Put(entry.to_state()),
            };
            plan.edits.insert(row.path.clone(), edit);
            plan.taken.push(row.path);
        }
        Ok(plan)
    }
}

/// The ignore rules in the files of an index, read when they are needed.
pub(crate) struct IndexIgnoreRules<'a> {
    index: &'a Index<'a>,
    rules: HashMap<RelPath, IgnoreRules>,
    verdicts: HashMap<RelPath, bool>,
}

impl<'a> IndexIgnoreRules<'a> {
    pub(crate) fn new(index: &'a Index<'a>) -> Self {
        IndexIgnoreRules {
            index,
            rules: HashMap::new(),
            verdicts: HashMap::new(),
        }
    }

    /// Whether the path, or a directory above it, is ignored.
    pub(crate) fn matches(&mut self, path: &RelPath, is_dir: bool) -> Result<bool> {
        let Some(parent) = path.parent() else {
            return Ok(false);
        };
        if !self.index.row.layout.applies_ignore_rules(path) {
            return Ok(false);
        }
        let parent_ignored = match self.verdicts.get(&parent) {
            Some(verdict) => *verdict,
            None => {
                let verdict = self.matches(&parent, true)?;
                self.verdicts.insert(parent.clone(), verdict);
                verdict
            }
        };
        if parent_ignored || crate::content::state::belongs_to_nested_git(path) {
            return Ok(parent_ignored);
        }
        Ok(self.rules_in(&parent)?.is_ignored(path, is_dir))
    }

    fn rules_in(&mut self, dir: &RelPath) -> Result<IgnoreRules> {
        if let Some(rules) = self.rules.get(dir) {
            return Ok(rules.clone());
        }
        let above = match dir.parent() {
            Some(parent) => self.rules_in(&parent)?,
            None => IgnoreRules::root(),
        };
        let git = self.rule_file(dir, b".gitignore")?;
        let own = self.rule_file(dir, b".offshootignore")?;
        let rules = match (&git, &own) {
            (None, None) => above,
            _ => above.child(dir, git.as_deref(), own.as_deref()),
        };
        self.rules.insert(dir.clone(), rules.clone());
        Ok(rules)
    }

    fn rule_file(&self, dir: &RelPath, name: &[u8]) -> Result<Option<std::sync::Arc<[u8]>>> {
        match self.index.entry(&dir.join_name(name))? {
            Some(Entry {
                kind: EntryKind::File,
                id: Some(id),
                ..
            }) => self.index.content(&id).map(Some),
            _ => Ok(None),
        }
    }
}
