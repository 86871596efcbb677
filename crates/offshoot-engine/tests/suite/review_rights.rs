//! Who decides a review decides with their own rights and about what is there, whoever comes last
//! and whatever else the store holds.

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

struct Scene {
    rig: TestEngine,
    project: ProjectId,
    fork: WorkspaceId,
    /// Reviews of `README` and of `docs/a/b`, of one merge that lands whole.
    reviews: [String; 2],
}

impl Scene {
    fn new() -> Scene {
        let rig = TestEngine::in_memory(ProviderName::Copy);
        let project = rig.project("web");
        let (fork, path) = rig.fork(&project, "one");
        let names = ["README", "docs/a/b"];
        for name in names {
            fs::write(path.join(name), "mine\n").unwrap();
            rig.put(&project, name, "theirs\n");
        }
        fs::write(path.join("fits"), "fits\n").unwrap();
        let options = CompleteOptions {
            atomic: Some(true),
            ..CompleteOptions::default()
        };
        let done = rig
            .engine
            .merges
            .complete(&fork, &options, &user())
            .unwrap();
        let review = |name: &str| {
            let mut found = done.conflicts.iter();
            let found = found.find(|one| one.path == p(name)).unwrap();
            found.review_id.clone().unwrap()
        };
        Scene {
            reviews: names.map(review),
            rig,
            project,
            fork,
        }
    }

    fn protect(&self, patterns: &[&str]) {
        let engine = &self.rig.engine;
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
        self.rig.engine.access.acting_as(Arc::new(principal), None)
    }

    fn token(&self) -> Access {
        let reach = Reach::Project(self.project.clone());
        self.access(PrincipalKind::Service, reach, &[])
    }

    fn admin(&self) -> Access {
        self.access(PrincipalKind::Admin, Reach::Everything, &[])
    }

    fn state(&self, review: usize) -> &'static str {
        let review = self.rig.engine.merges.review(&self.reviews[review]);
        review.unwrap().state
    }

    fn has_landed(&self) -> bool {
        let engine = &self.rig.engine;
        let file = engine
            .projects
            .open_project_file(&self.project, None, &p("fits"));
        file.is_ok()
    }
}

fn parts(name: &str, scene: &Scene) -> Resolution<'static> {
    let ours = scene
        .rig
        .engine
        .merges
        .review_content(&scene.reviews[0])
        .unwrap();
    Resolution::Parts(PartChoices {
        parts: BTreeMap::from([(name.to_owned(), PartChoice::Theirs)]),
        rest: None,
        ours: ours.ours.unwrap().id,
    })
}

#[test]
fn a_choice_that_a_review_does_not_have_is_refused_at_once() {
    let scene = Scene::new();
    let [first, _] = &scene.reviews;
    let refused = scene.token().resolve(first, parts("line 999", &scene));
    assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidRequest);
    assert_eq!(scene.state(0), "open");
    let decided = scene.token().resolve(first, parts("line 1", &scene));
    assert_eq!(decided.unwrap().review.state, "decided");
}

#[test]
fn a_decision_that_does_not_fit_any_more_is_asked_for_again() {
    let scene = Scene::new();
    let [first, second] = &scene.reviews;
    let token = scene.token();
    token.resolve(first, parts("line 1", &scene)).unwrap();
    scene.rig.put(&scene.project, "README", "something else\n");
    let refused = token.resolve(second, Resolution::Theirs).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PreconditionFailed);
    assert!(refused.to_string().contains("README"), "{refused}");
    assert_eq!((scene.state(0), scene.state(1)), ("open", "decided"));
    let landed = token.resolve(first, parts("line 1", &scene)).unwrap();
    assert!(landed.snapshot.is_some() && scene.has_landed());
    assert_eq!(scene.rig.project_text(&scene.project, "README"), "mine\n");
    scene.rig.check();
}

#[test]
fn nobodys_rights_stand_in_for_those_of_whoever_decided() {
    let scene = Scene::new();
    let [first, second] = &scene.reviews;
    scene.token().resolve(first, Resolution::Theirs).unwrap();
    // The owner protects the path before it lands: what the token chose is for them to decide now.
    scene.protect(&["README"]);
    let refused = scene.admin().resolve(second, Resolution::Theirs);
    assert!(refused.is_err());
    assert!(!scene.has_landed());
    assert_eq!(scene.state(0), "open");
    let landed = scene.admin().resolve(first, Resolution::Theirs).unwrap();
    assert!(landed.snapshot.is_some() && scene.has_landed());
    scene.rig.check();
}

#[test]
fn what_an_admin_decided_lands_with_the_last_decision_of_somebody_else() {
    let scene = Scene::new();
    let [first, second] = &scene.reviews;
    scene.protect(&["README"]);
    let refused = scene.token().resolve(first, Resolution::Theirs);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PermissionDenied);
    scene.admin().resolve(first, Resolution::Theirs).unwrap();
    let landed = scene.token().resolve(second, Resolution::Theirs).unwrap();
    assert!(landed.snapshot.is_some() && scene.has_landed());
    assert_eq!(scene.rig.project_text(&scene.project, "README"), "mine\n");
    scene.rig.check();
}

#[test]
fn whoever_may_only_read_proposes_nothing() {
    let scene = Scene::new();
    let [first, _] = &scene.reviews;
    let reach = || Reach::Project(scene.project.clone());
    let reader = scene.access(PrincipalKind::Service, reach(), &["**:read"]);
    assert!(reader.review(first).is_ok());
    let refused = reader.propose(first, Content::Bytes(b"both\n"), None);
    assert_eq!(refused.unwrap_err().code(), ErrorCode::PermissionDenied);
    let proposed = scene.token();
    let proposed = proposed.propose(first, Content::Bytes(b"both\n"), None);
    assert_eq!(proposed.unwrap().candidates.len(), 1);
}

/// Whoever sees one workspace gets its reviews without a look at those of all others: a row of
/// another project that cannot be read is not in the way.
#[test]
fn a_list_for_one_workspace_reads_no_other_reviews() {
    let scene = Scene::new();
    let other = scene.rig.project("other");
    let (fork, path) = scene.rig.fork(&other, "two");
    fs::write(path.join("README"), "mine\n").unwrap();
    scene.rig.put(&other, "README", "theirs\n");
    let updated = scene
        .rig
        .engine
        .merges
        .update(&fork, false, &user())
        .unwrap();
    assert_eq!(updated.conflicts.len(), 1);
    let store = scene.rig.store();
    let id = &scene.reviews[0];
    let mut row = store.read(|tx| tx.review(id)).unwrap().unwrap();
    row.details = "{".to_owned();
    let put = store.write(Durability::Synced, |tx| tx.put_review(&row));
    put.unwrap();
    let agent = "two".parse().unwrap();
    for reach in [Reach::Workspace(fork.clone()), Reach::Agent(agent)] {
        let access = scene.access(PrincipalKind::Agent, reach, &[]);
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
    let access = scene.access(
        PrincipalKind::Agent,
        Reach::Workspace(scene.fork.clone()),
        &[],
    );
    // What a merge left to decide is not for the workspace alone.
    let filter = ReviewFilter::default();
    assert!(
        access.find_reviews(&filter, None, 0).is_err(),
        "its own row is broken"
    );
}
