//! Sources of imports, and short calls for them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fixture::{TestEngine, user};
use offshoot_core::{Error, ProjectId, RelPath};
use offshoot_engine::{ForkOptions, ImportOptions, Imported, ProjectSynced};
use offshoot_testkit::git;

impl TestEngine {
    /// An empty directory for a source.
    pub(crate) fn source(&self, name: &str) -> PathBuf {
        let path = self.host.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    pub(crate) fn import(&self, name: &str, source: &Path) -> Result<Imported, Error> {
        self.import_with(name, source, &ImportOptions::default())
    }

    pub(crate) fn import_with(
        &self,
        name: &str,
        source: &Path,
        options: &ImportOptions,
    ) -> Result<Imported, Error> {
        self.engine
            .projects
            .import_dir(&id(name), source, options, &mut |_| {}, &user())
    }

    pub(crate) fn import_git(&self, name: &str, source: &Path) -> Result<Imported, Error> {
        self.engine
            .projects
            .import_git(&id(name), source, &mut |_| {}, &user())
    }

    pub(crate) fn sync(&self, name: &str, source: &Path, options: &ImportOptions) -> ProjectSynced {
        self.engine
            .links
            .sync_directory(&id(name), Some(source), options, &mut |_| {}, &user())
            .unwrap()
    }

    pub(crate) fn export(
        &self,
        name: &str,
        branch: Option<&str>,
        target: &Path,
    ) -> Result<(), Error> {
        self.engine
            .workspaces
            .export_project_git(&id(name), target, branch, &mut |_| {})
            .map(drop)
    }

    /// The directory of a fresh fork.
    pub(crate) fn fork_path(&self, name: &str) -> PathBuf {
        let options = ForkOptions::default();
        self.engine
            .forks
            .fork_out(&id(name), &options, &user())
            .unwrap()
            .1
    }

    /// Everything in the head of a project, as text.
    pub(crate) fn paths(&self, name: &str) -> Vec<String> {
        self.engine
            .projects
            .project_entries(&id(name), None, &RelPath::root(), true)
            .unwrap()
            .iter()
            .map(|entry| entry.path.to_text())
            .collect()
    }
}

pub(crate) fn id(name: &str) -> ProjectId {
    name.parse().unwrap()
}

pub(crate) fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn commit_all(repository: &Path, message: &str) -> String {
    git(repository, &["add", "-A"]);
    git(
        repository,
        &["commit", "-q", "--allow-empty", "-m", message],
    );
    git(repository, &["rev-parse", "HEAD"])
}

pub(crate) fn dropped(imported: &[(RelPath, String)]) -> Vec<(String, &str)> {
    imported
        .iter()
        .map(|(path, why)| (path.to_text(), why.as_str()))
        .collect()
}
