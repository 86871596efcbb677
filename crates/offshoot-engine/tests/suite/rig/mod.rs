//! What the tests of projects, forks and merges share.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod child;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use offshoot_core::{
    Cause, ChangeKind, EntryKind, FaultPlan, Operator, ProjectId, RelPath, WorkspaceId,
};
use offshoot_engine::{Content, Engine, EngineOptions, ForkOptions, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::{DirImage, HostDir, Node, NodePath};

/// An engine over a temporary data directory whose forks are made by one provider.
pub(crate) struct Rig {
    pub(crate) engine: Engine,
    pub(crate) host: HostDir,
    pub(crate) provider: ProviderName,
    /// What fails, if the test says so.
    pub(crate) plan: FaultPlan,
}

impl Rig {
    pub(crate) fn new(provider: ProviderName) -> Rig {
        Rig::at(HostDir::new(), provider)
    }

    /// In memory where the machine has such a place: for tests that are about logic.
    pub(crate) fn in_memory(provider: ProviderName) -> Rig {
        let memory = Path::new("/dev/shm");
        let host = if memory.is_dir() {
            HostDir::below(memory)
        } else {
            HostDir::new()
        };
        Rig::at(host, provider)
    }

    fn at(host: HostDir, provider: ProviderName) -> Rig {
        let plan = FaultPlan::default();
        let engine = open_with(host.path(), provider, Some(&plan));
        Rig {
            engine,
            host,
            provider,
            plan,
        }
    }

    /// Opens the data directory anew, as the next process would: when the old engine is gone.
    pub(crate) fn reopen(&mut self) {
        self.close();
        self.engine = open_with(self.host.path(), self.provider, Some(&self.plan));
    }

    /// Ends the engine. Another one, on nothing, stands in for it.
    pub(crate) fn close(&mut self) {
        let nowhere = offshoot_testkit::scratch();
        self.engine = open(nowhere.path(), self.provider);
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

    /// What a project holds at a snapshot, or now, by the store alone.
    pub(crate) fn project_image(&self, project: &ProjectId, at: Option<&str>) -> DirImage {
        let entries = self
            .engine
            .project_entries(project, at, &RelPath::root(), true)
            .unwrap();
        let content = |one: &offshoot_engine::ProjectEntry| {
            self.engine.content_of(&one.entry.id.unwrap()).unwrap()
        };
        entries
            .iter()
            .map(|one| {
                let node = match one.entry.kind {
                    EntryKind::Dir => Node::Dir(one.entry.perm),
                    EntryKind::File => Node::File(one.entry.perm, content(one)),
                    EntryKind::Symlink => Node::Symlink(content(one)),
                };
                (NodePath(one.path.as_bytes().to_vec()), node)
            })
            .collect()
    }

    /// Everything that a row names is there, and nothing else.
    pub(crate) fn check(&self) {
        self.engine.wait_for_upkeep();
        let report = self.engine.check().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

pub(crate) fn open(host: &Path, provider: ProviderName) -> Engine {
    open_with(host, provider, None)
}

fn open_with(host: &Path, provider: ProviderName, plan: Option<&FaultPlan>) -> Engine {
    let mut options = EngineOptions::new(host.join("data"));
    options.provider = Some(provider);
    options.faults = plan.cloned();
    Engine::open(options).unwrap()
}

pub(crate) fn user() -> Cause {
    Cause::by(Operator::user())
}

pub(crate) fn p(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

/// The providers that work below a directory, the best first.
pub(crate) fn working(place: &Path) -> Vec<ProviderName> {
    let probes = offshoot_fs::probe(place).unwrap();
    let works: Vec<ProviderName> = probes
        .iter()
        .filter(|probe| probe.works)
        .map(|probe| probe.name)
        .collect();
    assert!(works.contains(&ProviderName::Copy));
    works
}

/// Runs a test with each provider that works in the place for temporary files.
pub(crate) fn with_each(test: impl Fn(Rig)) {
    let place = HostDir::new();
    for provider in working(place.path()) {
        println!("with {provider}");
        test(Rig::new(provider));
    }
}

/// A second, independent look at the rows and blobs.
pub(crate) fn store(rig: &Rig) -> offshoot_store::Store {
    use offshoot_store::{DiskBlobs, SqliteOptions, SqliteStore, Store};
    let data = rig.host.path().join("data");
    let meta = SqliteStore::open(&data.join("offshoot.db"), SqliteOptions::default()).unwrap();
    let blobs = DiskBlobs::open(&data.join("blobs")).unwrap();
    Store::without_hashing(std::sync::Arc::new(meta), std::sync::Arc::new(blobs))
}
