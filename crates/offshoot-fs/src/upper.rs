//! What changed in an overlay fork, read from its upper directory.
//!
//! The upper is not the difference by itself:
//!
//! - A **whiteout** says that a name is gone, and with a directory all that was in it. Where the
//!   layers have nothing of that name it says nothing.
//! - An **opaque** directory was removed and made again: what the layers have there and the upper
//!   does not is gone.
//! - A **redirect** says that a directory was renamed: what it shows from the layers comes from
//!   another path. It is followed only if the mount follows it.
//! - A file was **copied up**, perhaps without a change: that it is there proves nothing.
//! - A directory may only be on the way to something.
//! - What the **setup layer** has is shown, but it is not what the fork is compared with.
//!
//! Where the overlay uses `trusted` attributes, a `user.overlay.*` attribute was set by an agent
//! and is ignored.
//!
//! The cost follows the upper, one call per name for itself and one for the layers. Only for
//! opaque and renamed directories the layers are listed too. Nothing outside the upper and the
//! layers is read: no link is followed.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use offshoot_core::{RelPath, Result};
use offshoot_sys::{
    DirReader, FileKind, FollowLinks, OverlayXattrs, Stat, get_xattr, lstat_at, xattr_names,
};
use rustix::io::Errno;

use crate::difference::{BaseEntry, Difference};
use crate::errors::is;
use crate::path_resolver::PathResolver;
use crate::provider::ForkChanges;
use crate::read_error;
use crate::safe_dir::{STAGE_PREFIX, vanished};
use crate::stack::{KnownDir, LayerIndexes, LayerStack, MergedDir, OPEN_DIR, has_whiteout_xattr};

/// The mount options that decide how the attributes in an upper are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpperFormat {
    pub(crate) xattrs: OverlayXattrs,
    pub(crate) follow_redirects: bool,
}

/// Where a directory of the fork has its lower part: a path of the layers.
#[derive(Clone, Debug)]
struct LowerDir {
    path: RelPath,
    members: LayerIndexes,
}

/// A directory of the fork that has to be scanned.
struct Pending {
    path: RelPath,
    /// The layers that may have a directory at this very path; none if they have something else.
    base: Option<LayerIndexes>,
    source: Source,
}

enum Source {
    /// It is in the upper; where its lower part is depends on its attributes and on its parent.
    Upper { above: Option<LowerDir> },
    /// It is in the layers only, at another path.
    Lower(LowerDir),
}

/// What one directory of the upper holds.
#[derive(Default)]
struct UpperDir {
    entries: BTreeMap<CString, Stat>,
    whiteouts: Vec<CString>,
}

/// The extended attributes of a directory. Their names are read first, in one call: few have any.
struct DirXattrs<'a> {
    dir: &'a OwnedFd,
    names: Vec<Vec<u8>>,
}

impl DirXattrs<'_> {
    fn read(dir: &OwnedFd) -> io::Result<DirXattrs<'_>> {
        let names = xattr_names(dir)?;
        Ok(DirXattrs { dir, names })
    }

    fn get(&self, name: &CStr) -> io::Result<Option<Vec<u8>>> {
        match self
            .names
            .iter()
            .any(|dir_xattrs| dir_xattrs == name.to_bytes())
        {
            true => get_xattr(self.dir, name),
            false => Ok(None),
        }
    }
}

/// The differences between what an overlay shows and its layers, in the order of their paths.
pub(crate) fn upper_differences(
    stack: &LayerStack,
    upper: BorrowedFd<'_>,
    format: UpperFormat,
    prune: &mut dyn FnMut(&RelPath, &Stat) -> bool,
) -> Result<ForkChanges> {
    let mut scanner = Scanner {
        stack,
        prune,
        upper,
        format,
        resolver: PathResolver::best(),
        reader: DirReader::default(),
        found: Vec::new(),
        may_hold_stages: false,
        pending: vec![Pending {
            path: RelPath::root(),
            base: Some(stack.compared()),
            source: Source::Upper { above: None },
        }],
    };
    while let Some(dir) = scanner.pending.pop() {
        scanner
            .scan_dir(&dir)
            .map_err(|error| read_error(&dir.path, error))?;
    }
    let mut differences = scanner.found;
    differences.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(ForkChanges {
        differences,
        may_hold_stages: scanner.may_hold_stages,
    })
}

