//! Work of many threads that one of them does for all.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

/// Jobs that come from many threads at once, done together by one of them.
///
/// To wake one thread after the other costs more than most work, and much work costs less when it
/// is done for many at once. So a job is put into a queue, and one of those who wait leads: it takes
/// all that is there, does it, and answers. Then the first of those who came meanwhile leads. Who
/// leads may let the next one do so before it has answered, when what is left to do needs no order.
///
/// Why nobody waits for ever: `is_led` is true as long as somebody leads or was told to, so whoever
/// finds it true is answered by somebody, and whoever finds it false leads. A panic of one who leads
/// passes the lead on, too.
#[derive(Debug)]
pub struct Gather<J, A>(Mutex<Queue<J, A>>);

#[derive(Debug)]
struct Queue<J, A> {
    waiting: VecDeque<(J, mpsc::Sender<Told<A>>)>,
    is_led: bool,
}

/// What the owner of a job is told.
#[derive(Debug)]
enum Told<A> {
    /// To do all that waits, its own job first.
    Lead,
    /// The answer to its job.
    Answer(A),
}

impl<J, A> Default for Gather<J, A> {
    fn default() -> Self {
        Gather(Mutex::new(Queue {
            waiting: VecDeque::new(),
            is_led: false,
        }))
    }
}

impl<J, A> Gather<J, A> {
    /// Has a job done and returns its answer; none if the one who led did not answer it.
    ///
    /// `lead` does jobs, at most so many, and answers them in their order. It is called with what
    /// lets the next one lead; that happens at the latest when it returns.
    pub fn run(
        &self,
        job: J,
        most: usize,
        lead: impl Fn(Vec<J>, &mut dyn FnMut()) -> Vec<A>,
    ) -> Option<A> {
        let (tell, told) = mpsc::channel();
        let mut leads = {
            let mut queue = self.lock();
            queue.waiting.push_back((job, tell));
            !std::mem::replace(&mut queue.is_led, true)
        };
        loop {
            if leads {
                self.lead(most, &lead);
            }
            match told.recv() {
                Ok(Told::Lead) => leads = true,
                Ok(Told::Answer(answer)) => return Some(answer),
                Err(_) => return None,
            }
        }
    }

    fn lead(&self, most: usize, lead: &impl Fn(Vec<J>, &mut dyn FnMut()) -> Vec<A>) {
        let mut leading = Leading(Some(self));
        let (jobs, tells): (Vec<J>, Vec<_>) = {
            let mut queue = self.lock();
            let count = queue.waiting.len().min(most.max(1));
            queue.waiting.drain(..count).unzip()
        };
        let answers = lead(jobs, &mut || leading.pass_on());
        drop(leading);
        for (tell, answer) in tells.into_iter().zip(answers) {
            let _ = tell.send(Told::Answer(answer));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<J, A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lead, which is passed on once.
struct Leading<'a, J, A>(Option<&'a Gather<J, A>>);

impl<J, A> Leading<'_, J, A> {
    fn pass_on(&mut self) {
        let Some(gather) = self.0.take() else { return };
        let mut queue = gather.lock();
        // Nobody leaves before being told, so the first of the queue hears this.
        let next = queue.waiting.front().map(|(_, tell)| tell.send(Told::Lead));
        queue.is_led = next.is_some();
    }
}

impl<J, A> Drop for Leading<'_, J, A> {
    fn drop(&mut self) {
        self.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_job_is_done_once_and_answered_by_its_own_answer() {
        for early in [false, true] {
            let gather: Gather<usize, usize> = Gather::default();
            let (done, batches) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let (gather, done, batches) = (&gather, &done, &batches);
                    scope.spawn(move || {
                        for n in 0..500 {
                            let job = thread * 1_000 + n;
                            let answer = gather.run(job, 5, |jobs, pass_on| {
                                assert!((1..=5).contains(&jobs.len()));
                                if early {
                                    pass_on();
                                }
                                std::thread::yield_now();
                                done.fetch_add(jobs.len(), Ordering::Relaxed);
                                batches.fetch_add(1, Ordering::Relaxed);
                                jobs.into_iter().map(|job| job * 2).collect()
                            });
                            assert_eq!(answer, Some(job * 2));
                        }
                    });
                }
            });
            assert_eq!(done.into_inner(), 8 * 500);
            assert!(batches.into_inner() <= 8 * 500);
        }
    }

    #[test]
    fn without_passing_on_only_one_leads() {
        let gather: Gather<(), ()> = Gather::default();
        let leading = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let answer = gather.run((), 64, |jobs, _| {
                            assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            leading.fetch_sub(1, Ordering::SeqCst);
                            jobs
                        });
                        assert_eq!(answer, Some(()));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_or_a_missing_answer_keeps_nobody_waiting() {
        let gather: Gather<usize, usize> = Gather::default();
        let (answered, forgotten, panicked) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        std::thread::scope(|scope| {
            for thread in 0..8_usize {
                let (gather, answered, forgotten, panicked) =
                    (&gather, &answered, &forgotten, &panicked);
                scope.spawn(move || {
                    for n in 0..300 {
                        let ran = catch_unwind(AssertUnwindSafe(|| {
                            gather.run(thread, 64, |jobs, pass_on| match (thread + n) % 5 {
                                0 => resume_unwind(Box::new("on purpose")),
                                1 => {
                                    pass_on();
                                    resume_unwind(Box::new("on purpose"))
                                }
                                2 => Vec::new(),
                                _ => jobs,
                            })
                        }));
                        let counter = match ran {
                            Ok(Some(answer)) => {
                                assert_eq!(answer, thread);
                                answered
                            }
                            Ok(None) => forgotten,
                            Err(_) => panicked,
                        };
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let counts = [answered, forgotten, panicked].map(AtomicUsize::into_inner);
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), 8 * 300);
    }
}
