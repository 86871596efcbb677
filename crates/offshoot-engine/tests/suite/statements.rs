//! How many statements everyday operations send to the store. A store behind a network pays a round
//! trip for each, so a number here that grows needs a reason.

use offshoot_core::{ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Content, Engine, EngineOptions, EventScope, ForkOptions, Policy, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_store::StatementLog;
use offshoot_testkit::HostDir;

use crate::fixture::{p, user};

struct Counted {
    engine: Engine,
    log: StatementLog,
    _host: HostDir,
}

impl Counted {
    fn new() -> Counted {
        let host = HostDir::new();
        let log = StatementLog::of_this_thread();
        let mut options = EngineOptions::new(host.path().join("data"));
        options.provider = Some(ProviderName::Copy);
        options.statements = Some(log.clone());
        Counted {
            engine: Engine::open(options).unwrap(),
            log,
            _host: host,
        }
    }

    /// A project with some files, of which one fork was made and merged, so that what is computed
    /// once for each project or process is done.
    fn warm_project(&self) -> ProjectId {
        let project: ProjectId = "shop".parse().unwrap();
        self.engine
            .projects
            .create_project(&project, &user())
            .unwrap();
        for path in [
            "README",
            "src/main.rs",
            "src/lib.rs",
            "docs/a/b",
            ".gitignore",
        ] {
            self.put(&project, path, b"one\ntwo\n");
        }
        let fork = self.fork_out(&project, "first");
        self.write(&fork, "warm", b"warm\n");
        self.complete(&fork);
        self.engine.context.wait_for_jobs();
        self.log.take();
        project
    }

    fn fork_out(&self, project: &ProjectId, agent: &str) -> WorkspaceId {
        let options = ForkOptions {
            agent: Some(agent.parse().unwrap()),
            ..ForkOptions::default()
        };
        let (fork, _) = self
            .engine
            .forks
            .fork_out(project, &options, &user())
            .unwrap();
        fork.workspace.id
    }

    fn put(&self, project: &ProjectId, path: &str, bytes: &[u8]) {
        let (content, options) = (Content::Bytes(bytes), WriteOptions::default());
        self.engine
            .projects
            .put_in_project(project, &p(path), content, &options, &user())
            .unwrap();
    }

    fn write(&self, id: &WorkspaceId, path: &str, bytes: &[u8]) {
        let options = WriteOptions::default();
        self.engine
            .workspaces
            .write_file(id, &p(path), Content::Bytes(bytes), &options, &user())
            .unwrap();
    }

    fn complete(&self, id: &WorkspaceId) {
        let options = CompleteOptions::default();
        self.engine.merges.complete(id, &options, &user()).unwrap();
    }

    /// The statements since the last call. Statements that set the sync mode of SQLite are left
    /// out, because they depend on which thread wrote before.
    fn ran(&self) -> Vec<String> {
        let mut ran = self.log.take();
        ran.retain(|sql| !sql.starts_with("PRAGMA synchronous"));
        ran
    }

    /// Compares the numbers of statements and transactions since the last call. If there are fewer,
    /// write the smaller numbers into the test. If there are more, the commit has to give a reason.
    fn took(&self, what: &str, statements: usize, transactions: usize) {
        let ran = self.ran();
        let begun = ran.iter().filter(|sql| sql.starts_with("BEGIN")).count();
        assert_eq!(
            (ran.len(), begun),
            (statements, transactions),
            "{what} took other statements than before: {ran:#?}"
        );
    }
}

#[test]
fn everyday_operations_take_no_more_statements_than_before() {
    let counted = Counted::new();
    let project = counted.warm_project();

    let fork = counted.fork_out(&project, "second");
    // One of them, a transaction of its own, asks what forks begin with beside their files.
    counted.took("a fork", 22, 4);

    counted.write(&fork, "src/main.rs", b"fn main() {}\n");
    counted.log.take();
    counted.write(&fork, "src/main.rs", b"fn main() { }\n");
    counted.took("a write", 31, 6);

    for number in 0..5 {
        counted.write(&fork, &format!("src/new{number}.rs"), b"new\n");
    }
    counted.engine.context.wait_for_jobs();
    counted.log.take();
    counted.complete(&fork);
    // One of them asks under which name the agent commits.
    counted.took("a completion", 164, 30);
}

/// The policy `priority` looks up who wrote what conflicts. Its cost must follow the conflict, not
/// the number of earlier merges.
#[test]
fn a_conflict_costs_the_same_after_many_merges_as_after_few() {
    let statements = |merges: usize| {
        let counted = Counted::new();
        let project = counted.warm_project();
        let late = counted.fork_out(&project, "late");
        for number in 0..merges {
            let fork = counted.fork_out(&project, &format!("other{number}"));
            counted.write(&fork, "other", format!("{number}\n").as_bytes());
            counted.complete(&fork);
        }
        let early = counted.fork_out(&project, "early");
        counted.write(&early, "src/lib.rs", b"one\nearly\n");
        counted.complete(&early);
        counted.write(&late, "src/lib.rs", b"one\nlate\n");
        counted.engine.context.wait_for_jobs();
        counted.log.take();
        counted.log.take_rows();
        let options = CompleteOptions {
            policy: Some(Policy::Priority),
            ..CompleteOptions::default()
        };
        let completed = counted
            .engine
            .merges
            .complete(&late, &options, &user())
            .unwrap();
        assert_eq!(completed.conflicts.len(), 1, "{completed:?}");
        (counted.ran().len(), counted.log.take_rows())
    };
    assert_eq!(statements(3), statements(40));
}

/// A fork of an old snapshot without a layer searches near that snapshot, not all snapshots.
#[test]
fn a_fork_of_an_old_snapshot_reads_few_of_the_others() {
    let counted = Counted::new();
    let project = counted.warm_project();
    for number in 0..400 {
        counted.put(&project, "counter", format!("{number}\n").as_bytes());
    }
    counted.engine.context.wait_for_jobs();
    let engine = &counted.engine;
    let fork_at = |at: String| {
        let options = ForkOptions {
            at: Some(at),
            ..ForkOptions::default()
        };
        engine.forks.fork_out(&project, &options, &user()).unwrap()
    };
    let log = engine
        .projects
        .project_snapshots(&project, None, 0)
        .unwrap();
    let (old, _) = fork_at(log.last().unwrap().id.to_hex());
    let old = old.workspace.id;
    counted.write(&old, "own", b"own\n");
    let own = engine
        .workspaces
        .snapshot(&old, None, false, &user())
        .unwrap();
    counted.log.take_rows();
    // A state that only that fork holds has no layer yet.
    let (_, path) = fork_at(own.snapshot.id.to_hex());
    assert!(path.join("own").exists() && !path.join("counter").exists());
    let rows = counted.log.take_rows();
    assert!(rows < 300, "{rows} rows were read");
}

#[test]
fn a_page_of_forks_reads_that_page() {
    let counted = Counted::new();
    let project = counted.warm_project();
    let forks: Vec<WorkspaceId> = (0..60)
        .map(|_| {
            let options = ForkOptions::default();
            let fork = counted
                .engine
                .forks
                .fork(&project, &options, &user())
                .unwrap();
            fork.workspace.id
        })
        .collect();
    counted.log.take();
    counted.log.take_rows();
    let page = |after: Option<&WorkspaceId>, limit| -> Vec<WorkspaceId> {
        let page = counted
            .engine
            .forks
            .forks_page(&project, after, limit)
            .unwrap();
        page.into_iter().map(|fork| fork.workspace.id).collect()
    };
    assert_eq!(page(Some(&forks[9]), 10), forks[10..20]);
    // The project, the fork before the page as a workspace and as a fork, and the page.
    assert_eq!(counted.log.take_rows(), 13);
    assert_eq!(page(None, 0), forks);
    assert_eq!(page(Some(&forks[58]), 10), forks[59..]);
    assert!(page(Some(&"nobody".parse().unwrap()), 10).is_empty());
}

#[test]
fn events_of_one_place_are_read_without_those_of_others() {
    let counted = Counted::new();
    let project = counted.warm_project();
    let fork = counted.fork_out(&project, "quiet");
    let noisy = counted.fork_out(&project, "noisy");
    for number in 0..300 {
        counted.write(&noisy, "f", format!("{number}\n").as_bytes());
    }
    counted.write(&fork, "src/main.rs", b"quiet\n");
    let newest = counted.engine.history.last_event().unwrap();
    counted.log.take_rows();
    let of = |place: EventScope| {
        let page = counted
            .engine
            .history
            .events_within(0, &place, 512)
            .unwrap();
        (page.events, page.upto)
    };
    let (events, upto) = of(EventScope {
        workspace: Some(fork.clone()),
        project: None,
    });
    assert!(
        events
            .iter()
            .all(|event| event.workspace == Some(fork.clone()))
    );
    assert_eq!((events.len(), upto), (2, newest));
    let rows = counted.log.take_rows();
    assert!(rows < 20, "{rows} rows were read");
    let (events, _) = of(EventScope {
        workspace: None,
        project: Some(project.clone()),
    });
    let all = counted.engine.history.events_after(0, None, 0).unwrap();
    assert_eq!(events.len(), all.len(), "all of it happened in one project");
    // Consecutive pages leave nothing out and repeat nothing.
    let named = EventScope {
        workspace: Some(noisy),
        project: Some(project),
    };
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let page = counted
            .engine
            .history
            .events_within(after, &named, 7)
            .unwrap();
        seen.extend(page.events.iter().map(|event| event.row.seq));
        if page.upto == after {
            break;
        }
        after = page.upto;
    }
    // Its creation, and each write.
    assert_eq!(seen.len(), 301);
    assert!(seen.is_sorted_by(|one, next| one < next));
}
