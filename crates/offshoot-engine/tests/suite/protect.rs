//! Protected paths: a change there waits for the owner although it has no conflict, under any
//! options, and no one else decides it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{ErrorCode, Operator, ProjectId, WorkspaceId};
use offshoot_engine::{
    Access, CompleteOptions, Completed, Content, Policy, Principal, PrincipalKind, Reach,
    Resolution, Review, Scope, WriteOptions,
};
use offshoot_fs::ProviderName;
use offshoot_store::Landing;
use offshoot_testkit::git;

struct Setup {
    test: TestEngine,
    project: ProjectId,
}

impl Setup {
    fn new() -> Setup {
        let test = TestEngine::in_memory(ProviderName::Copy);
        let project = test.project("web");
        for (path, text) in [
            (".github/workflows/ci.yml", "on: push\n"),
            ("pkg/CLAUDE.md", "be kind\n"),
            ("pkg/code.rs", "fn code() {}\n"),
        ] {
            test.put(&project, path, text);
        }
        let setup = Setup { test, project };
        setup.set(Landing::Partial, &[".github/**", "CLAUDE.md"]);
        setup
    }

    fn set(&self, landing: Landing, protect: &[&str]) {
        let engine = &self.test.engine;
        let mut settings = engine.projects.merge_settings(&self.project).unwrap();
        settings.landing = landing;
        settings.protect = protect.iter().map(ToString::to_string).collect();
        let set = engine
            .projects
            .set_merge_settings(&self.project, &settings, &user());
        set.unwrap();
    }

    fn fork(&self, agent: &str) -> (WorkspaceId, PathBuf) {
        self.test.fork(&self.project, agent)
    }

    fn complete(&self, id: &WorkspaceId) -> Completed {
        // An agent that wants its own side to win everywhere.
        let options = CompleteOptions {
            policy: Some(Policy::Theirs),
            ..CompleteOptions::default()
        };
        self.test
            .engine
            .merges
            .complete(id, &options, &user())
            .unwrap()
    }

    fn resolve(&self, review: &str, how: Resolution<'_>) {
        self.test
            .engine
            .merges
            .resolve(review, how, &user())
            .unwrap();
    }

    fn open_reviews(&self) -> Vec<Review> {
        self.test
            .engine
            .merges
            .reviews(Some(&self.project), false)
            .unwrap()
    }

    fn holds(&self, path: &str) -> bool {
        let file = self
            .test
            .engine
            .projects
            .open_project_file(&self.project, None, &p(path));
        file.is_ok()
    }

    /// The files and links of the project by path.
    fn image(&self) -> Vec<(String, String)> {
        let image = self.test.project_image(&self.project, None);
        let leaves = image.iter().filter_map(|(path, node)| match node {
            offshoot_testkit::Node::Dir(_) => None,
            other => Some((
                String::from_utf8_lossy(&path.0).into_owned(),
                format!("{other:?}"),
            )),
        });
        leaves.collect()
    }

    fn access(&self, reach: Reach, kind: PrincipalKind) -> Access {
        let principal = Principal {
            operator: Operator::new("bob"),
            scope: Scope {
                kind,
                reach,
                allow: Vec::new(),
            },
            token: None,
            expires_at: None,
            home: None,
        };
        self.test.engine.access.acting_as(Arc::new(principal), None)
    }

    fn project_token(&self) -> Access {
        self.access(Reach::Project(self.project.clone()), PrincipalKind::Service)
    }

    fn admin(&self) -> Access {
        self.access(Reach::Everything, PrincipalKind::Admin)
    }
}

fn waiting(done: &Completed) -> (&str, &str, String) {
    assert_eq!(done.conflicts.len(), 1, "{:?}", done.conflicts);
    let one = &done.conflicts[0];
    (
        one.review_id.as_deref().unwrap(),
        &one.kind,
        one.path.to_text(),
    )
}

