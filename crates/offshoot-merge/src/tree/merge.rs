//! From the workspace's changes and the head to an outcome: renames, the table, what is in the way.

use std::collections::{BTreeMap, HashMap, HashSet};

use offshoot_core::{GitMode, RelPath, Result};

use super::blocked::withdraw_blocked_edits;
use super::directory;
use super::rename::find_renames;
use super::table::{Decision, Kind, decide};
use super::{Contents, Head, PathChange, TreeEntry};
use crate::conflict::Side;
use crate::content::{ContentMerge, Method, Sides, merge_content};
use crate::limits::Limits;
use crate::outcome::{AutoResolution, Conflict, ConflictKind, Edit, MergeOutcome, Merged};
use crate::reason::ResolvedPart;
use crate::rules::{MergeEngine, Rules};

/// How trees are merged.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// The engine per path.
    pub rules: Rules,
    /// Bounds of the work on one file.
    pub limits: Limits,
    /// Treats a rename as a removal and an addition.
    pub no_renames: bool,
}

/// Merges what a workspace changed into a project head.
///
/// `theirs` is the workspace's change set against its base, one entry per leaf. Only those paths
/// are looked up in the head, so that the cost follows the change and not the project.
pub fn merge_trees(
    theirs: &[PathChange],
    head: &dyn Head,
    contents: &dyn Contents,
    options: &MergeOptions,
) -> Result<MergeOutcome> {
    let mut merge = TreeMerge::new(theirs, head, contents, options)?;
    if !options.no_renames {
        merge.follow_renames()?;
        merge.add_displaced_conflicts()?;
    }
    for change in theirs {
        if !merge.handled.contains(&change.path) {
            merge.decide_path(change)?;
        }
    }
    let TreeMerge {
        mut outcome,
        mut edits,
        moved_from,
        ours,
        ..
    } = merge;
    withdraw_blocked_edits(theirs, head, &ours, &moved_from, &mut edits, &mut outcome)?;
    outcome.edits = edits
        .into_iter()
        .map(|(path, to)| Edit { path, to })
        .collect();
    outcome
        .conflicts
        .sort_by(|one, two| (&one.path, one.kind).cmp(&(&two.path, two.kind)));
    outcome
        .auto_resolved
        .sort_by(|one, two| one.path.cmp(&two.path));
    Ok(outcome)
}

/// Edits by path while they are being found.
pub(super) type Edits = BTreeMap<RelPath, Option<Merged>>;

struct TreeMerge<'a> {
    theirs: &'a [PathChange],
    theirs_at: HashMap<&'a RelPath, &'a PathChange>,
    /// What the head has at the changed paths.
    ours: HashMap<RelPath, Option<TreeEntry>>,
    /// Directories that the workspace has content in, among the changed paths.
    theirs_directories: HashSet<RelPath>,
    /// Directories that the base had changed content in.
    base_directories: HashSet<RelPath>,
    head: &'a dyn Head,
    contents: &'a dyn Contents,
    options: &'a MergeOptions,
    handled: HashSet<RelPath>,
    edits: Edits,
    /// For files that were merged under a new name: that name, and where the head has them.
    moved_from: HashMap<RelPath, RelPath>,
    outcome: MergeOutcome,
}

/// One file on three sides, with the path that the result gets.
struct FileVersions<'p> {
    path: &'p RelPath,
    base: Option<TreeEntry>,
    ours: Option<TreeEntry>,
    theirs: Option<TreeEntry>,
    /// The other name, where a rename was followed.
    renamed_from: Option<&'p RelPath>,
    /// Where the head has it, if it has to move.
    ours_path: Option<&'p RelPath>,
}

