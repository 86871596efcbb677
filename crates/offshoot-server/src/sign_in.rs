//! Signing a browser in: a one-time URL becomes a cookie, and changes by cookie prove their origin.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use offshoot_core::{Cause, Error, ErrorCode, Operator, Result};
use offshoot_engine::{PrincipalKind, Scope, new_secret};
use sha2::{Digest, Sha256};

use crate::app::Shared;
use crate::body::blocking;
use crate::error::Answer;
use crate::extract::Query;

const COOKIE: &str = "offshoot_session";
const CSRF_HEADER: &str = "offshoot-csrf";
/// How long the printed URL can be used.
const CODE_LIVES: Duration = Duration::from_secs(3600);

/// The code that the next sign-in has to show; it works once.
#[derive(Default)]
pub(crate) struct SignIn(Mutex<Option<([u8; 32], Instant)>>);

impl SignIn {
    /// A new code. The one before it, if any, works no longer.
    pub(crate) fn new_code(&self) -> Result<String> {
        let code = new_secret()?;
        *self.lock() = Some((hash(&code), Instant::now()));
        Ok(code)
    }

    /// Uses a code up. Only its hash is compared, so timing tells nothing.
    fn redeem(&self, code: &str) -> bool {
        let mut expected = self.lock();
        match *expected {
            Some((known, since)) if known == hash(code) && since.elapsed() < CODE_LIVES => {
                *expected = None;
                true
            }
            _ => false,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<([u8; 32], Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The secret that a browser sends by itself.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// What a page of ours has to send along with a change. It is derived from the cookie, which no
/// script can read, and told to pages of our own origin alone.
pub(crate) fn csrf_token(secret: &str) -> String {
    let digest = Sha256::digest(format!("offshoot csrf {secret}").as_bytes());
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Refuses a change by cookie that does not come from a page of ours.
pub(crate) fn check_csrf(headers: &HeaderMap, secret: &str) -> Result<()> {
    let given = headers.get(CSRF_HEADER).map(HeaderValue::as_bytes);
    if given == Some(csrf_token(secret).as_bytes()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::PermissionDenied,
        "a change by cookie needs the header `Offshoot-Csrf`",
    )
    .with_hint("`GET /api/v1/me` tells its value; programs use a token instead"))
}

/// `GET /sign-in?code=…`
pub(crate) async fn sign_in(State(app): State<Shared>, query: Query) -> Answer {
    let code = query.text("code")?.unwrap_or_default();
    if !app.sign_in.redeem(code) {
        return Err(Error::new(
            ErrorCode::Unauthorized,
            "this link was used before, or is too old",
        )
        .with_hint("restart `offshoot serve` for a new one, or use a token")
        .into());
    }
    let (engine, ttl) = (app.engine.clone(), app.options.sign_in_ttl);
    let issued = blocking(move || {
        let scope = Scope::everything(PrincipalKind::User);
        let cause = Cause::by(Operator::system());
        engine.issue_token(&scope, Some("browser"), Some(ttl), &cause)
    })
    .await?;
    // A page instead of a redirect: a strict cookie does not travel with a redirect that began on
    // another site, such as a chat that somebody pasted the link into.
    let page = "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url=/\">\
                <title>Offshoot</title><p>Signed in. <a href=\"/\">Go on</a></p>";
    let mut response = Html(page).into_response();
    let value = set_cookie(&app, &issued.secret, ttl)?;
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(response)
}

/// What a browser shall keep: out of reach of scripts and other sites, and where we speak TLS never
/// sent without it.
fn set_cookie(app: &Shared, secret: &str, lives: Duration) -> Result<HeaderValue> {
    let secure = match app.options.tls_cert {
        Some(_) => "; Secure",
        None => "",
    };
    let cookie = format!(
        "{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        lives.as_secs()
    );
    HeaderValue::from_str(&cookie)
        .map_err(|cause| Error::internal("a cookie could not be written").with_source(cause))
}

/// `POST /sign-out`: ends the cookie and the token behind it.
pub(crate) async fn sign_out(State(app): State<Shared>, headers: HeaderMap) -> Answer {
    let secret = cookie(&headers).unwrap_or_default().to_owned();
    let principal = app.tokens.principal(&app.engine, &secret)?;
    check_csrf(&headers, &secret)?;
    if let Some(id) = principal.token.clone() {
        let engine = app.engine.clone();
        blocking(move || engine.revoke_token(&id)).await?;
        app.tokens.clear();
    }
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let ended = set_cookie(&app, "", Duration::ZERO)?;
    response.headers_mut().insert(header::SET_COOKIE, ended);
    Ok(response)
}
