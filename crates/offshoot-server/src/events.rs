//! Live events: one follower of the store, and any number of streams that read after it.
//!
//! A stream keeps a cursor and never a queue of its own, so that a slow one loses nothing and costs
//! nothing. Recent events are shared; older ones come from the store. While no stream is open the
//! store is not followed: a write then costs nothing here. What agents show (`show_events.rs`)
//! comes in between.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use offshoot_core::{Error, ErrorCode, ProjectId, Result, WorkspaceId};
use offshoot_engine::{Engine, Event, EventScope, View, history_as_json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, mpsc, watch};

use crate::app::{App, Shared};
use crate::auth::Caller;
use crate::body::{ChannelBody, blocking};
use crate::error::{Answer, Problem};
use crate::extract::Query;
use crate::in_flight::InFlight;
use crate::show_events::ShowEvent;

/// How often the store is asked for events of other processes.
const POLL: Duration = Duration::from_millis(100);
/// How long the follower gathers events before it reads on. A read for each event of a busy store
/// would cost more than the writes.
const GATHER: Duration = Duration::from_millis(2);
/// Recent events that are kept in memory.
const RECENT: usize = 4096;
/// Events that are read at a time.
const BATCH: usize = 512;
/// Events that a stream reads at a time which are not in memory any more.
const REPLAY: usize = 64;
/// So many bytes of them are kept at a time. A path may have thousands of bytes, and a token hundreds of
/// streams.
const REPLAY_BYTES: usize = 64 << 10;
/// How often an open stream asks whether its credential is still valid.
const RECHECK: Duration = Duration::from_secs(2);

/// An event and how a stream shows it.
pub(crate) struct RenderedEvent {
    event: Event,
    frame: Bytes,
}

impl RenderedEvent {
    fn new(event: Event) -> Self {
        let mut value = history_as_json(&event.row);
        if let Some(workspace) = &event.workspace {
            value["workspace"] = workspace.as_str().into();
        }
        if let Some(project) = &event.project {
            value["project"] = project.as_str().into();
        }
        let frame = format!("id: {}\nevent: change\ndata: {value}\n\n", event.row.seq);
        RenderedEvent {
            event,
            frame: frame.into(),
        }
    }

    fn seq(&self) -> i64 {
        self.event.row.seq
    }
}

/// The events of the store, followed by one task for all streams.
pub(crate) struct EventLog {
    engine: Engine,
    recent: RwLock<Recent>,
    latest: watch::Sender<i64>,
    wake: Notify,
}

/// All events after `floor`, up to the latest.
#[derive(Default)]
struct Recent {
    floor: i64,
    events: VecDeque<Arc<RenderedEvent>>,
}

impl EventLog {
    pub(crate) fn new(engine: Engine) -> Self {
        EventLog {
            engine,
            recent: RwLock::default(),
            latest: watch::Sender::new(0),
            wake: Notify::new(),
        }
    }

    /// Something was changed through this server: there is no need to wait for the next poll.
    pub(crate) fn wake(&self) {
        if self.is_followed() {
            self.wake.notify_one();
        }
    }

    /// Whether a stream is open.
    fn is_followed(&self) -> bool {
        self.latest.receiver_count() > 0
    }

    /// Tells a stream when there is something new. Wakes the follower if this is the first stream.
    fn subscribe(&self) -> watch::Receiver<i64> {
        let latest = self.latest.subscribe();
        self.wake.notify_one();
        latest
    }

    /// Follows the store while streams are open, until the server stops.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut is_behind = true;
        loop {
            if !self.is_followed() {
                is_behind = true;
                self.wake.notified().await;
                continue;
            }
            match self.read_on(is_behind).await {
                Ok(read) => {
                    is_behind = false;
                    if read > 0 {
                        tokio::time::sleep(GATHER).await;
                        continue;
                    }
                }
                Err(error) => tracing::warn!(?error, "events could not be read; trying again"),
            }
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Reads what is new and says how much that was. After a pause the follower begins with the
    /// newest event: streams that want older ones read them from the store.
    async fn read_on(&self, is_behind: bool) -> Result<usize> {
        let engine = self.engine.clone();
        if is_behind {
            let newest = blocking(move || engine.history.last_event()).await?;
            *self.recent.write().unwrap_or_else(PoisonError::into_inner) = Recent {
                floor: newest,
                events: VecDeque::new(),
            };
            self.latest.send_replace(newest);
            return Ok(0);
        }
        let after = *self.latest.borrow();
        let events = blocking(move || engine.history.events_after(after, None, BATCH)).await?;
        let read = events.len();
        if read > 0 {
            self.publish(events);
        }
        Ok(read)
    }

    fn publish(&self, events: Vec<Event>) {
        let mut latest = *self.latest.borrow();
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            latest = event.row.seq;
            recent.events.push_back(Arc::new(RenderedEvent::new(event)));
        }
        while recent.events.len() > RECENT {
            if let Some(old) = recent.events.pop_front() {
                recent.floor = old.seq();
            }
        }
        drop(recent);
        self.latest.send_replace(latest);
    }

