//! Open connections. There is always room for one more: when there are too many, the one closes
//! that has stood longest without a request of a valid token.
//!
//! So neither slow heads nor idle connections keep a client out. Connections with a request at work
//! are not closed: their number is bounded by the shares of their tokens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// All open connections.
pub(crate) struct Connections {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    count: usize,
    next: u64,
    /// Connections without a request, the longest idle first, with the token that closes each.
    unclaimed: BTreeMap<u64, CancellationToken>,
}

/// One connection; dropping it takes it out of the count.
pub(crate) struct Connection(Arc<Shared>);

/// What requests know of the connection that they came by.
#[derive(Clone)]
pub(crate) struct ConnectionHandle(Arc<Shared>);

struct Shared {
    all: Arc<Connections>,
    closing: CancellationToken,
    state: Mutex<Claims>,
}

/// The lock of [`Connections`] is taken inside this one, never the other way round.
#[derive(Default)]
struct Claims {
    count: usize,
    /// Its key in `unclaimed`; none while it has a request.
    unclaimed: Option<u64>,
    is_over: bool,
}

/// A request with a valid token; while it is there the connection stays.
pub(crate) struct Claim(Arc<Shared>);

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Connections {
            most,
            open: Mutex::default(),
        })
    }

    /// Counts a new connection, for which another may have to go.
    pub(crate) fn open(self: &Arc<Self>) -> Connection {
        let shared = Arc::new(Shared {
            all: Arc::clone(self),
            closing: CancellationToken::new(),
            state: Mutex::default(),
        });
        let is_full = {
            let mut open = self.lock();
            open.count += 1;
            open.count > self.most
        };
        if is_full {
            self.close_oldest();
        }
        shared.stand_idle(&mut shared.lock());
        Connection(shared)
    }

    /// Closes the connection that has stood longest without a request. False if there is none.
    pub(crate) fn close_oldest(&self) -> bool {
        let oldest = self.lock().unclaimed.pop_first();
        match oldest {
            Some((_, closing)) => {
                closing.cancel();
                true
            }
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stand_idle(&self, claims: &mut Claims) {
        let mut open = self.all.lock();
        let number = open.next;
        open.next += 1;
        open.unclaimed.insert(number, self.closing.clone());
        claims.unclaimed = Some(number);
    }

    fn leave_idle(&self, claims: &mut Claims) {
        if let Some(number) = claims.unclaimed.take() {
            self.all.lock().unclaimed.remove(&number);
        }
    }
}

impl Connection {
    /// Done when the connection has to go.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.0.closing.clone()
    }

    pub(crate) fn handle(&self) -> ConnectionHandle {
        ConnectionHandle(self.0.clone())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut claims = self.0.lock();
        claims.is_over = true;
        self.0.leave_idle(&mut claims);
        self.0.all.lock().count -= 1;
    }
}

impl ConnectionHandle {
    /// Says that a request with a valid token is there.
    pub(crate) fn claim(&self) -> Claim {
        let mut claims = self.0.lock();
        claims.count += 1;
        self.0.leave_idle(&mut claims);
        drop(claims);
        Claim(self.0.clone())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = self.0.lock();
        claims.count -= 1;
        if claims.count == 0 && !claims.is_over {
            self.0.stand_idle(&mut claims);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_goes_and_who_works_stays() {
        let all = Connections::new(3);
        let working = all.open();
        let claim = working.handle().claim();
        let (idle, newer) = (all.open(), all.open());
        let newest = all.open();
        assert!(idle.closing().is_cancelled());
        assert!(!working.closing().is_cancelled() && !newer.closing().is_cancelled());
        drop(idle);
        assert_eq!(all.lock().count, 3);
        // Its request done, it is the one that stood idle for the shortest time.
        drop(claim);
        let last = all.open();
        assert!(newer.closing().is_cancelled() && !working.closing().is_cancelled());
        drop((newer, newest, last));
        // What goes on after its connection does not bring that back.
        let claim = working.handle().claim();
        drop(working);
        drop(claim);
        let open = all.lock();
        assert_eq!((open.count, open.unclaimed.len()), (0, 0));
    }

    #[test]
    fn there_is_room_for_one_more_even_if_all_work() {
        let all = Connections::new(1);
        let (a, b) = (all.open(), all.open());
        let _claims = [a.handle().claim(), b.handle().claim()];
        let c = all.open();
        assert!(!c.closing().is_cancelled());
        let _d = all.open();
        assert!(c.closing().is_cancelled());
    }
}
