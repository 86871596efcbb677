//! How much work and depth a merge may use.
//!
//! Work is counted in steps, not in time: the same three inputs must give the same outcome on a
//! busy machine as on an idle one, or completing twice could give two results.

/// Bounds of one file's merge. Past a bound a simpler way is taken, never a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Comparison steps of one file's merge, roughly; past them the difference is computed by a
    /// coarser algorithm, and passes that refine a conflict are left out.
    pub steps: u64,
    /// Nesting of a JSON document; a deeper one is merged as text.
    pub depth: usize,
    /// Bytes of one side of a file; a larger one is merged by id alone, as binary content is.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: 40_000_000,
            depth: 128,
            bytes: 64 << 20,
        }
    }
}

/// The part of the steps that may go into refining conflicting hunks is one in this many.
const REFINING_PART: u64 = 10;

/// What is left of the allowed steps.
#[derive(Clone, Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Budget(limits.steps)
    }

    /// For the passes that refine conflicting hunks. They get a part of the steps: a file whose
    /// hunks are that large or many conflicts anyway.
    pub(crate) fn refining(limits: &Limits) -> Self {
        Budget(limits.steps / REFINING_PART)
    }

    /// Whether nothing is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// Takes steps; false once there are none left.
    pub(crate) fn spend(&mut self, steps: u64) -> bool {
        self.0 = self.0.saturating_sub(steps.max(1));
        self.0 > 0
    }
}
