//! Bytes between the blocking engine and the network, both ways, with bounded memory.

use std::io::{self, Read, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt as _;
use offshoot_core::cancel::{Cancel, CancelOnDrop};
use offshoot_core::{Error, ErrorCode, Result};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::in_flight::InFlight;
use crate::shares::Shares;

/// Chunks of an answer that wait for a slow client.
const WAITING_CHUNKS: usize = 4;
/// What is read from a file at a time.
const CHUNK: usize = 128 << 10;

/// Runs blocking work on the blocking pool. The request holds its slot until the work ends; work
/// that has not begun when the request times out never begins. Long work ends early when the client
/// is gone or its time is up; see [`offshoot_core::cancel`].
pub(crate) fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    let (span, in_flight) = (tracing::Span::current(), InFlight::current());
    let cancel = Cancel::default();
    let waiting = cancel.on_drop();
    let run = move || {
        if let Some(in_flight) = &in_flight {
            in_flight.begin()?;
        }
        span.in_scope(|| cancel.run(work))
    };
    async move {
        let _waiting = waiting;
        match tokio::task::spawn_blocking(run).await {
            Ok(answer) => answer,
            Err(cause) => Err(Error::internal("the request ended in a panic").with_source(cause)),
        }
    }
}

/// Runs a search, or other blocking work that keeps a core busy, once it is the turn of its token:
/// the searches of one token leave cores to the requests of others.
pub(crate) async fn search_in_turn<T: Send + 'static>(
    turns: &Arc<Shares>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let turn = match InFlight::current().and_then(|in_flight| in_flight.requester()) {
        Some(requester) => Some(turns.take(requester).await?),
        None => None,
    };
    let work = move || {
        let _turn = turn;
        work()
    };
    blocking(work).await
}

/// An answer that blocking work writes while it is sent. It breaks off if the work fails or panics,
/// so that no client takes it for whole; and the work ends early when the client is gone.
pub(crate) fn written(
    work: impl FnOnce(&mut ChannelWriter) -> Result<()> + Send + 'static,
) -> Body {
    let (span, in_flight) = (tracing::Span::current(), InFlight::current());
    let (sender, receiver) = mpsc::channel(WAITING_CHUNKS);
    let cancel = Cancel::default();
    let body = ChannelBody {
        receiver,
        _waiting: Some(cancel.on_drop()),
    };
    drop(tokio::task::spawn_blocking(move || {
        let _in_flight = in_flight;
        let _in_span = span.enter();
        let mut writer = ChannelWriter::new(sender);
        let written = cancel.run(|| {
            work(&mut writer)?;
            writer
                .flush()
                .map_err(|cause| Error::internal("an answer could not be sent").with_source(cause))
        });
        match written {
            Ok(()) => writer.whole = true,
            Err(error) => tracing::warn!(?error, "an answer was broken off"),
        }
    }));
    Body::new(body)
}

/// The body of a request as a blocking reader.
///
/// The engine knows only that reading failed; why is kept here, for an answer that says it.
pub(crate) struct BodyReader {
    body: Body,
    chunk: Bytes,
    taken: u64,
    limit: u64,
    idle: Duration,
    handle: Handle,
    failure: Option<Error>,
}

impl BodyReader {
    /// A reader that is to be used on a blocking thread of the present runtime.
    pub(crate) fn new(body: Body, limit: u64, idle: Duration) -> Self {
        BodyReader {
            body,
            chunk: Bytes::new(),
            taken: 0,
            limit,
            idle,
            handle: Handle::current(),
            failure: None,
        }
    }

    /// Replaces an error that a failure of this reader led to by that failure.
    pub(crate) fn explain<T>(&mut self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| self.failure.take().unwrap_or(error))
    }

    fn fail(&mut self, error: Error) -> io::Error {
        let text = error.message().to_owned();
        self.failure = Some(error);
        io::Error::other(text)
    }

    /// Fetches the next bytes; false at the end.
    fn fetch(&mut self) -> io::Result<bool> {
        while self.chunk.is_empty() {
            let idle = self.idle;
            let body = &mut self.body;
            let next = self
                .handle
                .block_on(async { tokio::time::timeout(idle, body.frame()).await });
            match next {
                Err(_) => {
                    return Err(self.fail(stood_still()));
                }
                Ok(None) => return Ok(false),
                Ok(Some(Err(cause))) => {
                    let error =
                        Error::invalid("the body of the request broke off").with_source(cause);
                    return Err(self.fail(error));
                }
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.taken += data.len() as u64;
                        self.chunk = data;
                    }
                }
            }
            if self.taken > self.limit {
                return Err(self.fail(too_large(self.limit)));
            }
        }
        Ok(true)
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.fetch()? {
            return Ok(0);
        }
        let n = self.chunk.len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.chunk.split_to(n));
        Ok(n)
    }
}

/// Set in the details of an error if the client was too slow.
pub(crate) const STOOD_STILL: &str = "stood_still";

/// The error for a body that did not go on. Nothing is done with a part of a body.
pub(crate) fn stood_still() -> Error {
    Error::new(ErrorCode::Timeout, "the body of the request stood still")
        .with_hint("nothing was changed; send it again")
        .with_details(serde_json::json!({ "may_have_landed": false, STOOD_STILL: true }))
}

/// The error for a body beyond its limit.
pub(crate) fn too_large(limit: u64) -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("the body of the request has more than {limit} bytes"),
    )
    .with_hint("nothing was changed; send less at once, or raise the limit of the server")
    .with_details(serde_json::json!({ "limit": limit }))
}

