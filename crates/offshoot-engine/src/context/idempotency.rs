//! Requests that may come twice: what the first one made is noted under its key, so that a
//! repetition finds it, also after a restart.

use std::time::Duration;

use offshoot_core::{Error, ErrorCode, Result, to_hex};
use offshoot_store::Durability;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;

/// How long a repetition waits for the first.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is noted of a request.
#[derive(Serialize, Deserialize)]
struct Noted {
    /// The hash of what was asked for.
    request: String,
    /// The names of what it made.
    names: Vec<String>,
}

impl Engine {
    /// Makes something once for each key, and notes its names. Returns the names, and whether this
    /// call made it. Two calls with the same key wait for each other, in all processes. A key that
    /// came with another `request` is refused: its answer would be to something else.
    pub(crate) fn once(
        &self,
        key: &[u8; 32],
        request: &[u8; 32],
        make: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<(Vec<String>, bool)> {
        let setting = format!("request/{}", to_hex(key));
        // Requests with other keys do not wait for this one.
        let turn = self.inner.locks.name(&setting, PATIENCE);
        let _turn = turn.map_err(|error| match error.code() {
            ErrorCode::WorkspaceBusy => Error::new(
                ErrorCode::WorkspaceBusy,
                "the first request with this `Idempotency-Key` is still being done",
            )
            .with_hint("repeat it later with the same key"),
            _ => error,
        })?;
        if let Some(noted) = self.store().read(|tx| tx.setting(&setting))? {
            let noted: Noted = serde_json::from_str(&noted)
                .map_err(|_| Error::internal("the note of a request cannot be read"))?;
            if noted.request != to_hex(request) {
                return Err(Error::invalid(
                    "this `Idempotency-Key` came with another request before",
                )
                .with_hint("give every request a key of its own; repeat it as it was"));
            }
            return Ok((noted.names, false));
        }
        let noted = Noted {
            request: to_hex(request),
            names: make()?,
        };
        let text =
            serde_json::to_string(&noted).map_err(|error| Error::internal(error.to_string()))?;
        self.store()
            .write(Durability::Synced, |tx| tx.put_setting(&setting, &text))?;
        Ok((noted.names, true))
    }
}