impl<'a> TreeMerge<'a> {
    fn new(
        theirs: &'a [PathChange],
        head: &'a dyn Head,
        contents: &'a dyn Contents,
        options: &'a MergeOptions,
    ) -> Result<Self> {
        let mut ours = HashMap::with_capacity(theirs.len());
        let above = |of: fn(&PathChange) -> bool| {
            directories_above(theirs.iter().filter(|change| of(change)))
        };
        for change in theirs {
            ours.insert(change.path.clone(), head.entry(&change.path)?);
        }
        Ok(TreeMerge {
            theirs_at: theirs.iter().map(|change| (&change.path, change)).collect(),
            ours,
            theirs_directories: above(|change| change.after.is_some()),
            base_directories: above(|change| change.before.is_some()),
            theirs,
            head,
            contents,
            options,
            handled: HashSet::new(),
            edits: Edits::new(),
            moved_from: HashMap::new(),
            outcome: MergeOutcome::default(),
        })
    }

    fn ours_at(&self, path: &RelPath) -> Option<TreeEntry> {
        self.ours.get(path).copied().flatten()
    }

    /// What the head has at a path that need not be among the changed ones.
    fn head_entry(&self, path: &RelPath) -> Result<Option<TreeEntry>> {
        match self.ours.get(path) {
            Some(known) => Ok(*known),
            None => self.head.entry(path),
        }
    }

    /// Finds where paths went that one side renamed and the other touched, and merges them there.
    fn follow_renames(&mut self) -> Result<()> {
        let theirs = self.theirs;
        let gone = |change: &PathChange| change.before.filter(|_| change.after.is_none());
        let removed = |changes: &[PathChange]| -> Vec<(RelPath, TreeEntry)> {
            let sources = changes.iter();
            sources
                .filter_map(|change| Some((change.path.clone(), gone(change)?)))
                .collect()
        };
        let touched_by_ours =
            |path: &RelPath, before: &TreeEntry| self.ours_at(path) != Some(*before);
        let sources = removed(theirs);
        let wanted: HashSet<&RelPath> = sources
            .iter()
            .filter(|(path, before)| touched_by_ours(path, before))
            .map(|(path, _)| path)
            .collect();
        // What both sides added alike tells nothing of a rename, and a second merge would take what
        // the first one brought for one.
        let alike = |change: &PathChange| {
            let theirs = self
                .theirs_at
                .get(&change.path)
                .and_then(|change| change.after);
            change.before.is_none()
                && change.after == theirs
                && self.ours_at(&change.path) == theirs
        };
        let telling = |changes: &[PathChange]| -> Vec<PathChange> {
            changes
                .iter()
                .filter(|change| !alike(change))
                .cloned()
                .collect()
        };
        let by_theirs = find_renames(&sources, &wanted, &telling(theirs), self.contents)?;
        let missing: HashSet<&RelPath> = theirs
            .iter()
            .filter(|change| {
                change.before.is_some() && !self.ours_at(&change.path).is_some_and(is_leaf)
            })
            .map(|change| &change.path)
            .collect();
        let by_ours = if missing.is_empty() {
            HashMap::new()
        } else {
            let changes = self.head.changes()?;
            find_renames(
                &removed(&changes),
                &missing,
                &telling(&changes),
                self.contents,
            )?
        };
        for change in theirs {
            let (to_theirs, to_ours) = (by_theirs.get(&change.path), by_ours.get(&change.path));
            if to_theirs.is_some() || to_ours.is_some() {
                self.follow(change, to_ours, to_theirs)?;
            }
        }
        Ok(())
    }

    /// Adds a conflict for each leaf that one side added to a directory which the other side
    /// renamed.
    fn add_displaced_conflicts(&mut self) -> Result<()> {
        let mut sides = directory::Sides {
            theirs: self.theirs,
            ours: &mut self.ours,
            head: self.head,
        };
        for displaced in sides.displaced()? {
            if !self.handled.insert(displaced.from.clone()) {
                continue;
            }
            let entry = Some(displaced.entry);
            let by_ours = displaced.by == Side::Ours;
            let versions = FileVersions {
                path: &displaced.to,
                base: None,
                ours: entry.filter(|_| by_ours),
                theirs: entry.filter(|_| !by_ours),
                renamed_from: Some(&displaced.from),
                ours_path: by_ours.then_some(&displaced.from),
            };
            self.conflict(&versions, ConflictKind::DirectoryRenamed);
        }
        Ok(())
    }

