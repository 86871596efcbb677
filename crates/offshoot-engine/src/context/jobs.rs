//! Work that nobody waits for: publishing layers, compaction, taking directories away, and what is
//! left to do after an unclean stop.
//!
//! One thread at most, which lives only while there is something to do. All of it can be lost: a job
//! that was not done is done by the next request that needs its result, or by recovery. The last handle
//! of the engine waits for it when it is dropped, so that a command ends when its work has.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a job is about. The queue holds no two jobs that [`publish`](JobKind::Publish) the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// Makes the layer of a project's head; the number is the project's.
    Publish(i64),
    /// Removes what an unclean stop left, which may take long: commands do not wait for it.
    ClearUp,
    /// Anything else.
    Other,
}

struct Job {
    kind: JobKind,
    work: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// There is a thread.
    working: bool,
    /// The thread found nothing more to do and ends.
    ending: bool,
    /// The thread does a [`JobKind::ClearUp`].
    clearing_up: bool,
}

/// The jobs that wait.
#[derive(Default)]
pub(crate) struct JobQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl JobQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, busy: impl Fn(&Queue) -> bool) -> MutexGuard<'_, Queue> {
        let mut queue = self.queue();
        while busy(&queue) {
            queue = (self.changed.wait(queue)).unwrap_or_else(PoisonError::into_inner);
        }
        queue
    }

    /// Waits until nothing is left to do.
    pub(crate) fn wait(&self) {
        drop(self.wait_while(|queue| queue.working));
    }

    /// Waits as [`wait`](Self::wait) does, but not for what an unclean stop left. If the process ends
    /// meanwhile, that is one more unclean stop, and the next start goes on.
    fn wait_for_short_work(&self) {
        drop(self.wait_while(|queue| queue.working && !queue.clearing_up));
    }

    /// Adds a job, and starts the thread if there is none.
    pub(crate) fn push(self: &Arc<Self>, kind: JobKind, work: Box<dyn FnOnce() + Send>) {
        let mut queue = self.wait_while(|queue| queue.ending);
        let is_same = matches!(kind, JobKind::Publish(_));
        if is_same && queue.jobs.iter().any(|job| job.kind == kind) {
            return;
        }
        queue.jobs.push_back(Job { kind, work });
        if queue.working {
            return;
        }
        queue.working = true;
        drop(queue);
        let jobs = Arc::clone(self);
        let thread = std::thread::Builder::new().name("upkeep".into());
        if thread.spawn(move || jobs.work_off()).is_err() {
            // No thread to be had: the caller does it.
            self.work_off();
        }
    }

    fn work_off(&self) {
        /// Whatever happens, nobody waits for a thread that is gone.
        struct Done<'a>(&'a JobQueue);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                let mut queue = self.0.queue();
                (queue.working, queue.ending, queue.clearing_up) = (false, false, false);
                drop(queue);
                self.0.changed.notify_all();
            }
        }
        let _done = Done(self);
        loop {
            let mut queue = self.queue();
            let Some(job) = queue.jobs.pop_front() else {
                queue.ending = true;
                return;
            };
            queue.clearing_up = job.kind == JobKind::ClearUp;
            if queue.clearing_up {
                self.changed.notify_all();
            }
            drop(queue);
            // The job and with it its hold on the data directory end here, before anybody who waits
            // for the queue goes on.
            (job.work)();
        }
    }
}

/// Held by the handles that users have, not by the thread: dropping the last one waits.
pub(crate) struct LastHandle(pub(crate) Arc<JobQueue>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.wait_for_short_work();
    }
}
