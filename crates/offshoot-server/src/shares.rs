//! Fair shares: how many requests, or streams, a token and a workspace may have at the same time,
//! and which request is next when all slots are taken.
//!
//! One token gets a part of all slots and never more, and never more than are still free, so that the
//! others find slots whatever it does: n tokens that take all they can leave one part in n + 1. A request that finds none waits a moment without a thread. A slot that becomes free goes
//! to the waiting request whose token holds the fewest; among equals to the one that came first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use offshoot_core::{Error, Result, WorkspaceId};
use tokio::sync::oneshot;

use crate::error::rate_limited;

/// The seconds after which a refused client should try again.
const RETRY_AFTER_S: u64 = 1;

/// The holder of slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// A token, by its id; all tokens of an agent and of those that it spawned together.
    Token(Arc<str>),
    /// All requests without a token, together.
    Anonymous,
}

/// The holder that a request counts for, and its workspace.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub(crate) holder: Holder,
    pub(crate) workspace: Option<WorkspaceId>,
}

/// How many slots there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareLimits {
    pub(crate) whole: usize,
    pub(crate) per_token: usize,
    pub(crate) per_workspace: usize,
    pub(crate) anonymous: usize,
    /// So many of one token may wait; none means as many as it may have slots.
    pub(crate) waiting_per_token: Option<usize>,
}

impl ShareLimits {
    /// Parts in percent, each at least one slot.
    pub(crate) fn new(whole: usize, token_share: u8, workspace_share: u8) -> Self {
        let part = |percent: u8| (whole.saturating_mul(percent.into()) / 100).max(1);
        ShareLimits {
            whole,
            per_token: part(token_share),
            per_workspace: part(workspace_share),
            anonymous: (part(token_share) / 8).max(1),
            waiting_per_token: None,
        }
    }

    /// Slots for work that keeps a core busy: two for each core, and for one token half as many as there
    /// are cores, so that the cores are never all one token's (unless there is only one). Such work waits while its request holds a slot, so
    /// no more may wait than there are requests.
    pub(crate) fn of_cores(cores: usize, requests: usize) -> Self {
        ShareLimits {
            whole: cores.saturating_mul(2),
            per_token: (cores / 2).max(1),
            per_workspace: cores.saturating_mul(2),
            anonymous: 1,
            waiting_per_token: Some(requests),
        }
    }

    fn of(&self, holder: &Holder) -> usize {
        match holder {
            Holder::Token(_) => self.per_token,
            Holder::Anonymous => self.anonymous,
        }
    }
}

/// The slots for one kind of thing: requests, streams or searches.
pub(crate) struct Shares {
    /// What is counted, for messages: `requests`.
    what: &'static str,
    limits: ShareLimits,
    /// How long a request waits for a slot.
    max_wait: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    holders: HashMap<Holder, Count>,
    workspaces: HashMap<WorkspaceId, usize>,
    /// In the order in which they came.
    waiting: Vec<Waiter>,
    next_ticket: u64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    used: usize,
    waiting: usize,
}

struct Waiter {
    ticket: u64,
    requester: Requester,
    tell: oneshot::Sender<()>,
}

/// A slot that is taken; dropping it admits the next request.
pub(crate) struct Slot {
    shares: Arc<Shares>,
    requester: Requester,
}

impl Slot {
    /// Who holds it.
    pub(crate) fn requester(&self) -> &Requester {
        &self.requester
    }
}

impl Shares {
    pub(crate) fn new(what: &'static str, limits: ShareLimits, max_wait: Duration) -> Arc<Self> {
        Arc::new(Shares {
            what,
            limits,
            max_wait,
            state: Mutex::default(),
        })
    }

    /// Takes a slot, and waits for one if there is none. `rate_limited` if that takes too long, or
    /// as many of the same token wait already as may have slots.
    pub(crate) async fn take(self: &Arc<Self>, requester: Requester) -> Result<Slot> {
        let mut ticket = {
            let mut state = self.lock();
            if state.has_room(&self.limits, &requester) {
                state.count_in(&requester);
                return Ok(self.slot(requester));
            }
            let own = self.limits.of(&requester.holder);
            let most = self.limits.waiting_per_token.unwrap_or(own);
            let count = state.holders.entry(requester.holder.clone()).or_default();
            if count.waiting >= most {
                drop(state);
                return Err(self.refusal(&requester));
            }
            count.waiting += 1;
            let number = state.next_ticket;
            state.next_ticket += 1;
            let (tell, told) = oneshot::channel();
            state.waiting.push(Waiter {
                ticket: number,
                requester: requester.clone(),
                tell,
            });
            Ticket {
                shares: self,
                number,
                requester: &requester,
                told,
            }
        };
        match tokio::time::timeout(self.max_wait, &mut ticket.told).await {
            Ok(Ok(())) => {
                drop(ticket);
                Ok(self.slot(requester))
            }
            _ => {
                drop(ticket);
                Err(self.refusal(&requester))
            }
        }
    }

