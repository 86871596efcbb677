//! One error type with a closed set of codes, shaped by what a caller can do about it.

use std::fmt;

/// What every fallible function of Offshoot returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $http:literal;)*) => {
        /// The closed set of error codes, which HTTP, MCP and `--json` share.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// Every code, for tables in docs and tests.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The code as it appears on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }

            /// The HTTP status that goes with it.
            pub fn http_status(self) -> u16 {
                match self { $(ErrorCode::$name => $http,)* }
            }
        }
    };
}

codes! {
    /// A refused path, or a link that leaves the workspace.
    PathTraversalBlocked = "path_traversal_blocked", 400;
    /// Anything else wrong with the input.
    InvalidRequest = "invalid_request", 400;
    /// No snapshot of that name; nothing was changed.
    SnapshotNotFound = "snapshot_not_found", 400;
    /// No valid token.
    Unauthorized = "unauthorized", 401;
    /// The credential does not allow it, or the place is read-only.
    PermissionDenied = "permission_denied", 403;
    /// The agent has no workspace in its ancestor chain.
    WorkspaceNotAssigned = "workspace_not_assigned", 404;
    /// No such file.
    FileNotFound = "file_not_found", 404;
    /// No such workspace.
    WorkspaceNotFound = "workspace_not_found", 404;
    /// No such project.
    ProjectNotFound = "project_not_found", 404;
    /// No such session.
    SessionNotFound = "session_not_found", 404;
    /// No such agent.
    AgentNotFound = "agent_not_found", 404;
    /// No such review.
    ReviewNotFound = "review_not_found", 404;
    /// No such skill.
    SkillNotFound = "skill_not_found", 404;
    /// A parent of the path, or the path itself, is no directory.
    NotADirectory = "not_a_directory", 400;
    /// The path is a directory where a file is needed.
    IsADirectory = "is_a_directory", 400;
    /// The prefix names several things; the details list them.
    AmbiguousPrefix = "ambiguous_prefix", 400;
    /// The name is taken.
    AlreadyExists = "already_exists", 409;
    /// All or nothing was asked for and there are conflicts.
    MergeConflict = "merge_conflict", 409;
    /// What the caller expected is no longer so.
    PreconditionFailed = "precondition_failed", 412;
    /// The body is larger than allowed.
    PayloadTooLarge = "payload_too_large", 413;
    /// The workspace is held by another operation.
    WorkspaceBusy = "workspace_busy", 423;
    /// Too many requests.
    RateLimited = "rate_limited", 429;
    /// Offshoot itself failed.
    Internal = "internal", 500;
    /// A file could not be read.
    ReadFailed = "read_failed", 500;
    /// A file could not be written; the previous content is intact.
    WriteFailed = "write_failed", 500;
    /// No model behind that slot.
    ModelNotConfigured = "model_not_configured", 501;
    /// Commands cannot be run safely here.
    SandboxUnavailable = "sandbox_unavailable", 501;
    /// This machine or this file system cannot do it.
    Unsupported = "unsupported", 501;
    /// The store does not answer; retrying is safe.
    StoreUnavailable = "store_unavailable", 503;
    /// It took too long; retrying is safe.
    Timeout = "timeout", 504;
    /// The workspace would grow beyond its quota, or the disk is full; the previous content is
    /// intact.
    QuotaExceeded = "quota_exceeded", 507;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error with a code for programs, a message for people and a hint on what to do.
///
/// The message may be shown to an agent and never holds a host path. What only an operator may
/// see (paths, system errors) goes into the source, which stays in the log.
pub struct Error(Box<Inner>);

struct Inner {
    code: ErrorCode,
    message: String,
    hint: Option<String>,
    details: Option<serde_json::Value>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    disk_full: bool,
}

/// What can be done about a full disk.
const FREE_SPACE: &str = "free space on the disk and try again; `rm`, `offshoot clean` and \
     `offshoot purge` work on a full disk too";

impl Error {
    /// A new error. Write the message in lower case, values in backticks, without a final stop.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            code,
            message: message.into(),
            hint: None,
            details: None,
            source: None,
            disk_full: false,
        }))
    }

    /// Something failed because there is no space left on the disk. `what` says what did.
    pub fn disk_full(what: impl fmt::Display) -> Self {
        let message = format!("{what}: there is no space left on the disk");
        let mut error = Error::new(ErrorCode::QuotaExceeded, message).with_hint(FREE_SPACE);
        error.0.disk_full = true;
        error
    }

    /// Short for `Error::new(ErrorCode::InvalidRequest, …)`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorCode::InvalidRequest, message)
    }

    /// Short for `Error::new(ErrorCode::Internal, …)`.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorCode::Internal, message)
    }

    /// Adds what the caller can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds machine-readable details.
    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.0.details = Some(details);
        self
    }

    /// Adds the cause, which is logged and never shown to an agent.
    ///
    /// Every step that writes can meet a full disk, and all report it alike: a cause that is a full
    /// disk, or comes from one, makes this [`Error::disk_full`].
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        if !self.0.disk_full && is_full_disk(&*source) {
            self = match self.0.code {
                // It says so in its own words, with a path.
                ErrorCode::QuotaExceeded => self,
                _ => Error::disk_full(self.0.message),
            };
            self.0.disk_full = true;
        }
        self.0.source = Some(source);
        self
    }

    /// Whether there is no space left on the disk, as opposed to a quota of a workspace.
    pub fn is_disk_full(&self) -> bool {
        self.0.disk_full
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The message without hint and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Machine-readable details.
    pub fn details(&self) -> Option<&serde_json::Value> {
        self.0.details.as_ref()
    }

    /// The JSON body in HTTP, MCP and `--json`: `{"error": {code, message, hint?, details?}}`.
    pub fn to_json(&self) -> serde_json::Value {
        let mut body = serde_json::json!({
            "code": self.0.code.as_str(),
            "message": self.0.message,
        });
        if let Some(hint) = &self.0.hint {
            body["hint"] = serde_json::Value::from(hint.as_str());
        }
        if let Some(details) = &self.0.details {
            body["details"] = details.clone();
        }
        serde_json::json!({ "error": body })
    }
}