#[test]
fn what_fits_waits_and_the_rest_lands() {
    let setup = Setup::new();
    let (id, path) = setup.fork("ada");
    fs::write(path.join(".github/workflows/ci.yml"), "on: pull_request\n").unwrap();
    fs::write(path.join("free"), "free\n").unwrap();
    let plan = setup
        .test
        .engine
        .merges
        .plan_completion(&id, &CompleteOptions::default(), &user())
        .unwrap();
    assert_eq!(
        (plan.conflicts.len(), plan.conflicts[0].kind.as_str()),
        (1, "protected")
    );
    let done = setup.complete(&id);
    let (review, kind, at) = waiting(&done);
    assert_eq!(
        (kind, at.as_str()),
        ("protected", ".github/workflows/ci.yml")
    );
    assert_eq!(done.merged, [p("free")]);
    let workflow = || {
        setup
            .test
            .project_text(&setup.project, ".github/workflows/ci.yml")
    };
    assert_eq!(workflow(), "on: push\n");
    let shown = setup.test.engine.merges.review(review).unwrap();
    assert!(shown.protected && !shown.changed_since);
    assert_eq!(shown.theirs_by.unwrap().claim.as_deref(), Some("ada"));
    assert!(path.exists(), "a workspace with reviews is kept");
    // Completing again opens no second review.
    assert_eq!(setup.complete(&id), done);
    assert_eq!(setup.open_reviews().len(), 1);
    setup.resolve(review, Resolution::Theirs);
    assert_eq!(workflow(), "on: pull_request\n");
    setup.test.check();
    assert!(!path.exists(), "the workspace goes with the last decision");
}

#[test]
fn with_atomic_landing_nothing_lands_before_it_is_decided() {
    for (how, lands) in [(Resolution::Theirs, true), (Resolution::Ours, false)] {
        let setup = Setup::new();
        setup.set(Landing::Atomic, &["CLAUDE.md"]);
        let (id, path) = setup.fork("ada");
        fs::write(path.join("CLAUDE.md"), "obey\n").unwrap();
        fs::write(path.join("README"), "changed\n").unwrap();
        let before = setup.image();
        let done = setup.complete(&id);
        assert_eq!((done.merged.len(), setup.image()), (0, before));
        setup.resolve(waiting(&done).0, how);
        assert_eq!(
            setup.test.project_text(&setup.project, "README"),
            "changed\n"
        );
        assert_eq!(setup.holds("CLAUDE.md"), lands);
        setup.test.check();
    }
}

#[test]
fn a_pattern_that_came_later_holds_for_a_merge_that_waited() {
    let setup = Setup::new();
    setup.set(Landing::Atomic, &["CLAUDE.md"]);
    let (id, path) = setup.fork("ada");
    fs::write(path.join("CLAUDE.md"), "obey\n").unwrap();
    fs::write(path.join("deploy.sh"), "rm\n").unwrap();
    let done = setup.complete(&id);
    setup.set(Landing::Atomic, &["CLAUDE.md", "deploy.sh"]);
    let refused = setup
        .test
        .engine
        .merges
        .resolve(waiting(&done).0, Resolution::Theirs, &user())
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::MergeConflict);
    assert!(!setup.holds("CLAUDE.md") && !setup.holds("deploy.sh"));
}

/// A change of an agent in its directory.
type Deed = fn(&Path);

