//! From a credential to a principal: tokens, cookies, and what is refused before either.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use offshoot_core::{Error, ErrorCode, Result, Timestamp};
use offshoot_engine::{Access, Engine, Principal};
use sha2::{Digest, Sha256};

use crate::app::{App, Shared};
use crate::error::Problem;
use crate::sign_in;

/// How long a token is trusted without asking the store again. Revocation must be felt within 5 s.
const TRUSTED: Duration = Duration::from_secs(1);
/// More than so many tokens are not remembered.
const REMEMBERED: usize = 10_000;
/// The longest message id.
pub(crate) const MAX_MESSAGE_ID: usize = 256;

/// Valid tokens, for a short time, by the hash of their secret.
#[derive(Default)]
pub(crate) struct TokenCache(Mutex<HashMap<[u8; 32], (Arc<Principal>, Instant)>>);

impl TokenCache {
    /// Who presents this secret.
    pub(crate) fn principal(&self, engine: &Engine, secret: &str) -> Result<Arc<Principal>> {
        let key: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let now = Instant::now();
        let known = self.lock().get(&key).cloned();
        if let Some((principal, asked)) = known
            && now.duration_since(asked) < TRUSTED
            && principal
                .expires_at
                .is_none_or(|end| Timestamp::now() < end)
        {
            return Ok(principal);
        }
        let answer = engine.authenticate(secret).map(Arc::new);
        let mut cache = self.lock();
        match &answer {
            Ok(principal) => {
                if cache.len() >= REMEMBERED {
                    cache.clear();
                }
                cache.insert(key, (principal.clone(), now));
            }
            Err(_) => {
                cache.remove(&key);
            }
        }
        answer
    }

    /// Forgets all: the next request of each asks the store.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (Arc<Principal>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts bad tokens by address, minute by minute.
#[derive(Default)]
pub(crate) struct BadTokens(Mutex<(Option<Instant>, HashMap<IpAddr, u32>)>);

impl BadTokens {
    /// Counts one more and says whether it is still within the limit.
    fn count(&self, from: IpAddr, limit: u32) -> bool {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, counts) = &mut *guard;
        if began.is_none_or(|began| began.elapsed() > Duration::from_secs(60)) {
            counts.clear();
            *began = Some(Instant::now());
        }
        let count = counts.entry(from).or_default();
        *count = count.saturating_add(1);
        *count <= limit
    }
}

/// The use cases as the caller of a request may use them, and the credential it came with.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) access: Access,
    /// For streams, which ask again whether it is valid.
    pub(crate) secret: Arc<str>,
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

/// Lets only those through who present a valid credential.
pub(crate) async fn authenticate(
    State(app): State<Shared>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|info| info.0.ip());
    let caller = identify(&app, request.method(), request.headers())
        .map_err(|error| refuse(&app, peer, error))?;
    tracing::Span::current().record("operator", caller.principal().operator.as_str());
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

fn identify(app: &App, method: &Method, headers: &HeaderMap) -> Result<Caller> {
    let (secret, by_cookie) = match bearer(headers)? {
        Some(secret) => (secret, false),
        None => match sign_in::cookie(headers) {
            Some(secret) => (secret, true),
            None => ("", false),
        },
    };
    let principal = app.tokens.principal(&app.engine, secret)?;
    if by_cookie && !method.is_safe() {
        sign_in::check_csrf(headers, secret)?;
    }
    Ok(Caller {
        access: app.engine.access(principal, message_id(headers)?),
        secret: secret.into(),
    })
}

/// The caller of a request whose token may also be the password of basic authentication, whatever
/// the user name. A cookie is not taken: git has none. Who has not been asked for a token yet is not
/// counted as one who sends bad ones.
pub(crate) fn identify_basic(app: &App, request: &Request) -> Result<Caller> {
    let headers = request.headers();
    let no_token = || {
        Error::new(ErrorCode::Unauthorized, "no valid token was given")
            .with_hint("give a token as the password; `offshoot token issue` makes one")
    };
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        return Err(no_token());
    };
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let refused = |error| refuse(app, peer.map(|info| info.0.ip()), error);
    let secret = secret_of(given).ok_or_else(|| refused(no_token()))?;
    let principal = app
        .tokens
        .principal(&app.engine, &secret)
        .map_err(refused)?;
    Ok(Caller {
        access: app.engine.access(principal, message_id(headers)?),
        secret: secret.into(),
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
    match value.to_str() {
        Ok(text) if !text.is_empty() && text.len() <= MAX_MESSAGE_ID => Ok(Some(text.to_owned())),
        _ => Err(Error::invalid(format!(
            "the header `Offshoot-Message-Id` is not 1 to {MAX_MESSAGE_ID} printable characters"
        ))),
    }
}

/// Whoever tries many bad tokens is told to wait instead.
fn refuse(app: &App, peer: Option<IpAddr>, error: Error) -> Error {
    if error.code() != ErrorCode::Unauthorized {
        return error;
    }
    app.metrics
        .bad_tokens
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let limit = app.options.limits.max_bad_tokens;
    match peer {
        Some(peer) if !app.bad_tokens.count(peer, limit) => Error::new(
            ErrorCode::RateLimited,
            "too many requests without a valid token came from this address",
        )
        .with_hint("wait a minute"),
        _ => error,
    }
}
