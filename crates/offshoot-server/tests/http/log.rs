//! What stands in the log: refusals and slow clients as warnings, and only our own failures as errors.

use std::fmt::Write as _;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use offshoot_testkit::HostDir;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::common::{Running, options, read_reply};

/// Lines of the log, of all tests of the process.
static LINES: OnceLock<Mutex<Vec<(Level, String)>>> = OnceLock::new();

/// Keeps every warning and error with its fields.
struct Keeper;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let lines = LINES.get_or_init(Mutex::default);
        lines
            .lock()
            .unwrap()
            .push((*event.metadata().level(), text.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The lines with all of these words.
fn lines_with(words: &[&str]) -> Vec<(Level, String)> {
    let lines = LINES.get_or_init(Mutex::default).lock().unwrap();
    let has = |line: &&(Level, String)| words.iter().all(|word| line.1.contains(word));
    lines.iter().filter(has).cloned().collect()
}

fn keep() {
    // Another test of the process may have been first.
    let _ = tracing::subscriber::set_global_default(Keeper);
}

#[test]
fn refusals_of_tools_are_warnings_with_code_and_path() {
    keep();
    let data = HostDir::new();
    let running = Running::start(data.path());
    running.client().create("a");
    let agent = running.agent("a");
    let limited = running.client_for("a", &["open/**:read,write"]);
    let refused = |client: &crate::common::Client, tool: &str, path: &str, code: &str| {
        let key = if tool == "move_file" { "from" } else { "path" };
        let mut arguments = json!({ key: path });
        match tool {
            "write_file" => arguments["content"] = json!("the content stays out of the log"),
            "move_file" => arguments["to"] = json!("elsewhere"),
            _ => {}
        }
        for mcp in [false, true] {
            let before = lines_with(&[path]).len();
            if mcp {
                let answer = crate::mcp::call(client, tool, arguments.clone(), json!({}));
                assert_eq!(answer["result"]["isError"], true, "{answer}");
            } else {
                let target = format!("/api/v1/tools/{tool}");
                let reply = client.post(&target, &arguments.to_string());
                assert_eq!(reply.code(), code, "{}", reply.text());
            }
            let lines = lines_with(&[path]);
            assert_eq!(lines.len(), before + 1, "{tool} {mcp} {lines:?}");
            let (level, line) = lines.last().unwrap();
            assert_eq!(*level, Level::WARN, "{line}");
            for word in [code, tool, "refused"] {
                assert!(line.contains(word), "{line} has no {word}");
            }
        }
    };
    refused(&agent, "read_file", "log-none-1", "file_not_found");
    refused(
        &agent,
        "read_file",
        "../log-out-2",
        "path_traversal_blocked",
    );
    refused(&agent, "move_file", "log-none-3", "file_not_found");
    refused(&limited, "write_file", "shut/log-4", "permission_denied");
    refused(&limited, "delete_file", "shut/log-5", "permission_denied");
    assert!(lines_with(&["stays out of the log"]).is_empty());
}

/// The answer is the same as for a failure of ours, but nobody has to look into it.
#[test]
fn a_client_that_stands_still_is_a_warning() {
    use std::io::Write as _;
    keep();
    let data = HostDir::new();
    let mut options = options();
    options.limits.idle_timeout = Duration::from_millis(300);
    let running = Running::start_with(data.path(), options);
    let client = running.client();
    client.create("w");
    let mut stream = client.connect();
    let target = b"/api/v1/workspaces/w/files/log-still";
    let mut head = client.head("PUT", target, &[("Content-Length", "2000000")]);
    head.extend_from_slice(b"\r\nbegins");
    stream.write_all(&head).unwrap();
    let reply = read_reply(&mut stream, false);
    assert_eq!((reply.status, reply.code().as_str()), (504, "timeout"));
    assert_eq!(reply.json()["error"]["details"]["stood_still"], true);
    let lines = lines_with(&["stood still"]);
    assert!(!lines.is_empty(), "nothing is in the log");
    assert!(
        lines.iter().all(|(level, _)| *level == Level::WARN),
        "{lines:?}"
    );
}
