//! Work that nobody waits for: publishing layers, compaction, taking directories away, and what is
//! left to do after an unclean stop.
//!
//! One thread at most, which lives only while there is something to do. All of it can be lost: what
//! was not done is found by whoever needs it next, or by recovery. The last [`Engine`] handle waits
//! for it when it is dropped, so that a command ends when its work has.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use offshoot_core::Timestamp;
use offshoot_fs::NameLock;
use offshoot_store::{WorkspaceKey, WorkspaceRow};

use crate::engine::Engine;
use crate::upkeep::recovery::Leftovers;

/// One thing to do.
pub(crate) enum Job {
    /// Make the layer of a project's head, and fewer of them where there are many.
    Publish(WorkspaceKey),
    /// Take the directory of a closed workspace away; until then its name stays taken.
    Discard(Box<WorkspaceRow>, NameLock),
    /// Remove what an unclean stop left.
    ClearUp(Box<Leftovers>),
    /// Compare the counters of all workspaces with their indexes.
    Recount,
    /// Note when a workspace was read.
    Used(WorkspaceKey, Timestamp),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// There is a thread.
    working: bool,
    /// It found nothing more to do and lets go of the engine.
    ending: bool,
    /// It removes what an unclean stop left, which may take long.
    clearing_up: bool,
}

/// What waits to be done.
#[derive(Default)]
pub(crate) struct Upkeep {
    queue: Mutex<Queue>,
    idle: Condvar,
}

impl Upkeep {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is left to do.
    pub(crate) fn wait(&self) {
        let mut queue = self.queue();
        while queue.working {
            queue = self
                .idle
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Upkeep {
    /// The same without what an unclean stop left: a command does not wait for that. If its process
    /// ends meanwhile, that is one more unclean stop, and the next start goes on.
    fn wait_for_short_work(&self) {
        let mut queue = self.queue();
        while queue.working && !queue.clearing_up {
            queue = self
                .idle
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Held by the handles that users have, not by the thread: dropping the last one waits.
pub(crate) struct LastHandle(pub(crate) Arc<Upkeep>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.wait_for_short_work();
    }
}

impl Engine {
    /// Waits until all work that nobody waited for is done.
    pub fn wait_for_upkeep(&self) {
        self.inner.upkeep.wait();
    }

    pub(crate) fn later(&self, job: Job) {
        let mut queue = self.inner.upkeep.queue();
        while queue.ending {
            queue = self
                .inner
                .upkeep
                .idle
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let same =
            |other: &Job| matches!((&job, other), (Job::Publish(a), Job::Publish(b)) if a == b);
        if queue.jobs.iter().any(same) {
            return;
        }
        queue.jobs.push_back(job);
        if queue.working {
            return;
        }
        queue.working = true;
        drop(queue);
        let upkeep = Arc::clone(&self.inner.upkeep);
        let engine = self.for_upkeep();
        let worker = move || work(engine, &upkeep);
        if std::thread::Builder::new()
            .name("upkeep".into())
            .spawn(worker)
            .is_err()
        {
            // No thread to be had: the caller does it.
            work(self.for_upkeep(), &self.inner.upkeep);
        }
    }

    fn run(&self, job: Job) {
        let done = match job {
            Job::Publish(project) => self.publish_now(project),
            Job::Discard(row, _name) => {
                let discarded = self.discard_dir(&row);
                self.forget_locks(&row);
                discarded
            }
            Job::ClearUp(leftovers) => self.clear_up(*leftovers),
            Job::Recount => self.recount_all().map(drop),
            // If it cannot be noted, nothing has to be put right.
            Job::Used(key, at) => self.note_use_now(key, at).or(Ok(())),
        };
        if done.is_err() {
            self.inner
                .needs_recovery
                .store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

fn work(engine: Engine, upkeep: &Upkeep) {
    /// Whatever happens, nobody waits for a thread that is gone.
    struct Done<'a>(&'a Upkeep);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            let mut queue = self.0.queue();
            (queue.working, queue.ending, queue.clearing_up) = (false, false, false);
            drop(queue);
            self.0.idle.notify_all();
        }
    }
    // Dropped after the engine: whoever waits may rely on our having let go of it.
    let _done = Done(upkeep);
    let engine = engine;
    loop {
        let mut queue = upkeep.queue();
        let Some(job) = queue.jobs.pop_front() else {
            queue.ending = true;
            return;
        };
        queue.clearing_up = matches!(job, Job::ClearUp(_));
        if queue.clearing_up {
            upkeep.idle.notify_all();
        }
        drop(queue);
        engine.run(job);
    }
}
