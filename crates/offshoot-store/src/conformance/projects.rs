//! What a store must do with rows of projects, layers, forks and agents.

use offshoot_core::{ErrorCode, Timestamp};

use super::fixtures::{add_workspace, close, id, read, try_write, workspace, write};
use crate::{
    AgentRow, AuthorRow, ForkRow, Landing, LayerRow, MetaStore, ProjectRow, RefRow, WorkspaceKey,
    WorkspaceKind, WorkspaceRow, WorkspaceState,
};

fn project(name: &str) -> WorkspaceRow {
    WorkspaceRow {
        kind: WorkspaceKind::Project,
        ..workspace(name)
    }
}

fn add_project(meta: &dyn MetaStore, name: &str) -> WorkspaceKey {
    write(meta, |tx| tx.add_workspace(&project(name)))
}

fn layer(name: &str, project: WorkspaceKey, below: Option<&LayerRow>, state: u8) -> LayerRow {
    LayerRow {
        key: 0,
        name: name.to_owned(),
        project,
        below: below.map(|below| below.key),
        depth: below.map_or(1, |below| below.depth + 1),
        level: 2,
        tree: id(state, 1),
        sidecar: id(state, 2),
        entries: 3,
        bytes: 4,
        made_at: Timestamp(5),
        synced: false,
    }
}

fn add_layer(meta: &dyn MetaStore, mut row: LayerRow) -> LayerRow {
    row.key = write(meta, |tx| tx.add_layer(&row));
    row
}

fn fork(workspace: WorkspaceKey, project: WorkspaceKey) -> ForkRow {
    ForkRow {
        workspace,
        project,
        base: id(9, 1),
        base_tree: id(9, 2),
        base_sidecar: id(9, 3),
        agent: None,
        priority: 0,
        git: false,
        provider: None,
        layer: None,
        setup: None,
        place: 1,
    }
}

fn add_fork(meta: &dyn MetaStore, name: &str, project: WorkspaceKey) -> ForkRow {
    write(meta, |tx| {
        let row = WorkspaceRow {
            kind: WorkspaceKind::Fork,
            ..workspace(name)
        };
        let key = tx.add_workspace(&row)?;
        let fork = fork(key, project);
        tx.put_fork(&fork)?;
        Ok(fork)
    })
}

pub(super) fn names_of_projects_are_apart(meta: &dyn MetaStore) {
    let workspace = add_workspace(meta, "same");
    let first = add_project(meta, "same");
    let taken = try_write(meta, |tx| tx.add_workspace(&project("same")));
    assert_eq!(taken.unwrap_err().code(), ErrorCode::AlreadyExists);
    let find = || read(meta, |tx| tx.project(&"same".parse().unwrap())).unwrap();
    assert_eq!((find().key, find().kind), (first, WorkspaceKind::Project));
    let found = read(meta, |tx| tx.workspace(&"same".parse().unwrap())).unwrap();
    assert_eq!(found.key, workspace);
    close(meta, workspace);
    let found = read(meta, |tx| tx.workspace(&"same".parse().unwrap())).unwrap();
    assert_eq!(found.key, workspace);
    close(meta, first);
    assert_eq!(find().state, WorkspaceState::Closed);
    let second = add_project(meta, "same");
    assert_eq!(find().key, second);
    add_project(meta, "a");
    let names = |after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(|name| name.parse().unwrap());
        read(meta, |tx| tx.projects(after.as_ref(), limit))
            .into_iter()
            .map(|row| row.id.to_string())
            .collect()
    };
    assert_eq!(names(None, 0), ["a", "same"]);
    assert_eq!(names(None, 1), ["a"]);
    assert_eq!(names(Some("a"), 0), ["same"]);
    assert!(read(meta, |tx| tx.workspaces(None, 0)).is_empty());
    assert_eq!(read(meta, |tx| tx.all_workspaces()).len(), 4);
}

