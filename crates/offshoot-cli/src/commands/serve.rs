//! `offshoot serve`: the server, and where to reach it.

use offshoot_server::{Server, serve};
use tracing_subscriber::EnvFilter;

use super::Context;
use crate::args::Serve;
use crate::output::{CommandResult, Exit};

pub(super) fn run(cx: &mut Context<'_>, args: &Serve) -> CommandResult {
    let options = cx.settings.server.options(args)?;
    start_log(&cx.settings.log.value, args.log_json);
    let (json, output) = (cx.output.json(), &mut *cx.output);
    serve(cx.engine.clone(), options, |server| {
        tell(server, json, output).map_err(crate::output::unwritable_answer)
    })?;
    Ok(Exit::Done)
}

/// One line that a person can open and a program can read.
fn tell(
    server: &Server,
    json: bool,
    output: &mut crate::output::Output,
) -> std::result::Result<(), crate::output::Failure> {
    let url = server.sign_in_url()?;
    if json {
        let address = server.address().to_string();
        output.document(&serde_json::json!({ "listen": address, "url": url }))?;
    } else {
        output.note(format_args!("listening on {}", server.url()));
        output.note("open this once to sign in:");
        output.line(&url)?;
    }
    output.stdout().flush()?;
    Ok(())
}

/// The log goes to stderr. It never holds a token: requests are logged without their query and
/// headers.
fn start_log(filter: &str, json: bool) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // A second server in one process, as tests have it, keeps the first one's log.
    let _ = if json {
        log.json().try_init()
    } else {
        log.with_ansi(false).try_init()
    };
}
