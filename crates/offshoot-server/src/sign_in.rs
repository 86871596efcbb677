//! Signing a browser in: a one-time URL or a token becomes two halves of a token, one in a cookie and
//! one in the storage of the page.
//!
//! Browsers send a cookie to every port of a host, so a server that an agent started beside ours gets
//! it as well. It is worth nothing there: storage belongs to one port alone, and only both halves
//! together are the token. For the same reason no page of another origin can act by the cookie.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{FromRequest as _, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use offshoot_core::{Cause, Error, ErrorCode, Operator, Result, Timestamp, percent_decode};
use offshoot_engine::{Principal, PrincipalKind, Scope, new_secret, random_bytes, random_hex};
use sha2::{Digest, Sha256};

use crate::app::Shared;
use crate::body::blocking;
use crate::error::{Answer, ok};
use crate::extract::{Json, Query};
use crate::handlers::files::insert;
use crate::{auth, ui};
use offshoot_wire as wire;

const COOKIE: &str = "offshoot_session";
/// The header in which a page sends its half.
const PAGE_HEADER: &str = "offshoot-page";
/// Where a page keeps its half; `ui/src/api/session.ts` knows it too.
const PAGE_STORAGE: &str = "offshoot.page";
/// How long the printed URL can be used.
const CODE_LIVES: Duration = Duration::from_secs(3600);
/// The longest place to go to after a sign-in.
const MOST_NEXT: usize = 2048;

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

/// What is kept and compared in place of a secret.
pub(crate) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A token in two halves, for the cookie and for the page. Each alone is nothing but random bytes.
fn split(secret: &str) -> Result<(String, String)> {
    let cookie = random_bytes(secret.len())?;
    let page = xor(&cookie, secret.as_bytes());
    Ok((wire::base64(&cookie), wire::base64(&page)))
}

/// The token of two halves, if they are halves of anything.
fn join(cookie: &str, page: &str) -> Option<String> {
    let (cookie, page) = (wire::base64_decode(cookie)?, wire::base64_decode(page)?);
    let fits = cookie.len() == page.len();
    String::from_utf8(xor(&cookie, &page)).ok().filter(|_| fits)
}

fn xor(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(a, b)| a ^ b).collect()
}

/// The token of a browser: the half that it sends by itself and the one that the page sends. None if
/// it is not signed in.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(cookie) = cookie(headers) else {
        return Ok(None);
    };
    let page = headers
        .get(PAGE_HEADER)
        .and_then(|value| value.to_str().ok());
    let Some(token) = page.and_then(|page| join(cookie, page)) else {
        return Err(Error::new(
            ErrorCode::Unauthorized,
            "a cookie is only half of a sign-in; the header `Offshoot-Page` has the other",
        )
        .with_hint("sign in again in this browser, at this port; programs use a token instead"));
    };
    Ok(Some(token))
}

/// What a browser sends by itself.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// `GET /sign-in?code=…`
pub(crate) async fn sign_in(State(app): State<Shared>, headers: HeaderMap, query: Query) -> Answer {
    let code = query.text("code")?.unwrap_or_default();
    // A link that leads elsewhere is refused before it is used up.
    let next = match query.text("next")? {
        Some(next) => local_path(next)?,
        None => "/".to_owned(),
    };
    if !app.sign_in.redeem(code) {
        if ui::is_browser(&headers) {
            // The page says what to do.
            let mut page = ui::page().await?;
            *page.status_mut() = StatusCode::UNAUTHORIZED;
            return Ok(page);
        }
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
        engine
            .access
            .issue_token(&scope, Some("browser"), Some(ttl), &cause)
    })
    .await?;
    signed_in_page(&app, &issued.secret, ttl, &next)
}

/// The page that gives a browser both halves and goes on. It is no redirect, because a strict cookie
/// does not travel with one that began on another site, such as a chat that somebody pasted the link
/// into. The half of the page stands in no address, so neither history nor `Referer` has it.
fn signed_in_page(app: &Shared, secret: &str, lives: Duration, next: &str) -> Answer {
    let (cookie, page) = split(secret)?;
    let nonce = random_hex()?;
    let html = format!(
        "<!doctype html><meta charset=utf-8><title>Offshoot</title>\
         <p>Signed in. <a href=\"{next}\">Go on</a></p>\
         <script nonce={nonce}>localStorage.setItem('{PAGE_STORAGE}', '{page}');\
         location.replace(document.querySelector('a').href)</script>"
    );
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    let mut response = Html(html).into_response();
    let headers = response.headers_mut();
    headers.insert(header::SET_COOKIE, set_cookie(app, &cookie, lives)?);
    insert(headers, header::CONTENT_SECURITY_POLICY, &policy);
    Ok(response)
}

/// `POST /sign-in`: the halves are those of the token that was given and of no new one, so that the
/// sign-in ends when the token ends or is revoked, and changes are told as the token's.
pub(crate) async fn sign_in_by_token(State(app): State<Shared>, request: Request) -> Answer {
    let peer = auth::peer(&request);
    let Json(asked) = Json::<wire::SignInRequest>::from_request(request, &app).await?;
    let secret = asked.token.trim();
    let principal = auth::identify_secret(&app, peer, secret)?;
    let (cookie, page) = split(secret)?;
    let mut response = ok(&wire::SignedIn { page })?;
    let value = set_cookie(&app, &cookie, cookie_lifetime(&app, &principal))?;
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(response)
}

