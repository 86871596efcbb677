//! Unpacks an archive into a workspace or a project. Nothing in it is trusted: names go through the one parser
//! of paths, files are written by the engine through the directory it holds open (INV-7), links and
//! devices are left out, and what it may unpack to is bounded whatever it says of itself.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use flate2::read::MultiGzDecoder;
use offshoot_core::{Error, ErrorCode, RelPath, Result, WorkspaceId, escape_bytes};
use offshoot_engine::{Access, Content, ProjectImport, WriteOptions};
use zip::ZipArchive;

use crate::options::Limits;
use offshoot_wire::{Imported, RefusedEntry};

/// Entries that are left out are counted beyond this number, and listed up to it.
const LISTED: usize = 1000;
/// Files up to this size are written several at a time, so that they share commits.
const SMALL: u64 = 256 << 10;
const WRITERS: usize = 8;

/// What an archive may unpack to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnpackLimits {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl UnpackLimits {
    /// Those of a server.
    pub(crate) fn of(limits: &Limits) -> Self {
        UnpackLimits {
            bytes: limits.max_unpacked_bytes,
            entries: limits.max_archive_entries,
        }
    }
}

/// What an entry is, as far as it matters here.
enum Kind {
    File {
        executable: bool,
    },
    Dir,
    /// Something that is left out, with the reason.
    Other(&'static str),
}

/// Where the entries of an archive go.
pub(crate) trait Target: Sync {
    /// Writes a file and returns its size.
    fn write_file(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<u64>;

    /// Makes a directory.
    fn make_dir(&self, path: &RelPath) -> Result<()>;
}

/// A workspace as a caller may change it.
pub(crate) struct IntoWorkspace<'a> {
    pub(crate) access: &'a Access,
    pub(crate) id: &'a WorkspaceId,
}

impl Target for IntoWorkspace<'_> {
    fn write_file(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<u64> {
        let options = WriteOptions {
            executable: Some(executable),
            ..WriteOptions::default()
        };
        let written = self.access.write_file(self.id, path, content, &options)?;
        Ok(written.size as u64)
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.access.make_dir(self.id, path).map(drop)
    }
}

impl Target for ProjectImport {
    fn write_file(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<u64> {
        ProjectImport::write_file(self, path, content, executable)
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        ProjectImport::make_dir(self, path)
    }
}

/// Unpacks an archive file below a directory of a target.
pub(crate) fn unpack(
    target: &dyn Target,
    into: &RelPath,
    mut archive: File,
    limits: UnpackLimits,
) -> Result<Imported> {
    let mut magic = [0; 4];
    let head = read_up_to(&mut archive, &mut magic).map_err(unreadable)?;
    archive.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let unpacking = Unpacking {
        target,
        into,
        limits,
        report: Mutex::default(),
        failure: Mutex::default(),
    };
    match &magic[..head] {
        [b'P', b'K', 3 | 5 | 7, _] => {
            unpacking.run(|unpacking, queue| unpacking.zip(archive, queue))
        }
        [0x1f, 0x8b, ..] => {
            unpacking.check_tar(&mut MultiGzDecoder::new(BufReader::new(&archive)))?;
            archive.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            let plain = MultiGzDecoder::new(BufReader::new(archive));
            unpacking.run(|unpacking, queue| unpacking.tar(plain, queue))
        }
        _ => {
            unpacking.check_tar(&mut BufReader::new(&archive))?;
            archive.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            unpacking.run(|unpacking, queue| unpacking.tar(BufReader::new(archive), queue))
        }
    }
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::invalid("the archive cannot be read: it is damaged, or neither zip nor tar")
        .with_source(cause)
}

/// A small file on its way to a writer.
struct Job {
    name: Vec<u8>,
    path: RelPath,
    bytes: Vec<u8>,
    executable: bool,
}

/// What an archive has named so far. Small files are written in any order, so whatever cannot be
/// beside an earlier entry is refused before: the first is kept.
#[derive(Default)]
struct Seen {
    named: HashSet<RelPath>,
    files: HashSet<RelPath>,
    dirs: HashSet<RelPath>,
}

impl Seen {
    fn note(&mut self, path: &RelPath, is_file: bool) -> Result<()> {
        if self.named.contains(path) {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                "the archive holds this name twice; the first is kept",
            ));
        }
        let above = path.dirs_above();
        if let Some(file) = above.iter().find(|above| self.files.contains(*above)) {
            return Err(Error::new(
                ErrorCode::NotADirectory,
                format!("`{file}` is a file in this archive; the first is kept"),
            ));
        }
        if is_file && self.dirs.contains(path) {
            return Err(Error::new(
                ErrorCode::IsADirectory,
                format!("`{path}` is a directory in this archive; the first is kept"),
            ));
        }
        self.named.insert(path.clone());
        self.dirs.extend(above);
        if is_file {
            self.files.insert(path.clone());
        } else {
            self.dirs.insert(path.clone());
        }
        Ok(())
    }
}

