//! The n-th call to store or disk fails while a push is merged: what the client hears as refused does
//! not land later, and leaves nothing.

use std::path::Path;
use std::sync::Arc;

use crate::fixture::TestEngine;
use offshoot_core::{ObjectId, Operator, ProjectId};
use offshoot_engine::{PackLimits, Principal, Repository};
use offshoot_fs::ProviderName;
use offshoot_testkit::{git, git_with_input, soak};

const LIMITS: PackLimits = PackLimits {
    pack_bytes: 1 << 20,
    object_bytes: 1 << 20,
    unpacked_bytes: 1 << 20,
    objects: 1_000,
};

/// A push of one commit whose author saw an older head, as bytes.
fn push_of(test: &TestEngine, project: &ProjectId, clone: &Path) -> Vec<u8> {
    let place = test.host.path().join(format!("{project}.git"));
    let workspaces = &test.engine.workspaces;
    workspaces
        .export_project_git(project, &place, None, &mut |_| {})
        .unwrap();
    git(
        test.host.path(),
        &[
            "clone",
            "-q",
            &place.to_string_lossy(),
            &clone.to_string_lossy(),
        ],
    );
    let old = git(clone, &["rev-parse", "HEAD"]);
    std::fs::write(clone.join("pushed"), "pushed\n").unwrap();
    git(clone, &["add", "-A"]);
    git(clone, &["commit", "-q", "-m", "pushed"]);
    let new = git(clone, &["rev-parse", "HEAD"]);
    let revs = format!("{new}\n^{old}\n");
    let args = ["pack-objects", "-q", "--revs", "--stdout"];
    let pack = git_with_input(clone, &args, revs.as_bytes());
    let line = format!("{old} {new} refs/heads/main\0report-status");
    let body = format!("{:04x}{line}\n0000", line.len() + 5);
    [body.as_bytes(), &pack].concat()
}

/// Pushes, and gives whether the client hears that it landed.
fn push(test: &TestEngine, project: &ProjectId, body: &[u8]) -> bool {
    let owner = Principal::owner(Operator::new("grace"));
    let access = test.engine.access.acting_as(Arc::new(owner), None);
    let mut report = Vec::new();
    let done = access
        .open_push(&Repository::Project(project.clone()))
        .and_then(|push| push.receive(&mut &body[..], &LIMITS, &mut report));
    done.is_ok() && String::from_utf8_lossy(&report).contains("ok refs/heads/main")
}

fn head(test: &TestEngine, project: &ProjectId) -> Option<ObjectId> {
    test.engine.projects.project(project).unwrap().head
}

#[test]
fn a_push_that_was_refused_does_not_land_later() {
    let mut test = TestEngine::in_memory(ProviderName::Copy);
    let step = if soak() { 1 } else { 5 };
    for n in (1..).step_by(step) {
        let project = test.project(&format!("p{n}"));
        let clone = test.host.path().join(format!("clone-{n}"));
        let body = push_of(&test, &project, &clone);
        test.put(&project, "elsewhere", "moved on\n");
        test.engine.context.wait_for_jobs();
        let before = head(&test, &project);
        test.plan.arm(n as u64);
        let landed = push(&test, &project, &body);
        test.engine.context.wait_for_jobs();
        let struck = test.plan.disarm();
        let after = head(&test, &project);
        assert_eq!(landed, before != after, "call {n}");
        test.reopen();
        test.engine.merges.run_waiting_completions().unwrap();
        assert_eq!(head(&test, &project), after, "landed later, call {n}");
        let forks = test.engine.forks.list_forks(&project).unwrap();
        // After the merge it may be its removal that fails.
        assert!(landed || forks.is_empty(), "a fork is left, call {n}");
        test.check();
        if !struck {
            assert!(landed, "the push works without a fault");
            return;
        }
        if !landed {
            assert!(push(&test, &project, &body), "again after call {n}");
        }
    }
}
