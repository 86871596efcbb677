//! The tools of agents over plain HTTP.

use axum::extract::State;
use offshoot_engine::Access;
use offshoot_wire as wire;

use crate::app::Shared;
use crate::auth::Caller;
use crate::error::{Answer, Problem, ok, ok_text};
use crate::extract::{JsonText, Params};
use crate::tool_dispatch::CallArguments;

/// `GET /tools`
pub(crate) async fn list(State(app): State<Shared>, caller: Caller) -> Answer {
    let shape = |tool: &offshoot_agent::Tool| wire::Tool {
        name: tool.name,
        description: tool.description,
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        annotations: wire::ToolAnnotations {
            read_only_hint: tool.hints.read_only,
            destructive_hint: tool.hints.destructive,
            idempotent_hint: tool.hints.idempotent,
            open_world_hint: false,
        },
    };
    let offered = app.tools.tools().iter();
    let offered = offered.filter(|tool| tool.is_offered_to(&caller));
    ok(&wire::Tools {
        tools: offered.map(shape).collect(),
    })
}

/// `POST /tools/{tool}`
pub(crate) async fn call(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    JsonText(text): JsonText,
) -> Answer {
    let name = params.text("tool")?;
    app.tools.get(name).map_err(Problem::not_there)?;
    let access = Access::clone(&caller);
    let answer = app
        .dispatcher
        .call(&app.tools, name, access, CallArguments::Json(text));
    Ok(ok_text(answer.await?.to_json()?))
}
