//! A request in flight: it holds its slot until its answer, the body of the answer and its work on
//! other threads are all over, even if the client is gone.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use offshoot_core::{Error, ErrorCode, Result};

use crate::connections::Claim;
use crate::shares::{Requester, Slot};

const STARTED: u8 = 1;
const CANCELLED: u8 = 2;

tokio::task_local! {
    static CURRENT: Arc<InFlight>;
}

/// The slot of a request, and whether it may still start work.
#[derive(Default)]
pub(crate) struct InFlight {
    held: Mutex<Option<(Slot, Option<Claim>)>>,
    state: AtomicU8,
}

impl InFlight {
    /// The request that this task works for.
    pub(crate) fn current() -> Option<Arc<InFlight>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Runs a future that finds this request by [`InFlight::current`].
    pub(crate) async fn scope<F: Future>(self: Arc<Self>, answering: F) -> F::Output {
        CURRENT.scope(self, answering).await
    }

    /// Holds a slot until the request is over. A slot that it held before is given back.
    pub(crate) fn hold_slot(&self, slot: Slot, claim: Option<Claim>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // A claim stays with the connection, whichever slot the request has.
        let claim = claim.or_else(|| held.take().and_then(|(_, claim)| claim));
        let before = held.replace((slot, claim));
        drop(held);
        drop(before);
    }

    /// The requester whose share the request takes from.
    pub(crate) fn requester(&self) -> Option<Requester> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|(slot, _)| slot.requester().clone())
    }

    /// Whether a slot has to be given back at the end.
    pub(crate) fn holds_slot(&self) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.is_some()
    }

    /// Work begins. An error if the request was answered with a time-out before: what has not begun
    /// by then never does.
    pub(crate) fn begin(&self) -> Result<()> {
        let begin = |state| (state & CANCELLED == 0).then_some(state | STARTED);
        let began = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, begin);
        began
            .map(drop)
            .map_err(|_| Error::new(ErrorCode::Timeout, "the request was given up"))
    }

    /// No work begins from now on. Returns whether some has begun.
    pub(crate) fn cancel(&self) -> bool {
        self.state.fetch_or(CANCELLED, Ordering::AcqRel) & STARTED != 0
    }
}

/// The body of an answer, which keeps its request in flight.
pub(crate) struct InFlightBody {
    body: Body,
    _in_flight: Arc<InFlight>,
}

impl InFlightBody {
    pub(crate) fn of(body: Body, in_flight: Arc<InFlight>) -> Body {
        Body::new(InFlightBody {
            body,
            _in_flight: in_flight,
        })
    }
}

impl http_body::Body for InFlightBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_begun_before_the_time_out_never_does() {
        let in_flight = InFlight::default();
        assert!(!in_flight.cancel());
        assert_eq!(in_flight.begin().unwrap_err().code(), ErrorCode::Timeout);
        let in_flight = InFlight::default();
        in_flight.begin().unwrap();
        in_flight.begin().unwrap();
        assert!(in_flight.cancel());
        assert!(in_flight.begin().is_err());
    }
}
