//! Reads the rest of a request that was answered before all of it came.
//!
//! A connection that is closed while bytes of its client are unread is reset, and with it the answer
//! may be lost that says why the request was refused. So the rest is read and thrown away, if that
//! does not take long.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;

/// How long a client may go on sending after its answer, and how much.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_BYTES: usize = 64 << 20;

/// A body whose rest is read when it is dropped.
struct DrainOnDrop(Option<Body>);

/// Wraps a body so that its rest is read when a handler drops it.
pub(crate) fn drain_on_drop(body: Body) -> Body {
    match body.is_end_stream() {
        true => body,
        false => Body::new(DrainOnDrop(Some(body))),
    }
}

impl http_body::Body for DrainOnDrop {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let unread = self.0.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Ok(runtime)) = (unread, tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(PATIENCE, drain(body)));
        }
    }
}

async fn drain(mut body: Body) {
    let mut left = MOST_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
