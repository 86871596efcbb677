//! Compresses answers on request: JSON and pages, which are whole when they are sent.
//!
//! Never what has a tag or can be asked for in parts (files: the tag is of their very bytes), never
//! streams, archives and packs: those say no length, or are of other types.

use std::io::Write as _;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Shorter answers would hardly become shorter.
const LEAST: u64 = 1 << 10;
/// Up to this size the work is done on the thread of the request: a hop to another thread costs
/// more.
const INLINE: usize = 64 << 10;

/// Whether the caller takes gzip, and would rather have it than the plain answer.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let mut gzip = None;
    let mut any = None;
    let mut identity = 0.0;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        let Ok(text) = value.to_str() else { continue };
        for item in text.split(',') {
            let mut parts = item.split(';').map(str::trim);
            let coding = parts.next().unwrap_or_default().to_ascii_lowercase();
            let quality = parts.find_map(|part| {
                let (name, value) = part.split_once('=')?;
                name.trim()
                    .eq_ignore_ascii_case("q")
                    .then(|| value.trim().parse::<f32>())
            });
            // A quality that cannot be parsed counts as a refusal.
            let quality = quality.map_or(1.0, |quality| quality.unwrap_or(0.0));
            match coding.as_str() {
                "gzip" | "x-gzip" => gzip = Some(quality),
                "*" => any = Some(quality),
                "identity" => identity = quality,
                _ => {}
            }
        }
    }
    let quality = gzip.or(any).unwrap_or(0.0);
    quality > 0.0 && quality >= identity
}

/// The answer, compressed if it may be and the caller takes that.
pub(crate) async fn compress(
    method: &Method,
    takes_gzip: bool,
    mut response: Response,
) -> Response {
    if !may_be(&response) {
        return response;
    }
    response
        .headers_mut()
        .append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some(length) = response.body().size_hint().exact() else {
        return response;
    };
    if !takes_gzip || *method == Method::HEAD || length < LEAST {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        // It was said to be whole, and is not: there is nothing left to send.
        let mut broken = Response::new(Body::empty());
        *broken.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return broken;
    };
    let small = match bytes.len() <= INLINE {
        true => gzip(&bytes),
        false => {
            let plain = bytes.clone();
            let work = tokio::task::spawn_blocking(move || gzip(&plain));
            work.await.unwrap_or_default()
        }
    };
    if small.is_empty() || small.len() >= bytes.len() {
        return Response::from_parts(parts, Body::from(bytes));
    }
    let headers = &mut parts.headers;
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(small.len()));
    Response::from_parts(parts, Body::from(small))
}

/// Whether an answer is of a kind that is compressed.
fn may_be(response: &Response) -> bool {
    let headers = response.headers();
    let never = [
        header::CONTENT_ENCODING,
        header::CONTENT_RANGE,
        header::ACCEPT_RANGES,
        header::CONTENT_DISPOSITION,
        header::ETAG,
    ];
    let status = response.status();
    if never.iter().any(|name| headers.contains_key(name))
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || status == StatusCode::PARTIAL_CONTENT
        || status.is_informational()
    {
        return false;
    }
    let media = headers.get(header::CONTENT_TYPE);
    let media = media
        .and_then(|media| media.to_str().ok())
        .unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    media == "application/json" || media == "text/html" || media == "text/plain"
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let room = Vec::with_capacity(bytes.len() / 4);
    let mut encoder = GzEncoder::new(room, Compression::fast());
    // Writing to memory does not fail; if it did, the answer would go out as it is.
    match encoder.write_all(bytes) {
        Ok(()) => encoder.finish().unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_gzip() {
        for (text, takes) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("deflate, GZIP ; Q=1", true),
            ("*", true),
            ("x-gzip", true),
            ("gzip;q=0", false),
            ("gzip;q=0, *", false),
            ("gzip;q=x", false),
            ("identity, gzip;q=0.5", false),
            ("br", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(takes_gzip(&headers), takes, "{text}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
