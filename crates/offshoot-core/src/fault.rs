//! Fault injection for tests: the n-th call of a run fails, for every n.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter shared by everything that may fail; by default nothing does.
///
/// Stores and directories call [`FaultPlan::hit`] before each call that can fail in the real
/// world. A test arms the plan with n, runs an operation, and sees the n-th call fail. A plan that
/// was never armed costs one relaxed load.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Calls until one fails; 0 means that the plan is not armed.
    left: AtomicU64,
    /// Calls that were counted since the plan was armed.
    seen: AtomicU64,
    /// 1 once the fault has struck.
    struck: AtomicU64,
    /// 1 if every call after the chosen one fails too.
    lasting: AtomicU64,
}

impl FaultPlan {
    /// Lets the n-th call from now fail, once. `n` counts from 1.
    pub fn arm(&self, n: u64) {
        self.arm_with(n, 0);
    }

    /// Lets the n-th call from now and every one after it fail, as when a disk is gone for good.
    pub fn arm_from(&self, n: u64) {
        self.arm_with(n, 1);
    }

    fn arm_with(&self, n: u64, lasting: u64) {
        self.0.seen.store(0, Ordering::SeqCst);
        self.0.struck.store(0, Ordering::SeqCst);
        self.0.lasting.store(lasting, Ordering::SeqCst);
        self.0.left.store(n, Ordering::SeqCst);
    }

    /// Ends the plan. Returns whether the fault struck.
    pub fn disarm(&self) -> bool {
        self.0.left.store(0, Ordering::SeqCst);
        self.0.struck.load(Ordering::SeqCst) == 1
    }

    /// Counts one call and fails if it is the chosen one.
    pub fn hit(&self, call: &'static str) -> io::Result<()> {
        if self.0.left.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.0.seen.fetch_add(1, Ordering::SeqCst);
        let lasting = self.0.lasting.load(Ordering::SeqCst) == 1;
        // A lasting fault leaves the counter at 1, so that the next call is the chosen one again.
        let chosen = if lasting && self.0.left.load(Ordering::SeqCst) == 1 {
            true
        } else {
            self.0.left.fetch_sub(1, Ordering::SeqCst) == 1
        };
        if chosen {
            self.0.struck.store(1, Ordering::SeqCst);
            return Err(io::Error::other(format!("injected fault in {call}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_chosen_call_fails() {
        let plan = FaultPlan::default();
        assert!(plan.hit("idle").is_ok());
        plan.arm(2);
        assert!(plan.hit("first").is_ok());
        assert!(plan.hit("second").is_err());
        assert!(plan.hit("third").is_ok());
        assert!(plan.disarm());
        plan.arm(5);
        assert!(plan.hit("first").is_ok());
        assert!(!plan.disarm());
    }

    #[test]
    fn a_lasting_fault_strikes_until_it_is_disarmed() {
        let plan = FaultPlan::default();
        plan.arm_from(2);
        assert!(plan.hit("first").is_ok());
        assert!(plan.hit("second").is_err());
        assert!(plan.hit("third").is_err());
        assert!(plan.disarm());
        assert!(plan.hit("idle").is_ok());
    }
}
