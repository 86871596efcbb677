//! Every command that README.md and docs/ show is typed, in order, and what it prints is compared
//! with what the document shows.
//!
//! Each document has a home, a data directory and a shell of its own. In a `console` block a line
//! that begins with `$ ` is typed; lines that follow are what it prints on either stream, or may be
//! left out altogether. A command ends with 0 unless the line says `# exit code N`. Comments in the
//! document say what a reader does not see:
//!
//! - `<!-- not typed: REASON -->` before a block that cannot be run here;
//! - `<!-- typed unseen` … `-->` around lines that stand for what the text tells in other words;
//! - `<!-- typed beside: offshoot serve -->`: a server runs from here on, on a port of its own.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod matching;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use matching::{Ids, matches};
use offshoot_testkit::{HostDir, Process, skip};

const BINARY: &str = env!("CARGO_BIN_EXE_offshoot");

/// Blocks that are shown and not typed, with the reason.
const NOT_TYPED: [(&str, &str); 5] = [
    ("README.md", "builds the project"),
    ("docs/containers.md", "needs docker and an image"),
    ("docs/containers.md", "needs docker and an image"),
    ("docs/http.md", "runs until it is stopped"),
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
        } else if line == "```console" {
            let block = until("```");
            match skipped.take() {
                Some(reason) => steps.push(Step::NotTyped(reason)),
                None => steps.extend(typed_in(&block)),
            }
        } else if line.starts_with("```") {
            until("```");
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
    /// The last: whoever has files of it open has ended when it goes.
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

/// Types one document. Returns what is wrong with it.
fn type_document(name: &str, text: &str) -> Vec<String> {
    let mut shell = Shell::new();
    let mut ids = Ids::default();
    let mut wrong = Vec::new();
    for step in steps(text) {
        match step {
            Step::NotTyped(_) => {}
            Step::Serve => shell.serve(),
            Step::Unseen { line, script } => {
                let (printed, code) = shell.run(&script);
                if code != "0" {
                    let printed = printed.join("\n");
                    wrong.push(format!("{name}:{line}: exit code {code}:\n{printed}"));
                }
            }
            Step::Type {
                line,
                command,
                shown,
            } => {
                let typed = match ids.typed(&command) {
                    Ok(typed) => typed,
                    Err(id) => {
                        wrong.push(format!("{name}:{line}: the id {id} was never shown"));
                        continue;
                    }
                };
                let (printed, code) = shell.run(&typed);
                let told = command
                    .split_once("# exit code ")
                    .map_or("0", |(_, code)| code);
                let told = told.split(|c: char| !c.is_ascii_digit()).next();
                if told != Some(&code) {
                    let printed = printed.join("\n");
                    wrong.push(format!(
                        "{name}:{line}: exit code {code}: {command}\n{printed}"
                    ));
                } else if !shown.is_empty() && !matches(&shown, &printed, &mut ids) {
                    wrong.push(format!(
                        "{name}:{line}: $ {command}\n--- the document shows\n{}\n--- it prints\n{}",
                        shown.join("\n"),
                        printed.join("\n")
                    ));
                }
            }
        }
    }
    wrong
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
