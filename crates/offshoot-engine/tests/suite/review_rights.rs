//! A review is decided with the rights of the person who decides, and about the content that is
//! there.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{ErrorCode, Operator, ProjectId, WorkspaceId};
use offshoot_engine::{
    Access, CompleteOptions, Content, PartChoice, PartChoices, Principal, PrincipalKind, Reach,
    Resolution, ReviewFilter, Scope,
};
use offshoot_fs::ProviderName;
use offshoot_store::Durability;

struct Setup {
    test: TestEngine,
    project: ProjectId,
    fork: WorkspaceId,
    /// Reviews of `README` and of `docs/a/b`, of one merge that lands whole.
    reviews: [String; 2],
}

impl Setup {
    fn new() -> Setup {
        let test = TestEngine::in_memory(ProviderName::Copy);
        let project = test.project("web");
        let (fork, path) = test.fork(&project, "one");
        let names = ["README", "docs/a/b"];
        for name in names {
            fs::write(path.join(name), "mine\n").unwrap();
            test.put(&project, name, "theirs\n");
        }
        fs::write(path.join("fits"), "fits\n").unwrap();
        let options = CompleteOptions {
            atomic: Some(true),
            ..CompleteOptions::default()
        };
        let done = test
            .engine
            .merges
            .complete(&fork, &options, &user())
            .unwrap();
        let review = |name: &str| {
            let mut found = done.conflicts.iter();
            let found = found.find(|one| one.path == p(name)).unwrap();
            found.review_id.clone().unwrap()
        };
        Setup {
            reviews: names.map(review),
            test,
            project,
            fork,
        }
    }

    fn protect(&self, patterns: &[&str]) {
        let engine = &self.test.engine;
        let mut settings = engine.projects.merge_settings(&self.project).unwrap();
        settings.protect = patterns.iter().map(ToString::to_string).collect();
        let set = engine
            .projects
            .set_merge_settings(&self.project, &settings, &user());
        set.unwrap();
    }

    fn access(&self, kind: PrincipalKind, reach: Reach, allow: &[&str]) -> Access {
        let principal = Principal {
            operator: Operator::new("bob"),
            scope: Scope {
                kind,
                reach,
                allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(),
            },
            token: None,
            expires_at: None,
            home: None,
        };
        self.test.engine.access.acting_as(Arc::new(principal), None)
    }

    fn token(&self) -> Access {
        let reach = Reach::Project(self.project.clone());
        self.access(PrincipalKind::Service, reach, &[])
    }

    fn admin(&self) -> Access {
        self.access(PrincipalKind::Admin, Reach::Everything, &[])
    }

    fn state(&self, review: usize) -> &'static str {
        let review = self.test.engine.merges.review(&self.reviews[review]);
        review.unwrap().state
    }

    fn has_landed(&self) -> bool {
        let engine = &self.test.engine;
        let file = engine
            .projects
            .open_project_file(&self.project, None, &p("fits"));
        file.is_ok()
    }
}

fn parts(name: &str, setup: &Setup) -> Resolution<'static> {
    let ours = setup
        .test
        .engine
        .merges
        .review_content(&setup.reviews[0])
        .unwrap();
    Resolution::Parts(PartChoices {
        parts: BTreeMap::from([(name.to_owned(), PartChoice::Theirs)]),
        rest: None,
        ours: ours.ours.unwrap().id,
    })
}

#[test]
fn a_choice_that_a_review_does_not_have_is_refused_at_once() {
    let setup = Setup::new();
    let [first, _] = &setup.reviews;
    let refused = setup.token().resolve(first, parts("line 999", &setup));
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidRequest);
    assert_eq!(setup.state(0), "open");
    let decided = setup.token().resolve(first, parts("line 1", &setup));
    assert_eq!(decided.unwrap().review.state, "decided");
}