pub(super) fn settings_of_a_project(meta: &dyn MetaStore) {
    let key = add_project(meta, "p");
    assert_eq!(read(meta, |tx| tx.project_settings(key)), None);
    for landing in [Landing::Partial, Landing::Atomic] {
        let row = ProjectRow {
            key,
            landing,
            include_ignored: landing == Landing::Atomic,
            policy: format!("{landing:?}"),
            protect: format!("not {landing:?}"),
            link: (landing == Landing::Atomic).then(|| "linked".to_owned()),
            branch: (landing == Landing::Partial).then(|| "refs/heads/trunk".to_owned()),
            source: (landing == Landing::Partial).then(|| "taken".to_owned()),
            setup: (landing == Landing::Partial).then(|| "set up".to_owned()),
        };
        write(meta, |tx| tx.put_project(&row));
        assert_eq!(read(meta, |tx| tx.project_settings(key)), Some(row));
    }
}

pub(super) fn forks_are_found_by_project(meta: &dyn MetaStore) {
    let (one, other) = (add_project(meta, "one"), add_project(meta, "other"));
    let mut first = add_fork(meta, "first", one);
    let second = add_fork(meta, "second", one);
    add_fork(meta, "third", other);
    let of = |project| -> Vec<WorkspaceKey> {
        let rows = read(meta, |tx| tx.forks_of(project));
        rows.into_iter().map(|row| row.key).collect()
    };
    assert_eq!(of(one), [first.workspace, second.workspace]);
    let page = |after, limit| -> Vec<WorkspaceKey> {
        let rows = read(meta, |tx| tx.forks_after(one, WorkspaceKey(after), limit));
        let whole = rows.into_iter().map(|(row, fork)| {
            assert_eq!(read(meta, |tx| tx.workspace_by_key(row.key)), Some(row));
            assert_eq!(read(meta, |tx| tx.fork(fork.workspace)), Some(fork.clone()));
            fork.workspace
        });
        whole.collect()
    };
    assert_eq!(page(0, 0), [first.workspace, second.workspace]);
    assert_eq!(page(0, 1), [first.workspace]);
    assert_eq!(page(first.workspace.0, 1), [second.workspace]);
    assert!(page(second.workspace.0, 0).is_empty());
    let below = add_layer(meta, layer("l", one, None, 1));
    first.agent = Some("agent".parse().unwrap());
    first.priority = -3;
    first.git = true;
    first.provider = Some("overlay".to_owned());
    first.layer = Some(below.key);
    first.place = 7;
    write(meta, |tx| tx.put_fork(&first));
    assert_eq!(
        read(meta, |tx| tx.fork(first.workspace)),
        Some(first.clone())
    );
    assert_eq!(read(meta, |tx| tx.fork(one)), None);
    close(meta, second.workspace);
    assert_eq!(of(one), [first.workspace]);
    assert_eq!(page(0, 0), [first.workspace]);
    let roots = read(meta, |tx| {
        let mut roots = Vec::new();
        tx.visit_roots(&mut |id| roots.push(id))?;
        Ok(roots)
    });
    assert!(
        [first.base, first.base_tree, first.base_sidecar]
            .iter()
            .all(|id| roots.contains(id))
    );
}

