//! What the tests of projects, forks and merges share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::Read as _;
use std::path::{Path, PathBuf};

use offshoot_core::{Cause, ChangeKind, Operator, ProjectId, RelPath, WorkspaceId};
use offshoot_engine::{Content, Engine, EngineOptions, ForkOptions, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::HostDir;

/// An engine over a temporary data directory whose forks are made by one provider.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) host: HostDir,
    pub(crate) provider: ProviderName,
}

impl Rig {
    pub(crate) fn new(provider: ProviderName) -> Rig {
        let host = HostDir::new();
        let engine = open(host.path(), provider);
        Rig {
            engine,
            host,
            provider,
        }
    }

    pub(crate) fn reopen(&mut self) {
        self.engine = open(self.host.path(), self.provider);
    }

    /// A project with a few files.
    pub(crate) fn project(&self, name: &str) -> ProjectId {
        let id: ProjectId = name.parse().unwrap();
        self.engine.create_project(&id, &user()).unwrap();
        for (path, content) in [
            ("README", "read me\n"),
            ("src/main.rs", "fn main() {}\n"),
            ("src/lib.rs", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"),
            ("docs/a/b", "deep\n"),
            (".gitignore", "target/\n*.log\n"),
        ] {
            self.put(&id, path, content);
        }
        id
    }

    pub(crate) fn put(&self, project: &ProjectId, path: &str, content: &str) {
        let content = Content::Bytes(content.as_bytes());
        self.engine
            .put_in_project(
                project,
                &p(path),
                content,
                &WriteOptions::default(),
                &user(),
            )
            .unwrap();
    }

    pub(crate) fn fork(&self, project: &ProjectId, agent: &str) -> (WorkspaceId, PathBuf) {
        let options = ForkOptions {
            agent: Some(agent.parse().unwrap()),
            ..ForkOptions::default()
        };
        let (fork, path) = self.engine.fork_out(project, &options, &user()).unwrap();
        assert_eq!(fork.provider, Some(self.provider));
        (fork.workspace.id, path)
    }

    pub(crate) fn changes(&self, id: &WorkspaceId) -> Vec<(String, ChangeKind)> {
        let changes = self.engine.changes(id, &user()).unwrap();
        let set = changes.set.changes.into_iter();
        set.map(|one| (one.path.to_text(), one.change)).collect()
    }

    pub(crate) fn project_text(&self, project: &ProjectId, path: &str) -> String {
        let mut file = self
            .engine
            .open_project_file(project, None, &p(path))
            .unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    /// Everything that a row names is there, and nothing else.
    pub(crate) fn check(&self) {
        self.engine.wait_for_upkeep();
        let report = self.engine.check().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

pub(crate) fn open(host: &Path, provider: ProviderName) -> Engine {
    let mut options = EngineOptions::new(host.join("data"));
    options.provider = Some(provider);
    Engine::open(options).unwrap()
}

pub(crate) fn user() -> Cause {
    Cause::by(Operator::user())
}

pub(crate) fn p(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

/// Runs a test with each provider that works in the place for temporary files.
pub(crate) fn with_each(test: impl Fn(Rig)) {
    let place = HostDir::new();
    let probes = offshoot_fs::probe(place.path()).unwrap();
    let works: Vec<ProviderName> = probes
        .iter()
        .filter(|probe| probe.works)
        .map(|probe| probe.name)
        .collect();
    assert!(works.contains(&ProviderName::Copy));
    for provider in works {
        println!("with {provider}");
        test(Rig::new(provider));
    }
}
