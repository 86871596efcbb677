//! `offshoot token`: issue, list and revoke.

use std::time::Duration;

use offshoot_wire as wire;

use super::Context;
use crate::bytes;
use crate::output::{Align, CommandResult, Exit, printable, when};
use crate::server_args::TokenCommand;

pub(super) fn run(cx: &mut Context<'_>, command: &TokenCommand) -> CommandResult {
    match command {
        TokenCommand::Issue { ttl, .. } => issue(cx, command, ttl.as_deref()),
        TokenCommand::List => list(cx),
        TokenCommand::Revoke { id } => revoke(cx, id),
    }
}

fn issue(cx: &mut Context<'_>, command: &TokenCommand, ttl: Option<&str>) -> CommandResult {
    let asked = asked(command);
    let ttl = ttl
        .map(bytes::seconds)
        .transpose()?
        .map(Duration::from_secs);
    let issued =
        cx.engine
            .access
            .issue_token(&asked.scope()?, asked.label.as_deref(), ttl, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::IssuedToken::from(&issued))?;
        return Ok(Exit::Done);
    }
    cx.output.line(&issued.secret)?;
    let words = ["token", "revoke", &issued.token.id];
    let command = cx.command_line(&words);
    cx.output
        .note("this is shown once; send it as `Authorization: Bearer …`");
    cx.output.note(format_args!("take it back with: {command}"));
    Ok(Exit::Done)
}

/// What was typed, in the shape that HTTP has too.
fn asked(command: &TokenCommand) -> wire::NewToken {
    match command {
        TokenCommand::Issue {
            admin,
            agent,
            workspace,
            project,
            allow,
            label,
            ..
        } => wire::NewToken {
            admin: *admin,
            agent: agent.clone(),
            workspace: workspace.clone(),
            project: project.clone(),
            allow: allow.clone(),
            label: label.clone(),
            ttl_s: None,
        },
        _ => wire::NewToken::default(),
    }
}

fn list(cx: &mut Context<'_>) -> CommandResult {
    let tokens = cx.engine.access.tokens(None, 0)?;
    if cx.output.json() {
        cx.output.document(&wire::Tokens::from(tokens.as_slice()))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = tokens
        .iter()
        .map(|token| {
            let reach = printable(&wire::Token::from(token).reach());
            let ends = match (token.revoked_at, token.expires_at) {
                (Some(_), _) => "revoked".to_owned(),
                (None, Some(end)) => end.to_string(),
                (None, None) => "-".to_owned(),
            };
            vec![
                token.id.clone(),
                reach,
                when(token.created_at),
                ends,
                printable(token.label.as_deref().unwrap_or("-")),
            ]
        })
        .collect();
    cx.output.table(
        &[
            ("TOKEN", Align::Left),
            ("FOR", Align::Left),
            ("ISSUED", Align::Left),
            ("ENDS", Align::Left),
            ("LABEL", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn revoke(cx: &mut Context<'_>, id: &str) -> CommandResult {
    let revoked = cx.engine.access.revoke_token(id)?;
    if cx.output.json() {
        cx.output.document(&wire::RevokedToken {
            id: id.to_owned(),
            revoked,
        })?;
        return Ok(Exit::Done);
    }
    cx.output.line(if revoked {
        "revoked; streams that it opened end within seconds"
    } else {
        "it had been revoked before"
    })?;
    Ok(Exit::Done)
}
