//! Errors as answers: the code decides the status, the cause stays in the log.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use offshoot_core::{Error, ErrorCode};

use crate::body::STOOD_STILL;

/// In the details of an error: the seconds after which to try again, as the header has them.
const RETRY_AFTER: &str = "retry_after_s";

/// The error of a caller that asks too often, or has too much open. What it says agrees with the
/// header `Retry-After`.
pub(crate) fn rate_limited(message: impl Into<String>, seconds: u64) -> Error {
    Error::new(ErrorCode::RateLimited, message)
        .with_hint(format!("try again in {seconds} s"))
        .with_details(serde_json::json!({ RETRY_AFTER: seconds }))
}

/// What a handler returns.
pub(crate) type Answer = Result<Response, Problem>;

/// An error with the status it is answered with.
#[derive(Debug)]
pub(crate) struct Problem {
    error: Error,
    status: StatusCode,
}

impl Problem {
    /// An error whose status is not the one of its code.
    pub(crate) fn with_status(error: Error, status: StatusCode) -> Self {
        Problem { error, status }
    }

    /// For a thing that the URL names and whose absence has no code of its own.
    pub(crate) fn not_there(error: Error) -> Self {
        match error.code() {
            ErrorCode::InvalidRequest => Problem::with_status(error, StatusCode::NOT_FOUND),
            _ => Problem::from(error),
        }
    }

    /// For a snapshot that the URL names: what is not there is 404, not a wrong request.
    pub(crate) fn in_url(error: Error) -> Self {
        match error.code() {
            ErrorCode::SnapshotNotFound => Problem::with_status(error, StatusCode::NOT_FOUND),
            _ => Problem::from(error),
        }
    }

    /// For routes whose specification knows one status for whatever is not there, or not so.
    pub(crate) fn of_state(error: Error) -> Self {
        match error.code().http_status() {
            404 | 409 | 412 => Problem::with_status(error, StatusCode::BAD_REQUEST),
            _ => Problem::from(error),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = StatusCode::from_u16(error.code().http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Problem { error, status }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.status.is_server_error() && self.status != StatusCode::NOT_IMPLEMENTED {
            // Details of our own failures are for the log alone.
            let (code, error) = (self.error.code().as_str(), &self.error);
            let details = error.details();
            match details.is_some_and(|details| details[STOOD_STILL] == true) {
                true => tracing::warn!(code, ?error, "the client was too slow"),
                false => tracing::error!(code, ?error, "request failed"),
            }
        }
        let mut response = json_bytes(self.status, self.error.to_json().to_string());
        response.extensions_mut().insert(self.error.code());
        let headers = response.headers_mut();
        match self.error.code() {
            ErrorCode::Unauthorized => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"offshoot\""),
                );
            }
            ErrorCode::RateLimited | ErrorCode::StoreUnavailable | ErrorCode::WorkspaceBusy => {
                let details = self.error.details();
                let wait = details.and_then(|details| details[RETRY_AFTER].as_u64());
                headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.unwrap_or(1)));
            }
            _ => {}
        }
        response
    }
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, value: &impl serde::Serialize) -> Answer {
    let text = serde_json::to_string(value)
        .map_err(|cause| Error::internal("an answer could not be written").with_source(cause))?;
    Ok(json_bytes(status, text))
}

/// A JSON answer with status 200.
pub(crate) fn ok(value: &impl serde::Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// JSON that is written already, with status 200.
pub(crate) fn ok_text(text: String) -> Response {
    json_bytes(StatusCode::OK, text)
}

fn json_bytes(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
