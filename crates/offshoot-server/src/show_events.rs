//! What agents show to people (`show` events): sent to the streams that are open, and stored
//! nowhere.
//!
//! It is no change, so it is no line of the history and has no number. A stream that does not keep up
//! misses what is older than the last few.

use std::sync::Arc;

use bytes::Bytes;
use offshoot_core::{ProjectId, RelPath, Result, WorkspaceId};
use offshoot_engine::Access;
use serde_json::json;
use tokio::sync::broadcast;

/// How many are buffered for a stream that is busy.
const KEPT: usize = 32;

/// Files that an agent shows to the person who looks at a workspace.
pub(crate) struct ShowEvent {
    pub(crate) workspace: WorkspaceId,
    pub(crate) project: Option<ProjectId>,
    paths: Vec<RelPath>,
    operator: String,
    message_id: Option<String>,
}

impl ShowEvent {
    fn new(access: &Access, paths: Vec<RelPath>) -> Result<ShowEvent> {
        let workspace = access.own_workspace()?;
        let fork = access.fork_named(&workspace);
        Ok(ShowEvent {
            project: fork.ok().map(|fork| fork.project),
            workspace,
            paths,
            operator: access.principal().operator.as_str().to_owned(),
            message_id: access.cause().message_id.clone(),
        })
    }

    /// The frame for a stream; none if its listener may not see it. It has no id, so that a client
    /// that comes back goes on after the last change.
    pub(crate) fn frame_for(&self, listener: &Access) -> Option<Bytes> {
        listener.check_reach(&self.workspace).ok()?;
        let readable = self.paths.iter();
        let readable = readable.filter(|path| listener.principal().reads(path));
        let paths: Vec<String> = readable.map(RelPath::to_text).collect();
        if paths.is_empty() {
            return None;
        }
        let mut value = json!({
            "workspace": self.workspace.as_str(), "paths": paths, "operator": self.operator,
        });
        if let Some(project) = &self.project {
            value["project"] = project.as_str().into();
        }
        if let Some(message) = &self.message_id {
            value["message_id"] = message.as_str().into();
        }
        Some(format!("event: show\ndata: {value}\n\n").into())
    }
}

/// Sends what agents show to the streams that are open at that moment.
pub(crate) struct ShowBroadcast(broadcast::Sender<Arc<ShowEvent>>);

impl Default for ShowBroadcast {
    fn default() -> Self {
        ShowBroadcast(broadcast::Sender::new(KEPT))
    }
}

impl ShowBroadcast {
    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<ShowEvent>> {
        self.0.subscribe()
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Sends to all open streams. It blocks.
    pub(crate) fn tell(&self, access: &Access, paths: Vec<RelPath>) -> Result<()> {
        let show = ShowEvent::new(access, paths)?;
        // The last listener may have gone meanwhile.
        let _ = self.0.send(Arc::new(show));
        Ok(())
    }
}
