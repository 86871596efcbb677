//! The queue of background jobs: publishing layers, compaction, removing directories, and the
//! clean-up after an unclean stop.
//!
//! At most one thread runs them, and it exists only while there are jobs. Every job can be lost: the
//! next request that needs its result does the work, or recovery does. Dropping the last handle of the
//! engine waits for the queue, so that a command ends after its jobs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a job is about. The queue holds at most one [`Publish`](JobKind::Publish) for each project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// Makes the layer of a project's head; the number is the project's.
    Publish(i64),
    /// Removes what an unclean stop left. Commands do not wait for it, because it may take long.
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
    /// Whether the thread exists.
    working: bool,
    /// Whether the thread found the queue empty and ends.
    ending: bool,
    /// Whether the thread runs a [`JobKind::ClearUp`].
    clearing_up: bool,
}

/// The queue of background jobs.
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

    /// Waits until the queue is empty and the thread has ended.
    pub(crate) fn wait(&self) {
        drop(self.wait_while(|queue| queue.working));
    }

    /// Waits for all jobs but a [`JobKind::ClearUp`]. If the process ends during one, the next start
    /// continues it.
    fn wait_for_short_work(&self) {
        drop(self.wait_while(|queue| queue.working && !queue.clearing_up));
    }

    /// Adds a job, and starts the thread if there is none.
    pub(crate) fn push(self: &Arc<Self>, kind: JobKind, work: Box<dyn FnOnce() + Send>) {
        let mut queue = self.wait_while(|queue| queue.ending);
        let is_publish = matches!(kind, JobKind::Publish(_));
        if is_publish && queue.jobs.iter().any(|job| job.kind == kind) {
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
        if thread.spawn(move || jobs.run_jobs()).is_err() {
            // Without a thread the caller runs the jobs.
            self.run_jobs();
        }
    }

    fn run_jobs(&self) {
        /// Marks the queue as idle when the thread ends, also by a panic.
        struct MarkIdle<'a>(&'a JobQueue);
        impl Drop for MarkIdle<'_> {
            fn drop(&mut self) {
                let mut queue = self.0.queue();
                (queue.working, queue.ending, queue.clearing_up) = (false, false, false);
                drop(queue);
                self.0.changed.notify_all();
            }
        }
        let _mark_idle = MarkIdle(self);
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
            // The job is dropped here with its handle on the data directory, before a caller of
            // `wait` continues.
            (job.work)();
        }
    }
}

/// Part of every handle that users have, but not of jobs: dropping the last one waits for the queue.
pub(crate) struct LastHandle(pub(crate) Arc<JobQueue>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.wait_for_short_work();
    }
}
