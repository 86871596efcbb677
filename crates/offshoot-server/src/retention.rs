//! The timer that erases the workspaces of sessions that nobody used for as long as the owner
//! allows.

use std::time::Duration;

use offshoot_core::WorkspaceId;

use crate::app::Shared;

/// How often it looks, at most and at least.
const SELDOM: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_millis(250);

/// Looks from time to time until the server stops; does nothing unless the owner switched it on.
pub(crate) async fn run(app: Shared) {
    let Some(age) = app.options.session_retention else {
        return;
    };
    let pause = (age / 4).clamp(OFTEN, SELDOM);
    loop {
        let engine = app.engine.clone();
        let retired = tokio::task::spawn_blocking(move || engine.upkeep.retire_sessions(age)).await;
        match retired {
            Ok(Ok(gone)) if gone.is_empty() => {}
            Ok(Ok(gone)) => {
                let names: Vec<&str> = gone.iter().map(WorkspaceId::as_str).collect();
                tracing::info!(workspaces = ?names, "workspaces of sessions went by their age");
                app.events.wake();
            }
            Ok(Err(error)) => tracing::warn!(?error, "old sessions could not be let go"),
            Err(cause) => tracing::error!(%cause, "the retention of sessions ended in a panic"),
        }
        tokio::select! {
            () = app.stopping.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