struct Scanner<'a> {
    stack: &'a LayerStack,
    upper: BorrowedFd<'a>,
    format: UpperFormat,
    resolver: PathResolver,
    reader: DirReader,
    found: Vec<Difference>,
    may_hold_stages: bool,
    pending: Vec<Pending>,
    /// Whether to leave out the content of a directory that only the fork has.
    prune: &'a mut dyn FnMut(&RelPath, &Stat) -> bool,
}

impl Scanner<'_> {
    fn scan_dir(&mut self, dir: &Pending) -> io::Result<()> {
        let (upper, lower) = match &dir.source {
            Source::Lower(lower) => (UpperDir::default(), Some(lower.clone())),
            Source::Upper { above } => {
                let path = dir.path.as_bytes();
                let fd = match self
                    .resolver
                    .open(self.upper, path, OPEN_DIR, FollowLinks::Never)
                {
                    Ok(fd) => fd,
                    // The fork is in use, and this directory is gone by now.
                    Err(error) if vanished(&error) => return Ok(()),
                    Err(error) => return Err(error),
                };
                let dir_xattrs = DirXattrs::read(&fd)?;
                let opaque = dir_xattrs.get(self.format.xattrs.opaque())?;
                let lower = if opaque.as_deref() == Some(b"y") {
                    None
                } else {
                    self.find_lower(&dir.path, &dir_xattrs, above.as_ref())?
                };
                let marked = opaque.as_deref() == Some(b"x");
                (self.read_upper(&dir.path, &fd, marked)?, lower)
            }
        };
        match (lower, &dir.base) {
            // Without a base it is merged with what the setup layer has there.
            (Some(lower), base) if lower.path == dir.path => {
                let members = base.as_deref().unwrap_or_default();
                let base = self.stack.known_dir(&dir.path, members)?;
                let shown = match self.stack.has_setup() {
                    true => self.stack.open_dir(&dir.path, &lower.members)?.members(),
                    false => base.members(),
                };
                self.compare_merged(&dir.path, upper, &base, &shown)
            }
            (lower, base) => {
                let base = match base {
                    Some(members) => Some(self.stack.open_dir(&dir.path, members)?),
                    None => None,
                };
                self.compare_replaced(&dir.path, upper, lower, base)
            }
        }
    }

    /// Where a directory of the upper has its lower part, if that is anywhere.
    fn find_lower(
        &self,
        path: &RelPath,
        dir_xattrs: &DirXattrs<'_>,
        above: Option<&LowerDir>,
    ) -> io::Result<Option<LowerDir>> {
        if path.is_root() {
            let members = self.stack.all();
            return Ok(Some(LowerDir {
                path: path.clone(),
                members,
            }));
        }
        let redirect = match self.format.follow_redirects {
            true => dir_xattrs.get(self.format.xattrs.redirect())?,
            false => None,
        };
        let name = match redirect.as_deref() {
            Some([b'/', absolute @ ..]) => {
                let path = match RelPath::parse(absolute) {
                    Ok(path) if !path.is_root() => path,
                    _ => return Ok(None),
                };
                let above = path.parent().unwrap_or_default();
                let dir = self.stack.resolve_dir(&above)?;
                return Ok(dir.map(|dir| LowerDir {
                    path,
                    members: dir.members(),
                }));
            }
            Some(name) if RelPath::parse(name).is_ok_and(|path| path.name() == name) => name,
            Some(_) => return Ok(None),
            None => path.name(),
        };
        Ok(above.map(|above| LowerDir {
            path: above.path.join_name(name),
            members: above.members.clone(),
        }))
    }

    fn read_upper(&mut self, path: &RelPath, fd: &OwnedFd, marked: bool) -> io::Result<UpperDir> {
        let mut names: Vec<CString> = Vec::new();
        self.reader.for_each(fd, |name, _| {
            // Staged files, and names of the own layer.
            let staged = path.is_root() && name.to_bytes().starts_with(STAGE_PREFIX);
            self.may_hold_stages |= staged;
            let own = path.is_root() && self.stack.is_own_name(name);
            if !(staged || own) {
                names.push(name.to_owned());
            }
        })?;
        let mut dir = UpperDir::default();
        for name in names {
            match lstat_at(fd, &name) {
                Ok(stat) if self.is_whiteout(fd, &name, &stat, marked)? => dir.whiteouts.push(name),
                Ok(stat) => {
                    dir.entries.insert(name, stat);
                }
                Err(error) if is(&error, Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(dir)
    }

    fn is_whiteout(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        stat: &Stat,
        marked: bool,
    ) -> io::Result<bool> {
        let by_xattr = marked && stat.kind == FileKind::File && stat.size == 0;
        Ok(stat.is_whiteout()
            || (by_xattr && has_whiteout_xattr(dir.as_fd(), name, self.format.xattrs)?))
    }

    /// Compares a directory that is merged with the one of the layers at its path: what the upper
    /// does not name is unchanged. `shown` are the layers that have a part of it.
    fn compare_merged(
        &mut self,
        path: &RelPath,
        upper: UpperDir,
        base: &KnownDir<'_>,
        shown: &[usize],
    ) -> io::Result<()> {
        let members = base.members();
        for name in upper.whiteouts {
            if let Some(stat) = base.lookup(&name)? {
                let path = path.join_name(name.to_bytes());
                self.found.push(Difference::gone(path, (&stat).into()));
            }
        }
        for (name, stat) in upper.entries {
            let was = base.lookup(&name)?;
            let below = path.join_name(name.to_bytes());
            let above = Some(LowerDir {
                path: path.clone(),
                members: shown.to_vec(),
            });
            let source = Source::Upper { above };
            self.compare(below, was, &members, stat, source, None);
        }
        Ok(())
    }

    /// Compares a directory that does not show what the layers have at its path: both are listed.
    fn compare_replaced(
        &mut self,
        path: &RelPath,
        mut upper: UpperDir,
        lower: Option<LowerDir>,
        base: Option<MergedDir>,
    ) -> io::Result<()> {
        let (mut was, base_members) = match base {
            Some(base) => (base.list()?, base.members()),
            None => (BTreeMap::new(), LayerIndexes::new()),
        };
        let lower = match lower {
            Some(lower) => {
                let dir = self.stack.open_dir(&lower.path, &lower.members)?;
                Some((lower.path, dir))
            }
            None => None,
        };
        if let Some((lower_path, dir)) = &lower {
            for (name, (_, stat)) in dir.list()? {
                if upper.entries.contains_key(&name) || upper.whiteouts.contains(&name) {
                    continue;
                }
                let was = was.remove(&name).map(|(_, stat)| stat);
                let origin = lower_path.join_name(name.to_bytes());
                let source = Source::Lower(LowerDir {
                    path: origin.clone(),
                    members: dir.members(),
                });
                let path = path.join_name(name.to_bytes());
                self.compare(path, was, &base_members, stat, source, Some(origin));
            }
        }
        for (name, stat) in std::mem::take(&mut upper.entries) {
            let was = was.remove(&name).map(|(_, stat)| stat);
            let above = lower.as_ref().map(|(path, dir)| LowerDir {
                path: path.clone(),
                members: dir.members(),
            });
            let path = path.join_name(name.to_bytes());
            let source = Source::Upper { above };
            self.compare(path, was, &base_members, stat, source, None);
        }
        for (name, (_, stat)) in was {
            let path = path.join_name(name.to_bytes());
            self.found.push(Difference::gone(path, (&stat).into()));
        }
        Ok(())
    }

    /// Records how one name differs and, if it is a directory now, queues it.
    fn compare(
        &mut self,
        path: RelPath,
        was: Option<Stat>,
        base_members: &[usize],
        now: Stat,
        source: Source,
        origin: Option<RelPath>,
    ) {
        if now.is_dir() && !(was.is_none() && (self.prune)(&path, &now)) {
            let was_dir = was.as_ref().is_some_and(Stat::is_dir);
            self.pending.push(Pending {
                path: path.clone(),
                base: was_dir.then(|| base_members.to_vec()),
                source,
            });
            if was.is_none() && self.stack.setup_has_dir(&path) {
                return;
            }
        }
        let base = was.as_ref().map(BaseEntry::from);
        // Of a directory, what it shows is listed entry by entry.
        let content_of = origin.filter(|_| !now.is_dir());
        self.found
            .extend(Difference::between(path, base, now, content_of));
    }
}
