//! From a credential to a principal: tokens, browsers, tickets, and what is refused before them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use offshoot_core::{Error, ErrorCode, Result, Timestamp, WorkspaceId};
use offshoot_engine::{Access, Engine, Principal};
use sha2::{Digest, Sha256};

use crate::app::{App, Shared};
use crate::connections::ConnectionHandle;
use crate::error::{Problem, rate_limited};
use crate::extract::segment_of;
use crate::in_flight::InFlight;
use crate::shares::{Holder, Requester};
use crate::sign_in;

/// How long a token is trusted without asking the store again. Revocation must be felt within 5 s.
const CACHE_TTL: Duration = Duration::from_secs(1);
/// The most tokens that are cached.
const MAX_CACHED: usize = 10_000;
const MINUTE: Duration = Duration::from_secs(60);
/// The longest message id.
pub(crate) const MAX_MESSAGE_ID: usize = 256;

/// Valid tokens, for a short time, by the hash of their secret.
#[derive(Default)]
pub(crate) struct TokenCache(Mutex<HashMap<[u8; 32], (CachedToken, Instant)>>);

/// What is cached of a token.
#[derive(Clone)]
struct CachedToken {
    principal: Arc<Principal>,
    /// The holder whose share it takes from.
    holder: Arc<str>,
    /// The one workspace that it stands for, if there is one.
    workspace: Option<WorkspaceId>,
}

impl CachedToken {
    fn look_up(engine: &Engine, secret: &str) -> Result<CachedToken> {
        let principal = Arc::new(engine.access.authenticate(secret)?);
        let (holder, workspace) = engine.access.acting_as(principal.clone(), None).share()?;
        Ok(CachedToken {
            holder: holder.into(),
            principal,
            workspace,
        })
    }
}

impl TokenCache {
    /// Who presents this secret.
    pub(crate) fn principal(&self, engine: &Engine, secret: &str) -> Result<Arc<Principal>> {
        self.known(engine, secret).map(|known| known.principal)
    }

    fn known(&self, engine: &Engine, secret: &str) -> Result<CachedToken> {
        let key: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let now = Instant::now();
        let known = self.lock().get(&key).cloned();
        if let Some((known, asked)) = known
            && now.duration_since(asked) < CACHE_TTL
            && known
                .principal
                .expires_at
                .is_none_or(|end| Timestamp::now() < end)
        {
            return Ok(known);
        }
        let answer = CachedToken::look_up(engine, secret);
        let mut cache = self.lock();
        match &answer {
            Ok(known) => {
                if cache.len() >= MAX_CACHED {
                    cache.clear();
                }
                cache.insert(key, (known.clone(), now));
            }
            Err(_) => {
                cache.remove(&key);
            }
        }
        answer
    }

    /// Forgets all tokens: the next request of each asks the store.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (CachedToken, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts bad tokens by address, minute by minute.
#[derive(Default)]
pub(crate) struct BadTokens(Mutex<(Option<Instant>, HashMap<IpAddr, u32>)>);

impl BadTokens {
    /// Counts one more. Beyond the limit, says how many seconds it will still be so.
    fn count(&self, from: IpAddr, limit: u32) -> Option<u64> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, counts) = &mut *guard;
        let mut since = began.map_or(MINUTE, |began| began.elapsed());
        if since >= MINUTE {
            counts.clear();
            *began = Some(Instant::now());
            since = Duration::ZERO;
        }
        let count = counts.entry(from).or_default();
        *count = count.saturating_add(1);
        (*count > limit).then(|| (MINUTE - since).as_millis().div_ceil(1000) as u64)
    }
}

/// The use cases as the caller of a request may use them, and the credential it came with.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) access: Access,
    /// For streams, which ask again whether it is valid.
    pub(crate) secret: Arc<str>,
    /// Whose share the request counts for, and the workspace that the credential stands for.
    pub(crate) requester: Requester,
}

impl std::ops::Deref for Caller {
    type Target = Access;

    fn deref(&self) -> &Access {
        &self.access
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        Ok(caller.ok_or_else(|| Error::internal("a protected route has no check before it"))?)
    }
}

/// Admits only requests with a valid credential.
pub(crate) async fn authenticate(
    State(app): State<Shared>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let peer = peer(&request);
    let caller = identify(&app, &mut request).map_err(|error| refuse(&app, peer, error))?;
    admit(&app, caller, &mut request).await?;
    Ok(next.run(request).await)
}

/// Admits a request of a known caller: it waits for one of the slots of its token, and holds the
/// slot until all of its work is over.
pub(crate) async fn admit(app: &App, mut caller: Caller, request: &mut Request) -> Result<()> {
    tracing::Span::current().record("operator", caller.principal().operator.as_str());
    if caller.requester.workspace.is_none() {
        // Only a caller that reaches a workspace takes from the share of that workspace.
        let named = segment_of(request, "{workspace}").and_then(|id| id.parse().ok());
        caller.requester.workspace = named.filter(|id| caller.access.check_reach(id).is_ok());
    }
    let connection = request.extensions().get::<ConnectionHandle>();
    let claim = connection.map(ConnectionHandle::claim);
    let slot = app.requests.take(caller.requester.clone()).await?;
    if let Some(in_flight) = request.extensions().get::<Arc<InFlight>>() {
        in_flight.hold_slot(slot, claim);
    }
    request.extensions_mut().insert(caller);
    Ok(())
}