    /// Merges one renamed path. Where another file stands under the new name nothing is followed,
    /// and removal and addition conflict on their own.
    fn follow(
        &mut self,
        change: &'a PathChange,
        to_ours: Option<&RelPath>,
        to_theirs: Option<&RelPath>,
    ) -> Result<()> {
        let from = &change.path;
        let theirs_at = |path: &RelPath| self.theirs_at.get(path).and_then(|change| change.after);
        let (path, ours, theirs, ours_path) = match (to_ours, to_theirs) {
            (Some(to_ours), Some(to_theirs)) if to_ours != to_theirs => {
                let taken = self.head_entry(to_theirs)?.is_some_and(is_leaf)
                    || self.theirs_at.contains_key(to_ours);
                return if taken {
                    Ok(())
                } else {
                    self.both_renamed(change, to_ours, to_theirs)
                };
            }
            (Some(_), Some(to)) => (to, self.head_entry(to)?, theirs_at(to), None),
            (None, Some(to)) if !self.head_entry(to)?.is_some_and(is_leaf) => (
                to,
                self.ours_at(from).filter(|entry| is_leaf(*entry)),
                theirs_at(to),
                Some(from),
            ),
            (Some(to), None) if !self.theirs_at.contains_key(to) => {
                (to, self.head_entry(to)?, change.after, None)
            }
            _ => return Ok(()),
        };
        self.handled.insert(from.clone());
        self.handled.insert(path.clone());
        let versions = FileVersions {
            path,
            base: change.before,
            ours,
            theirs,
            renamed_from: Some(from),
            ours_path: ours_path.filter(|_| ours.is_some()),
        };
        match (ours, theirs) {
            (None, _) => self.conflict(&versions, ConflictKind::RemovedByOurs),
            (_, None) => self.conflict(&versions, ConflictKind::RemovedByTheirs),
            (Some(ours), Some(theirs)) => {
                let base = change.before.map_or(Kind::Absent, Kind::of);
                match decide(base, Kind::of(ours), Kind::of(theirs)) {
                    Decision::MergeContent => return self.merge_files(&versions),
                    _ if ours == theirs => self.take(&versions, ours),
                    Decision::BothChanged if Some(theirs) == change.before => {
                        self.take(&versions, ours);
                    }
                    Decision::BothChanged if Some(ours) == change.before => {
                        self.take(&versions, theirs);
                    }
                    Decision::BothChanged => self.conflict(&versions, ConflictKind::BothChanged),
                    // A rename never hides that the other side made something else of it.
                    _ => self.conflict(&versions, ConflictKind::TypesDiffer),
                }
            }
        }
        Ok(())
    }

    fn both_renamed(
        &mut self,
        change: &PathChange,
        to_ours: &RelPath,
        to_theirs: &RelPath,
    ) -> Result<()> {
        let ours = self.head_entry(to_ours)?;
        let theirs = self
            .theirs_at
            .get(to_theirs)
            .and_then(|change| change.after);
        self.handled.insert(change.path.clone());
        self.handled.insert(to_theirs.clone());
        let mode = theirs.map_or(GitMode::File, |entry| entry.mode);
        self.outcome.conflicts.push(Conflict {
            path: change.path.clone(),
            kind: ConflictKind::BothRenamed,
            base: change.before,
            ours,
            theirs,
            related: vec![to_ours.clone(), to_theirs.clone()],
            ours_path: Some(to_ours.clone()),
            blockers: BTreeMap::new(),
            content: None,
            mode,
        });
        Ok(())
    }

