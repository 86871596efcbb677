//! What all requests of a server share.

use std::sync::Arc;

use offshoot_agent::Registry;
use offshoot_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::auth::{BadTokens, TokenCache};
use crate::events::EventLog;
use crate::guard::RequestIds;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::shares::Shares;
use crate::sign_in::SignIn;
use crate::tickets::Tickets;
use crate::tool_dispatch::ToolDispatcher;
use crate::watch::Watcher;

/// The shared state of a server.
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) options: ServerOptions,
    pub(crate) tokens: TokenCache,
    pub(crate) bad_tokens: BadTokens,
    pub(crate) sign_in: SignIn,
    pub(crate) tickets: Tickets,
    pub(crate) request_ids: RequestIds,
    pub(crate) events: Arc<EventLog>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) tools: Arc<Registry>,
    pub(crate) dispatcher: Arc<ToolDispatcher>,
    /// One slot for each request that is being answered, or whose work or answer goes on.
    pub(crate) requests: Arc<Shares>,
    /// One slot for each stream of events.
    pub(crate) streams: Arc<Shares>,
    /// One slot for each search, which keeps a core busy.
    pub(crate) searches: Arc<Shares>,
    /// Set when the server is told to stop; streams end then.
    pub(crate) stopping: CancellationToken,
}

/// The state as handlers get it.
pub(crate) type Shared = Arc<App>;