/// Reads a small body whole.
pub(crate) async fn collect(body: Body, limit: u64, idle: Duration) -> Result<Bytes> {
    let mut body = body;
    // Such a body is small: a client that sends it byte by byte must not keep its slot for ever.
    let end = tokio::time::Instant::now() + idle.saturating_mul(4);
    // Most bodies come in one piece, which need not be copied.
    let mut all = Bytes::new();
    loop {
        let wait_until = end.min(tokio::time::Instant::now() + idle);
        let next = tokio::time::timeout_at(wait_until, body.frame()).await;
        let frame = match next {
            Err(_) => return Err(stood_still()),
            Ok(None) => return Ok(all),
            Ok(Some(Err(cause))) => {
                let message = "the body of the request broke off";
                return Err(Error::invalid(message).with_source(cause));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        if let Ok(data) = frame.into_data() {
            if (all.len() + data.len()) as u64 > limit {
                return Err(too_large(limit));
            }
            all = match all.is_empty() {
                true => data,
                false => {
                    let mut longer = bytes::BytesMut::from(all);
                    longer.extend_from_slice(&data);
                    longer.freeze()
                }
            };
        }
    }
}

/// An answer that is read from a blocking reader, chunk by chunk. Between chunks no thread is
/// held, however slow the client is.
pub(crate) struct ReadBody {
    state: ReadState,
    left: u64,
}

enum ReadState {
    /// The first bytes, which are read before the answer begins.
    First(Bytes, Option<Box<dyn Read + Send>>),
    Idle(Option<Box<dyn Read + Send>>),
    Busy(JoinHandle<(Box<dyn Read + Send>, io::Result<Bytes>)>),
}

impl ReadBody {
    /// `length` bytes of a reader. The first of them are read now, on a thread that may block: what
    /// cannot be read at all is an error with a status of its own.
    pub(crate) fn of(mut reader: Box<dyn Read + Send>, length: u64) -> io::Result<Body> {
        let first = read_chunk(&mut *reader, length.min(CHUNK as u64) as usize)?;
        if first.is_empty() && length > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Body::new(ReadBody {
            state: ReadState::First(first, Some(reader)),
            left: length,
        }))
    }
}

fn read_chunk(reader: &mut dyn Read, wanted: usize) -> io::Result<Bytes> {
    let mut chunk = vec![0; wanted];
    let mut filled = 0;
    while filled < wanted {
        match reader.read(&mut chunk[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    chunk.truncate(filled);
    Ok(chunk.into())
}

impl http_body::Body for ReadBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let left = self.left;
            match &mut self.state {
                ReadState::First(..) | ReadState::Idle(_) if left == 0 => {
                    return Poll::Ready(None);
                }
                ReadState::First(chunk, reader) => {
                    let (chunk, reader) = (std::mem::take(chunk), reader.take());
                    self.left -= chunk.len() as u64;
                    self.state = ReadState::Idle(reader);
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
                ReadState::Idle(reader) => {
                    let Some(mut reader) = reader.take() else {
                        return Poll::Ready(None);
                    };
                    let wanted = left.min(CHUNK as u64) as usize;
                    self.state = ReadState::Busy(tokio::task::spawn_blocking(move || {
                        let read = read_chunk(&mut *reader, wanted);
                        (reader, read)
                    }));
                }
                ReadState::Busy(task) => {
                    let (reader, read) = match ready!(Pin::new(task).poll(cx)) {
                        Ok(done) => done,
                        Err(cause) => return Poll::Ready(Some(Err(io::Error::other(cause)))),
                    };
                    let chunk = match read {
                        // A file that became shorter cannot fill the length that was promised:
                        // the connection has to break, or the client would take it for whole.
                        Ok(chunk) if chunk.is_empty() => {
                            self.state = ReadState::Idle(None);
                            let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                            return Poll::Ready(Some(Err(error)));
                        }
                        Ok(chunk) => chunk,
                        Err(error) => {
                            tracing::error!(
                                ?error,
                                "an answer broke off: its content is not readable"
                            );
                            self.state = ReadState::Idle(None);
                            return Poll::Ready(Some(Err(error)));
                        }
                    };
                    self.left -= chunk.len() as u64;
                    self.state = ReadState::Idle(Some(reader));
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
            }
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.left)
    }
}

/// An answer whose chunks come through a channel: from a task, or from a blocking writer.
pub(crate) struct ChannelBody {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    /// Ends the work of the writer.
    _waiting: Option<CancelOnDrop>,
}

impl ChannelBody {
    /// The sending end and the body. At most `depth` chunks wait.
    pub(crate) fn pair(depth: usize) -> (mpsc::Sender<io::Result<Bytes>>, Body) {
        let (sender, receiver) = mpsc::channel(depth);
        let body = ChannelBody {
            receiver,
            _waiting: None,
        };
        (sender, Body::new(body))
    }
}

impl http_body::Body for ChannelBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(ready!(self.receiver.poll_recv(cx)).map(|chunk| chunk.map(Frame::data)))
    }
}

/// Writes an answer that is [`written`]. Writing waits while the client is slow and fails when it is
/// gone.
pub(crate) struct ChannelWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
    /// All was written.
    whole: bool,
}

impl ChannelWriter {
    fn new(sender: mpsc::Sender<io::Result<Bytes>>) -> Self {
        ChannelWriter {
            sender,
            chunk: Vec::with_capacity(CHUNK),
            whole: false,
        }
    }
}

impl Drop for ChannelWriter {
    fn drop(&mut self) {
        if !self.whole {
            let broken = io::Error::other("the answer could not be completed");
            let _ = self.sender.blocking_send(Err(broken));
        }
    }
}

impl io::Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        self.sender
            .blocking_send(Ok(full.into()))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}
