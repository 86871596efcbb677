//! The namespace in which an ordinary user can mount forks.
//!
//! Only root may mount where everybody sees it. Anybody may in a user and mount namespace of their own,
//! which lives as long as a process is in it. So one process per data directory, the *holder*, makes
//! such a namespace and sleeps in it, and every command of that user enters it first. From then on
//! providers work as they do for root.
//!
//! The holder notes its process id and the number of its mount namespace in a private directory, and
//! makes this directory a mount point there: that is the *mark* of the namespace. A note alone is never
//! believed, because both numbers pass to others after a crash. A namespace is entered through a process
//! of this user that is in it and sees the mark. That need not be the holder: if it was killed and a
//! server or a shell lives on in there, their mounts do too, and a second namespace would not see them.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use offshoot_core::{Error, ErrorCode, Result};
use offshoot_sys::{
    FileLock, LockMode, bind_onto_itself, effective_user, enter_namespaces, is_mount_point,
    may_mount, mount_namespace, process_handle, unmount_lazily, unshare_mounts,
};
use rustix::fs::inotify;
use rustix::io::Errno;

use crate::errors::is;

/// How long a command waits for another one that starts a holder, and for the holder itself.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a namespace is looked for again because the process that led to it ended meanwhile.
const TRIES: usize = 5;

/// Where this process is after [`UserNamespace::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// In the namespace, with the right to mount there.
    Inside,
    /// In the namespace, without that right: it was there before, as a program that somebody started.
    InsideWithoutRights,
    /// Where it was: no such namespace lives.
    NoNamespace,
}

/// The namespace of one user and data directory.
#[derive(Clone, Debug)]
pub struct UserNamespace {
    dir: PathBuf,
}

/// What the holder noted.
struct Note {
    pid: i32,
    namespace: u64,
}

impl UserNamespace {
    /// The namespace that is noted and marked in a directory that only its user can read.
    pub fn at(dir: impl Into<PathBuf>) -> UserNamespace {
        UserNamespace { dir: dir.into() }
    }

    fn note(&self) -> PathBuf {
        self.dir.join("holder")
    }

    /// Whether there was a namespace once. One call.
    pub fn was_made(&self) -> bool {
        self.note().exists()
    }

    /// Enters the namespace if it lives. The process must have one thread.
    ///
    /// A few calls if its holder lives, else one for each process of the machine.
    pub fn enter(&self) -> Result<Entered> {
        for _ in 0..TRIES {
            let Some(note) = self.read_note() else {
                return Ok(Entered::NoNamespace);
            };
            if self.is_inside(Path::new("/proc/self"), &note) {
                return Ok(match may_mount() {
                    true => Entered::Inside,
                    false => Entered::InsideWithoutRights,
                });
            }
            let Some(process) = self.find(&note) else {
                return Ok(Entered::NoNamespace);
            };
            match enter_namespaces(process) {
                Ok(()) => return Ok(Entered::Inside),
                Err(error) if is(&error, Errno::SRCH) => {}
                Err(error) => return Err(cannot_enter(error)),
            }
        }
        Ok(Entered::NoNamespace)
    }

