//! Every command that README.md and docs/ show is typed, in order, and what it prints is compared
//! with what the document shows.
//!
//! Each document has a home, a data directory and a shell of its own. In a `console` block a line
//! that begins with `$ ` is typed; lines that follow are what it prints on either stream, or may be
//! left out altogether. A command ends with 0 unless the line says `# exit code N`. In an `sh` block
//! every line is typed, and neither fails nor prints the error of a server; a stream (`curl -N`) is
//! read for a moment. One that begins with `#!` is a script: it gets the name that its usage tells,
//! on the path. A `json` block is what the command before it printed, however it is spaced. Other
//! blocks are not known, so that none is passed over.
//!
//! Comments in the document say what a reader does not see:
//!
//! - `<!-- not typed: REASON -->` before a block that cannot be run here;
//! - `<!-- typed unseen` … `-->` around lines that stand for what the text tells in other words;
//! - `<!-- typed beside: offshoot serve -->`: a server runs from here on, on a port of its own.

mod matching;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use matching::{Ids, matches};
use offshoot_testkit::{HostDir, Process, skip};

const BINARY: &str = env!("CARGO_BIN_EXE_offshoot");

/// Blocks that are shown and not typed, with the reason.
const NOT_TYPED: [(&str, &str); 8] = [
    ("README.md", "builds the project"),
    ("docs/containers.md", "needs docker and an image"),
    ("docs/containers.md", "needs docker and an image"),
    ("docs/external-agents.md", "needs docker and an image"),
    ("docs/http.md", "runs until it is stopped"),
    ("docs/http.md", "runs until it is stopped"),
    ("docs/merging.md", "names the fields and no values"),
    ("docs/projects.md", "needs docker and an image"),
];

/// What a document asks for, with the number of the line.
#[derive(Debug)]
enum Step {
    Type {
        line: usize,
        command: String,
        shown: Vec<String>,
    },
    /// A line of a block that shows no answers.
    Do {
        line: usize,
        command: String,
    },
    Script {
        line: usize,
        text: String,
    },
    /// What the command before it printed.
    Json {
        line: usize,
        shown: String,
    },
    Unseen {
        line: usize,
        script: String,
    },
    Serve,
    NotTyped(String),
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = text.lines().enumerate();
    let mut skipped = None;
    while let Some((number, line)) = lines.next() {
        let mut until = |end: &str| -> Vec<(usize, &str)> {
            lines
                .by_ref()
                .take_while(|(_, line)| *line != end)
                .collect()
        };
        if let Some(reason) = line.strip_prefix("<!-- not typed: ") {
            skipped = Some(reason.trim_end_matches(" -->").to_owned());
        } else if line == "<!-- typed beside: offshoot serve -->" {
            steps.push(Step::Serve);
        } else if line == "<!-- typed unseen" {
            let script: Vec<&str> = until("-->").into_iter().map(|(_, line)| line).collect();
            let script = script.join("\n");
            steps.push(Step::Unseen {
                line: number + 1,
                script,
            });
        } else if let Some(kind) = line.strip_prefix("```") {
            let block = until("```");
            match skipped.take() {
                Some(reason) => steps.push(Step::NotTyped(reason)),
                None => steps.extend(block_steps(kind, number + 1, &block)),
            }
        }
    }
    steps
}

fn block_steps(kind: &str, line: usize, block: &[(usize, &str)]) -> Vec<Step> {
    let text = |end: &str| -> String {
        let lines = block.iter().map(|(_, line)| format!("{line}{end}"));
        lines.collect()
    };
    match kind {
        "console" => typed_in(block),
        "sh" if text("").starts_with("#!") => vec![Step::Script {
            line,
            text: text("\n"),
        }],
        "sh" => done_in(block),
        "json" => vec![Step::Json {
            line,
            shown: text(""),
        }],
        _ => panic!(
            "line {line}: a block is `console`, `sh` or `json`, or a comment before it says why it is \
             not typed: `{kind}`"
        ),
    }
}

