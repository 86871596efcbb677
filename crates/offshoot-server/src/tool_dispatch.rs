//! Calls of tools over HTTP and MCP: one dispatcher, so that both run a tool the same way.

use std::sync::Arc;

use axum::body::Bytes;
use offshoot_agent::{Arguments, Registry, Tool, ToolAnswer};
use offshoot_core::Result;
use offshoot_engine::Access;
use serde_json::Value;

use crate::body::{blocking, search_in_turn};
use crate::shares::Shares;
use crate::show_events::ShowBroadcast;

/// The arguments of a call, owned.
pub(crate) enum CallArguments {
    /// As text; it begins like an object.
    Json(Bytes),
    /// As a value; null means none.
    Value(Value),
}

impl CallArguments {
    fn about(&self) -> LoggedPath {
        match self {
            CallArguments::Json(text) => LoggedPath::Json(text.clone()),
            CallArguments::Value(value) => LoggedPath::Path(path_in(value)),
        }
    }

    fn arguments(&self) -> Arguments<'_> {
        match self {
            CallArguments::Json(text) => Arguments::Json(text),
            CallArguments::Value(value) => Arguments::Value(value),
        }
    }
}

/// The path of a call for the log, without a copy of the other arguments.
enum LoggedPath {
    Json(Bytes),
    Path(Option<String>),
}

impl LoggedPath {
    fn path(&self) -> Option<String> {
        match self {
            LoggedPath::Json(text) => path_in(&serde_json::from_slice(text).unwrap_or_default()),
            LoggedPath::Path(path) => path.clone(),
        }
    }
}

fn path_in(arguments: &Value) -> Option<String> {
    let named = ["path", "from"].iter().find_map(|name| arguments.get(name));
    named.and_then(Value::as_str).map(str::to_owned)
}

/// Where tools are called.
#[derive(Default)]
pub(crate) struct ToolDispatcher {
    /// For the streams of events; over stdio there are none.
    pub(crate) shows: Arc<ShowBroadcast>,
    /// The slots of searches; over stdio there is one caller, who needs none.
    pub(crate) searches: Option<Arc<Shares>>,
}

impl ToolDispatcher {
    /// Calls a tool on the workspace that the credential stands for. What is refused is in the log.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tools: &Arc<Registry>,
        name: &str,
        access: Access,
        asked: CallArguments,
    ) -> Result<Box<dyn ToolAnswer>> {
        let about = asked.about();
        let answer = self.serve(tools, name, access, asked).await;
        if let Err(error) = &answer {
            let (code, path) = (error.code().as_str(), about.path());
            tracing::warn!(code, tool = name, ?path, "refused");
        }
        answer
    }

    async fn serve(
        self: &Arc<Self>,
        tools: &Arc<Registry>,
        name: &str,
        access: Access,
        asked: CallArguments,
    ) -> Result<Box<dyn ToolAnswer>> {
        let tool = tools.get(name)?;
        let arguments = asked.arguments();
        if let Some(answer) = tool.call_inline(&access, &arguments) {
            return answer;
        }
        let (tools, name) = (Arc::clone(tools), name.to_owned());
        let shows = Arc::clone(&self.shows);
        let turns = self.searches.as_ref().filter(|_| tool.searches);
        let work = move || {
            let tool = tools.get(&name)?;
            let answer = tool.call(&access, asked.arguments())?;
            if tool.shows_files && shows.has_listeners() {
                shows.tell(&access, Tool::shown_by(&*answer)?)?;
            }
            Ok(answer)
        };
        match turns {
            Some(turns) => search_in_turn(turns, work).await,
            None => blocking(work).await,
        }
    }
}
