//! The web UI: the files that were built from `ui/`, and the page that starts it.
//!
//! `ui.bundle` is made by `cargo xtask ui` and holds every file compressed by gzip, as browsers take it. A
//! page of the UI is any address that a browser asks for as HTML and that is no address of the API: the
//! page finds out itself what to show.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::OnceLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse as _, Response};
use flate2::read::GzDecoder;
use offshoot_core::{Error, Result};
use offshoot_engine::random_hex;

use crate::compress::takes_gzip;
use crate::error::Problem;
use crate::handlers::system;

const BUNDLE: &[u8] = include_bytes!("../ui.bundle");
/// How a bundle begins; the number is the version of its format.
const MAGIC: &[u8] = b"offshoot-ui 1\n";
/// The page that starts the UI.
const PAGE: &str = "index.html";
/// What stands in the page where the nonce of the answer belongs.
const NONCE: &str = "__OFFSHOOT_NONCE__";
/// Addresses below these are never pages, so that a mistyped one is an error for a browser too.
const NO_PAGES: [&str; 5] = ["/api/", "/git/", "/mcp", "/assets/", "/openapi"];

/// One file of the bundle.
struct Asset {
    content_type: HeaderValue,
    gzip: &'static [u8],
}

impl Asset {
    fn unpacked(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = GzDecoder::new(self.gzip).read_to_end(&mut bytes);
        read.map_err(|cause| Error::internal("the UI cannot be read").with_source(cause))?;
        Ok(bytes)
    }

    fn answer(&self, headers: &HeaderMap, is_immutable: bool) -> Result<Response> {
        let mut response = if takes_gzip(headers) {
            let mut response = Body::from(self.gzip).into_response();
            let gzip = HeaderValue::from_static("gzip");
            response
                .headers_mut()
                .insert(header::CONTENT_ENCODING, gzip);
            response
        } else {
            Body::from(self.unpacked()?).into_response()
        };
        let lasting = match is_immutable {
            true => "public, max-age=31536000, immutable",
            false => "public, max-age=3600",
        };
        let set = response.headers_mut();
        set.insert(header::CONTENT_TYPE, self.content_type.clone());
        set.insert(header::CACHE_CONTROL, HeaderValue::from_static(lasting));
        set.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        Ok(response)
    }
}

/// The files of a bundle by their paths.
fn parse(bundle: &'static [u8]) -> Option<HashMap<String, Asset>> {
    let rest = bundle.strip_prefix(MAGIC)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (index, contents) = (&rest[..end], &rest[end + 1..]);
    let index: Vec<(String, String, usize, usize)> = serde_json::from_slice(index).ok()?;
    let asset = |(path, content_type, offset, length): (String, String, usize, usize)| {
        let gzip = contents.get(offset..offset.checked_add(length)?)?;
        let content_type = HeaderValue::from_str(&content_type).ok()?;
        Some((path, Asset { content_type, gzip }))
    };
    index.into_iter().map(asset).collect()
}

fn asset(path: &str) -> Option<&'static Asset> {
    static FILES: OnceLock<HashMap<String, Asset>> = OnceLock::new();
    FILES
        .get_or_init(|| parse(BUNDLE).unwrap_or_default())
        .get(path)
}

/// `GET /`, and every other page of the UI.
pub(crate) async fn page() -> Result<Response, Problem> {
    let page = asset(PAGE).ok_or_else(|| Error::internal("the UI was not built"))?;
    let nonce = random_hex()?;
    let html = String::from_utf8_lossy(&page.unpacked()?).replace(NONCE, &nonce);
    let mut response = Body::from(html).into_response();
    let set = response.headers_mut();
    set.insert(header::CONTENT_TYPE, page.content_type.clone());
    set.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let policy = HeaderValue::from_str(&policy(&nonce))
        .map_err(|cause| Error::internal("the nonce is no header").with_source(cause))?;
    set.insert(header::CONTENT_SECURITY_POLICY, policy);
    let alone = HeaderValue::from_static("same-origin");
    set.insert("cross-origin-opener-policy", alone);
    Ok(response)
}

/// Only scripts of the bundle run, and only through the policies that it names.
fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; \
         img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; frame-src 'self'; \
         worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types svelte-trusted-html dompurify offshoot-worker"
    )
}

/// Whether a request wants a page to look at.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT);
    let accepts = accepts.and_then(|text| text.to_str().ok());
    accepts.is_some_and(|text| text.contains("text/html"))
}

/// A request that no route takes: a file or a page of the UI, or nothing.
pub(crate) async fn other(
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let path = uri.path();
    if !matches!(method, Method::GET | Method::HEAD) {
        return Err(system::no_route(method, uri).await);
    }
    let file = path.trim_start_matches('/');
    if let Some(asset) = asset(file).filter(|_| file != PAGE) {
        return Ok(asset.answer(&headers, file.starts_with("assets/"))?);
    }
    if is_browser(&headers) && !NO_PAGES.iter().any(|prefix| path.starts_with(prefix)) {
        return page().await;
    }
    Err(system::no_route(method, uri).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_has_the_page_and_what_it_loads() {
        let page = asset(PAGE).expect("a page");
        let html = String::from_utf8(page.unpacked().unwrap()).unwrap();
        assert!(html.contains(NONCE), "styles need a nonce");
        let loaded = html.split("src=\"/").skip(1);
        let loaded: Vec<&str> = loaded.filter_map(|rest| rest.split('"').next()).collect();
        assert!(!loaded.is_empty());
        for path in loaded {
            let script = asset(path).unwrap_or_else(|| panic!("{path} is missing"));
            assert!(!script.unpacked().unwrap().is_empty());
        }
    }

    #[test]
    fn a_broken_bundle_has_no_files() {
        for broken in [
            &b""[..],
            b"offshoot-ui 1\n",
            b"offshoot-ui 1\n[[\"a\",\"b\",0,9]]\nxx",
        ] {
            assert!(parse(broken).is_none(), "{broken:?}");
        }
        let files = parse(b"offshoot-ui 1\n[[\"a\",\"text/plain\",1,2]]\nxyz").unwrap();
        assert_eq!(files["a"].gzip, b"yz");
    }
}
