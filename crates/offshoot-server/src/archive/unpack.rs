//! Unpacks an archive into a workspace or a project. Nothing in it is trusted: names go through the
//! one parser of paths, files are written by the engine through the directory it holds open (INV-7),
//! links that could lead out and devices are left out, and what it may unpack to is bounded whatever
//! it says of itself. All of it comes in or, if it is damaged or too much, nothing. The formats are read in `unpack_tar` and `unpack_zip`.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flate2::read::MultiGzDecoder;
use offshoot_core::{Error, ErrorCode, RelPath, Result, escape_bytes};
use offshoot_engine::{Access, Content, ProjectImport, WorkspaceImport};

use super::names::{EntryNames, check_link, entry_path};
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
pub(super) enum Kind {
    File {
        executable: bool,
    },
    Dir,
    /// A symbolic link to this.
    Link(Vec<u8>),
    /// Something that is left out, with the reason.
    Other(&'static str),
}

/// One entry of an archive.
pub(super) struct Entry<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: Kind,
    /// How large it says it is.
    pub(super) size: u64,
    pub(super) content: &'a mut dyn Read,
}

/// Where the entries of an archive go.
pub(crate) trait Target: Sync {
    /// Writes a file and returns its size.
    fn write_file(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<u64>;

    /// Makes a directory.
    fn make_dir(&self, path: &RelPath) -> Result<()>;

    /// Makes a symbolic link.
    fn make_link(&self, path: &RelPath, target: &[u8]) -> Result<()>;

    /// A file without a name, for content that is needed again.
    fn temp_file(&self) -> Result<File>;
}

/// A workspace as a caller may change it.
pub(crate) struct IntoWorkspace<'a> {
    pub(crate) access: &'a Access,
    pub(crate) import: WorkspaceImport,
}

impl Target for IntoWorkspace<'_> {
    fn write_file(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<u64> {
        self.access
            .import_file(&self.import, path, content, executable)
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.access.import_dir(&self.import, path)
    }

    fn make_link(&self, path: &RelPath, target: &[u8]) -> Result<()> {
        self.access.import_link(&self.import, path, target)
    }

    fn temp_file(&self) -> Result<File> {
        self.access.temp_file()
    }
}

impl Target for ProjectImport {
    fn write_file(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<u64> {
        ProjectImport::write_file(self, path, content, executable)
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        ProjectImport::make_dir(self, path)
    }

    fn make_link(&self, path: &RelPath, target: &[u8]) -> Result<()> {
        ProjectImport::make_link(self, path, target)
    }

    fn temp_file(&self) -> Result<File> {
        ProjectImport::temp_file(self)
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
            unpacking.run(|unpacking, state| unpacking.zip(archive, state))
        }
        [0x1f, 0x8b, ..] => unpacking.any_tar(&archive, |file| {
            Box::new(MultiGzDecoder::new(BufReader::new(file)))
        }),
        _ => unpacking.any_tar(&archive, |file| Box::new(BufReader::new(file))),
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

pub(super) fn unreadable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::invalid("the archive cannot be read: it is damaged, or neither zip nor tar")
        .with_source(cause)
}

/// A small file or a link on its way to a writer.
struct Job {
    name: Vec<u8>,
    path: RelPath,
    bytes: Vec<u8>,
    kind: JobKind,
}

enum JobKind {
    File { executable: bool },
    Link,
}

/// The state of reading an archive.
pub(super) struct ReadState<'a> {
    seen: EntryNames,
    /// Bytes that may still be unpacked.
    budget: u64,
    queue: &'a SyncSender<Job>,
}

