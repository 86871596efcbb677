//! Names are free again after a workspace or project is closed: a token for the old name does not
//! reach the new workspace or project (INV-7).

use std::sync::Arc;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{AgentId, ErrorCode, Layout, ProjectId, Result, WorkspaceId};
use offshoot_engine::{
    Access, CompleteOptions, Content, Expect, ForkOptions, PrincipalKind, Quota, Reach, Scope,
    WriteOptions,
};
use offshoot_fs::ProviderName;

struct Setup {
    test: TestEngine,
    first: ProjectId,
    second: ProjectId,
}

impl Setup {
    fn new() -> Setup {
        let test = TestEngine::new(ProviderName::Copy);
        let first = test.project("first");
        let second = test.project("second");
        Setup {
            test,
            first,
            second,
        }
    }

    /// The secret of a new token.
    fn secret(&self, kind: PrincipalKind, reach: Reach) -> String {
        let scope = Scope {
            kind,
            reach,
            allow: Vec::new(),
        };
        let issued = self
            .test
            .engine
            .access
            .issue_token(&scope, None, None, &user());
        issued.unwrap().secret
    }

    fn present(&self, secret: &str) -> Result<Access> {
        let principal = self.test.engine.access.authenticate(secret)?;
        Ok(self.test.engine.access.acting_as(Arc::new(principal), None))
    }

    fn of_project(&self, project: &ProjectId) -> Access {
        let secret = self.secret(PrincipalKind::Service, Reach::Project(project.clone()));
        self.present(&secret).unwrap()
    }

    fn fork(&self, access: &Access, project: &ProjectId, agent: &str) -> WorkspaceId {
        let options = ForkOptions {
            agent: Some(agent.parse().unwrap()),
            ..ForkOptions::default()
        };
        access.fork(project, &options).unwrap().0.workspace.id
    }

    /// Nothing of a workspace can be read, changed or completed.
    fn assert_out_of_reach(&self, access: &Access, id: &WorkspaceId) {
        let codes = [
            access.workspace(id).map(drop).unwrap_err().code(),
            access
                .read_window(id, &p("README"), 0, 10)
                .map(drop)
                .unwrap_err()
                .code(),
            access
                .delete_file(id, &p("README"), false, Expect::Anything)
                .map(drop)
                .unwrap_err()
                .code(),
            access
                .complete(id, &CompleteOptions::default(), false)
                .map(drop)
                .unwrap_err()
                .code(),
        ];
        assert_eq!(codes, [ErrorCode::WorkspaceNotFound; 4]);
        assert!(access.workspaces(None, 0).unwrap().is_empty());
        assert!(access.own_workspace().is_err() && access.workspace_to_complete().is_err());
        let (_, share) = access.share().unwrap();
        assert_eq!(share, None);
        let event = self.test.engine.history.lines(id, None, 1).unwrap();
        assert!(!event.is_empty());
    }
}

fn agent(text: &str) -> AgentId {
    text.parse().unwrap()
}

#[test]
fn an_agent_does_not_reach_a_fork_of_another_project_that_took_its_name() {
    let setup = Setup::new();
    let (one, two) = (
        setup.of_project(&setup.first),
        setup.of_project(&setup.second),
    );
    let spawned = one
        .spawn(
            Some(&agent("builder")),
            None,
            "r",
            Some(&setup.first),
            Some(50),
        )
        .unwrap();
    let secret = one.token_for_agent(&spawned.id).unwrap().secret;
    let builder = setup.present(&secret).unwrap();
    let own = builder.own_workspace().unwrap();
    one.delete_workspace(&own, false).unwrap();

    let taken = setup.fork(&two, &setup.second, "builder");
    assert_eq!(taken, own);
    setup.assert_out_of_reach(&builder, &taken);
    assert_eq!(
        setup
            .test
            .engine
            .access
            .agent(&spawned.id)
            .unwrap()
            .workspace,
        None
    );
    // The owner of the second project neither gets the agent nor learns its priority.
    assert!(two.agent(&spawned.id).is_err());
    assert_eq!(two.fork_named(&taken).unwrap().priority, 0);
    // The fork with the agent's name is found by it, by callers who may see it.
    assert_eq!(two.workspace_of_agent(&spawned.id).unwrap(), taken);
    assert!(one.workspace_of_agent(&spawned.id).is_err());
    // The project that spawned the agent still has it, and gives it another fork.
    let next = setup.fork(&one, &setup.first, "builder");
    assert_eq!(next.as_str(), "builder~2");
    assert_eq!(builder.own_workspace().unwrap(), next);
    assert_eq!(one.fork_named(&next).unwrap().priority, 50);
    assert_eq!(one.workspace_of_agent(&spawned.id).unwrap(), next);
}

