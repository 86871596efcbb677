//! Finding files by name and by content.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use offshoot_agent::find::{SearchQuery, SearchScope, find};
use offshoot_core::Error;
use offshoot_engine::Pattern;

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::search_in_turn;
use crate::error::{Answer, ok};
use crate::extract::Query;

/// The usual number of matches in an answer.
const PAGE: usize = 100;

/// Ends a search whose request is gone: the client has hung up, or the request timed out.
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// `GET /search`
pub(crate) async fn search(State(app): State<Shared>, caller: Caller, query: Query) -> Answer {
    let scope = match (query.parsed("workspace")?, query.parsed("project")?) {
        (Some(id), None) => SearchScope::Workspace(id),
        (None, Some(id)) => SearchScope::Project(id),
        _ => {
            let message = "either `workspace` or `project` says where to look";
            return Err(Error::invalid(message).into());
        }
    };
    let wanted = SearchQuery {
        name: query.owned("name")?,
        text: query.owned("text")?,
        glob: query.text("path")?.map(Pattern::parse).transpose()?,
        ignore_case: query.flag("ignore_case")?,
        after: query.owned("after")?,
        limit: query.limit(PAGE, app.options.limits.max_page)?,
    };
    let gone = Arc::new(AtomicBool::new(false));
    let _stop = StopWhenDropped(gone.clone());
    let found = search_in_turn(&app.searches, move || {
        let stop = || gone.load(Ordering::Relaxed);
        find(&caller, &scope, &wanted, &stop)
    })
    .await?;
    ok(&found)
}