    /// Events of a scope after a number, oldest first, and up to which number there are no others.
    /// Recent events may include those of other scopes.
    async fn after(&self, seq: i64, scope: &EventScope) -> Result<(Vec<Arc<RenderedEvent>>, i64)> {
        {
            let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
            if seq >= recent.floor {
                let from = recent.events.partition_point(|event| event.seq() <= seq);
                let events = recent.events.iter().skip(from).take(BATCH);
                let events: Vec<Arc<RenderedEvent>> = events.cloned().collect();
                let upto = events.last().map_or(seq, |last| last.seq());
                return Ok((events, upto));
            }
        }
        let (engine, scope) = (self.engine.clone(), scope.clone());
        let replay = move || {
            let page = engine.history.events_within(seq, &scope, REPLAY)?;
            let (mut events, mut bytes) = (Vec::new(), 0);
            for event in page.events {
                let rendered = RenderedEvent::new(event);
                bytes += rendered.frame.len();
                events.push(Arc::new(rendered));
                if bytes > REPLAY_BYTES {
                    let upto = events.last().map_or(seq, |last| last.seq());
                    return Ok((events, upto));
                }
            }
            Ok((events, page.upto))
        };
        blocking(replay).await
    }
}

/// One open stream.
struct Stream {
    app: Shared,
    caller: Caller,
    scope: EventScope,
    cursor: i64,
    checked: Instant,
    sender: mpsc::Sender<std::io::Result<Bytes>>,
}

/// The stream ends. No reason is sent: the client sees the connection close and asks again.
struct Ended;

impl Stream {
    async fn run(mut self) -> std::result::Result<(), Ended> {
        let mut latest = self.app.events.subscribe();
        let mut shows = self.app.dispatcher.shows.listen();
        let stopping = self.app.stopping.clone();
        let mut heartbeat = tokio::time::interval(self.app.options.limits.heartbeat);
        heartbeat.reset();
        loop {
            latest.borrow_and_update();
            self.catch_up().await?;
            tokio::select! {
                changed = latest.changed() => changed.map_err(|_| Ended)?,
                shown = shows.recv() => match shown {
                    Ok(show) => self.show(&show, &mut latest).await?,
                    // The stream missed older ones; newer ones follow.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Ended),
                },
                _ = heartbeat.tick() => self.send(Bytes::from_static(b": heartbeat\n\n")).await?,
                () = tokio::time::sleep(RECHECK) => self.check().await?,
                () = stopping.cancelled() => return Err(Ended),
                () = self.sender.closed() => return Err(Ended),
            }
        }
    }

