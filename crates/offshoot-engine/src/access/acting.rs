//! The use cases on behalf of a principal: each asks the one check first.
//!
//! The server and the tools hold an [`Access`] and nothing else, so that no call can go around the
//! check.

use std::sync::Arc;

use offshoot_core::{Cause, Operator, RelPath, Result, WorkspaceId};
use offshoot_store::HistoryRow;

use super::{Operation, Principal};
use crate::access::AccessControl;
use crate::context::idempotency::IdempotencyRecord;

/// The use cases, as one principal may call them.
#[derive(Clone)]
pub struct Access {
    pub(super) rooms: AccessControl,
    pub(super) principal: Arc<Principal>,
    pub(super) cause: Cause,
    /// Records what is made next under the idempotency key of the request.
    pub(super) noting: Option<IdempotencyRecord>,
}

impl AccessControl {
    /// The use cases for a principal, and why they are called.
    pub fn acting_as(&self, principal: Arc<Principal>, message_id: Option<String>) -> Access {
        let mut cause = Cause::by(principal.operator.clone());
        cause.message_id = message_id;
        Access {
            rooms: self.clone(),
            principal,
            cause,
            noting: None,
        }
    }
}

impl Access {
    /// Who is asking.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The cause that the history records for changes.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// A copy of this access whose changes were led to by another message.
    #[must_use]
    pub fn for_message(&self, message_id: String) -> Access {
        let mut other = self.clone();
        other.cause.message_id = Some(message_id);
        other
    }

    /// The one check: may this be done with this path of this workspace?
    pub(super) fn check(
        &self,
        operation: Operation,
        id: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        self.check_reach(id)?;
        self.principal.allows(operation, path)
    }

    /// The one check for a path with everything below it.
    pub(super) fn check_all_below(
        &self,
        operation: Operation,
        id: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        self.check_reach(id)?;
        self.principal.allows_all_below(operation, path)
    }

    /// The check for a path on which links may lie. An unlimited principal may follow the links of
    /// its workspace; a limited token may not, or a link in an allowed place would open every
    /// other.
    pub(super) fn authorize(
        &self,
        operation: Operation,
        id: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        self.check(operation, id, path)?;
        if self.principal.is_limited() {
            self.rooms.workspaces.refuse_links(id, path)?;
            self.check_described(operation, id, path)?;
        }
        Ok(())
    }

    /// What the principal sees of lines of history: none of paths that it may not read and, if it
    /// sees one workspace alone, no names of others in what that began with.
    pub(super) fn line_filter(&self) -> impl Fn(&mut HistoryRow, bool) -> bool {
        |row, own| {
            let line = &mut row.line;
            line.from = line.from.take().filter(|from| self.principal.reads(from));
            if !own && self.sees_one_workspace() {
                let cause = &mut line.cause;
                let mut operator = cause.operator.to_string();
                self.hide_others(&mut operator, &mut cause.claim, &mut cause.message_id);
                cause.operator = Operator::new(&operator);
            }
            line.path.is_root() || self.principal.reads(&line.path)
        }
    }

    /// `.meta/PATH` tells about `PATH`, and `.meta/.meta` about all of them.
    fn check_described(
        &self,
        operation: Operation,
        id: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        let meta = RelPath::from_normal(".meta");
        match path.strip_prefix(&meta) {
            None => Ok(()),
            Some(all) if all == meta => {
                let root = RelPath::root();
                self.check_all_below(operation, id, &root)
            }
            Some(described) => self.check(operation, id, &described),
        }
    }
}