/// Whether an error is that of a full disk, or was caused by one.
fn is_full_disk(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::{Error as IoError, ErrorKind};
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<IoError>() {
            let full = matches!(io.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            // The source of an I/O error that wraps another one is what is behind that.
            if full || io.get_ref().is_some_and(|inner| is_full_disk(inner)) {
                return true;
            }
        }
        if error
            .downcast_ref::<Error>()
            .is_some_and(Error::is_disk_full)
        {
            return true;
        }
        next = error.source();
    }
    false
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)?;
        if let Some(hint) = &self.0.hint {
            write!(f, " (hint: {hint})")?;
        }
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_full_disk_has_one_code_whatever_was_being_done() {
        let wrapped = io::Error::other(io::Error::from(io::ErrorKind::StorageFull));
        for cause in [
            io::Error::from(io::ErrorKind::StorageFull),
            io::Error::from(io::ErrorKind::QuotaExceeded),
            wrapped,
        ] {
            let error = Error::internal("a layer could not be written").with_source(cause);
            assert_eq!(error.code(), ErrorCode::QuotaExceeded);
            assert!(error.is_disk_full() && error.hint().is_some());
            assert!(
                error
                    .message()
                    .starts_with("a layer could not be written: ")
            );
            let above = Error::new(ErrorCode::Unsupported, "no provider").with_source(error);
            assert_eq!(above.code(), ErrorCode::QuotaExceeded);
        }
        let other = Error::internal("x").with_source(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(other.code(), ErrorCode::Internal);
        let quota = Error::new(ErrorCode::QuotaExceeded, "the quota is 5 bytes");
        assert!(!quota.is_disk_full());
    }
}