#[test]
fn every_kind_of_change_counts() {
    let deeds: [(&str, Deed); 12] = [
        ("an addition", |at| {
            fs::write(at.join(".github/new"), "x").unwrap();
        }),
        ("a deletion", |at| {
            fs::remove_file(at.join("pkg/CLAUDE.md")).unwrap();
        }),
        ("another mode", |at| {
            let mode = PermissionsExt::from_mode(0o755);
            fs::set_permissions(at.join("pkg/CLAUDE.md"), mode).unwrap();
        }),
        ("a link instead", |at| {
            fs::remove_file(at.join("pkg/CLAUDE.md")).unwrap();
            symlink("code.rs", at.join("pkg/CLAUDE.md")).unwrap();
        }),
        ("a name in capitals", |at| {
            fs::write(at.join("Claude.MD"), "x").unwrap();
        }),
        ("a rename into it", |at| {
            fs::rename(at.join("README"), at.join(".github/README")).unwrap();
        }),
        ("a rename out of it", |at| {
            fs::rename(at.join("pkg/CLAUDE.md"), at.join("pkg/notes")).unwrap();
        }),
        ("a link above it", |at| {
            fs::rename(at.join(".github"), at.join("elsewhere")).unwrap();
            symlink("elsewhere", at.join(".github")).unwrap();
        }),
        ("a link above, in the place of a directory", |at| {
            fs::rename(at.join("pkg"), at.join("elsewhere")).unwrap();
            symlink("elsewhere", at.join("pkg")).unwrap();
        }),
        ("a file above it", |at| {
            fs::remove_dir_all(at.join("pkg")).unwrap();
            fs::write(at.join("pkg"), "x").unwrap();
        }),
        ("the directory above goes", |at| {
            fs::remove_dir_all(at.join(".github")).unwrap();
        }),
        ("a directory of its name", |at| {
            fs::create_dir(at.join("CLAUDE.md")).unwrap();
            fs::write(at.join("CLAUDE.md/x"), "x").unwrap();
        }),
    ];
    for (what, deed) in deeds {
        println!("{what}");
        let setup = Setup::new();
        let (id, path) = setup.fork("ada");
        deed(&path);
        let before = setup.image();
        let guarded = |image: &[(String, String)]| -> Vec<(String, String)> {
            let is_guarded = |path: &str| {
                let lower = path.to_lowercase();
                lower.starts_with(".github") || lower.contains("claude.md") || path == "pkg"
            };
            image
                .iter()
                .filter(|(path, _)| is_guarded(path))
                .cloned()
                .collect()
        };
        let done = setup.complete(&id);
        assert!(!done.conflicts.is_empty(), "{what}: {done:?}");
        assert!(
            done.conflicts.iter().all(|one| one.kind == "protected"),
            "{what}: {done:?}"
        );
        assert_eq!(guarded(&setup.image()), guarded(&before), "{what}");
        setup.test.check();
        // A rejected change leaves the project as it was; an accepted one makes it what the agent
        // wrote.
        let theirs: Vec<(String, String)> = offshoot_testkit::dir_image(&path)
            .iter()
            .filter(|(_, node)| !matches!(node, offshoot_testkit::Node::Dir(_)))
            .map(|(path, node)| {
                (
                    String::from_utf8_lossy(&path.0).into_owned(),
                    format!("{node:?}"),
                )
            })
            .collect();
        for review in setup.open_reviews() {
            setup.resolve(&review.id, Resolution::Theirs);
        }
        assert_eq!(setup.image(), theirs, "{what}");
        setup.test.check();
    }
}

#[test]
fn what_was_moved_stays_where_it_was_if_that_is_refused() {
    let setup = Setup::new();
    let (id, path) = setup.fork("ada");
    fs::rename(path.join("README"), path.join(".github/README")).unwrap();
    fs::write(path.join("free"), "free\n").unwrap();
    let done = setup.complete(&id);
    assert!(setup.holds("README") && setup.holds("free"));
    setup.resolve(waiting(&done).0, Resolution::Ours);
    assert!(setup.holds("README") && !setup.holds(".github/README"));
}

