//! The server: listens, answers, and stops without losing what it has acknowledged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use offshoot_core::cancel::{Cancel, CancelOnDrop};
use offshoot_core::{Error, ErrorCode, Result};
use offshoot_engine::{Engine, ServerLock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::app::{App, Shared};
use crate::connections::{ConnectionHandle, Connections};
use crate::events::EventLog;
use crate::guard::RequestIds;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::retention;
use crate::routes;
use crate::shares::{ShareLimits, Shares};
use crate::tls::Tls;
use crate::tool_dispatch::ToolDispatcher;
use crate::write_timeout::WriteTimeout;

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// The most bytes of a head: the longest path, encoded, fits with room for headers.
const MAX_HEAD: usize = 64 << 10;
/// Threads for blocking work beside those that requests may hold, one each: for health, events, and
/// other short work without a slot.
const SPARE_THREADS: usize = 64;
/// How long a thread of those stays without work. Each look of an event stream wakes another one of
/// them, so that with the ten seconds of tokio none of them would ever go while a stream is open.
const IDLE_THREAD: Duration = Duration::from_secs(1);
/// How long the end of the watching thread is waited for; it may be in the midst of a sync.
const WATCHER_PATIENCE: Duration = Duration::from_millis(500);

/// A server that listens and does not answer yet.
pub struct Server {
    app: Shared,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    _lock: ServerLock,
}

impl Server {
    /// Locks the data directory for this server, of which there may be one, and begins to listen.
    pub async fn bind(engine: Engine, options: ServerOptions) -> Result<Server> {
        options.check()?;
        let tls = match (&options.tls_cert, &options.tls_key) {
            (Some(cert), Some(key)) => Some(Tls::load(cert, key, options.limits.request_timeout)?),
            _ => None,
        };
        let lock = engine.context.lock_for_server()?;
        let listener = TcpListener::bind(options.listen).await.map_err(|cause| {
            Error::new(
                ErrorCode::InvalidRequest,
                format!("`{}` cannot be listened on", options.listen),
            )
            .with_hint("choose another address with `--listen`")
            .with_source(cause)
        })?;
        let address = listener
            .local_addr()
            .map_err(|cause| Error::internal("the listener has no address").with_source(cause))?;
        let limits = &options.limits;
        let shares = |what, whole| Shares::new(what, limits.shares_of(whole), limits.max_wait);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let turns = ShareLimits::of_cores(cores, limits.max_requests);
        let searches = Shares::new("searches", turns, limits.request_timeout);
        let app = Arc::new(App {
            requests: shares("requests", limits.max_requests),
            streams: shares("streams", limits.max_streams),
            searches: Arc::clone(&searches),
            tokens: Default::default(),
            bad_tokens: Default::default(),
            sign_in: Default::default(),
            tickets: Default::default(),
            request_ids: RequestIds::new(),
            events: Arc::new(EventLog::new(engine.clone())),
            metrics: Arc::new(Metrics::default()),
            watcher: Default::default(),
            tools: Default::default(),
            dispatcher: Arc::new(ToolDispatcher {
                searches: Some(searches),
                ..ToolDispatcher::default()
            }),
            stopping: CancellationToken::new(),
            engine,
            options,
        });
        Ok(Server {
            app,
            listener,
            address,
            tls,
            _lock: lock,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL under which it answers. A certificate is for a name rather than an address.
    pub fn url(&self) -> String {
        let name = self.app.options.allowed_hosts.first();
        match (&self.tls, name) {
            (None, _) => format!("http://{}", self.address),
            (Some(_), None) => format!("https://{}", self.address),
            (Some(_), Some(name)) => format!("https://{name}:{}", self.address.port()),
        }
    }

    /// A URL that signs one browser in, once.
    pub fn sign_in_url(&self) -> Result<String> {
        let code = self.app.sign_in.new_code()?;
        Ok(format!("{}/sign-in?code={code}", self.url()))
    }

    /// Answers until `stop` is done; then lets open requests finish, ends streams, and returns.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let app = &self.app;
        let follower = tokio::spawn(app.events.clone().follow());
        let _unfinished = finish_merges(app.engine.clone());
        if app.options.watch {
            app.watcher.start(
                app.engine.clone(),
                app.metrics.clone(),
                app.options.limits.max_watches,
                app.stopping.clone(),
            );
        }
        let retention = tokio::spawn(retention::run(app.clone()));
        let connections = TaskTracker::new();
        tokio::select! {
            () = accept(&self.listener, app, self.tls.as_ref(), &connections) => {}
            () = stop => {}
        }
        drop(self.listener);
        app.stopping.cancel();
        connections.close();
        let limit = app.options.limits.stop_timeout;
        if tokio::time::timeout(limit, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!("some requests were still open after {} s", limit.as_secs());
        }
        follower.abort();
        // It ends by itself; what it has begun is done.
        let _ = tokio::time::timeout(WATCHER_PATIENCE, retention).await;
        let patience = tokio::time::Instant::now() + WATCHER_PATIENCE;
        while !app.watcher.has_ended() && tokio::time::Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Does the merges that a killed process left undone, until all are done or the returned guard is
/// dropped.
fn finish_merges(engine: Engine) -> CancelOnDrop {
    let cancel = Cancel::default();
    let until = cancel.on_drop();
    tokio::task::spawn_blocking(move || {
        match cancel.run(|| engine.merges.run_waiting_completions()) {
            Ok(0) => {}
            Ok(left) => tracing::warn!(left, "merges that were asked for could not be done yet"),
            Err(error) => tracing::warn!(%error, "merges that were asked for could not be done"),
        }
    });
    until
}

/// Takes connections. None is ever kept waiting for another to close.
async fn accept(
    listener: &TcpListener,
    app: &Shared,
    tls: Option<&Tls>,
    connections: &TaskTracker,
) {
    let router = routes::router(app.clone());
    let all = Connections::new(app.options.limits.max_connections);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are small and complete: there is nothing to wait for.
                let _ = stream.set_nodelay(true);
                let connection = all.open();
                let context = ConnectionContext {
                    peer,
                    router: router.clone(),
                    stopping: app.stopping.clone(),
                    idle: app.options.limits.idle_timeout,
                    handle: connection.handle(),
                };
                let tls = tls.cloned();
                connections.spawn(async move {
                    tokio::select! {
                        () = serve_one(stream, tls, context) => {}
                        () = connection.closing().cancelled_owned() => {
                            tracing::debug!("a connection without a request was closed for others");
                        }
                    }
                });
            }
            Err(cause) => {
                // Too many open files, for one: it passes when others close.
                all.close_oldest();
                tracing::warn!(%cause, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// What a connection needs to be answered.
struct ConnectionContext {
    peer: SocketAddr,
    router: Router,
    stopping: CancellationToken,
    idle: Duration,
    handle: ConnectionHandle,
}

async fn serve_one(stream: TcpStream, tls: Option<Tls>, context: ConnectionContext) {
    let Some(tls) = tls else {
        return answer(stream, context).await;
    };
    // Only this connection waits for its handshake.
    let stopping = context.stopping.clone();
    tokio::select! {
        secured = tls.handshake(stream) => if let Some(stream) = secured {
            answer(stream, context).await;
        },
        () = stopping.cancelled() => {}
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    context: ConnectionContext,
) {
    let ConnectionContext {
        peer,
        router,
        stopping,
        idle,
        handle,
    } = context;
    let service = router.map_request(move |request: axum::http::Request<hyper::body::Incoming>| {
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(handle.clone());
        request
    });
    let stream = WriteTimeout::new(stream, idle);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(cause) = ended {
        tracing::debug!(%cause, "a connection broke");
    }
}

/// Runs a server on a runtime of its own until the process is told to end. `ready` gets it before
/// it answers, to tell where it is.
pub fn serve(
    engine: Engine,
    options: ServerOptions,
    ready: impl FnOnce(&Server) -> Result<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(options.limits.max_requests.saturating_add(SPARE_THREADS))
        .thread_keep_alive(IDLE_THREAD)
        .thread_name("offshoot-serve")
        .build()
        .map_err(|cause| Error::internal("the server cannot start").with_source(cause))?;
    let outcome = runtime.block_on(async {
        let server = Server::bind(engine, options).await?;
        let stop = stop_signal()?;
        ready(&server)?;
        server.run(stop).await;
        Ok(())
    });
    // What still runs is given up; a write that was not acknowledged may or may not have landed.
    runtime.shutdown_timeout(Duration::from_millis(500));
    outcome
}

/// Done when the process is asked to end. Listening begins at once, so that no signal is missed.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| {
        signal(kind).map_err(|cause| Error::internal("signals cannot be heard").with_source(cause))
    };
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    })
}
