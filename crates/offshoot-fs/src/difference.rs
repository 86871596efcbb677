//! A path where a fork differs, or may differ, from its layers; content is not compared yet.

use offshoot_core::RelPath;
use offshoot_sys::{FileKind, Stat};

/// What the layers show at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseEntry {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub perm: u32,
    /// Bytes of content.
    pub size: u64,
}

impl From<&Stat> for BaseEntry {
    fn from(stat: &Stat) -> BaseEntry {
        BaseEntry {
            kind: stat.kind,
            perm: stat.perm,
            size: stat.size,
        }
    }
}

/// One path where a fork differs, or may differ, from its layers.
///
/// A directory that is gone, or became something else, stands for everything that was below it.
/// Everything below an added directory is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub path: RelPath,
    /// What the layers show there; none if nothing does.
    pub base: Option<BaseEntry>,
    /// What the fork shows there; none if it is gone.
    pub now: Option<Stat>,
    /// The content is that of this path of the layers, untouched: a directory above was renamed.
    pub content_of: Option<RelPath>,
}

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DifferenceKind {
    /// It is only in the fork.
    Added,
    /// It is only in the layers.
    Deleted,
    /// It became another kind of thing.
    Type,
    /// A directory in both, with other permission bits.
    DirMode,
    /// A file or link in both. The fork has a copy of its own, which may be equal: opening a file
    /// for writing, touching it or changing its bits is enough. The caller compares the content.
    Maybe,
}

impl Difference {
    /// How the path differs.
    pub fn kind(&self) -> DifferenceKind {
        match (&self.base, &self.now) {
            (None, _) => DifferenceKind::Added,
            (Some(_), None) => DifferenceKind::Deleted,
            (Some(base), Some(now)) if base.kind != now.kind => DifferenceKind::Type,
            (Some(base), Some(_)) if base.kind == FileKind::Dir => DifferenceKind::DirMode,
            _ => DifferenceKind::Maybe,
        }
    }

    pub(crate) fn gone(path: RelPath, base: BaseEntry) -> Difference {
        Difference {
            path,
            base: Some(base),
            now: None,
            content_of: None,
        }
    }

    /// None for a directory in both with equal bits, which is all that a directory has.
    pub(crate) fn between(
        path: RelPath,
        base: Option<BaseEntry>,
        now: Stat,
        content_of: Option<RelPath>,
    ) -> Option<Difference> {
        let same_dir =
            |base: &BaseEntry| base.kind == FileKind::Dir && now.is_dir() && base.perm == now.perm;
        if base.as_ref().is_some_and(same_dir) {
            return None;
        }
        Some(Difference {
            path,
            base,
            now: Some(now),
            content_of,
        })
    }
}