    /// Decides a path that no rename explains.
    fn decide_path(&mut self, change: &'a PathChange) -> Result<()> {
        let path = &change.path;
        let (base, theirs) = (change.before, change.after);
        let ours = self.ours_at(path);
        if ours == theirs {
            self.outcome.unchanged.push(path.clone());
            return Ok(());
        }
        let versions = FileVersions {
            path,
            base,
            ours,
            theirs,
            renamed_from: None,
            ours_path: None,
        };
        if ours == base {
            self.edits
                .insert(path.clone(), theirs.map(Merged::Existing));
            return Ok(());
        }
        if theirs == base {
            return Ok(());
        }
        let kind = |entry: Option<TreeEntry>, directories: Option<&HashSet<RelPath>>| match entry {
            Some(entry) => Kind::of(entry),
            None if directories.is_some_and(|known| known.contains(path)) => Kind::Directory,
            None => Kind::Absent,
        };
        let base_kind = kind(base, Some(&self.base_directories));
        let theirs_kind = kind(theirs, Some(&self.theirs_directories));
        let conflict = match decide(base_kind, kind(ours, None), theirs_kind) {
            Decision::KeepOurs => return Ok(()),
            Decision::Descend => {
                if ours.is_none() {
                    self.outcome.unchanged.push(path.clone());
                }
                return Ok(());
            }
            // Whether the head's directory is empty by then is seen when all edits are known.
            Decision::FileOrDirectory if base.is_none() && theirs.is_some() => {
                self.edits
                    .insert(path.clone(), theirs.map(Merged::Existing));
                return Ok(());
            }
            Decision::TakeTheirs => {
                self.edits
                    .insert(path.clone(), theirs.map(Merged::Existing));
                return Ok(());
            }
            Decision::MergeContent => return self.merge_files(&versions),
            Decision::BothAdded => return self.both_added(&versions),
            Decision::BothChanged => ConflictKind::BothChanged,
            Decision::TypesDiffer => ConflictKind::TypesDiffer,
            Decision::RemovedByOurs => ConflictKind::RemovedByOurs,
            Decision::RemovedByTheirs => ConflictKind::RemovedByTheirs,
            // The side with the directory removed the leaf that the other changed.
            Decision::FileOrDirectory if theirs.is_none() => ConflictKind::RemovedByTheirs,
            Decision::FileOrDirectory => ConflictKind::RemovedByOurs,
        };
        self.conflict(&versions, conflict);
        Ok(())
    }

    /// Merges two files over a third.
    fn merge_files(&mut self, versions: &FileVersions<'_>) -> Result<()> {
        let (Some(base), Some(ours), Some(theirs)) =
            (versions.base, versions.ours, versions.theirs)
        else {
            return Ok(());
        };
        let mode = merged_mode(base.mode, ours.mode, theirs.mode);
        let id = if ours.id == theirs.id || theirs.id == base.id {
            Some(ours.id)
        } else if ours.id == base.id {
            Some(theirs.id)
        } else {
            None
        };
        if let Some(id) = id {
            self.take(versions, TreeEntry { mode, id });
            return Ok(());
        }
        let sides = Sides {
            base: self.contents.read(&base.id)?,
            ours: self.contents.read(&ours.id)?,
            theirs: self.contents.read(&theirs.id)?,
        };
        let engine = self.options.rules.engine(versions.path.as_bytes());
        self.merged_content(versions, mode, &sides, engine);
        Ok(())
    }

    /// Two files that were both added: what they have in common is no conflict.
    fn both_added(&mut self, versions: &FileVersions<'_>) -> Result<()> {
        let (Some(ours), Some(theirs)) = (versions.ours, versions.theirs) else {
            return Ok(());
        };
        if ours.id == theirs.id {
            self.conflict(versions, ConflictKind::ModesDiffer);
            return Ok(());
        }
        let sides = Sides {
            base: Vec::new().into(),
            ours: self.contents.read(&ours.id)?,
            theirs: self.contents.read(&theirs.id)?,
        };
        if ours.mode != theirs.mode {
            self.conflict(versions, ConflictKind::BothAdded);
            return Ok(());
        }
        self.merged_content(versions, ours.mode, &sides, MergeEngine::Lines);
        Ok(())
    }

