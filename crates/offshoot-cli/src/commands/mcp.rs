//! `offshoot mcp`: one workspace for an MCP client.

use std::sync::Arc;

use offshoot_core::{Error, Operator, Result};
use offshoot_engine::{Access, Principal, PrincipalKind, Reach, Scope};
use offshoot_server::{Registry, serve_stdio};
use serde_json::json;

use super::Context;
use crate::output::{CommandResult, Exit};
use crate::server_args::{Mcp, McpClient, McpCommand, McpTarget};

pub(super) fn run(cx: &mut Context<'_>, args: &Mcp) -> CommandResult {
    match &args.command {
        Some(McpCommand::Config { client, target }) => show_config(cx, *client, target),
        None => serve(cx, &args.target),
    }
}

fn serve(cx: &mut Context<'_>, target: &McpTarget) -> CommandResult {
    let principal = principal(cx, target)?;
    let tools = if target.tools.is_empty() {
        Registry::default()
    } else {
        Registry::limited(&target.tools)?
    };
    let access = access_of(cx, principal, target)?;
    offshoot_sys::trim_heap_when_idle();
    serve_stdio(access, tools)?;
    Ok(Exit::Done)
}

/// What the client may do. A workspace that does not exist is an error now, not with the first
/// call.
fn access_of(cx: &Context<'_>, principal: Principal, target: &McpTarget) -> Result<Access> {
    let message = cx.cause.message_id.clone();
    let access = cx.engine.access.acting_as(Arc::new(principal), message);
    let there = access.own_workspace().and_then(|id| access.workspace(&id));
    match (there, &target.agent) {
        (Ok(_), _) => Ok(access),
        (Err(error), Some(agent)) if error.hint().is_none() => {
            let fork = cx.command_line(&["fork", "PROJECT", "--agent", agent]);
            Err(error.with_hint(format!("give it one, with: {fork}")))
        }
        (Err(error), _) => Err(error),
    }
}

/// The principal of the client. The user who starts the program owns the data directory; the client
/// gets one workspace of it.
fn principal(cx: &Context<'_>, target: &McpTarget) -> Result<Principal> {
    let (kind, reach, operator) = match (&target.agent, &target.workspace) {
        (Some(agent), _) => (
            PrincipalKind::Agent,
            Reach::Agent(agent.parse()?),
            Operator::new(agent),
        ),
        (None, Some(workspace)) => (
            PrincipalKind::Service,
            Reach::Workspace(workspace.parse()?),
            cx.cause.operator.clone(),
        ),
        (None, None) => {
            return Err(Error::invalid("it is not said which workspace is meant")
                .with_hint("give `--agent ID` or `--workspace WS`"));
        }
    };
    Ok(Principal {
        operator,
        scope: Scope {
            kind,
            reach,
            allow: Vec::new(),
        },
        token: None,
        expires_at: None,
        home: None,
    })
}

fn show_config(cx: &mut Context<'_>, client: McpClient, target: &McpTarget) -> CommandResult {
    let principal = principal(cx, target)?;
    // The block is right all the same: what is missing may be made before the client starts.
    if let Err(missing) = access_of(cx, principal, target) {
        cx.output
            .note(format_args!("not yet: {}", missing.message()));
        if let Some(hint) = missing.hint() {
            cx.output.note(hint);
        }
    }
    let data = std::path::absolute(&cx.settings.data.value)
        .unwrap_or_else(|_| cx.settings.data.value.clone());
    let program = std::env::current_exe().map_or_else(
        |_| "offshoot".to_owned(),
        |path| path.to_string_lossy().into_owned(),
    );
    let mut words = vec![
        "--data".to_owned(),
        data.to_string_lossy().into_owned(),
        "mcp".to_owned(),
    ];
    for (flag, value) in [
        ("--agent", &target.agent),
        ("--workspace", &target.workspace),
    ] {
        if let Some(value) = value {
            words.extend([flag.to_owned(), value.clone()]);
        }
    }
    if !target.tools.is_empty() {
        words.extend(["--tools".to_owned(), target.tools.join(",")]);
    }
    match client {
        McpClient::Claude | McpClient::Cursor => cx.output.document(&json!({
            "mcpServers": { "offshoot": { "command": program, "args": words } }
        }))?,
        McpClient::Codex => {
            // JSON strings and lists of them are TOML too.
            cx.output.line("[mcp_servers.offshoot]")?;
            cx.output
                .line(format_args!("command = {}", json!(program)))?;
            cx.output.line(format_args!("args = {}", json!(words)))?;
        }
    }
    Ok(Exit::Done)
}