struct Unpacking<'a> {
    target: &'a dyn Target,
    into: &'a RelPath,
    limits: UnpackLimits,
    report: Mutex<Imported>,
    /// The first error that ends the import.
    failure: Mutex<Option<Error>>,
}

impl Unpacking<'_> {
    /// Runs the reading beside some writers.
    fn run(self, read: impl FnOnce(&Self, &SyncSender<Job>) -> Result<()>) -> Result<Imported> {
        let (sender, receiver) = sync_channel(WRITERS);
        let receiver = Mutex::new(receiver);
        let outcome = std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| self.write_jobs(&receiver));
            }
            let outcome = read(&self, &sender);
            drop(sender);
            outcome
        });
        let lock_poisoned = std::sync::PoisonError::into_inner;
        let failure = self.failure.into_inner().unwrap_or_else(lock_poisoned);
        let report = self
            .report
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match failure.map_or(outcome, Err) {
            Ok(()) => Ok(report),
            // What came in before it ended stays, and the answer says how much that is.
            Err(error) => Err(error.with_details(serde_json::json!({
                "file_count": report.file_count,
                "total_size": report.total_size,
            }))),
        }
    }

    fn write_jobs(&self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let job = jobs
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .recv();
            let Ok(job) = job else { return };
            if self.failed() {
                continue;
            }
            let written = self.write(&job.path, Content::Bytes(&job.bytes), job.executable);
            if let Err(error) = written.or_else(|error| self.refuse(&job.name, error)) {
                self.failure
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .get_or_insert(error);
            }
        }
    }

    fn failed(&self) -> bool {
        self.failure
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .is_some()
    }

    fn note(&self, add: impl FnOnce(&mut Imported)) {
        add(&mut self
            .report
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    fn write(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<()> {
        let size = self.target.write_file(path, content, executable)?;
        self.note(|report| {
            report.file_count += 1;
            report.total_size += size;
        });
        Ok(())
    }

    /// Leaves an entry out, unless the error concerns the import as a whole.
    fn refuse(&self, name: &[u8], error: Error) -> Result<()> {
        let status = error.code().http_status();
        if status >= 500
            || [ErrorCode::PayloadTooLarge, ErrorCode::WorkspaceNotFound].contains(&error.code())
        {
            return Err(error);
        }
        self.note(|report| {
            if report.refused.len() >= LISTED {
                report.refused_more += 1;
                return;
            }
            report.refused.push(RefusedEntry {
                name: escape_bytes(name),
                code: error.code().as_str(),
                reason: error.message().to_owned(),
            });
        });
        Ok(())
    }

    /// Where an entry goes; none for the directory itself.
    fn place(&self, name: &[u8], is_file: bool, seen: &mut Seen) -> Result<Option<RelPath>> {
        let below = entry_path(name)?;
        if below.is_root() {
            return Ok(None);
        }
        let path = self.into.join(&below);
        seen.note(&path, is_file)?;
        Ok(Some(path))
    }

    /// Takes one entry in.
    fn entry(
        &self,
        name: &[u8],
        kind: &Kind,
        size: u64,
        content: &mut dyn Read,
        seen: &mut Seen,
        budget: &mut u64,
        queue: &SyncSender<Job>,
    ) -> Result<()> {
        if let Kind::Other(reason) = kind {
            return self.refuse(name, Error::invalid(*reason));
        }
        let is_file = matches!(kind, Kind::File { .. });
        let path = match self.place(name, is_file, seen) {
            Ok(Some(path)) => path,
            Ok(None) => return Ok(()),
            Err(error) => return self.refuse(name, error),
        };
        let Kind::File { executable } = *kind else {
            let made = self.target.make_dir(&path);
            return match made {
                Ok(()) => {
                    self.note(|report| report.dir_count += 1);
                    Ok(())
                }
                Err(error) => self.refuse(name, error),
            };
        };
        let mut bounded = Bounded {
            content,
            budget,
            exceeded: false,
        };
        if size <= SMALL {
            let mut bytes = Vec::with_capacity(size as usize);
            // What lies about its size is cut off at what is small.
            let read = (&mut bounded).take(SMALL + 1).read_to_end(&mut bytes);
            bounded.check(read.map(drop).map_err(unreadable), self.limits.bytes)?;
            if bytes.len() as u64 <= SMALL {
                let name = name.to_vec();
                let job = Job {
                    name,
                    path,
                    bytes,
                    executable,
                };
                return queue
                    .send(job)
                    .map_err(|_| Error::internal("the writers of an import are gone"));
            }
            let mut whole = io::Cursor::new(bytes).chain(&mut bounded);
            let written = self.write(&path, Content::Stream(&mut whole), executable);
            return bounded
                .check(written, self.limits.bytes)
                .or_else(|error| self.refuse(name, error));
        }
        let written = self.write(&path, Content::Stream(&mut bounded), executable);
        bounded
            .check(written, self.limits.bytes)
            .or_else(|error| self.refuse(name, error))
    }

    fn zip(&self, archive: File, queue: &SyncSender<Job>) -> Result<()> {
        let mut archive = archive;
        let declared = declared_zip_entries(&mut archive).map_err(unreadable)?;
        if declared > self.limits.entries {
            return Err(too_many(self.limits.entries));
        }
        let mut zip = ZipArchive::new(BufReader::new(archive)).map_err(unreadable)?;
        let (mut seen, mut budget) = (Seen::default(), self.limits.bytes);
        // What the directory says is checked before anything is written; what is really there
        // is counted while it is.
        let mut total = 0u64;
        for index in 0..zip.len() {
            total = total.saturating_add(zip.by_index_raw(index).map_err(unreadable)?.size());
        }
        if total > self.limits.bytes {
            return Err(too_much(self.limits.bytes));
        }
        for index in 0..zip.len() {
            if self.failed() {
                return Ok(());
            }
            let (name, kind, size) = {
                let entry = zip.by_index_raw(index).map_err(unreadable)?;
                (entry.name_raw().to_vec(), zip_kind(&entry), entry.size())
            };
            let opened = match &kind {
                Kind::File { .. } => zip.by_index(index).map(Some),
                _ => Ok(None),
            };
            match opened {
                Ok(Some(mut content)) => {
                    self.entry(
                        &name,
                        &kind,
                        size,
                        &mut content,
                        &mut seen,
                        &mut budget,
                        queue,
                    )?;
                }
                Ok(None) => {
                    self.entry(
                        &name,
                        &kind,
                        0,
                        &mut io::empty(),
                        &mut seen,
                        &mut budget,
                        queue,
                    )?;
                }
                Err(cause) => self.refuse(&name, unreadable(cause))?,
            }
        }
        Ok(())
    }

    /// Reads a tar through before anything is written: only then is known how large it is.
    fn check_tar(&self, plain: &mut dyn Read) -> Result<()> {
        let (mut budget, mut count) = (self.limits.bytes, 0);
        let mut bounded = Bounded {
            content: plain,
            budget: &mut budget,
            exceeded: false,
        };
        let outcome = (|| {
            let mut archive = tar::Archive::new(&mut bounded);
            for entry in archive.entries().map_err(unreadable)?.raw(true) {
                entry.map_err(unreadable)?;
                count += 1;
                if count > self.limits.entries {
                    return Err(too_many(self.limits.entries));
                }
            }
            Ok(())
        })();
        bounded.check(outcome, self.limits.bytes)?;
        if count == 0 {
            return Err(unreadable("no entry"));
        }
        Ok(())
    }

    fn tar(&self, plain: impl Read, queue: &SyncSender<Job>) -> Result<()> {
        let (mut seen, mut budget) = (Seen::default(), self.limits.bytes);
        let mut archive = tar::Archive::new(plain);
        for entry in archive.entries().map_err(unreadable)? {
            if self.failed() {
                return Ok(());
            }
            let mut entry = entry.map_err(unreadable)?;
            let name = entry.path_bytes().into_owned();
            let executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
            let kind = tar_kind(entry.header().entry_type(), executable);
            let size = entry.size();
            self.entry(
                &name,
                &kind,
                size,
                &mut entry,
                &mut seen,
                &mut budget,
                queue,
            )?;
        }
        Ok(())
    }
}

/// The path of an entry. Names are bytes by the rules of every door; a name that would leave its
/// directory where the backslash separates is refused too, for such archives are made to.
fn entry_path(name: &[u8]) -> Result<RelPath> {
    let path = RelPath::parse(name)?;
    if name.contains(&b'\\') {
        let slashed: Vec<u8> = name
            .iter()
            .map(|&byte| if byte == b'\\' { b'/' } else { byte })
            .collect();
        RelPath::parse(&slashed)?;
        if name.get(1) == Some(&b':') {
            return Err(Error::new(
                ErrorCode::PathTraversalBlocked,
                format!(
                    "the path `{}` is refused: it is absolute",
                    escape_bytes(name)
                ),
            ));
        }
    }
    Ok(path)
}

fn zip_kind<R: Read>(entry: &zip::read::ZipFile<'_, R>) -> Kind {
    const TYPE: u32 = 0o170_000;
    let mode = entry.unix_mode().unwrap_or(0);
    match mode & TYPE {
        _ if entry.encrypted() => Kind::Other("it is encrypted"),
        0o120_000 => Kind::Other("links are not imported"),
        0 | 0o100_000 | 0o040_000 if entry.is_dir() => Kind::Dir,
        0 | 0o100_000 => Kind::File {
            executable: mode & 0o100 != 0,
        },
        0o040_000 => Kind::Dir,
        _ => Kind::Other("devices, pipes and sockets are not imported"),
    }
}

fn tar_kind(kind: tar::EntryType, executable: bool) -> Kind {
    use tar::EntryType;
    match kind {
        EntryType::Regular | EntryType::Continuous => Kind::File { executable },
        EntryType::Directory => Kind::Dir,
        EntryType::Symlink | EntryType::Link => Kind::Other("links are not imported"),
        EntryType::Char | EntryType::Block | EntryType::Fifo => {
            Kind::Other("devices, pipes and sockets are not imported")
        }
        _ => Kind::Other("entries of this type are not imported"),
    }
}

/// How many entries a zip file says it has, from the record at its end. The library reserves room
/// for all of them before we could count.
fn declared_zip_entries(file: &mut File) -> io::Result<u64> {
    let size = file.seek(SeekFrom::End(0))?;
    let tail = size.min(22 + 65_535);
    file.seek(SeekFrom::Start(size - tail))?;
    let mut end = vec![0; tail as usize];
    file.read_exact(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    let found = end.windows(4).rposition(|four| four == b"PK\x05\x06");
    let Some(record) = found.and_then(|at| end.get(at..at + 22)) else {
        return Ok(0);
    };
    let short = u64::from(u16::from_le_bytes([record[10], record[11]]));
    // The record for larger numbers stands before this one.
    let large = end.windows(4).rposition(|four| four == b"PK\x06\x06");
    let large = large.and_then(|at| end.get(at + 32..at + 40));
    let large = large.map(|bytes| {
        let mut number = [0; 8];
        number.copy_from_slice(bytes);
        u64::from_le_bytes(number)
    });
    Ok(large.unwrap_or(0).max(short))
}

/// A reader that stops when the budget of the whole archive is used up.
struct Bounded<'a> {
    content: &'a mut dyn Read,
    budget: &'a mut u64,
    exceeded: bool,
}

impl Bounded<'_> {
    /// Replaces whatever the end of the budget led to by the reason.
    fn check<T>(&self, outcome: Result<T>, limit: u64) -> Result<T> {
        if self.exceeded {
            return Err(too_much(limit));
        }
        outcome
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.content.read(buffer)?;
        match self.budget.checked_sub(n as u64) {
            Some(left) => *self.budget = left,
            None => {
                self.exceeded = true;
                return Err(io::Error::other("the archive unpacks to too much"));
            }
        }
        Ok(n)
    }
}

fn too_much(limit: u64) -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("the archive unpacks to more than {limit} bytes"),
    )
}

fn too_many(limit: u64) -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("the archive holds more than {limit} entries"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_entries() {
        for good in ["a", "a/b", "./a", "a\\b", "dir/", "a..b"] {
            assert!(entry_path(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/a",
            "../a",
            "a/../../b",
            "..\\a",
            "\\a",
            "C:\\a",
            "a\0b",
        ] {
            assert!(entry_path(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