#[test]
fn a_conflict_at_a_protected_path_is_for_the_owner_whatever_the_policy() {
    let setup = Setup::new();
    let (one, one_path) = setup.fork("one");
    let (two, two_path) = setup.fork("two");
    fs::write(one_path.join("README"), "one\n").unwrap();
    setup.complete(&one);
    setup
        .test
        .put(&setup.project, "pkg/CLAUDE.md", "be very kind\n");
    fs::write(two_path.join("pkg/CLAUDE.md"), "be unkind\n").unwrap();
    fs::write(two_path.join("README"), "two\n").unwrap();
    let done = setup.complete(&two);
    let (review, kind, _) = waiting(&done);
    assert_eq!(kind, "both_changed");
    assert!(setup.test.engine.merges.review(review).unwrap().protected);
    assert_eq!(
        setup.test.project_text(&setup.project, "pkg/CLAUDE.md"),
        "be very kind\n"
    );
    assert_eq!(setup.test.project_text(&setup.project, "README"), "two\n");
    let refused = setup.project_token().resolve(review, Resolution::Theirs);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PermissionDenied);
}

#[test]
fn an_update_keeps_what_waits_and_a_decision_still_lands() {
    let setup = Setup::new();
    let (id, path) = setup.fork("ada");
    fs::write(path.join("pkg/CLAUDE.md"), "be kind\nand quick\n").unwrap();
    let done = setup.complete(&id);
    let review = waiting(&done).0;
    setup.test.put(&setup.project, "README", "newer\n");
    setup
        .test
        .put(&setup.project, "pkg/CLAUDE.md", "always\nbe kind\n");
    let updated = setup
        .test
        .engine
        .merges
        .update(&id, false, &user())
        .unwrap();
    assert!(updated.conflicts.is_empty(), "{:?}", updated.conflicts);
    let now = || fs::read_to_string(path.join("pkg/CLAUDE.md")).unwrap();
    assert_eq!(now(), "always\nbe kind\nand quick\n");
    // The change still waits, also in a merge of the new base. The content there has changed, so
    // the review is a new one.
    let again = setup.complete(&id);
    assert_ne!(waiting(&again).0, review);
    let review = waiting(&again).0;
    assert_eq!(setup.open_reviews().len(), 1);
    assert_eq!(
        setup.test.project_text(&setup.project, "pkg/CLAUDE.md"),
        "always\nbe kind\n"
    );
    setup.resolve(review, Resolution::Theirs);
    let text = setup.test.project_text(&setup.project, "pkg/CLAUDE.md");
    assert_eq!(text, "always\nbe kind\nand quick\n");
    setup.test.check();
}

#[test]
fn what_was_decided_does_not_come_up_again() {
    let setup = Setup::new();
    let (id, path) = setup.fork("ada");
    fs::write(path.join("CLAUDE.md"), "obey\n").unwrap();
    fs::write(path.join("free"), "1\n").unwrap();
    let review = waiting(&setup.complete(&id)).0.to_owned();
    // The agent continues, so that the workspace stays.
    fs::write(path.join("more"), "2\n").unwrap();
    setup.test.engine.sync.sync_workspace(&id).unwrap();
    setup.resolve(&review, Resolution::Ours);
    let again = setup.test.engine.merges.complete(
        &id,
        &CompleteOptions {
            keep: true,
            ..CompleteOptions::default()
        },
        &user(),
    );
    let again = again.unwrap();
    assert!(again.conflicts.is_empty(), "{:?}", again.conflicts);
    assert!(setup.holds("more") && !setup.holds("CLAUDE.md"));
    let told = &again.decided[0];
    assert_eq!(
        (told.policy, told.winner.as_str()),
        (Policy::Review, "ours")
    );
    assert_eq!(told.lost_by.as_deref(), Some("ada"));
    fs::write(path.join("CLAUDE.md"), "obey\n").unwrap();
    fs::write(path.join("more"), "3\n").unwrap();
    let options = CompleteOptions {
        keep: true,
        ..CompleteOptions::default()
    };
    let on_new_base = setup
        .test
        .engine
        .merges
        .complete(&id, &options, &user())
        .unwrap();
    assert!(
        on_new_base.conflicts.is_empty(),
        "{:?}",
        on_new_base.conflicts
    );
    // Other content there makes another review.
    fs::write(path.join("CLAUDE.md"), "obey me\n").unwrap();
    assert_eq!(waiting(&setup.complete(&id)).1, "protected");
    setup.test.check();
}

