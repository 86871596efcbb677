//! Removing a data directory: a directory in use is not changed, and files of others stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::fixture::{TestEngine, user};
use offshoot_core::{ErrorCode, Layout};
use offshoot_engine::{Quota, remove_data};
use offshoot_fs::ProviderName;

/// A program that works in a directory until it is dropped.
struct WorksIn(Child);

impl WorksIn {
    fn new(dir: &Path) -> WorksIn {
        let child = Command::new("sleep").arg("600").current_dir(dir).spawn();
        WorksIn(child.unwrap())
    }
}

impl Drop for WorksIn {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn data(test: &TestEngine) -> PathBuf {
    test.host.path().join("data")
}

#[test]
fn copies_and_plain_workspaces_that_are_in_use_are_not_removed() {
    let mut test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (_, fork) = test.fork(&project, "ada");
    let plain = test
        .engine
        .workspaces
        .create_workspace(None, Layout::Plain, Quota::default(), &user())
        .unwrap();
    let plain = test.engine.workspaces.hand_out_path(&plain.id).unwrap();
    test.close();
    for place in [&fork, &plain] {
        let worker = WorksIn::new(place);
        let refused = remove_data(&data(&test)).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::WorkspaceBusy, "{refused}");
        let name = place.file_name().unwrap().to_str().unwrap();
        assert!(refused.message().contains(name), "{refused}");
        assert!(fork.join("README").exists() && plain.is_dir());
        drop(worker);
    }
    assert!(remove_data(&data(&test)).unwrap().gone);
}

#[test]
fn files_whose_names_begin_like_ours_stay() {
    let mut test = TestEngine::new(ProviderName::Copy);
    test.project("web");
    test.close();
    let theirs = ["offshoot.db.bak", "reserve-notes.txt", "server.lock2"];
    for name in theirs {
        fs::write(data(&test).join(name), "mine").unwrap();
    }
    let removed = remove_data(&data(&test)).unwrap();
    assert!(!removed.gone);
    assert_eq!(removed.left, theirs.map(Into::<std::ffi::OsString>::into));
    let mut left: Vec<_> = fs::read_dir(data(&test))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, theirs.map(Into::<std::ffi::OsString>::into));
}
