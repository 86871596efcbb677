//! The outcome of a merge of trees: edits of the project head, conflicts and decisions as data.

use std::collections::BTreeMap;

use offshoot_core::{GitMode, RelPath};

use crate::conflict::Choice;
use crate::content::{ContentConflict, Method};
use crate::reason::ResolvedPart;
use crate::tree::TreeEntry;

/// The outcome of a merge. Nothing of it is done yet.
#[derive(Debug, Default)]
pub struct MergeOutcome {
    /// What the project head has to become, in the order of paths; holds no conflicting path.
    pub edits: Vec<Edit>,
    /// Conflicts, which a person, an agent or a policy decides.
    pub conflicts: Vec<Conflict>,
    /// Paths that both sides changed and that were merged nevertheless.
    pub auto_resolved: Vec<AutoResolution>,
    /// Changed paths of the workspace that the head has with the same content and mode.
    pub unchanged: Vec<RelPath>,
}

/// One path of the project head that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Where.
    pub path: RelPath,
    /// What stands there afterwards; none for a path that goes.
    pub to: Option<Merged>,
}

/// What a merge writes to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// Content that exists already.
    Existing(TreeEntry),
    /// Content that the merge made, to be stored first.
    New {
        /// How git writes it.
        mode: GitMode,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Why a path conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConflictKind {
    /// Both changed the content.
    BothChanged,
    /// Both added the path with different content.
    BothAdded,
    /// Ours removed, theirs changed; `related` names the old path if theirs renamed it.
    RemovedByOurs,
    /// Theirs removed, ours changed; `related` names the old path if ours renamed it.
    RemovedByTheirs,
    /// Different kinds of things: a file here, a link there.
    TypesDiffer,
    /// A leaf here, a directory there; `related` names what stands in the way.
    FileOrDirectory,
    /// Both renamed the path, to different names; `related` holds ours' and theirs'.
    BothRenamed,
    /// Equal content with different permission bits and nothing to start from.
    ModesDiffer,
    /// One side added it to a directory that the other side renamed; `related` names where it was
    /// put, the path is where it would go along with the directory.
    DirectoryRenamed,
}

impl ConflictKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ConflictKind::BothChanged => "both_changed",
            ConflictKind::BothAdded => "both_added",
            ConflictKind::RemovedByOurs => "removed_by_ours",
            ConflictKind::RemovedByTheirs => "removed_by_theirs",
            ConflictKind::TypesDiffer => "types_differ",
            ConflictKind::FileOrDirectory => "file_or_directory",
            ConflictKind::BothRenamed => "both_renamed",
            ConflictKind::ModesDiffer => "modes_differ",
            ConflictKind::DirectoryRenamed => "directory_renamed",
        }
    }

    /// This conflict with the sides swapped.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            ConflictKind::RemovedByOurs => ConflictKind::RemovedByTheirs,
            ConflictKind::RemovedByTheirs => ConflictKind::RemovedByOurs,
            same => same,
        }
    }
}

/// A conflicting path. Until it is decided, the head keeps what it has there.
#[derive(Debug)]
pub struct Conflict {
    /// Where the result would stand.
    pub path: RelPath,
    /// Why.
    pub kind: ConflictKind,
    /// What both started from.
    pub base: Option<TreeEntry>,
    /// What the project head has.
    pub ours: Option<TreeEntry>,
    /// What the workspace has.
    pub theirs: Option<TreeEntry>,
    /// Other paths that belong to it; the kind says which.
    pub related: Vec<RelPath>,
    /// Leaves of the merged head that keep one of these paths from being written, by that path.
    pub blockers: BTreeMap<RelPath, Vec<RelPath>>,
    /// Where ours has it, if not at `path`.
    pub ours_path: Option<RelPath>,
    /// The conflicting parts, where both have files; each is resolved on its own.
    pub content: Option<ContentConflict>,
    /// The mode that resolved content gets.
    pub mode: GitMode,
}

impl Conflict {
    /// The edits that resolve the conflict by one choice for all of its parts.
    ///
    /// What does not conflict inside the file is taken from both sides whatever the choice. None
    /// where the choice does not fit, such as a union of a link and a file.
    pub fn resolve(&self, choice: Choice) -> Option<Vec<Edit>> {
        match &self.content {
            Some(content) => self.resolve_parts(&vec![choice; content.parts.len()]),
            None => self.resolve_whole(choice),
        }
    }

    /// The edits that resolve each part of the content on its own.
    pub fn resolve_parts(&self, choices: &[Choice]) -> Option<Vec<Edit>> {
        let bytes = self.content.as_ref()?.resolve(choices)?;
        let mut edits: Vec<Edit> = self.ours_path.iter().map(removal).collect();
        self.write(
            &mut edits,
            &self.path,
            Some(Merged::New {
                mode: self.mode,
                bytes,
            }),
        );
        Some(edits)
    }

    fn resolve_whole(&self, choice: Choice) -> Option<Vec<Edit>> {
        let entry = match choice {
            Choice::Ours => return Some(Vec::new()),
            // Choosing the workspace moves the file along with its directory, on whichever side it
            // was added.
            Choice::Theirs if self.kind == ConflictKind::DirectoryRenamed => {
                self.theirs.or(self.ours)
            }
            Choice::Theirs => self.theirs,
            Choice::Base => self.base,
            Choice::Union => return None,
        };
        let mut edits: Vec<Edit> = self.ours_path.iter().map(removal).collect();
        if self.kind == ConflictKind::DirectoryRenamed && choice == Choice::Base {
            return Some(edits);
        }
        let target = match (self.kind, choice) {
            (ConflictKind::BothRenamed, Choice::Theirs) => self.related.last()?,
            // The base of a renamed file stands under its old name.
            (_, Choice::Base) if self.is_removal() && !self.related.is_empty() => {
                edits.push(removal(&self.path));
                &self.related[0]
            }
            _ => &self.path,
        };
        self.write(&mut edits, target, entry.map(Merged::Existing));
        Some(edits)
    }

    /// Adds a write, after what is in its way.
    fn write(&self, edits: &mut Vec<Edit>, path: &RelPath, to: Option<Merged>) {
        edits.retain(|edit| edit.path != *path);
        if to.is_some() {
            edits.extend(self.blockers.get(path).into_iter().flatten().map(removal));
        }
        edits.push(Edit {
            path: path.clone(),
            to,
        });
    }

    fn is_removal(&self) -> bool {
        matches!(
            self.kind,
            ConflictKind::RemovedByOurs | ConflictKind::RemovedByTheirs
        )
    }
}

fn removal(path: &RelPath) -> Edit {
    Edit {
        path: path.clone(),
        to: None,
    }
}

/// A path that both sides changed and that was merged without a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoResolution {
    /// Where the result stands.
    pub path: RelPath,
    /// How the content was found.
    pub method: Method,
    /// Where it stood before, if a rename was followed.
    pub renamed_from: Option<RelPath>,
    /// The parts that both sides changed, each with the reason why it is no conflict.
    pub parts: Vec<ResolvedPart>,
}