    /// Tells what an agent shows, after the changes that were made before: it may show them.
    async fn show(
        &mut self,
        show: &ShowEvent,
        latest: &mut watch::Receiver<i64>,
    ) -> std::result::Result<(), Ended> {
        let scope = &self.scope;
        let workspace = scope.workspace.as_ref();
        let of_workspace = workspace.is_none_or(|id| *id == show.workspace);
        let of_project = scope.project.is_none() || scope.project == show.project;
        if !of_workspace || !of_project {
            return Ok(());
        }
        let Some(frame) = show.frame_for(&self.caller) else {
            return Ok(());
        };
        let newest = self.app.engine.history.last_event().map_err(|_| Ended)?;
        let is_followed = latest.wait_for(|seq| *seq >= newest);
        let _ = tokio::time::timeout(RECHECK, is_followed).await;
        self.catch_up().await?;
        self.send(frame).await?;
        self.app.metrics.events_sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn catch_up(&mut self) -> std::result::Result<(), Ended> {
        loop {
            let events = self.app.events.after(self.cursor, &self.scope);
            let (batch, upto) = events.await.map_err(|_| Ended)?;
            if upto <= self.cursor {
                return Ok(());
            }
            // What the caller reaches may have changed since the last ones.
            let view = self.caller.view().map_err(|_| Ended)?;
            for shown in &batch {
                if self.wants(&view, &shown.event) {
                    self.send(shown.frame.clone()).await?;
                    self.app.metrics.events_sent.fetch_add(1, Ordering::Relaxed);
                }
                self.cursor = shown.seq();
            }
            self.cursor = upto;
        }
    }

    fn wants(&self, view: &View, event: &Event) -> bool {
        let scope = &self.scope;
        let of_workspace = scope.workspace.is_none() || scope.workspace == event.workspace;
        let of_project = scope.project.is_none() || scope.project == event.project;
        of_workspace && of_project && view.sees(event)
    }

    /// Sends, and while the client takes nothing, looks whether it may still get anything.
    async fn send(&mut self, frame: Bytes) -> std::result::Result<(), Ended> {
        if self.checked.elapsed() > RECHECK {
            self.check().await?;
        }
        let stopping = self.app.stopping.clone();
        let sender = self.sender.clone();
        loop {
            tokio::select! {
                permit = sender.reserve() => {
                    permit.map_err(|_| Ended)?.send(Ok(frame));
                    return Ok(());
                }
                () = tokio::time::sleep(RECHECK) => self.check().await?,
                () = stopping.cancelled() => return Err(Ended),
            }
        }
    }

    async fn check(&mut self) -> std::result::Result<(), Ended> {
        let (app, secret) = (self.app.clone(), self.caller.secret.clone());
        let answer = blocking(move || app.tokens.principal(&app.engine, &secret)).await;
        self.checked = Instant::now();
        match answer {
            // A store that does not answer for a moment is no reason to end a stream.
            Err(error) if error.code() == ErrorCode::Unauthorized => Err(Ended),
            _ => Ok(()),
        }
    }
}

/// `GET /events`
pub(crate) async fn events(
    State(app): State<Shared>,
    caller: Caller,
    query: Query,
    headers: HeaderMap,
) -> Answer {
    let workspace: Option<WorkspaceId> = query.parsed("workspace")?;
    let project: Option<ProjectId> = query.parsed("project")?;
    let (asking, of, within) = (caller.clone(), workspace.clone(), project.clone());
    blocking(move || {
        of.map_or(Ok(()), |id| asking.check_reach(&id))?;
        within.map_or(Ok(()), |id| asking.project(&id).map(drop))
    })
    .await?;
    let (cursor, first) = beginning(&app, &query, &headers)?;
    // A stream lasts, so it takes a slot of the streams and gives up its slot of the requests.
    let mut requester = caller.requester.clone();
    requester.workspace = requester.workspace.or_else(|| workspace.clone());
    let slot = app.streams.take(requester).await?;
    let in_flight = InFlight::current();
    if let Some(in_flight) = &in_flight {
        in_flight.hold_slot(slot, None);
    }
    let (sender, body) = ChannelBody::pair(8);
    let stream = Stream {
        scope: EventScope { workspace, project },
        cursor,
        checked: Instant::now(),
        sender: sender.clone(),
        app: app.clone(),
        caller,
    };
    // The first bytes tell the client that the stream is open.
    let _ = sender.try_send(Ok(first.into()));
    app.metrics.streams.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        let metrics = stream.app.metrics.clone();
        let _ = stream.run().await;
        metrics.streams.fetch_sub(1, Ordering::Relaxed);
        drop(in_flight);
    });
    Ok(event_stream(body))
}

/// Where a stream begins, and its first bytes: with a `reset` if the client has to start anew.
fn beginning(app: &App, query: &Query, headers: &HeaderMap) -> Result<(i64, String), Problem> {
    let mut first = String::from("retry: 1000\n: open\n\n");
    let header = headers.get("last-event-id").map(|value| {
        let number = value
            .to_str()
            .ok()
            .and_then(|text| text.trim().parse().ok());
        number.ok_or_else(|| Error::invalid("the header `Last-Event-ID` is no event number"))
    });
    let since = match header.transpose()? {
        Some(since) => Some(since),
        None => query.number::<i64>("since")?,
    };
    let newest = app.engine.history.last_event()?;
    let Some(since) = since else {
        return Ok((newest, first));
    };
    let too_old = newest.saturating_sub(since) > app.options.limits.max_event_backlog;
    if since < 0 || since > newest || too_old {
        first.push_str(&format!(
            "id: {newest}\nevent: reset\ndata: {{\"seq\":{newest}}}\n\n"
        ));
        return Ok((newest, first));
    }
    Ok((since, first))
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