fn done_in(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in block {
        match steps.last_mut() {
            Some(Step::Do { command, .. }) if command.ends_with('\\') => {
                command.push('\n');
                command.push_str(line);
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => steps.push(Step::Do {
                line: number + 1,
                command: (*line).to_owned(),
            }),
        }
    }
    steps
}

fn typed_in(block: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in block {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step::Type {
                line: number + 1,
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            (None, Some(Step::Type { command, .. })) if command.ends_with('\\') => {
                command.push('\n');
                command.push_str(line);
            }
            (None, Some(Step::Type { shown, .. })) => shown.push((*line).to_owned()),
            _ => panic!("line {}: a block begins with `$ `", number + 1),
        }
    }
    steps
}

/// A shell in a home of its own.
struct Shell {
    server: Option<(Process, String)>,
    _process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The last field: programs with open files in the directory have ended before it is dropped.
    home: HostDir,
}

impl Shell {
    fn new() -> Shell {
        let home = HostDir::new();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(BINARY, bin.join("offshoot")).unwrap();
        let mut command = Command::new("bash");
        command.arg("--norc");
        let mut process = Process::spawn(
            Shell::environment(&mut command, home.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        Shell {
            stdin: process.take_stdin().unwrap(),
            stdout: BufReader::new(process.take_stdout().unwrap()),
            _process: process,
            home,
            server: None,
        }
    }

    fn environment<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .current_dir(home)
            .env("HOME", home)
            .env("PATH", format!("{}:{path}", home.join("bin").display()))
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_NOSYSTEM", "1")
    }

    /// What a command prints, as a reader with this home and port would see it, and how it ends.
    fn run(&mut self, command: &str) -> (Vec<String>, String) {
        const END: &str = "-- end of the command --";
        let command = match &self.server {
            Some((_, port)) => command.replace("7420", port),
            None => command.to_owned(),
        };
        let script = format!("{{ {command}\n}} </dev/null 2>&1\necho \"\n{END}$?\"\n");
        self.stdin.write_all(script.as_bytes()).unwrap();
        let mut printed = String::new();
        let code = loop {
            let mut line = String::new();
            let read = self.stdout.read_line(&mut line).unwrap();
            assert!(read > 0, "the shell ended: {command}\n{printed}");
            if let Some(code) = line.strip_prefix(END) {
                break code.trim_end().to_owned();
            }
            printed.push_str(&line);
        };
        let home = self.home.path().to_str().unwrap();
        let mut printed = printed.replace(home, "~");
        if let Some((_, port)) = &self.server {
            printed = printed.replace(port.as_str(), "7420");
        }
        let printed = printed.trim_end_matches('\n');
        (printed.lines().map(recent).collect(), code)
    }

    fn add_program(&self, name: &str, text: &str) {
        let path = self.home.path().join("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn serve(&mut self) {
        let mut command = Command::new(BINARY);
        command.args(["--json", "serve", "--listen", "localhost:0"]);
        Shell::environment(&mut command, self.home.path());
        let mut process = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let stdout = process.take_stdout().unwrap();
        let documents = serde_json::Deserializer::from_reader(stdout);
        let told = documents.into_iter::<serde_json::Value>().next();
        let told = told.unwrap().unwrap();
        let (_, port) = told["listen"].as_str().unwrap().rsplit_once(':').unwrap();
        self.server = Some((process, port.to_owned()));
    }
}

/// A busy machine may need minutes for what a reader does at once.
fn recent(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words
        .windows(3)
        .position(|word| word[1..] == ["min", "ago"])
    {
        Some(at) => [&words[..at], &["just", "now"], &words[at + 3..]]
            .concat()
            .join(" "),
        None => line.to_owned(),
    }
}

/// One document while it is typed.
struct Typing {
    shell: Shell,
    ids: Ids,
    /// What the last command printed.
    printed: Vec<String>,
    /// What is wrong with the document, each with its line.
    wrong: Vec<(usize, String)>,
}

impl Typing {
    /// Runs a line of the document. Returns how it ended, or none if nobody could have typed it.
    fn typed(&mut self, line: usize, command: &str) -> Option<String> {
        match self.ids.typed(command) {
            Ok(typed) => {
                let (printed, code) = self.shell.run(&typed);
                self.printed = printed;
                Some(code)
            }
            Err(id) => {
                self.wrong
                    .push((line, format!("the id {id} was never shown")));
                None
            }
        }
    }

    fn ended_with(&mut self, line: usize, code: &str, command: &str) {
        let printed = self.printed.join("\n");
        let wrong = format!("exit code {code}: {command}\n{printed}");
        self.wrong.push((line, wrong));
    }

    fn compare(&mut self, line: usize, of: &str, shown: &[String], printed: &[String]) {
        if !matches(shown, printed, &mut self.ids) {
            let (shown, printed) = (shown.join("\n"), printed.join("\n"));
            let wrong = format!("{of}\n--- the document shows\n{shown}\n--- it prints\n{printed}");
            self.wrong.push((line, wrong));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::NotTyped(_) => {}
            Step::Serve => self.shell.serve(),
            Step::Unseen { line, script } => {
                let (printed, code) = self.shell.run(&script);
                self.printed = printed;
                if code != "0" {
                    self.ended_with(line, &code, "what is unseen");
                }
            }
            Step::Type {
                line,
                command,
                shown,
            } => self.answered(line, &command, &shown),
            Step::Do { line, command } => self.done(line, &command),
            Step::Script { line, text } => match text.split_once("# usage: ") {
                Some((_, usage)) => {
                    let name = usage.split(' ').next().unwrap_or_default();
                    self.shell.add_program(name, &text);
                }
                None => self
                    .wrong
                    .push((line, "a script tells its usage".to_owned())),
            },
            Step::Json { line, shown } => {
                let unspaced = |text: &str| vec![text.split_whitespace().collect::<String>()];
                let printed = unspaced(&self.printed.concat());
                self.compare(line, "the command before it", &unspaced(&shown), &printed);
            }
        }
    }

    fn answered(&mut self, line: usize, command: &str, shown: &[String]) {
        let Some(code) = self.typed(line, command) else {
            return;
        };
        let told = command
            .split_once("# exit code ")
            .map_or("0", |(_, code)| code);
        let told = told.split(|c: char| !c.is_ascii_digit()).next();
        if told != Some(&code) {
            self.ended_with(line, &code, command);
        } else if !shown.is_empty() {
            let printed = self.printed.clone();
            self.compare(line, &format!("$ {command}"), shown, &printed);
        }
    }

    fn done(&mut self, line: usize, command: &str) {
        let moment = "-N --max-time 2 ";
        let is_stream = command.contains(" -N ");
        let limited = command.replace("-N ", moment);
        let typed = if is_stream { &limited } else { command };
        let Some(code) = self.typed(line, typed) else {
            return;
        };
        // How curl says that the moment is over.
        let done = if is_stream { "28" } else { "0" };
        let is_error = |text: &String| text.starts_with("{\"error\"");
        if code != done || self.printed.iter().any(is_error) {
            self.ended_with(line, &code, command);
        }
    }
}

/// Types one document. Returns what is wrong with it.
fn type_document(name: &str, text: &str) -> Vec<String> {
    let mut typing = Typing {
        shell: Shell::new(),
        ids: Ids::default(),
        printed: Vec::new(),
        wrong: Vec::new(),
    };
    for step in steps(text) {
        typing.step(step);
    }
    let wrong = typing.wrong.into_iter();
    wrong
        .map(|(line, wrong)| format!("{name}:{line}: {wrong}"))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and the pages of docs/, by their names.
fn documents() -> Vec<(String, String)> {
    let pages = fs::read_dir(root().join("docs")).unwrap();
    let pages = pages.map(|page| format!("docs/{}", page.unwrap().file_name().display()));
    let mut names: Vec<String> = pages.filter(|name| name.ends_with(".md")).collect();
    names.push("README.md".to_owned());
    names.sort();
    let text = |name: &String| fs::read_to_string(root().join(name)).unwrap();
    names
        .iter()
        .map(|name| (name.clone(), text(name)))
        .collect()
}

#[test]
fn what_the_documents_show_is_what_is_printed() {
    let place = HostDir::new();
    let probes = offshoot_engine::probe_providers_in(place.path()).unwrap();
    let overlay = offshoot_engine::ProviderName::Overlay;
    if !probes
        .iter()
        .any(|probe| probe.name == overlay && probe.works)
    {
        return skip("the documents show forks that are overlays, which do not work here");
    }
    let mut wrong = Vec::new();
    for (name, text) in documents() {
        wrong.extend(type_document(&name, &text));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

#[test]
fn blocks_that_are_not_typed_are_known() {
    let mut found = Vec::new();
    for (name, text) in documents() {
        for step in steps(&text) {
            if let Step::NotTyped(reason) = step {
                println!("not typed in {name}: {reason}");
                found.push((name.clone(), reason));
            }
        }
    }
    let known = NOT_TYPED.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(found, known);
}

#[test]
fn no_block_is_passed_over() {
    let known = "```console\n$ true\n```\n```sh\ntrue\n\ncurl -N x\n```\n```json\n{}\n```\n";
    assert_eq!(steps(known).len(), 4);
    for kind in ["", "bash", "toml", "shell"] {
        let block = format!("text\n```{kind}\ntrue\n```\n");
        assert!(
            std::panic::catch_unwind(|| steps(&block)).is_err(),
            "{kind}"
        );
        let told = steps(&format!("<!-- not typed: a reason -->\n{block}"));
        assert!(matches!(&told[..], [Step::NotTyped(reason)] if reason == "a reason"));
    }
}
