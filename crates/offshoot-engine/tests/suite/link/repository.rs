//! A real repository of a person, and a project that is linked to it.

use std::fs;
use std::path::{Path, PathBuf};

use offshoot_core::{ObjectId, ProjectId, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Completed, LinkOptions, PullOptions, Pulled, PushOptions, Pushed,
};
use offshoot_testkit::git;

use crate::fixture::{TestEngine, user};

pub(crate) const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

/// A project that is linked to a repository with a work tree.
pub(crate) struct Linked {
    pub(crate) test: TestEngine,
    pub(crate) repo: PathBuf,
    pub(crate) app: ProjectId,
}

impl Linked {
    /// A repository with two commits on `main`, and a project that follows it.
    pub(crate) fn new() -> Linked {
        let linked = Linked::unlinked();
        linked.link(None);
        linked
    }

    /// The repository alone.
    pub(crate) fn unlinked() -> Linked {
        let test = TestEngine::in_memory(offshoot_engine::ProviderName::Copy);
        let repo = test.host.path().join("repo");
        fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q"]);
        let app = "app".parse().unwrap();
        let linked = Linked { test, repo, app };
        linked.commit(&[("README", "hello\n")]);
        linked.commit(&[("lines", LINES), ("src/main.rs", "fn main() {}\n")]);
        linked
    }

    pub(crate) fn link(&self, branch: Option<&str>) {
        let options = LinkOptions {
            place: self.repo.clone(),
            address: None,
            branch: branch.map(str::to_owned),
            auto: false,
        };
        (self.test.engine.links)
            .create_linked(&self.app, &options, &mut |_| {}, &user())
            .unwrap();
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.repo, args)
    }

    /// A commit of the person in the work tree.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> ObjectId {
        for (path, text) in files {
            write(&self.repo, path, text);
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", &format!("Change {}", files[0].0)]);
        self.at("HEAD")
    }

    pub(crate) fn at(&self, name: &str) -> ObjectId {
        self.git(&["rev-parse", name]).parse().unwrap()
    }

    /// The work of an agent, not merged yet.
    pub(crate) fn work(&self, agent: &str, files: &[(&str, &str)]) -> WorkspaceId {
        let (id, path) = self.test.fork(&self.app, agent);
        for (name, text) in files {
            write(&path, name, text);
        }
        id
    }

    /// The work of an agent, merged.
    pub(crate) fn agent(&self, agent: &str, files: &[(&str, &str)]) -> Completed {
        let id = self.work(agent, files);
        let options = CompleteOptions::default();
        let done = (self.test.engine.merges).complete(&id, &options, &user());
        let done = done.unwrap();
        assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
        done
    }

    pub(crate) fn pull(&self) -> Pulled {
        self.try_pull(&PullOptions::default()).unwrap()
    }

    pub(crate) fn try_pull(&self, options: &PullOptions) -> offshoot_core::Result<Pulled> {
        (self.test.engine.links).pull(&self.app, options, &mut |_| {}, &user())
    }

    pub(crate) fn push(&self, to: Option<&str>) -> offshoot_core::Result<Pushed> {
        let options = PushOptions {
            to: to.map(str::to_owned),
            ..PushOptions::default()
        };
        (self.test.engine.links).push(&self.app, &options, &mut |_| {})
    }

    pub(crate) fn head(&self) -> ObjectId {
        let project = self.test.engine.projects.project(&self.app).unwrap();
        project.head.unwrap()
    }

    pub(crate) fn taken(&self) -> ObjectId {
        let status = self.test.engine.links.status(&self.app, None).unwrap();
        status.unwrap().link.taken
    }

    pub(crate) fn text(&self, path: &str) -> String {
        self.test.project_text(&self.app, path)
    }

    /// Everything fits together, here and in the repository.
    pub(crate) fn check(&self) {
        self.test.check();
        self.git(&["fsck", "--strict", "--no-dangling"]);
    }

    /// What a push must not touch: the work tree, the index, `HEAD` and the settings.
    pub(crate) fn untouched(&self) -> String {
        let dir = self.repo.join(".git");
        // Without this option `git status` itself writes the index.
        let status = [
            "--no-optional-locks",
            "status",
            "--porcelain=v2",
            "--branch",
        ];
        let mut seen = self.git(&status);
        for name in ["index", "HEAD", "config"] {
            let file = dir.join(name);
            let changed = fs::metadata(&file).unwrap().modified().unwrap();
            seen.push_str(&format!(
                "\n{name} {changed:?} {:?}",
                fs::read(&file).unwrap()
            ));
        }
        seen
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
