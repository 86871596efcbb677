//! Changes by outside programs, as they happen: directories whose path was handed out are watched,
//! and what changes there is synced into the history. Where watches run out, such workspaces are
//! synced from time to time instead, which the log, the metrics and `/capabilities` say.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use offshoot_core::{ErrorCode, Result, WorkspaceId};
use offshoot_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// How long changes are collected before they are recorded: a program that writes many files shall
/// not cause a walk for each.
const COLLECT: Duration = Duration::from_millis(200);
/// How often the list of handed-out workspaces is read, for those that other processes hand out.
const REFRESH: Duration = Duration::from_millis(700);
/// How often a workspace that cannot be watched is synced.
const FALLBACK: Duration = Duration::from_secs(5);

/// The watcher as the server sees it.
#[derive(Default)]
pub(crate) struct Watcher {
    /// Wakes the thread when a path was handed out.
    wake: Mutex<Option<Sender<Signal>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Signal {
    /// Something changed below this path.
    Changed(PathBuf),
    /// The watcher lost track: anything may have changed.
    Everything,
    /// A path may have been handed out.
    Refresh,
}

impl Watcher {
    /// A path was handed out by this server: it is watched from now on, not from the next look.
    pub(crate) fn refresh(&self) {
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = &*wake {
            let _ = wake.send(Signal::Refresh);
        }
    }

    /// Starts the thread that watches until the server stops.
    pub(crate) fn start(
        &self,
        engine: Engine,
        metrics: Arc<Metrics>,
        max_watches: usize,
        stopping: CancellationToken,
    ) {
        let (sender, signals) = channel();
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
        let run = move || {
            WatchLoop {
                engine,
                metrics,
                max_watches,
                notifier: notifier(sender),
                workspaces: HashMap::new(),
                warned: false,
            }
            .run(&signals, &stopping);
        };
        let thread = std::thread::Builder::new().name("offshoot-watch".into());
        match thread.spawn(run) {
            Ok(thread) => {
                *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            }
            Err(cause) => tracing::error!(%cause, "outside changes are not watched for"),
        }
    }