/// Admits a request that needs no credential, within the small share of all such requests.
pub(crate) async fn admit_anyone(
    State(app): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let requester = Requester {
        holder: Holder::Anonymous,
        workspace: None,
    };
    let _slot = app.requests.take(requester).await?;
    Ok(next.run(request).await)
}

/// Handlers see no ticket: it is taken out of the address.
fn identify(app: &App, request: &mut Request) -> Result<Caller> {
    let secret: Arc<str> = if let Some(secret) = bearer(request.headers())? {
        secret.into()
    } else if let Some((secret, plain)) = app.tickets.redeem(request.method(), request.uri())? {
        *request.uri_mut() = plain;
        secret
    } else {
        let token = sign_in::token(request.headers())?;
        token.unwrap_or_default().into()
    };
    let known = app.tokens.known(&app.engine, &secret)?;
    Caller::new(app, known, &secret, request.headers())
}

impl Caller {
    fn new(app: &App, known: CachedToken, secret: &str, headers: &HeaderMap) -> Result<Caller> {
        Ok(Caller {
            access: app
                .engine
                .access
                .acting_as(known.principal, message_id(headers)?),
            secret: secret.into(),
            requester: Requester {
                holder: Holder::Token(known.holder),
                workspace: known.workspace,
            },
        })
    }
}

/// The caller of a request whose token may also be the password of basic authentication, whatever
/// the user name. A cookie is not taken: git has none. A first request without a token does not
/// count as one with a bad token.
pub(crate) fn identify_basic(app: &App, request: &Request) -> Result<Caller> {
    let headers = request.headers();
    let no_token = || {
        Error::new(ErrorCode::Unauthorized, "no valid token was given")
            .with_hint("give a token as the password; `offshoot token issue` makes one")
    };
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        return Err(no_token());
    };
    let refused = |error| refuse(app, peer(request), error);
    let secret = secret_of(given).ok_or_else(|| refused(no_token()))?;
    let known = app.tokens.known(&app.engine, &secret).map_err(refused)?;
    Caller::new(app, known, &secret, headers)
}

/// The address that a request comes from.
pub(crate) fn peer(request: &Request) -> Option<IpAddr> {
    let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
    info.map(|info| info.0.ip())
}

/// Whom a secret in a body stands for. A bad one counts as in a header.
pub(crate) fn identify_secret(
    app: &App,
    peer: Option<IpAddr>,
    secret: &str,
) -> Result<Arc<Principal>> {
    let known = app.tokens.principal(&app.engine, secret);
    known.map_err(|error| match error.code() {
        ErrorCode::Unauthorized => {
            let error = Error::new(ErrorCode::Unauthorized, "this is no valid token")
                .with_hint("it may have ended or been revoked; `offshoot token issue` makes one");
            refuse(app, peer, error)
        }
        _ => error,
    })
}

/// The token in `Basic` or `Bearer`.
fn secret_of(given: &HeaderValue) -> Option<String> {
    let (scheme, rest) = given.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = String::from_utf8(offshoot_wire::base64_decode(rest.trim())?).ok()?;
    plain
        .split_once(':')
        .map(|(_, password)| password.to_owned())
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let bad = || {
        Error::new(
            ErrorCode::Unauthorized,
            "the header `Authorization` is not understood",
        )
    };
    let text = value.to_str().map_err(|_| bad())?;
    let (scheme, secret) = text.split_once(' ').ok_or_else(bad)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(bad());
    }
    Ok(Some(secret.trim()))
}

fn message_id(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get("offshoot-message-id") else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    check_message_id(text, "the header `Offshoot-Message-Id`")?;
    Ok(Some(text.to_owned()))
}

/// Refuses what is no id of a message, wherever it stands in a request.
pub(crate) fn check_message_id(text: &str, place: &str) -> Result<()> {
    let is_visible = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    if !text.is_empty() && text.len() <= MAX_MESSAGE_ID && is_visible {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{place} is not 1 to {MAX_MESSAGE_ID} printable characters"
    )))
}

/// The error for a bad token; an address that sends many of them is told to wait instead.
fn refuse(app: &App, peer: Option<IpAddr>, error: Error) -> Error {
    if error.code() != ErrorCode::Unauthorized {
        return error;
    }
    app.metrics
        .bad_tokens
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let limit = app.options.limits.max_bad_tokens;
    match peer.and_then(|peer| app.bad_tokens.count(peer, limit)) {
        Some(seconds) => rate_limited(
            "too many requests without a valid token came from this address",
            seconds,
        ),
        None => error,
    }
}