pub(super) fn layers_and_their_users(meta: &dyn MetaStore) {
    let project = add_project(meta, "p");
    let base = add_layer(meta, layer("base", project, None, 1));
    let delta = add_layer(meta, layer("delta", project, Some(&base), 2));
    let whole = add_layer(meta, layer("whole", project, None, 2));
    assert_eq!(read(meta, |tx| tx.layer(delta.key)), Some(delta.clone()));
    let showing = read(meta, |tx| tx.layers_showing(&delta.tree, &delta.sidecar));
    assert_eq!(showing, [whole.clone(), delta.clone()]);
    assert!(read(meta, |tx| tx.layers_showing(&delta.tree, &delta.tree)).is_empty());
    let mut more = layer("more", project, Some(&whole), 2);
    more.level = -1;
    let more = add_layer(meta, more);
    let showing = read(meta, |tx| tx.layers_showing(&delta.tree, &delta.sidecar));
    assert_eq!(showing, [whole.clone(), delta.clone()]);
    write(meta, |tx| tx.remove_layer(more.key));
    assert_eq!(read(meta, |tx| tx.layers()).len(), 3);
    assert!(try_write(meta, |tx| tx.add_layer(&layer("base", project, None, 3))).is_err());
    write(meta, |tx| tx.mark_layer_synced(base.key));
    assert!(read(meta, |tx| tx.layer(base.key)).unwrap().synced);
    let mut user = add_fork(meta, "forked", project);
    user.layer = Some(delta.key);
    write(meta, |tx| tx.put_fork(&user));
    assert_eq!(read(meta, |tx| tx.layers_in_use()), [delta.key]);
    // Neither one that a fork stands on nor one that another layer stands on.
    assert!(!write(meta, |tx| tx.remove_layer(delta.key)));
    assert!(!write(meta, |tx| tx.remove_layer(base.key)));
    assert!(write(meta, |tx| tx.remove_layer(whole.key)));
    // Nor one that holds what the setup of its project made.
    let mut setup = layer("setup", project, None, 3);
    setup.level = -2;
    let setup = add_layer(meta, setup);
    user.setup = Some(setup.key);
    write(meta, |tx| tx.put_fork(&user));
    assert_eq!(read(meta, |tx| tx.fork(user.workspace)), Some(user.clone()));
    assert_eq!(read(meta, |tx| tx.layers_in_use()), [delta.key, setup.key]);
    assert!(!write(meta, |tx| tx.remove_layer(setup.key)));
    let of_level = |level| read(meta, |tx| tx.layers_of_level(project, level));
    assert_eq!(of_level(-2), std::slice::from_ref(&setup));
    assert!(of_level(-1).is_empty());
    let other = add_project(meta, "other");
    assert!(read(meta, |tx| tx.layers_of_level(other, -2)).is_empty());
    close(meta, user.workspace);
    assert!(read(meta, |tx| tx.layers_in_use()).is_empty());
    assert!(write(meta, |tx| tx.remove_layer(setup.key)));
    assert_eq!(
        read(meta, |tx| tx.fork(user.workspace)).unwrap().setup,
        None
    );
    assert!(write(meta, |tx| tx.remove_layer(delta.key)));
    assert!(write(meta, |tx| tx.remove_layer(base.key)));
    assert!(read(meta, |tx| tx.layers()).is_empty());
    let again = add_layer(meta, layer("again", project, None, 1));
    assert!(again.key > whole.key, "a number was given out twice");
}

pub(super) fn agents(meta: &dyn MetaStore) {
    let top = AgentRow {
        id: "top".parse().unwrap(),
        parent: None,
        role: "coder".to_owned(),
        workspace: Some("top".parse().unwrap()),
        workspace_key: Some(WorkspaceKey(3)),
        priority: -5,
        created_at: Timestamp(1),
        ended_at: None,
    };
    let mut child = AgentRow {
        id: "child".parse().unwrap(),
        parent: Some(top.id.clone()),
        workspace: None,
        workspace_key: None,
        priority: 7,
        ..top.clone()
    };
    write(meta, |tx| {
        tx.put_agent(&top)?;
        tx.put_agent(&child)
    });
    assert_eq!(read(meta, |tx| tx.agents()), [child.clone(), top.clone()]);
    child.ended_at = Some(Timestamp(9));
    write(meta, |tx| tx.put_agent(&child));
    assert_eq!(read(meta, |tx| tx.agents()), [top]);
    assert_eq!(read(meta, |tx| tx.agent(&child.id)), Some(child.clone()));
    assert_eq!(read(meta, |tx| tx.agent(&"x".parse().unwrap())), None);
}