/// How long a browser keeps a token: as long as after any sign-in, or until it ends before that.
fn cookie_lifetime(app: &Shared, principal: &Principal) -> Duration {
    let usual = app.options.sign_in_ttl;
    let Some(end) = principal.expires_at else {
        return usual;
    };
    let left = end.to_system().duration_since(Timestamp::now().to_system());
    usual.min(left.unwrap_or_default())
}

/// A place on this server to go to after the sign-in, as it stands in HTML. Refused is everything
/// that a browser could take for another server, also once it is decoded again.
fn local_path(next: &str) -> Result<String> {
    let refuse = || {
        Error::invalid("`next` is no path on this server").with_hint("give one such as `/p/app`")
    };
    if next.len() > MOST_NEXT || next.contains('\\') {
        return Err(refuse());
    }
    // Some program on the way may decode it once more; each form must stay here.
    let mut form = next.as_bytes().to_vec();
    loop {
        let leads_away = match form.as_slice() {
            [b'/'] => false,
            [b'/', second, ..] => [b'/', b'\\'].contains(second),
            _ => true,
        };
        if leads_away || form.iter().any(u8::is_ascii_control) {
            return Err(refuse());
        }
        let text = String::from_utf8_lossy(&form).into_owned();
        // A `%` that begins no code stands for itself.
        match percent_decode(&text) {
            Ok(decoded) if decoded != form => form = decoded,
            _ => break,
        }
    }
    let mut written = String::with_capacity(next.len());
    for byte in next.bytes() {
        match byte {
            b'&' => written.push_str("&amp;"),
            b'"' | b'\'' | b'<' | b'>' | b'`' | b' ' | 0x80.. => {
                written.push_str(&format!("%{byte:02X}"));
            }
            _ => written.push(char::from(byte)),
        }
    }
    Ok(written)
}

/// What a browser shall keep: out of reach of scripts and other sites, and where we speak TLS never
/// sent without it.
fn set_cookie(app: &Shared, half: &str, lives: Duration) -> Result<HeaderValue> {
    let secure = match app.options.tls_cert {
        Some(_) => "; Secure",
        None => "",
    };
    let cookie = format!(
        "{COOKIE}={half}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        lives.as_secs()
    );
    HeaderValue::from_str(&cookie)
        .map_err(|cause| Error::internal("a cookie could not be written").with_source(cause))
}

/// `POST /sign-out`: ends the cookie and, if it was made by a link, the token behind it. A token that
/// somebody signed in with is theirs, and programs may use it too.
pub(crate) async fn sign_out(State(app): State<Shared>, headers: HeaderMap) -> Answer {
    let secret = token(&headers)?.unwrap_or_default();
    let principal = app.tokens.principal(&app.engine, &secret)?;
    let is_by_link = principal.scope.kind == PrincipalKind::User;
    if let Some(id) = principal.token.clone().filter(|_| is_by_link) {
        let engine = app.engine.clone();
        blocking(move || engine.access.revoke_token(&id)).await?;
        app.tokens.clear();
    }
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let value = set_cookie(&app, "", Duration::ZERO)?;
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_are_the_token_and_one_is_not() {
        let secret = "ofs_0123456789abcdef";
        let (cookie, page) = split(secret).unwrap();
        assert_eq!(join(&cookie, &page).as_deref(), Some(secret));
        assert_ne!(split(secret).unwrap().0, cookie, "each sign-in has its own");
        for half in [&cookie, &page] {
            assert!(!half.contains("ofs_") && **half != wire::base64(secret.as_bytes()));
            assert_ne!(join(half, half).as_deref(), Some(secret));
        }
        for wrong in ["", "x", "*", &page[4..], secret] {
            assert_ne!(join(&cookie, wrong).as_deref(), Some(secret), "{wrong}");
        }
    }

    #[test]
    fn the_way_back_stays_on_this_server() {
        for (next, written) in [
            ("/", "/"),
            ("/p/app?at=1&x=2#L3-9", "/p/app?at=1&amp;x=2#L3-9"),
            ("/w/a/f/a%20b%2Fc", "/w/a/f/a%20b%2Fc"),
            ("/100%", "/100%"),
            ("/a\"><script>", "/a%22%3E%3Cscript%3E"),
            ("/é b", "/%C3%A9%20b"),
            ("/a//b", "/a//b"),
        ] {
            assert_eq!(local_path(next).unwrap(), written, "{next}");
        }
        let long = format!("/{}", "a".repeat(MOST_NEXT));
        for bad in [
            "",
            "p/app",
            "//evil",
            "///evil",
            "/\\evil",
            "\\\\evil",
            "/a\\b",
            "https://evil",
            "javascript:alert(1)",
            " /p",
            "/\t/evil",
            "\n//evil",
            "/a\r\nSet-Cookie: x",
            "/%2Fevil",
            "/%2fevil",
            "/%5Cevil",
            "/%252Fevil",
            "/%25252Fevil",
            "%2F%2Fevil",
            "/%09/evil",
            "/%00",
            "/%2509/evil",
            long.as_str(),
        ] {
            assert!(local_path(bad).is_err(), "{bad:?}");
        }
    }
}