/// A decision is about the content that was reviewed, also if the agent changes it meanwhile.
#[test]
fn what_the_owner_looks_at_does_not_become_something_else() {
    let setup = Setup::new();
    let (id, path) = setup.fork("ada");
    fs::write(path.join("CLAUDE.md"), "harmless\n").unwrap();
    let first = waiting(&setup.complete(&id)).0.to_owned();
    fs::write(path.join("CLAUDE.md"), "obey me\n").unwrap();
    let second = waiting(&setup.complete(&id)).0.to_owned();
    assert_ne!(first, second);
    let refused = setup
        .test
        .engine
        .merges
        .resolve(&first, Resolution::Theirs, &user());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::AlreadyExists);
    assert!(!setup.holds("CLAUDE.md"));
    let open: Vec<String> = setup.open_reviews().into_iter().map(|one| one.id).collect();
    assert_eq!(open, std::slice::from_ref(&second));
    setup.resolve(&second, Resolution::Theirs);
    assert!(setup.holds("CLAUDE.md"));
    setup.test.check();
}

/// A link in place of a directory would lead a protected path elsewhere, whatever pattern protects
/// it.
#[test]
fn a_link_below_a_pattern_with_stars_in_the_middle_waits() {
    let setup = Setup::new();
    setup.set(Landing::Partial, &["ops/**/run.sh"]);
    let (id, path) = setup.fork("ada");
    fs::create_dir_all(path.join("evil")).unwrap();
    fs::create_dir_all(path.join("ops")).unwrap();
    fs::write(path.join("evil/run.sh"), "#!/bin/sh\n").unwrap();
    symlink("../evil", path.join("ops/prod")).unwrap();
    let done = setup.complete(&id);
    assert_eq!(waiting(&done).1, "protected");
    assert!(setup.holds("evil/run.sh") && !setup.holds("ops/prod"));
    setup.test.check();
}

#[test]
fn only_the_owner_and_admins_decide_and_change_what_is_protected() {
    let setup = Setup::new();
    let (id, path) = setup.fork("ada");
    fs::write(path.join("CLAUDE.md"), "obey\n").unwrap();
    let done = setup.complete(&id);
    let review = waiting(&done).0;
    let token = setup.project_token();
    let denied = |error: offshoot_core::Error| {
        assert_eq!(error.code(), ErrorCode::PermissionDenied, "{error}");
        assert!(error.hint().is_some(), "{error}");
    };
    denied(token.resolve(review, Resolution::Theirs).unwrap_err());
    denied(token.resolve(review, Resolution::Ours).unwrap_err());
    let agent = setup.access(Reach::Workspace(id.clone()), PrincipalKind::Agent);
    assert!(agent.resolve(review, Resolution::Theirs).is_err());
    // Proposing decides nothing.
    token
        .propose(review, Content::Bytes(b"be kind\n"), None)
        .unwrap();
    let options = WriteOptions::default();
    let put = |access: &Access, path: &str| {
        access.put_in_project(&setup.project, &p(path), Content::Bytes(b"x"), &options)
    };
    denied(put(&token, "a/claude.md").unwrap_err());
    denied(put(&token, ".github").unwrap_err());
    put(&token, "plain").unwrap();
    let import = token.begin_import(&setup.project).unwrap();
    denied(
        import
            .write_file(&p(".github/x"), Content::Bytes(b"x"), false)
            .unwrap_err(),
    );
    denied(import.make_link(&p(".github"), b"src").unwrap_err());
    let mut settings = token.merge_settings(&setup.project).unwrap();
    settings.landing = Landing::Atomic;
    token.set_merge_settings(&setup.project, &settings).unwrap();
    settings.protect.clear();
    denied(
        token
            .set_merge_settings(&setup.project, &settings)
            .unwrap_err(),
    );
    let admin = setup.admin();
    admin.resolve(review, Resolution::Candidate(1)).unwrap();
    assert_eq!(
        setup.test.project_text(&setup.project, "CLAUDE.md"),
        "be kind\n"
    );
    put(&admin, "CLAUDE.md").unwrap();
    // Undoing a merge that changed a protected path is a change of it.
    let (other, path) = setup.fork("bob");
    fs::write(path.join(".github/x"), "x\n").unwrap();
    let done = setup.complete(&other);
    admin.resolve(waiting(&done).0, Resolution::Theirs).unwrap();
    let merge = done.merge_id.unwrap();
    denied(token.undo_merge(&merge).unwrap_err());
    assert!(setup.holds(".github/x"));
    admin.undo_merge(&merge).unwrap();
    assert!(!setup.holds(".github/x"));
    admin.set_merge_settings(&setup.project, &settings).unwrap();
}

