//! Links that work by themselves: a pull before each fork and a push after each merge.
//!
//! Neither may fail the fork or the merge that it goes with: what could not be done is logged, and
//! the next one does it.

use offshoot_core::{Cause, Operator, ProjectId, Result};

use crate::link::Links;
use crate::link::pull::PullOptions;
use crate::link::push::PushOptions;

impl Links {
    /// Brings new commits in, if the link of a project says so. It is the owner who said so: the
    /// caller, who may be an agent, is not who pulls.
    pub(crate) fn pull_if_auto(&self, id: &ProjectId) {
        let pull = || {
            let cause = Cause::by(Operator::system());
            let pulled = self.pull(id, &PullOptions::default(), &mut |_| {}, &cause);
            pulled.map(drop)
        };
        if let Err(error) = self.if_auto(id, pull) {
            tracing::warn!(project = %id, %error, "forked without a pull");
        }
    }

    /// Gives back what was merged, if the link of a project says so.
    pub(crate) fn push_if_auto(&self, id: &ProjectId) {
        let push = || {
            let pushed = self.push(id, &PushOptions::default(), &mut |_| {});
            pushed.map(drop)
        };
        if let Err(error) = self.if_auto(id, push) {
            tracing::warn!(project = %id, %error, "merged and not pushed");
        }
    }

    fn if_auto(&self, id: &ProjectId, act: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.projects.link(id)? {
            Some(link) if link.auto => act(),
            _ => Ok(()),
        }
    }
}
