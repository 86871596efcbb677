//! Projects that are linked to a repository of the server's machine.

use offshoot_core::{Error, ErrorCode};

use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, ok};
use crate::extract::{Json, Params};
use offshoot_wire as wire;

/// `GET /projects/{project}/link`
pub(crate) async fn show(caller: Caller, params: Params) -> Answer {
    let id = params.project()?;
    let status = blocking(move || {
        let status = caller.link(&id)?;
        status.ok_or_else(|| {
            Error::new(
                ErrorCode::FileNotFound,
                format!("the project `{id}` is linked to no repository"),
            )
            .with_hint("`offshoot init` in a repository makes a project that is")
        })
    });
    ok(&wire::Link::from(&status.await?))
}

/// `POST /projects/{project}/pull`
pub(crate) async fn pull(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::PullRequest>,
) -> Answer {
    let id = params.project()?;
    let dry_run = asked.dry_run;
    let pulled = blocking(move || caller.pull(&id, &asked.options())).await?;
    ok(&wire::Pulled::new(&pulled, dry_run))
}

/// `POST /projects/{project}/push`
pub(crate) async fn push(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::PushRequest>,
) -> Answer {
    let id = params.project()?;
    let dry_run = asked.dry_run;
    let pushed = blocking(move || caller.push(&id, &asked.options())).await?;
    ok(&wire::Pushed::new(&pushed, dry_run))
}
