//! Tokens, and who a credential stands for.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;

use crate::app::Shared;
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, Problem, json, ok};
use crate::extract::{Json, Params, Query};
use offshoot_wire as wire;

/// `POST /tokens`
pub(crate) async fn issue(
    State(app): State<Shared>,
    caller: Caller,
    Json(asked): Json<wire::NewToken>,
) -> Answer {
    caller.principal().check_everything()?;
    let scope = asked.scope()?;
    let issued = blocking(move || {
        let ttl = asked.ttl_s.map(Duration::from_secs);
        app.engine
            .access
            .issue_token(&scope, asked.label.as_deref(), ttl, caller.cause())
    })
    .await?;
    json(StatusCode::CREATED, &wire::IssuedToken::from(&issued))
}

/// `GET /tokens`
pub(crate) async fn list(State(app): State<Shared>, caller: Caller, query: Query) -> Answer {
    caller.principal().check_everything()?;
    let after = query.text("after")?.map(str::to_owned);
    let limit = query.limit(100, app.options.limits.max_page)?;
    let tokens = blocking(move || app.engine.access.tokens(after.as_deref(), limit)).await?;
    ok(&wire::Tokens::from(tokens.as_slice()))
}

/// `DELETE /tokens/{token}`
pub(crate) async fn revoke(State(app): State<Shared>, caller: Caller, params: Params) -> Answer {
    caller.principal().check_everything()?;
    let id = params.text("token")?.to_owned();
    let shared = app.clone();
    let name = id.clone();
    let revoked = blocking(move || shared.engine.access.revoke_token(&name)).await;
    let revoked = revoked.map_err(Problem::not_there)?;
    app.tokens.clear();
    ok(&wire::RevokedToken { id, revoked })
}

/// `GET /me`
pub(crate) async fn me(caller: Caller) -> Answer {
    let own = blocking({
        let caller = caller.clone();
        move || Ok(caller.own_workspace().ok())
    })
    .await?;
    let workspace = own.map(|id| id.to_string());
    ok(&wire::Me::new(caller.principal(), workspace))
}
