//! Reads tar files: once to see how large they are, once more where hard links need it, and then to
//! unpack. A hard link to a file before it in the same archive becomes a file of its own with the
//! same content; no other can lead anywhere.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_wire::Imported;
use tar::EntryType;

use super::names::entry_path;
use super::unpack::{
    BudgetedReader, Entry, Kind, ReadState, Unpacking, too_many, too_much, unreadable,
};

/// What everything in a tar is a multiple of.
const BLOCK: u64 = 512;

/// The most bytes of a header that extends another. The library holds it in memory.
const MAX_EXTENSION: u64 = 1 << 20;

/// So much of a file that hard links share is kept at a time.
const KEPT_AT_ONCE: usize = 64 << 10;

/// The archive from its beginning, unpacked if it is compressed.
pub(super) type Reopen = for<'f> fn(&'f File) -> Box<dyn Read + 'f>;

/// Content that hard links need again: where it is in a file, and how long.
#[derive(Clone, Copy)]
struct SharedContent {
    at: u64,
    size: u64,
    executable: bool,
}

impl Unpacking<'_> {
    pub(super) fn any_tar(self, file: &File, open: Reopen) -> Result<Imported> {
        let has_links = self.check_tar(&mut *from_start(file, open)?)?;
        let mut shared = HashSet::new();
        if has_links {
            shared = self.shared_content(from_start(file, open)?)?;
        }
        let plain = from_start(file, open)?;
        self.run(|unpacking, state| unpacking.tar(plain, &shared, state))
    }

    /// Reads a tar through before anything is written: only then is known how large it is. What the
    /// later passes see has to be what this one saw, so whatever the library reads in another way
    /// with names than without is refused. Returns whether there are hard links.
    fn check_tar(&self, plain: &mut dyn Read) -> Result<bool> {
        let (mut budget, mut count, mut has_links) = (self.limits.bytes, 0, false);
        let mut bounded = BudgetedReader::new(plain, &mut budget);
        let outcome = (|| {
            let mut end_of_entries = 0;
            let mut archive = tar::Archive::new(&mut bounded);
            for entry in archive.entries().map_err(unreadable)?.raw(true) {
                let mut entry = entry.map_err(unreadable)?;
                count += 1;
                let content = entry.raw_file_position().saturating_add(entry.size());
                end_of_entries = content.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
                if count > self.limits.entries {
                    return Err(too_many(self.limits.entries));
                }
                has_links |= entry.header().entry_type() == EntryType::Link;
                check_header(&mut entry)?;
            }
            Ok(end_of_entries)
        })();
        let end_of_entries = bounded.check(outcome, self.limits.bytes)?;
        if count == 0 {
            return Err(unreadable("no entry"));
        }
        // Blocks of zeros end a tar. Without them it was cut off between two entries.
        if self.limits.bytes - *bounded.budget <= end_of_entries {
            return Err(unreadable("no end of the archive"));
        }
        // What compresses it has its checksum at the very end.
        let rest = io::copy(&mut bounded, &mut io::sink());
        bounded.check(rest.map_err(unreadable), self.limits.bytes)?;
        Ok(has_links)
    }

    /// The files that hard links name. Copies count for what the archive unpacks to.
    fn shared_content(&self, plain: impl Read) -> Result<HashSet<RelPath>> {
        let mut sizes: HashMap<RelPath, u64> = HashMap::new();
        let (mut shared, mut total) = (HashSet::new(), 0u64);
        let mut archive = tar::Archive::new(plain);
        for entry in archive.entries().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let Ok(path) = entry_path(&entry.path_bytes()) else {
                continue;
            };
            let size = match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => entry.size(),
                EntryType::Link => {
                    let Ok(source) = entry_path(&link_target(&entry)) else {
                        continue;
                    };
                    let Some(size) = sizes.get(&source).copied() else {
                        continue;
                    };
                    shared.insert(source);
                    size
                }
                _ => continue,
            };
            total = total.saturating_add(size);
            if total > self.limits.bytes {
                return Err(too_much(self.limits.bytes));
            }
            sizes.entry(path).or_insert(size);
        }
        Ok(shared)
    }

    fn tar(
        &self,
        plain: impl Read,
        shared: &HashSet<RelPath>,
        state: &mut ReadState<'_>,
    ) -> Result<()> {
        let mut kept = SharedContents::new(self, shared)?;
        let mut archive = tar::Archive::new(plain);
        for entry in archive.entries().map_err(unreadable)? {
            if self.failed() {
                return Ok(());
            }
            let mut entry = entry.map_err(unreadable)?;
            let name = entry.path_bytes().into_owned();
            if entry.header().entry_type() == EntryType::Link {
                self.hard_link(&name, &link_target(&entry), &mut kept, state)?;
                continue;
            }
            let (kind, size) = (kind_of(&entry), entry.size());
            match kind {
                Kind::File { executable } if kept.wants(&name) => {
                    let content = kept.keep(&mut entry, executable)?;
                    self.kept_file(&name, content, &mut kept, state)?;
                }
                kind => {
                    let entry = Entry {
                        name: &name,
                        kind,
                        size,
                        content: &mut entry,
                    };
                    self.entry(entry, state)?;
                }
            }
        }
        Ok(())
    }

    fn hard_link(
        &self,
        name: &[u8],
        target: &[u8],
        kept: &mut SharedContents<'_>,
        state: &mut ReadState<'_>,
    ) -> Result<()> {
        match entry_path(target).map(|source| kept.content.get(&source).copied()) {
            Ok(Some(content)) => self.kept_file(name, content, kept, state),
            Ok(None) => {
                let reason =
                    "it is a hard link to something that is no file before it in this archive";
                self.refuse(name, Error::invalid(reason))
            }
            Err(error) => self.refuse(name, error),
        }
    }

    /// Takes a file in whose content is kept, and remembers it for the hard links to it.
    fn kept_file(
        &self,
        name: &[u8],
        content: SharedContent,
        kept: &mut SharedContents<'_>,
        state: &mut ReadState<'_>,
    ) -> Result<()> {
        let mut reader = kept.open(content)?;
        let entry = Entry {
            name,
            kind: Kind::File {
                executable: content.executable,
            },
            size: content.size,
            content: &mut reader,
        };
        if self.entry(entry, state)? {
            kept.remember(name, content);
        }
        Ok(())
    }
}