#[test]
fn a_decision_does_not_follow_a_file_to_a_protected_path() {
    let setup = Setup::new();
    let (id, path) = setup.fork("ada");
    let text = fs::read_to_string(path.join("src/lib.rs")).unwrap();
    fs::write(path.join("src/lib.rs"), text.replace("one", "ada's")).unwrap();
    let engine = &setup.test.engine;
    let changed = text.replace("one", "the owner's");
    setup.test.put(&setup.project, "src/lib.rs", &changed);
    let done = engine
        .merges
        .complete(&id, &CompleteOptions::default(), &user());
    let done = done.unwrap();
    let review = waiting(&done).0;
    // Before the decision the owner moves the file to a protected path.
    let (owner, path) = setup.fork("owner");
    fs::rename(path.join("src/lib.rs"), path.join(".github/lib.rs")).unwrap();
    let moved = setup.complete(&owner);
    setup.resolve(waiting(&moved).0, Resolution::Theirs);
    assert_eq!(
        setup.test.project_text(&setup.project, ".github/lib.rs"),
        changed
    );
    let token = setup.project_token();
    let denied = token.resolve(review, Resolution::Theirs).unwrap_err();
    assert_eq!(denied.code(), ErrorCode::PermissionDenied, "{denied}");
    assert_eq!(
        setup.test.project_text(&setup.project, ".github/lib.rs"),
        changed
    );
    setup.admin().resolve(review, Resolution::Theirs).unwrap();
    let landed = setup.test.project_text(&setup.project, ".github/lib.rs");
    assert!(landed.contains("ada's"), "{landed}");
    setup.test.check();
}

#[test]
fn a_project_from_git_is_protected_from_the_start() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let source = tempfile::tempdir().unwrap();
    git(source.path(), &["init", "-q", "-b", "main"]);
    fs::write(source.path().join("README"), "x\n").unwrap();
    git(source.path(), &["add", "README"]);
    git(source.path(), &["commit", "-q", "-m", "first"]);
    let project: ProjectId = "repo".parse().unwrap();
    let imported = test
        .engine
        .projects
        .import_git(&project, source.path(), &mut |_| {}, &user());
    imported.unwrap();
    let (id, path) = test.fork(&project, "ada");
    for name in ["AGENTS.md", "deep/.vscode/tasks.json", ".envrc"] {
        fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
        fs::write(path.join(name), "x\n").unwrap();
    }
    let done = test
        .engine
        .merges
        .complete(&id, &CompleteOptions::default(), &user());
    let mut paths: Vec<String> = done
        .unwrap()
        .conflicts
        .iter()
        .map(|one| one.path.to_text())
        .collect();
    paths.sort();
    assert_eq!(paths, [".envrc", "AGENTS.md", "deep/.vscode/tasks.json"]);
    // A change that the owner accepts lands.
    test.put(&project, "AGENTS.md", "mine\n");
    let empty: ProjectId = "empty".parse().unwrap();
    test.engine
        .projects
        .create_project(&empty, &user())
        .unwrap();
    assert!(
        test.engine
            .projects
            .merge_settings(&empty)
            .unwrap()
            .protect
            .is_empty()
    );
}
