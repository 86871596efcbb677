//! `offshoot serve`: the server, and where to reach it.

use offshoot_server::{Server, serve};

use super::Context;
use crate::log::Log;
use crate::output::{CommandResult, Exit, Failure, Output};
use crate::server_args::Serve;

pub(super) fn run(cx: &mut Context<'_>, args: &Serve) -> CommandResult {
    let mut options = cx.settings.server.options(args)?;
    let _log = Log::start(&cx.settings.log.value, args.log_json);
    offshoot_sys::trim_heap_when_idle();
    // Half of the files are for connections, the rest for what their requests open.
    if let Ok(files) = offshoot_sys::raise_open_file_limit() {
        let most = usize::try_from(files / 2).unwrap_or(usize::MAX).max(1);
        if most < options.limits.max_connections {
            cx.output.note(format_args!(
                "at most {most} connections: this process may open {files} files"
            ));
            options.limits.max_connections = most;
        }
    }
    let (json, output) = (cx.output.json(), &mut *cx.output);
    serve(cx.engine.clone(), options, |server| {
        match tell(server, json, output) {
            // The server runs although its address could not be written: clients may know it.
            Err(Failure::Output(cause)) => {
                output.note(format_args!("stdout cannot be written: {cause}"));
                Ok(())
            }
            Err(Failure::Request(error)) => Err(error),
            Ok(()) => Ok(()),
        }
    })?;
    Ok(Exit::Done)
}

/// One line that a person can open and a program can read.
fn tell(server: &Server, json: bool, output: &mut Output) -> std::result::Result<(), Failure> {
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