#[test]
fn an_agent_does_not_reach_what_took_its_name_after_its_merge() {
    let setup = Setup::new();
    let (one, two) = (
        setup.of_project(&setup.first),
        setup.of_project(&setup.second),
    );
    let spawned = one
        .spawn(Some(&agent("builder")), None, "r", Some(&setup.first), None)
        .unwrap();
    let secret = one.token_for_agent(&spawned.id).unwrap().secret;
    let builder = setup.present(&secret).unwrap();
    let own = builder.own_workspace().unwrap();
    builder
        .complete(&own, &CompleteOptions::default(), false)
        .unwrap();
    // The receipt outlives the workspace as long as the name is not taken again.
    assert_eq!(builder.workspace_to_complete().unwrap(), own);
    builder
        .complete(&own, &CompleteOptions::default(), false)
        .unwrap();

    let taken = setup.fork(&two, &setup.second, "builder");
    assert_eq!(taken, own);
    setup.assert_out_of_reach(&builder, &taken);
}

#[test]
fn tokens_of_workspaces_and_of_agents_outside_the_tree_stay_in_their_project() {
    let setup = Setup::new();
    let (one, two) = (
        setup.of_project(&setup.first),
        setup.of_project(&setup.second),
    );
    for (name, kind, reach) in [
        (
            "w",
            PrincipalKind::Service,
            Reach::Workspace("w".parse().unwrap()),
        ),
        ("a", PrincipalKind::Agent, Reach::Agent(agent("a"))),
    ] {
        let own = setup.fork(&one, &setup.first, name);
        let secret = setup.secret(kind, reach);
        let holder = setup.present(&secret).unwrap();
        assert_eq!(holder.own_workspace().unwrap(), own);
        one.delete_workspace(&own, false).unwrap();

        let taken = setup.fork(&two, &setup.second, name);
        assert_eq!(taken, own);
        setup.assert_out_of_reach(&holder, &taken);
        setup.assert_out_of_reach(&setup.present(&secret).unwrap(), &taken);
        two.delete_workspace(&taken, false).unwrap();

        // The next fork of the same project belongs to the token again.
        assert_eq!(setup.fork(&one, &setup.first, name), own);
        assert_eq!(holder.own_workspace().unwrap(), own);
    }
}

#[test]
fn a_token_for_a_name_that_nobody_has_is_refused() {
    let setup = Setup::new();
    for (kind, reach) in [
        (
            PrincipalKind::Service,
            Reach::Workspace("later".parse().unwrap()),
        ),
        (PrincipalKind::Agent, Reach::Agent(agent("later"))),
    ] {
        let scope = Scope {
            kind,
            reach,
            allow: Vec::new(),
        };
        assert!(
            setup
                .test
                .engine
                .access
                .issue_token(&scope, None, None, &user())
                .is_err()
        );
    }
}

#[test]
fn the_token_of_a_deleted_project_does_not_open_a_new_one_of_its_name() {
    let setup = Setup::new();
    let secret = setup.secret(PrincipalKind::Service, Reach::Project(setup.first.clone()));
    setup.present(&secret).unwrap();
    setup
        .test
        .engine
        .projects
        .delete_project(&setup.first, &user())
        .unwrap();
    setup.present(&secret).unwrap();
    setup.test.project("first");
    let refused = setup.present(&secret).map(drop).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unauthorized);
}