    fn merged_content(
        &mut self,
        versions: &FileVersions<'_>,
        mode: GitMode,
        sides: &Sides,
        engine: MergeEngine,
    ) {
        match merge_content(
            sides,
            engine,
            self.options.rules.allowed,
            &self.options.limits,
        ) {
            ContentMerge::Clean(merged) => {
                // What came out may be what one side has, under its own id.
                let same = |bytes: &[u8], entry: Option<TreeEntry>| {
                    entry
                        .filter(|_| bytes == merged.bytes)
                        .map(|entry| entry.id)
                };
                let id = same(&sides.ours, versions.ours).or(same(&sides.theirs, versions.theirs));
                let to = match id {
                    Some(id) => Merged::Existing(TreeEntry { mode, id }),
                    None => Merged::New {
                        mode,
                        bytes: merged.bytes,
                    },
                };
                self.write(versions, to);
                self.resolved(versions, merged.method, merged.parts);
            }
            ContentMerge::Conflict(content) => {
                let kind = if versions.base.is_some_and(|base| Kind::of(base).is_file()) {
                    ConflictKind::BothChanged
                } else {
                    ConflictKind::BothAdded
                };
                self.conflict(versions, kind);
                if let Some(conflict) = self.outcome.conflicts.last_mut() {
                    conflict.content = Some(content);
                    conflict.mode = mode;
                }
            }
        }
    }

    /// Takes content that exists, where both sides changed something.
    fn take(&mut self, versions: &FileVersions<'_>, entry: TreeEntry) {
        self.write(versions, Merged::Existing(entry));
        self.resolved(versions, Method::Same, Vec::new());
    }

    fn write(&mut self, versions: &FileVersions<'_>, to: Merged) {
        let there = versions.ours_path.is_none() && versions.ours.is_some();
        let same = matches!(to, Merged::Existing(entry) if Some(entry) == versions.ours);
        if let Some(from) = versions.ours_path {
            self.edits.insert(from.clone(), None);
            self.moved_from.insert(versions.path.clone(), from.clone());
        }
        if !(there && same) {
            self.edits.insert(versions.path.clone(), Some(to));
        }
    }

    fn resolved(&mut self, versions: &FileVersions<'_>, method: Method, parts: Vec<ResolvedPart>) {
        self.outcome.auto_resolved.push(AutoResolution {
            path: versions.path.clone(),
            method,
            renamed_from: versions.renamed_from.cloned(),
            parts,
        });
    }

    fn conflict(&mut self, versions: &FileVersions<'_>, kind: ConflictKind) {
        let either = versions.theirs.or(versions.ours);
        self.outcome.conflicts.push(Conflict {
            path: versions.path.clone(),
            kind,
            base: versions.base,
            ours: versions.ours,
            theirs: versions.theirs,
            related: versions.renamed_from.cloned().into_iter().collect(),
            ours_path: versions.ours_path.cloned(),
            blockers: BTreeMap::new(),
            content: None,
            mode: either.map_or(GitMode::File, |entry| entry.mode),
        });
    }
}

impl Kind {
    /// The kind of an entry.
    pub fn of(entry: TreeEntry) -> Self {
        match entry.mode {
            GitMode::Dir => Kind::Directory,
            GitMode::File => Kind::File,
            GitMode::Exec => Kind::Executable,
            GitMode::Symlink | GitMode::Commit => Kind::Link,
        }
    }
}

pub(super) fn is_leaf(entry: TreeEntry) -> bool {
    entry.mode != GitMode::Dir
}

/// The mode of a file: that of the side which changed it.
fn merged_mode(base: GitMode, ours: GitMode, theirs: GitMode) -> GitMode {
    if ours == base { theirs } else { ours }
}

/// The directories above changes, the root included.
pub(super) fn directories_above<'c>(
    changes: impl Iterator<Item = &'c PathChange>,
) -> HashSet<RelPath> {
    let mut above = HashSet::new();
    for change in changes {
        let mut next = change.path.parent();
        // Where one is known, those above it are.
        while let Some(directory) = next.filter(|directory| !above.contains(directory)) {
            next = directory.parent();
            above.insert(directory);
        }
    }
    above
}