#[test]
fn a_decision_that_does_not_fit_any_more_is_asked_for_again() {
    let setup = Setup::new();
    let [first, second] = &setup.reviews;
    let token = setup.token();
    token.resolve(first, parts("line 1", &setup)).unwrap();
    setup.test.put(&setup.project, "README", "something else\n");
    let refused = token.resolve(second, Resolution::Theirs).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PreconditionFailed);
    assert!(refused.to_string().contains("README"), "{refused}");
    assert_eq!((setup.state(0), setup.state(1)), ("open", "decided"));
    let landed = token.resolve(first, parts("line 1", &setup)).unwrap();
    assert!(landed.snapshot.is_some() && setup.has_landed());
    assert_eq!(setup.test.project_text(&setup.project, "README"), "mine\n");
    setup.test.check();
}

#[test]
fn nobodys_rights_stand_in_for_those_of_whoever_decided() {
    let setup = Setup::new();
    let [first, second] = &setup.reviews;
    setup.token().resolve(first, Resolution::Theirs).unwrap();
    // The owner protects the path before the decision lands, so the owner has to decide again.
    setup.protect(&["README"]);
    let refused = setup.admin().resolve(second, Resolution::Theirs);
    assert!(refused.is_err());
    assert!(!setup.has_landed());
    assert_eq!(setup.state(0), "open");
    let landed = setup.admin().resolve(first, Resolution::Theirs).unwrap();
    assert!(landed.snapshot.is_some() && setup.has_landed());
    setup.test.check();
}

#[test]
fn what_an_admin_decided_lands_with_the_last_decision_of_somebody_else() {
    let setup = Setup::new();
    let [first, second] = &setup.reviews;
    setup.protect(&["README"]);
    let refused = setup.token().resolve(first, Resolution::Theirs);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PermissionDenied);
    setup.admin().resolve(first, Resolution::Theirs).unwrap();
    let landed = setup.token().resolve(second, Resolution::Theirs).unwrap();
    assert!(landed.snapshot.is_some() && setup.has_landed());
    assert_eq!(setup.test.project_text(&setup.project, "README"), "mine\n");
    setup.test.check();
}

#[test]
fn whoever_may_only_read_proposes_nothing() {
    let setup = Setup::new();
    let [first, _] = &setup.reviews;
    let reach = || Reach::Project(setup.project.clone());
    let reader = setup.access(PrincipalKind::Service, reach(), &["**:read"]);
    assert!(reader.review(first).is_ok());
    let refused = reader.propose(first, Content::Bytes(b"both\n"), None);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PermissionDenied);
    let proposed = setup.token();
    let proposed = proposed.propose(first, Content::Bytes(b"both\n"), None);
    assert_eq!(proposed.unwrap().candidates.len(), 1);
}

/// A caller that sees one workspace gets its reviews without reading those of all others: a damaged
/// row of another project does not matter.
#[test]
fn a_list_for_one_workspace_reads_no_other_reviews() {
    let setup = Setup::new();
    let other = setup.test.project("other");
    let (fork, path) = setup.test.fork(&other, "two");
    fs::write(path.join("README"), "mine\n").unwrap();
    setup.test.put(&other, "README", "theirs\n");
    let updated = setup
        .test
        .engine
        .merges
        .update(&fork, false, &user())
        .unwrap();
    assert_eq!(updated.conflicts.len(), 1);
    let store = setup.test.store();
    let id = &setup.reviews[0];
    let mut row = store.read(|tx| tx.review(id)).unwrap().unwrap();
    row.details = "{".to_owned();
    let put = store.write(Durability::Synced, |tx| tx.put_review(&row));
    put.unwrap();
    let agent = "two".parse().unwrap();
    for reach in [Reach::Workspace(fork.clone()), Reach::Agent(agent)] {
        let access = setup.access(PrincipalKind::Agent, reach, &[]);
        let find = |after: Option<&str>| {
            let found = access.find_reviews(&ReviewFilter::default(), after, 0);
            found.unwrap()
        };
        let found = find(None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].workspace, fork.as_str());
        assert!(find(Some(&found[0].id)).is_empty());
        assert!(find(Some(id)).is_empty(), "after one that it does not have");
    }
    let access = setup.access(
        PrincipalKind::Agent,
        Reach::Workspace(setup.fork.clone()),
        &[],
    );
    // What a merge left to decide is not decided by the workspace alone.
    let filter = ReviewFilter::default();
    assert!(
        access.find_reviews(&filter, None, 0).is_err(),
        "its own row is broken"
    );
}
