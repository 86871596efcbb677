//! What a request holds as long as anything of it goes on: its answer, the body of that, or work on
//! a thread that nobody waits for any more.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use offshoot_core::{Error, ErrorCode, Result};

use crate::connections::Claim;
use crate::shares::{Asker, Place};

const BEGAN: u8 = 1;
const CANCELLED: u8 = 2;

tokio::task_local! {
    static PRESENT: Arc<Hold>;
}

/// The place of a request among all, and whether it may still begin something.
#[derive(Default)]
pub(crate) struct Hold {
    held: Mutex<Option<(Place, Option<Claim>)>>,
    state: AtomicU8,
}

impl Hold {
    /// The hold of the request that this task works for.
    pub(crate) fn present() -> Option<Arc<Hold>> {
        PRESENT.try_with(Arc::clone).ok()
    }

    /// Runs the answering of a request, which finds its hold by [`Hold::present`].
    pub(crate) async fn scope<F: Future>(self: Arc<Self>, answering: F) -> F::Output {
        PRESENT.scope(self, answering).await
    }

    /// Keeps a place until all is over. The one before it, if any, is free then.
    pub(crate) fn keep(&self, place: Place, claim: Option<Claim>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // A claim stays with the connection, whichever place the request has.
        let claim = claim.or_else(|| held.take().and_then(|(_, claim)| claim));
        let before = held.replace((place, claim));
        drop(held);
        drop(before);
    }

    /// Who the request counts for.
    pub(crate) fn asker(&self) -> Option<Asker> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|(place, _)| place.asker().clone())
    }

    /// Whether there is anything to let go of at the end.
    pub(crate) fn is_kept(&self) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.is_some()
    }

    /// Work begins. An error if the request was answered with a time-out before: what has not begun
    /// by then never does.
    pub(crate) fn begin(&self) -> Result<()> {
        let begin = |state| (state & CANCELLED == 0).then_some(state | BEGAN);
        let began = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, begin);
        began
            .map(drop)
            .map_err(|_| Error::new(ErrorCode::Timeout, "the request was given up"))
    }

    /// Nothing begins from now on. Says whether something has.
    pub(crate) fn cancel(&self) -> bool {
        self.state.fetch_or(CANCELLED, Ordering::AcqRel) & BEGAN != 0
    }
}

/// The body of an answer, with what its request holds.
pub(crate) struct HeldBody {
    body: Body,
    _hold: Arc<Hold>,
}

impl HeldBody {
    pub(crate) fn of(body: Body, hold: Arc<Hold>) -> Body {
        Body::new(HeldBody { body, _hold: hold })
    }
}

impl http_body::Body for HeldBody {
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
        let hold = Hold::default();
        assert!(!hold.cancel());
        assert_eq!(hold.begin().unwrap_err().code(), ErrorCode::Timeout);
        let hold = Hold::default();
        hold.begin().unwrap();
        hold.begin().unwrap();
        assert!(hold.cancel());
        assert!(hold.begin().is_err());
    }
}
