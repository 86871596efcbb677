//! How a server is run, and the limits that it keeps.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use offshoot_core::{Error, Result};

use crate::shares::ShareLimits;

/// How a server is run.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The certificates of the server, its own first, as a PEM file; with a key it speaks TLS.
    pub tls_cert: Option<PathBuf>,
    /// The key of its own certificate, as a PEM file.
    pub tls_key: Option<PathBuf>,
    /// Allows an address that others can reach although nothing is encrypted here.
    pub allow_plain_http: bool,
    /// Names under which it is reached, beside addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call it, beside its own.
    pub allowed_origins: Vec<String>,
    /// How long a browser stays signed in.
    pub sign_in_ttl: Duration,
    /// Whether changes by outside programs are watched for.
    pub watch: bool,
    /// Workspaces of sessions that nobody used for so long are erased; none means never.
    pub session_retention: Option<Duration>,
    /// The limits.
    pub limits: Limits,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7420),
            tls_cert: None,
            tls_key: None,
            allow_plain_http: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            sign_in_ttl: Duration::from_secs(30 * 86_400),
            watch: true,
            session_retention: None,
            limits: Limits::default(),
        }
    }
}

impl ServerOptions {
    /// Refuses what would put tokens on a network in the clear.
    pub fn check(&self) -> Result<()> {
        let (given, missing) = match (&self.tls_cert, &self.tls_key) {
            (Some(_), Some(_)) => return Ok(()),
            (None, None) if self.listen.ip().is_loopback() || self.allow_plain_http => {
                return Ok(());
            }
            (None, None) => return Err(self.unencrypted()),
            (Some(_), None) => ("tls-cert", "tls-key"),
            (None, Some(_)) => ("tls-key", "tls-cert"),
        };
        Err(
            Error::invalid(format!("`--{given}` is given and `--{missing}` is not"))
                .with_hint("TLS needs both, a certificate and its key"),
        )
    }

    fn unencrypted(&self) -> Error {
        Error::invalid(format!(
            "`{}` can be reached by other machines, and tokens would travel unencrypted",
            self.listen
        ))
        .with_hint(
            "give a certificate with `--tls-cert` and `--tls-key`, listen on `127.0.0.1` behind a \
             proxy that speaks TLS, or say `--allow-plain-http`",
        )
    }
}

/// The limits that a server keeps.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest file or archive in a request.
    pub max_body_bytes: u64,
    /// The largest JSON document in a request.
    pub max_json_bytes: u64,
    /// The most bytes that an archive may unpack to.
    pub max_unpacked_bytes: u64,
    /// The most entries that an archive may hold.
    pub max_archive_entries: u64,
    /// How long a request may take that carries no large body.
    pub request_timeout: Duration,
    /// How long a body may stand still.
    pub idle_timeout: Duration,
    /// Requests at the same time, those whose answer is still being sent among them. Each may hold
    /// a thread.
    pub max_requests: usize,
    /// Connections at the same time. Beyond them those close that have stood longest without a
    /// request of a valid token.
    pub max_connections: usize,
    /// Event streams at the same time.
    pub max_streams: usize,
    /// The part of requests and of streams that one token may have, in percent.
    pub token_share: u8,
    /// The part that all tokens together may have in one workspace, in percent.
    pub workspace_share: u8,
    /// How long a request waits for a slot before it is told to come again.
    pub max_wait: Duration,
    /// The most items on one page of a list.
    pub max_page: usize,
    /// Bad tokens from one address in a minute.
    pub max_bad_tokens: u32,
    /// How far back a stream of events may begin.
    pub max_event_backlog: i64,
    /// How often a quiet stream says that it lives.
    pub heartbeat: Duration,
    /// The most directories that are watched for outside changes.
    pub max_watches: usize,
    /// How long open requests may go on after the server was told to stop.
    pub stop_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_body_bytes: 16 << 30,
            max_json_bytes: 8 << 20,
            max_unpacked_bytes: 8 << 30,
            max_archive_entries: 200_000,
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(30),
            max_requests: 512,
            max_connections: 4096,
            max_streams: 2048,
            token_share: 25,
            workspace_share: 50,
            max_wait: Duration::from_secs(5),
            max_page: 1000,
            max_bad_tokens: 30,
            max_event_backlog: 1_000_000,
            heartbeat: Duration::from_secs(15),
            max_watches: 100_000,
            stop_timeout: Duration::from_secs(4),
        }
    }
}

impl Limits {
    /// How many slots a token and a workspace have, of so many.
    pub(crate) fn shares_of(&self, whole: usize) -> ShareLimits {
        ShareLimits::new(whole, self.token_share, self.workspace_share)
    }
}