    /// Starts a holder, unless the namespace lives. `holder` is a command that calls
    /// [`hold`](Self::hold). `unsupported` if this user may have no such namespace.
    ///
    /// Costs the start of a process. Two commands that do this at once start one.
    pub fn start(&self, holder: &mut Command) -> Result<()> {
        let made = fs::DirBuilder::new().mode(0o700).create(&self.dir);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cannot_enter(error));
            }
            _ => {}
        }
        let lock = FileLock::acquire(&self.dir.join("lock"), LockMode::Exclusive, START_TIMEOUT);
        let _lock = lock.map_err(cannot_enter)?.ok_or_else(|| {
            Error::new(
                ErrorCode::WorkspaceBusy,
                "another command starts the namespace",
            )
        })?;
        if self.lives() {
            return Ok(());
        }
        let _ = fs::remove_file(self.note());
        let child = holder
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.wait_for(child.map_err(cannot_enter)?)
    }

    fn wait_for(&self, mut holder: Child) -> Result<()> {
        let started = Instant::now();
        while !self.lives() {
            let ended = holder.try_wait().map_err(cannot_enter)?.is_some();
            if ended || started.elapsed() > START_TIMEOUT {
                let _ = holder.kill();
                let _ = holder.wait();
                return Err(forbidden());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn lives(&self) -> bool {
        self.read_note()
            .is_some_and(|note| self.find(&note).is_some())
    }

    /// Makes the namespace and holds it, until its note is removed or replaced. The process must have
    /// one thread.
    pub fn hold(&self) -> io::Result<()> {
        // Neither the end of a terminal nor a directory that is to be removed may be its concern.
        let _ = rustix::process::setsid();
        let dir = fs::canonicalize(&self.dir)?;
        rustix::process::chdir("/")?;
        unshare_mounts()?;
        bind_onto_itself(&dir)?;
        let namespace = mount_namespace(Path::new("/proc/self"))?;
        let pid = std::process::id();
        let new = dir.join(format!("new-{pid}"));
        let text = format!("{pid} {namespace}\n");
        offshoot_sys::write_private(&new, text.as_bytes())?;
        let changes = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        let gone = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DELETE_SELF;
        inotify::add_watch(&changes, &new, gone)?;
        let note = dir.join("holder");
        fs::rename(&new, &note)?;
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 256];
        let mut events = inotify::Reader::new(changes, &mut buffer);
        while fs::read(&note).is_ok_and(|now| now == text.as_bytes()) {
            match events.next() {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the mark away, so that the directory can be removed. No command finds the namespace any
    /// more.
    pub fn unmark(&self) -> Result<()> {
        unmount_lazily(&self.dir).map_err(cannot_enter)
    }

    /// The directory in which the namespace is noted and marked.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// None if there is no note, or if somebody else could have written it.
    fn read_note(&self) -> Option<Note> {
        let dir = fs::symlink_metadata(&self.dir).ok()?;
        if !dir.is_dir() || dir.uid() != effective_user() || dir.mode() & 0o022 != 0 {
            return None;
        }
        let text = fs::read_to_string(self.note()).ok()?;
        let (pid, namespace) = text.trim_end().split_once(' ')?;
        Some(Note {
            pid: pid.parse().ok()?,
            namespace: namespace.parse().ok()?,
        })
    }

    /// A process in the namespace: the holder, or another one if it is gone.
    fn find(&self, note: &Note) -> Option<OwnedFd> {
        let found = self.process_inside(note.pid, note);
        found.or_else(|| {
            let names = fs::read_dir("/proc").ok()?.flatten();
            let mut pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            pids.find_map(|pid| self.process_inside(pid, note))
        })
    }

    /// A process of this user, if it is in the namespace.
    fn process_inside(&self, pid: i32, note: &Note) -> Option<OwnedFd> {
        // The handle comes first: as long as its process lives, the number means that process.
        let handle = process_handle(pid).ok()?;
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_own = fs::metadata(&process).ok()?.uid() == effective_user();
        (is_own && self.is_inside(&process, note)).then_some(handle)
    }

    /// Whether a process is in the namespace: the one of that number, and it has the mark. A sandbox
    /// that was started in there has a copy of the mark and another number.
    fn is_inside(&self, process: &Path, note: &Note) -> bool {
        // What the process sees at the path of our directory; a mount table grows with the forks.
        let is_marked = || -> io::Result<bool> {
            let place = fs::canonicalize(&self.dir)?;
            let own = fs::metadata(&place)?;
            let below_root = place.strip_prefix("/").unwrap_or(&place);
            let mark = fs::File::open(process.join("root").join(below_root))?;
            let seen = mark.metadata()?;
            Ok((seen.dev(), seen.ino()) == (own.dev(), own.ino()) && is_mount_point(&mark)?)
        };
        mount_namespace(process).is_ok_and(|number| number == note.namespace)
            && is_marked().unwrap_or(false)
    }
}

/// Moves this process into a namespace of its own, which ends with it, to try what is possible there.
/// `unsupported` if this user may have none. The process must have one thread.
pub fn try_user_namespace() -> Result<()> {
    unshare_mounts().map_err(|error| forbidden().with_source(error))
}

/// What a distribution can forbid: the setting, the value that forbids, and the command that allows.
const SETTINGS: [(&str, &str, &str); 3] = [
    (
        "user/max_user_namespaces",
        "0",
        "sudo sysctl -w user.max_user_namespaces=10000",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// The setting of this system that forbids user namespaces to ordinary users, and the command that
/// allows them.
pub fn forbidding_setting() -> Option<(String, &'static str)> {
    SETTINGS.into_iter().find_map(|(setting, forbids, allow)| {
        let now = fs::read_to_string(Path::new("/proc/sys").join(setting)).ok()?;
        let name = setting.replace('/', ".");
        (now.trim() == forbids).then(|| (format!("{name} = {forbids}"), allow))
    })
}

fn forbidden() -> Error {
    match forbidding_setting() {
        Some((setting, allow)) => Error::new(
            ErrorCode::Unsupported,
            format!("this system forbids user namespaces to ordinary users ({setting})"),
        )
        .with_hint(format!("allow them with `{allow}`")),
        None => Error::new(
            ErrorCode::Unsupported,
            "this user may make no user namespace here",
        )
        .with_hint("a container or a security module may forbid it; run as root instead"),
    }
}

fn cannot_enter(error: io::Error) -> Error {
    Error::internal("the namespace of this user's forks cannot be entered").with_source(error)
}