#[test]
fn an_agent_that_ended_keeps_its_name_and_loses_its_tokens() {
    let setup = Setup::new();
    let (one, two) = (
        setup.of_project(&setup.first),
        setup.of_project(&setup.second),
    );
    let spawned = one
        .spawn(Some(&agent("builder")), None, "r", Some(&setup.first), None)
        .unwrap();
    let secret = one.token_for_agent(&spawned.id).unwrap().secret;
    let holder = setup.present(&secret).unwrap();
    one.end_agent(&spawned.id).unwrap();
    one.delete_workspace(spawned.workspace.as_ref().unwrap(), false)
        .unwrap();
    let again = two.spawn(Some(&spawned.id), None, "r", Some(&setup.second), None);
    assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyExists);
    let taken = setup.fork(&two, &setup.second, "builder");
    assert!(setup.present(&secret).is_err());
    // A resolved token that is still in use is refused as well.
    setup.assert_out_of_reach(&holder, &taken);
}

#[test]
fn what_happened_under_a_name_before_is_shown_to_nobody_of_another_project() {
    let setup = Setup::new();
    let (one, two) = (
        setup.of_project(&setup.first),
        setup.of_project(&setup.second),
    );
    let theirs = setup.fork(&two, &setup.second, "w");
    two.delete_file(&theirs, &p("README"), false, Expect::Anything)
        .unwrap();
    two.delete_workspace(&theirs, false).unwrap();
    let own = setup.fork(&one, &setup.first, "w");
    one.delete_file(&own, &p("README"), false, Expect::Anything)
        .unwrap();
    let secret = setup.secret(PrincipalKind::Service, Reach::Workspace(own.clone()));
    let holder = setup.present(&secret).unwrap();
    let events = setup.test.engine.history.events_after(0, None, 0).unwrap();
    let seen = |access: &Access| -> Vec<&str> {
        let view = access.view().unwrap();
        let seen = events.iter().filter(|event| view.sees(event));
        seen.map(|event| event.project.as_ref().unwrap().as_str())
            .collect()
    };
    assert!(seen(&holder).len() >= 2 && seen(&holder).iter().all(|of| *of == "first"));
    assert!(seen(&two).len() > 3 && seen(&two).iter().all(|of| *of == "second"));

    // A new project of the same name shows neither the history nor the forks of the old one.
    setup
        .test
        .engine
        .projects
        .delete_project(&setup.second, &user())
        .unwrap();
    let before = setup.test.engine.history.last_event().unwrap();
    let again = setup.test.project("second");
    let anew = setup.of_project(&again);
    let events = setup.test.engine.history.events_after(0, None, 0).unwrap();
    let view = anew.view().unwrap();
    let mut seen = events.iter().filter(|event| view.sees(event)).peekable();
    assert!(seen.peek().is_some());
    assert!(seen.all(|event| event.row.seq > before));
}

#[test]
fn events_of_an_earlier_plain_workspace_are_not_of_the_next_one_of_its_name() {
    let setup = Setup::new();
    let engine = &setup.test.engine;
    let id: WorkspaceId = "talk".parse().unwrap();
    let make = |path: &str| {
        let made = engine.workspaces.create_workspace(
            Some(id.clone()),
            Layout::Plain,
            Quota::default(),
            &user(),
        );
        made.unwrap();
        let options = WriteOptions::default();
        let written =
            engine
                .workspaces
                .write_file(&id, &p(path), Content::Bytes(b"x"), &options, &user());
        written.unwrap();
    };
    make("old-secret-name");
    engine.workspaces.delete_workspace(&id, &user()).unwrap();
    make("new");
    let secret = setup.secret(PrincipalKind::Service, Reach::Workspace(id.clone()));
    let view = setup.present(&secret).unwrap().view().unwrap();
    let events = engine.history.events_after(0, None, 0).unwrap();
    let seen = events.iter().filter(|event| view.sees(event));
    let paths: Vec<String> = seen.map(|event| event.row.line.path.to_text()).collect();
    assert!(paths.contains(&"new".to_owned()), "{paths:?}");
    assert!(!paths.contains(&"old-secret-name".to_owned()), "{paths:?}");
}