/// The archive once more.
fn from_start(mut file: &File, open: Reopen) -> Result<Box<dyn Read + '_>> {
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(open(file))
}

/// Keeps content for hard links in a file without a name.
struct SharedContents<'a> {
    shared: &'a HashSet<RelPath>,
    file: Option<File>,
    end: u64,
    content: HashMap<RelPath, SharedContent>,
}

impl<'a> SharedContents<'a> {
    fn new(unpacking: &Unpacking<'_>, shared: &'a HashSet<RelPath>) -> Result<Self> {
        let wanted = !shared.is_empty();
        Ok(SharedContents {
            shared,
            file: wanted.then(|| unpacking.target.temp_file()).transpose()?,
            end: 0,
            content: HashMap::new(),
        })
    }

    fn wants(&self, name: &[u8]) -> bool {
        entry_path(name).is_ok_and(|path| self.shared.contains(&path))
    }

    fn file(&self) -> Result<&File> {
        let none = || Error::internal("an import keeps content without a file");
        self.file.as_ref().ok_or_else(none)
    }

    fn keep(&mut self, content: &mut dyn Read, executable: bool) -> Result<SharedContent> {
        let at = self.end;
        let mut file = self.file()?;
        file.seek(SeekFrom::Start(at)).map_err(not_kept)?;
        let mut size = 0;
        let mut buffer = vec![0; KEPT_AT_ONCE];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    file.write_all(&buffer[..read]).map_err(not_kept)?;
                    size += read as u64;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(unreadable(cause)),
            }
        }
        self.end = at + size;
        Ok(SharedContent {
            at,
            size,
            executable,
        })
    }

    fn open(&self, content: SharedContent) -> Result<io::Take<File>> {
        let file = self.file()?.try_clone();
        let reader = file.and_then(|mut file| {
            file.seek(SeekFrom::Start(content.at))?;
            Ok(file.take(content.size))
        });
        reader.map_err(|cause| {
            Error::internal("kept content of an archive cannot be read").with_source(cause)
        })
    }

    fn remember(&mut self, name: &[u8], content: SharedContent) {
        if let Ok(path) = entry_path(name) {
            self.content.entry(path).or_insert(content);
        }
    }
}

/// The archive is not to blame: our own file took no more of it.
fn not_kept(cause: io::Error) -> Error {
    Error::new(
        ErrorCode::WriteFailed,
        "content that hard links share could not be kept",
    )
    .with_source(cause)
}

fn link_target<R: Read>(entry: &tar::Entry<'_, R>) -> Vec<u8> {
    entry
        .link_name_bytes()
        .map(std::borrow::Cow::into_owned)
        .unwrap_or_default()
}

fn kind_of<R: Read>(entry: &tar::Entry<'_, R>) -> Kind {
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous => Kind::File {
            executable: entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0),
        },
        EntryType::Directory => Kind::Dir,
        EntryType::Symlink => Kind::Link(link_target(entry)),
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            Kind::Other("devices, pipes and sockets are not imported")
        }
        _ => Kind::Other("entries of this type are not imported"),
    }
}

/// Refuses headers by which a later pass would see other entries than the first, or would fill the
/// memory: that makes the limits worthless.
fn check_header<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<()> {
    let kind = entry.header().entry_type();
    if kind.is_gnu_sparse() {
        return Err(Error::invalid("the archive holds a sparse file of GNU tar")
            .with_hint("pack it without `--sparse`"));
    }
    let extends = kind.is_gnu_longname()
        || kind.is_gnu_longlink()
        || kind.is_pax_local_extensions()
        || kind.is_pax_global_extensions();
    if !extends {
        return Ok(());
    }
    if entry.size() > MAX_EXTENSION {
        return Err(Error::invalid(format!(
            "the archive holds a header of {} bytes; at most {MAX_EXTENSION} are taken",
            entry.size()
        )));
    }
    if kind.is_pax_local_extensions() {
        let mut records = Vec::new();
        entry.read_to_end(&mut records).map_err(unreadable)?;
        let sets_size = tar::PaxExtensions::new(&records)
            .map_while(io::Result::ok)
            .any(|record| record.key_bytes() == b"size");
        if sets_size {
            return Err(Error::invalid(
                "the archive sets the size of an entry in a header of its own",
            )
            .with_hint("only files of more than 8 GiB need that; send them by themselves"));
        }
    }
    Ok(())
}