pub(super) struct Unpacking<'a> {
    pub(super) target: &'a dyn Target,
    into: &'a RelPath,
    pub(super) limits: UnpackLimits,
    report: Mutex<Imported>,
    /// The first error that ends the import.
    failure: Mutex<Option<Error>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unpacking<'_> {
    /// Runs the reading beside some writers.
    pub(super) fn run(
        self,
        read: impl FnOnce(&Self, &mut ReadState<'_>) -> Result<()>,
    ) -> Result<Imported> {
        let (sender, receiver) = sync_channel(WRITERS);
        let receiver = Mutex::new(receiver);
        let outcome = std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| self.write_jobs(&receiver));
            }
            let mut state = ReadState {
                seen: EntryNames::default(),
                budget: self.limits.bytes,
                queue: &sender,
            };
            let outcome = read(&self, &mut state);
            drop(sender);
            outcome
        });
        let failure = lock(&self.failure).take();
        let report = std::mem::take(&mut *lock(&self.report));
        failure.map_or(outcome, Err).map(|()| report)
    }

    fn write_jobs(&self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let job = lock(jobs).recv();
            let Ok(job) = job else { return };
            if self.failed() {
                continue;
            }
            let done = match job.kind {
                JobKind::File { executable } => {
                    self.write(&job.path, Content::Bytes(&job.bytes), executable)
                }
                JobKind::Link => self.make_link(&job.path, &job.bytes),
            };
            if let Err(error) = done.or_else(|error| self.refuse(&job.name, error)) {
                lock(&self.failure).get_or_insert(error);
            }
        }
    }

    pub(super) fn failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    fn write(&self, path: &RelPath, content: Content<'_>, executable: bool) -> Result<()> {
        let size = self.target.write_file(path, content, executable)?;
        let mut report = lock(&self.report);
        report.file_count += 1;
        report.total_size += size;
        Ok(())
    }

    fn make_link(&self, path: &RelPath, target: &[u8]) -> Result<()> {
        self.target.make_link(path, target)?;
        lock(&self.report).link_count += 1;
        Ok(())
    }

    /// Leaves an entry out, unless the error concerns the import as a whole.
    pub(super) fn refuse(&self, name: &[u8], error: Error) -> Result<()> {
        let status = error.code().http_status();
        if status >= 500
            || [ErrorCode::PayloadTooLarge, ErrorCode::WorkspaceNotFound].contains(&error.code())
        {
            return Err(error);
        }
        let mut report = lock(&self.report);
        if report.refused.len() >= LISTED {
            report.refused_more += 1;
            return Ok(());
        }
        report.refused.push(RefusedEntry {
            name: escape_bytes(name),
            code: error.code().as_str(),
            reason: error.message().to_owned(),
        });
        Ok(())
    }

    /// Where an entry goes; none for the directory itself.
    fn entry_target(
        &self,
        name: &[u8],
        kind: &Kind,
        seen: &mut EntryNames,
    ) -> Result<Option<RelPath>> {
        if let Kind::Other(reason) = kind {
            return Err(Error::invalid(*reason));
        }
        let below = entry_path(name)?;
        if let Kind::Link(target) = kind {
            check_link(&below, target)?;
        }
        if below.is_root() {
            return Ok(None);
        }
        let path = self.into.join(&below);
        seen.note(&path, matches!(kind, Kind::Dir))?;
        Ok(Some(path))
    }

    /// Takes one entry in. Returns whether its path could be used.
    pub(super) fn entry(&self, entry: Entry<'_>, state: &mut ReadState<'_>) -> Result<bool> {
        let path = match self.entry_target(entry.name, &entry.kind, &mut state.seen) {
            Ok(Some(path)) => path,
            Ok(None) => return Ok(false),
            Err(error) => return self.refuse(entry.name, error).map(|()| false),
        };
        match entry.kind {
            Kind::File { executable } => self.file(entry, path, executable, state)?,
            Kind::Link(target) => {
                let (kind, name) = (JobKind::Link, entry.name.to_vec());
                let bytes = target;
                state.send(Job {
                    name,
                    path,
                    bytes,
                    kind,
                })?;
            }
            Kind::Dir | Kind::Other(_) => match self.target.make_dir(&path) {
                Ok(()) => lock(&self.report).dir_count += 1,
                Err(error) => self.refuse(entry.name, error)?,
            },
        }
        Ok(true)
    }

    fn file(
        &self,
        entry: Entry<'_>,
        path: RelPath,
        executable: bool,
        state: &mut ReadState<'_>,
    ) -> Result<()> {
        let mut bounded = BudgetedReader::new(entry.content, &mut state.budget);
        let mut first = Vec::new();
        if entry.size <= SMALL {
            // What lies about its size is cut off at what is small.
            let read = (&mut bounded).take(SMALL + 1).read_to_end(&mut first);
            bounded.check(read.map(drop).map_err(unreadable), self.limits.bytes)?;
            if first.len() as u64 <= SMALL {
                let job = Job {
                    name: entry.name.to_vec(),
                    path,
                    bytes: first,
                    kind: JobKind::File { executable },
                };
                return state.send(job);
            }
        }
        let mut whole = io::Cursor::new(first).chain(&mut bounded);
        let written = self.write(&path, Content::Stream(&mut whole), executable);
        match bounded.check(written, self.limits.bytes) {
            // An archive that is damaged, or not whole, is not taken in part.
            Err(error) if bounded.broken => Err(unreadable(error)),
            Err(error) => self.refuse(entry.name, error),
            Ok(()) => Ok(()),
        }
    }
}

impl ReadState<'_> {
    fn send(&self, job: Job) -> Result<()> {
        self.queue
            .send(job)
            .map_err(|_| Error::internal("the writers of an import are gone"))
    }
}

/// A reader that stops when the budget of the whole archive is used up.
pub(super) struct BudgetedReader<'a> {
    pub(super) content: &'a mut dyn Read,
    pub(super) budget: &'a mut u64,
    pub(super) exceeded: bool,
    /// The content itself could not be read.
    pub(super) broken: bool,
}

impl<'a> BudgetedReader<'a> {
    pub(super) fn new(content: &'a mut dyn Read, budget: &'a mut u64) -> Self {
        BudgetedReader {
            content,
            budget,
            exceeded: false,
            broken: false,
        }
    }

    /// Replaces whatever the end of the budget led to by the reason.
    pub(super) fn check<T>(&self, outcome: Result<T>, limit: u64) -> Result<T> {
        if self.exceeded {
            return Err(too_much(limit));
        }
        outcome
    }
}

impl Read for BudgetedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = match self.content.read(buffer) {
            Ok(n) => n,
            Err(cause) => {
                self.broken |= cause.kind() != io::ErrorKind::Interrupted;
                return Err(cause);
            }
        };
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

pub(super) fn too_much(limit: u64) -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("the archive unpacks to more than {limit} bytes"),
    )
}

pub(super) fn too_many(limit: u64) -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("the archive holds more than {limit} entries"),
    )
}