    fn slot(self: &Arc<Self>, requester: Requester) -> Slot {
        Slot {
            shares: Arc::clone(self),
            requester,
        }
    }

    fn refusal(&self, requester: &Requester) -> Error {
        let what = self.what;
        let (used, in_workspace) = {
            let state = self.lock();
            (state.used_by(&requester.holder), state.used_in(requester))
        };
        let message = match &requester.holder {
            Holder::Anonymous => format!("the server is busy with too many {what} without a token"),
            Holder::Token(_) if used >= self.limits.per_token => {
                format!("this token has {used} {what} open, and may not have more")
            }
            Holder::Token(_) if in_workspace >= self.limits.per_workspace => {
                format!("the workspace has {in_workspace} {what} open, and may not have more")
            }
            Holder::Token(_) => format!("the server is busy with too many {what}"),
        };
        rate_limited(message, RETRY_AFTER_S)
    }

    fn give_back(&self, requester: &Requester) {
        let mut state = self.lock();
        state.count_out(requester);
        state.admit_waiters(&self.limits);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn used_by(&self, holder: &Holder) -> usize {
        self.holders.get(holder).map_or(0, |count| count.used)
    }

    /// How many slots the workspace of a requester has.
    fn used_in(&self, requester: &Requester) -> usize {
        let workspace = requester.workspace.as_ref();
        let used = workspace.and_then(|id| self.workspaces.get(id));
        used.copied().unwrap_or_default()
    }

    fn has_room(&self, limits: &ShareLimits, requester: &Requester) -> bool {
        let free = limits.whole.saturating_sub(self.used);
        self.used_by(&requester.holder) < limits.of(&requester.holder).min(free)
            && self.used_in(requester) < limits.per_workspace
    }

    fn count_in(&mut self, requester: &Requester) {
        self.used += 1;
        self.holders
            .entry(requester.holder.clone())
            .or_default()
            .used += 1;
        if let Some(id) = &requester.workspace {
            *self.workspaces.entry(id.clone()).or_default() += 1;
        }
    }

    fn count_out(&mut self, requester: &Requester) {
        self.used -= 1;
        if let Some(count) = self.holders.get_mut(&requester.holder) {
            count.used -= 1;
        }
        self.forget_if_gone(&requester.holder);
        if let Some(id) = &requester.workspace
            && let Some(used) = self.workspaces.get_mut(id)
        {
            *used -= 1;
            if *used == 0 {
                self.workspaces.remove(id);
            }
        }
    }

    fn forget_if_gone(&mut self, holder: &Holder) {
        let count = self.holders.get(holder).copied().unwrap_or_default();
        if count.used == 0 && count.waiting == 0 {
            self.holders.remove(holder);
        }
    }

    /// Gives free slots to waiting requests, those of the smallest users first.
    fn admit_waiters(&mut self, limits: &ShareLimits) {
        loop {
            let next = self
                .waiting
                .iter()
                .enumerate()
                .filter(|(_, waiting)| self.has_room(limits, &waiting.requester))
                .min_by_key(|(_, waiting)| self.used_by(&waiting.requester.holder))
                .map(|(index, _)| index);
            let Some(index) = next else { return };
            let waiting = self.waiting.remove(index);
            self.stop_waiting(&waiting.requester.holder);
            self.count_in(&waiting.requester);
            // A request that has gone meanwhile needs none.
            if waiting.tell.send(()).is_err() {
                self.count_out(&waiting.requester);
            }
        }
    }

    fn stop_waiting(&mut self, holder: &Holder) {
        if let Some(count) = self.holders.get_mut(holder) {
            count.waiting -= 1;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shares.give_back(&self.requester);
    }
}

/// A waiting request. Dropping it leaves the queue, or gives back a slot that came too late.
struct Ticket<'a> {
    shares: &'a Arc<Shares>,
    number: u64,
    requester: &'a Requester,
    told: oneshot::Receiver<()>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.told.is_terminated() {
            return;
        }
        let mut state = self.shares.lock();
        let index = state
            .waiting
            .iter()
            .position(|waiting| waiting.ticket == self.number);
        match index {
            Some(index) => {
                state.waiting.remove(index);
                state.stop_waiting(&self.requester.holder);
                state.forget_if_gone(&self.requester.holder);
            }
            // It was admitted before this lock was taken, and has stopped waiting.
            None if self.told.try_recv().is_ok() => {
                state.count_out(self.requester);
                state.admit_waiters(&self.shares.limits);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requester(token: &str, workspace: Option<&str>) -> Requester {
        Requester {
            holder: Holder::Token(token.into()),
            workspace: workspace.map(|id| id.parse().unwrap()),
        }
    }

    fn shares(whole: usize, patience_ms: u64) -> Arc<Shares> {
        let limits = ShareLimits::new(whole, 50, 75);
        Shares::new("requests", limits, Duration::from_millis(patience_ms))
    }

    fn on_runtime<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(work)
    }

    #[test]
    fn a_token_gets_its_part_and_others_theirs() {
        on_runtime(async {
            let shares = shares(8, 10);
            let mut held = Vec::new();
            for _ in 0..4 {
                held.push(shares.take(requester("greedy", None)).await.unwrap());
            }
            let refused = shares.take(requester("greedy", None)).await.err().unwrap();
            assert_eq!(refused.code(), offshoot_core::ErrorCode::RateLimited);
            assert!(refused.message().contains("this token has 4"), "{refused}");
            // Nobody gets more than is left for the others.
            for _ in 0..2 {
                held.push(shares.take(requester("modest", None)).await.unwrap());
            }
            let refused = shares.take(requester("modest", None)).await.err().unwrap();
            assert!(refused.message().contains("busy"), "{refused}");
            for token in ["third", "fourth"] {
                held.push(shares.take(requester(token, None)).await.unwrap());
            }
            let refused = shares.take(requester("fifth", None)).await.err().unwrap();
            assert!(refused.message().contains("busy"), "{refused}");
            held.clear();
            let state = shares.lock();
            assert_eq!(state.used, 0);
            assert!(state.holders.is_empty() && state.waiting.is_empty());
        });
    }

    /// However many searches of one token wait, another token begins at once.
    #[test]
    fn a_token_that_keeps_cores_busy_waits_and_leaves_some_to_others() {
        on_runtime(async {
            let limits = ShareLimits::of_cores(4, 100);
            let shares = Shares::new("searches", limits, Duration::from_secs(60));
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
            for _ in 0..100 {
                let (shares, tell) = (shares.clone(), tell.clone());
                tokio::spawn(async move {
                    let slot = shares.take(requester("greedy", None)).await.unwrap();
                    tell.send(slot).unwrap();
                });
                tokio::task::yield_now().await;
            }
            let held = [told.recv().await.unwrap(), told.recv().await.unwrap()];
            assert!(
                told.try_recv().is_err(),
                "one token has half of the cores at most"
            );
            let other = shares.take(requester("other", None)).await.unwrap();
            drop((held, other));
            for _ in 0..98 {
                drop(told.recv().await.unwrap());
            }
            assert_eq!(shares.lock().used, 0);
        });
    }

    #[test]
    fn many_greedy_tokens_leave_room_for_one_more() {
        on_runtime(async {
            let limits = ShareLimits::new(512, 25, 75);
            let shares = Shares::new("requests", limits, Duration::from_millis(1));
            let mut held = Vec::new();
            for n in 0..5 {
                let token = format!("greedy-{n}");
                while let Ok(slot) = shares.take(requester(&token, None)).await {
                    held.push(slot);
                }
            }
            for _ in 0..8 {
                held.push(shares.take(requester("other", None)).await.unwrap());
            }
        });
    }

    #[test]
    fn tokens_of_one_workspace_do_not_take_all() {
        on_runtime(async {
            let shares = shares(8, 10);
            let mut held = Vec::new();
            for n in 0..6 {
                let token = format!("t{n}");
                held.push(shares.take(requester(&token, Some("w"))).await.unwrap());
            }
            assert!(shares.take(requester("t9", Some("w"))).await.is_err());
            held.push(shares.take(requester("t9", Some("other"))).await.unwrap());
            drop(held);
            assert!(shares.lock().workspaces.is_empty());
        });
    }

    #[test]
    fn a_free_place_goes_to_who_has_the_fewest() {
        on_runtime(async {
            let shares = shares(4, 60_000);
            let first = shares.take(requester("busy", None)).await.unwrap();
            let second = shares.take(requester("other", None)).await.unwrap();
            let _rest = [
                shares.take(requester("other", None)).await.unwrap(),
                shares.take(requester("third", None)).await.unwrap(),
            ];
            let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
            // `third` came first and holds one; `new` holds none.
            for name in ["third", "new"] {
                let (shares, tell) = (shares.clone(), tell.clone());
                tokio::spawn(async move {
                    let slot = shares.take(requester(name, None)).await.unwrap();
                    tell.send((name, slot)).unwrap();
                });
                tokio::task::yield_now().await;
            }
            drop(first);
            let (name, slot) = told.recv().await.unwrap();
            assert_eq!(name, "new");
            // One that holds a slot gets another when two are free.
            drop((slot, second));
            assert_eq!(told.recv().await.unwrap().0, "third");
        });
    }

    #[test]
    fn who_gives_up_leaves_nothing_behind() {
        on_runtime(async {
            let shares = shares(1, 60_000);
            let held = shares.take(requester("a", None)).await.unwrap();
            let waiting = tokio::spawn({
                let shares = shares.clone();
                async move { shares.take(requester("b", None)).await.map(drop) }
            });
            tokio::task::yield_now().await;
            assert_eq!(shares.lock().waiting.len(), 1);
            // As many may wait as may have slots.
            assert!(shares.take(requester("b", None)).await.is_err());
            waiting.abort();
            assert!(waiting.await.unwrap_err().is_cancelled());
            assert!(shares.lock().waiting.is_empty());
            drop(held);
            drop(shares.take(requester("b", None)).await.unwrap());
            assert!(shares.lock().holders.is_empty());
        });
    }
}