pub(super) fn authors_from_the_closest_on(meta: &dyn MetaStore) {
    let (one, other) = (add_project(meta, "one"), add_project(meta, "other"));
    let ada: offshoot_core::AgentId = "ada".parse().unwrap();
    let row = |project: Option<WorkspaceKey>, agent: Option<&str>, name: &str| AuthorRow {
        project,
        agent: agent.map(|agent| agent.parse().unwrap()),
        name: name.to_owned(),
        email: format!("{name}@example.com"),
    };
    let found = |project, agent: Option<&str>| {
        let agent = agent.map(|agent| agent.parse().unwrap());
        read(meta, |tx| tx.author(project, agent.as_ref())).map(|row| row.name)
    };
    assert_eq!(found(one, Some("ada")), None);
    let rows = [
        row(None, None, "all"),
        row(None, Some("ada"), "ada"),
        row(Some(one), None, "in one"),
        row(Some(one), Some("ada"), "ada in one"),
    ];
    for (known, row) in rows.iter().enumerate() {
        write(meta, |tx| tx.put_author(row));
        assert_eq!(read(meta, |tx| tx.authors()).len(), known + 1);
    }
    assert_eq!(read(meta, |tx| tx.authors()), rows);
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(found(one, Some("ada")), name("ada in one"));
    assert_eq!(found(other, Some("ada")), name("ada"));
    assert_eq!(found(one, Some("bob")), name("in one"));
    assert_eq!(found(one, None), name("in one"));
    assert_eq!(found(other, Some("bob")), name("all"));
    assert!(write(meta, |tx| tx.remove_author(Some(one), Some(&ada))));
    assert!(!write(meta, |tx| tx.remove_author(Some(one), Some(&ada))));
    // What is said of the agent goes before what is said of the project.
    assert_eq!(found(one, Some("ada")), name("ada"));
    write(meta, |tx| tx.put_author(&row(None, Some("ada"), "again")));
    assert_eq!(found(one, Some("ada")), name("again"));
    write(meta, |tx| tx.erase_workspace(one));
    assert_eq!(read(meta, |tx| tx.authors()).len(), 2);
}

pub(super) fn refs_of_a_project(meta: &dyn MetaStore) {
    let (one, other) = (add_project(meta, "one"), add_project(meta, "other"));
    let row = |project, name: &str, target: u8| RefRow {
        project,
        name: name.to_owned(),
        target: id(target, 1),
        peeled: id(target, 2),
    };
    let names = |project, prefix: &str| -> Vec<String> {
        let rows = read(meta, |tx| tx.refs(project, prefix));
        rows.into_iter().map(|row| row.name).collect()
    };
    let rows = [
        row(one, "refs/heads/a", 1),
        row(one, "refs/heads/z%", 2),
        row(one, "refs/tags/v1", 3),
        row(other, "refs/heads/a", 4),
    ];
    write(meta, |tx| rows.iter().try_for_each(|row| tx.put_ref(row)));
    assert_eq!(read(meta, |tx| tx.refs(one, "")), rows[..3]);
    assert_eq!(names(one, "refs/heads/"), ["refs/heads/a", "refs/heads/z%"]);
    assert_eq!(names(one, "refs/heads/%"), Vec::<String>::new());
    let moved = row(one, "refs/heads/a", 5);
    write(meta, |tx| tx.put_ref(&moved));
    let roots = read(meta, |tx| {
        let mut roots = Vec::new();
        tx.visit_roots(&mut |id| roots.push(id))?;
        Ok(roots)
    });
    assert!(roots.contains(&id(5, 1)) && roots.contains(&id(3, 1)));
    assert!(!roots.contains(&id(1, 1)));
    assert!(write(meta, |tx| tx.remove_ref(one, "refs/heads/z%")));
    assert!(!write(meta, |tx| tx.remove_ref(one, "refs/heads/z%")));
    assert_eq!(write(meta, |tx| tx.remove_refs(one, "refs/heads/")), 1);
    assert_eq!(names(one, ""), ["refs/tags/v1"]);
    write(meta, |tx| tx.erase_workspace(one));
    assert_eq!(names(one, ""), Vec::<String>::new());
    assert_eq!(names(other, "refs"), ["refs/heads/a"]);
}

pub(super) fn erasing_a_project(meta: &dyn MetaStore) {
    let project = add_project(meta, "p");
    write(meta, |tx| {
        tx.put_project(&ProjectRow {
            key: project,
            landing: Landing::Partial,
            include_ignored: false,
            policy: String::new(),
            protect: String::new(),
            link: None,
            branch: None,
            source: None,
            setup: None,
        })
    });
    let base = add_layer(meta, layer("base", project, None, 1));
    add_layer(meta, layer("delta", project, Some(&base), 2));
    let mut user = add_fork(meta, "forked", project);
    user.layer = Some(base.key);
    write(meta, |tx| tx.put_fork(&user));
    write(meta, |tx| tx.erase_workspace(project));
    assert!(read(meta, |tx| tx.layers()).is_empty());
    assert_eq!(read(meta, |tx| tx.fork(user.workspace)), None);
    assert_eq!(read(meta, |tx| tx.project_settings(project)), None);
    assert_eq!(read(meta, |tx| tx.project(&"p".parse().unwrap())), None);
}
