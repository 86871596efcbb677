//! Requests that may come twice: what the first one made is noted under its key, so that a
//! repetition finds it, also after a restart.

use std::time::Duration;

use offshoot_core::{Error, Result};
use offshoot_store::Durability;

use crate::engine::Engine;

/// So many requests with keys are answered at the same time.
const LANES: u8 = 64;
/// How long one waits for another in its lane.
const PATIENCE: Duration = Duration::from_secs(120);

impl Engine {
    /// Makes something once for each key, and notes its names. Returns the names, and whether this
    /// call made it. Two calls with the same key wait for each other, in all processes.
    pub(crate) fn once(
        &self,
        key: &[u8; 32],
        make: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<(Vec<String>, bool)> {
        let lane = format!("request-{}", key[0] % LANES);
        let _turn = self.inner.locks.exclusive(&lane, PATIENCE)?;
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let setting = format!("request/{hex}");
        if let Some(noted) = self.store().read(|tx| tx.setting(&setting))? {
            let names = serde_json::from_str(&noted)
                .map_err(|_| Error::internal("the note of a request cannot be read"))?;
            return Ok((names, false));
        }
        let names = make()?;
        let noted =
            serde_json::to_string(&names).map_err(|error| Error::internal(error.to_string()))?;
        self.store()
            .write(Durability::Synced, |tx| tx.put_setting(&setting, &noted))?;
        Ok((names, true))
    }
}