    /// Whether the thread has let go of the engine, or never had it. An engine that is let go of
    /// tidies up and notes that it ended well.
    pub(crate) fn has_ended(&self) -> bool {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// The system's own notifications; none where there are none.
fn notifier(sender: Sender<Signal>) -> Option<RecommendedWatcher> {
    let heard = move |event: notify::Result<notify::Event>| match event {
        Ok(event) if event.need_rescan() => {
            let _ = sender.send(Signal::Everything);
        }
        Ok(event) if is_change(&event.kind) => {
            for path in event.paths {
                let _ = sender.send(Signal::Changed(path));
            }
        }
        Ok(_) => {}
        Err(_) => {
            let _ = sender.send(Signal::Everything);
        }
    };
    match notify::recommended_watcher(heard) {
        Ok(notifier) => Some(notifier),
        Err(cause) => {
            tracing::warn!(%cause, "no notifications here; handed-out workspaces are synced from time to time");
            None
        }
    }
}

/// Reading is no change, and the sync itself reads.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

/// A handed-out workspace.
struct WatchedWorkspace {
    path: PathBuf,
    dirs: usize,
    watched: bool,
    /// Since when something is to be recorded.
    dirty: Option<Instant>,
    synced: Instant,
}

/// The state of the watching thread.
struct WatchLoop {
    engine: Engine,
    metrics: Arc<Metrics>,
    max_watches: usize,
    notifier: Option<RecommendedWatcher>,
    workspaces: HashMap<WorkspaceId, WatchedWorkspace>,
    warned: bool,
}

impl WatchLoop {
    fn run(mut self, signals: &Receiver<Signal>, stopping: &CancellationToken) {
        let mut refreshed: Option<Instant> = None;
        while !stopping.is_cancelled() {
            if refreshed.is_none_or(|at| at.elapsed() >= REFRESH) {
                if let Err(error) = self.refresh() {
                    tracing::warn!(?error, "the handed-out workspaces could not be listed");
                }
                refreshed = Some(Instant::now());
            }
            self.sync_what_is_due();
            match signals.recv_timeout(Duration::from_millis(50)) {
                Ok(Signal::Changed(path)) => self.mark(&path),
                Ok(Signal::Everything) => self.mark_all(),
                Ok(Signal::Refresh) => refreshed = None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Signals that came in meanwhile.
            while let Ok(signal) = signals.try_recv() {
                match signal {
                    Signal::Changed(path) => self.mark(&path),
                    Signal::Everything => self.mark_all(),
                    Signal::Refresh => refreshed = None,
                }
            }
        }
    }

    fn mark(&mut self, path: &Path) {
        for workspace in self.workspaces.values_mut() {
            if path.starts_with(&workspace.path) {
                workspace.dirty.get_or_insert_with(Instant::now);
            }
        }
    }

    fn mark_all(&mut self) {
        for workspace in self.workspaces.values_mut() {
            workspace.dirty.get_or_insert_with(Instant::now);
        }
    }

    /// Watches what is new and forgets what is gone.
    fn refresh(&mut self) -> Result<()> {
        let now = self.engine.history.handed_out()?;
        let gone: Vec<WorkspaceId> = self
            .workspaces
            .keys()
            .filter(|id| !now.iter().any(|workspace| workspace.id == **id))
            .cloned()
            .collect();
        for id in gone {
            if let (Some(workspace), Some(notifier)) =
                (self.workspaces.remove(&id), &mut self.notifier)
            {
                let _ = notifier.unwatch(&workspace.path);
            }
        }
        for found in now {
            if self.workspaces.contains_key(&found.id) {
                continue;
            }
            let watched = self.watch(&found.path, found.dirs);
            let workspace = WatchedWorkspace {
                path: found.path,
                dirs: found.dirs,
                watched,
                // Whatever changed before it was watched is recorded at once.
                dirty: Some(Instant::now()),
                synced: Instant::now(),
            };
            self.workspaces.insert(found.id, workspace);
        }
        let watched = self
            .workspaces
            .values()
            .filter(|workspace| workspace.watched)
            .count();
        self.metrics
            .watched
            .store(watched as i64, Ordering::Relaxed);
        let unwatched = (self.workspaces.len() - watched) as i64;
        self.metrics.unwatched.store(unwatched, Ordering::Relaxed);
        Ok(())
    }

    fn watch(&mut self, path: &Path, dirs: usize) -> bool {
        let in_use: usize = self
            .workspaces
            .values()
            .filter(|workspace| workspace.watched)
            .map(|workspace| workspace.dirs + 1)
            .sum();
        let Some(notifier) = &mut self.notifier else {
            return false;
        };
        let answer = if in_use + dirs + 1 > self.max_watches {
            Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch))
        } else {
            notifier.watch(path, RecursiveMode::Recursive)
        };
        if let Err(cause) = &answer
            && !self.warned
        {
            self.warned = true;
            tracing::warn!(
                %cause,
                "watches ran out; some workspaces are synced every {} s instead. Raise \
                 `fs.inotify.max_user_watches` or the setting `max_watches`",
                FALLBACK.as_secs()
            );
        }
        answer.is_ok()
    }

    fn sync_what_is_due(&mut self) {
        for (id, workspace) in &mut self.workspaces {
            let heard = workspace
                .dirty
                .is_some_and(|since| since.elapsed() >= COLLECT);
            let fallback = !workspace.watched && workspace.synced.elapsed() >= FALLBACK;
            if !heard && !fallback {
                continue;
            }
            workspace.dirty = None;
            match self.engine.sync.sync_workspace(id) {
                // Files that were being written are looked at again.
                Ok(synced) if !synced.unsettled.is_empty() => {
                    workspace.dirty = Some(Instant::now());
                }
                Ok(_) => {}
                Err(error) if error.code() == ErrorCode::WorkspaceNotFound => {}
                Err(error) => tracing::warn!(?error, workspace = id.as_str(), "sync failed"),
            }
            workspace.synced = Instant::now();
        }
    }
}
