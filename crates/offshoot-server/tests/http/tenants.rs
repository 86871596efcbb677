//! What lists and searches tell over all of the store: nothing of another tenant, not even a name.

use offshoot_testkit::HostDir;
use serde_json::json;

use crate::common::{Client, Running};

/// Names that stand only in one tenant's things: project, agent and fork, paths, texts, messages.
fn names(tenant: &str) -> Vec<String> {
    let of = |what: &str| format!("{what}{tenant}");
    ["project", "agent", "other", "dir", "file", "text", "lone"]
        .map(of)
        .to_vec()
}

/// A project with two forks that conflict, a fork with changes, a review, and a plain workspace.
fn furnish(admin: &Client, tenant: &str) {
    let (project, text) = (format!("project{tenant}"), format!("text{tenant} common\n"));
    let path = format!("dir{tenant}/file{tenant}.txt");
    admin.create_project(&project, &[(&path, &text)]);
    let agents = [format!("agent{tenant}"), format!("other{tenant}")];
    for agent in &agents {
        admin.fork(&project, agent);
        let put = admin.put(
            &format!("/api/v1/workspaces/{agent}/files/{path}"),
            format!("{agent} {text}").as_bytes(),
        );
        assert_eq!(put.status, 200, "{}", put.text());
    }
    let keep = r#"{"keep":true}"#;
    for agent in &agents {
        admin.done(&format!("/api/v1/workspaces/{agent}/complete"), keep);
    }
    // An update leaves a review that the agent itself sees.
    let again = admin.put(
        &format!("/api/v1/workspaces/agent{tenant}/files/{path}"),
        b"mine common\n",
    );
    assert_eq!(again.status, 200, "{}", again.text());
    let edit = admin.put(
        &format!("/api/v1/projects/{project}/files/{path}"),
        b"yours common\n",
    );
    assert_eq!(edit.status, 200, "{}", edit.text());
    admin.done(&format!("/api/v1/workspaces/agent{tenant}/update"), "{}");
    admin.create(&format!("lone{tenant}"));
}

#[test]
fn no_list_names_anything_of_another_tenant() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    for tenant in ["Red", "Blue"] {
        furnish(&admin, tenant);
    }
    let own = [
        "/api/v1/overview",
        "/api/v1/reviews",
        "/api/v1/reviews?state=all",
    ];
    let agent = running.agent("agentRed");
    let project = running.client_for_project("projectRed", &[]);
    let searched = |place: &str| {
        let by = |what: &str| format!("/api/v1/search?{place}&{what}");
        [
            by("text=common"),
            by("name=*"),
            by("text=common&name=*"),
            by("name=Blue"),
        ]
    };
    let mut told = 0;
    for (client, places) in [
        (&project, &["project=projectRed", "workspace=agentRed"][..]),
        (&agent, &["workspace=agentRed"][..]),
    ] {
        let searches = places.iter().flat_map(|place| searched(place));
        let targets = own.map(str::to_owned).into_iter().chain(searches);
        for target in targets {
            let reply = client.get(&target);
            let text = reply.text();
            // An agent has no overview; what it is told instead names nothing either.
            assert!([200, 403, 404].contains(&reply.status), "{target} {text}");
            told += usize::from(reply.status == 200 && text.contains("Red"));
            // What the request itself says may come back.
            let text = text.replace("name=Blue", "");
            for name in names("Blue") {
                assert!(!text.contains(&name), "{target} tells `{name}`: {text}");
            }
        }
        // What names another's thing is answered like what does not exist.
        for (target, missing) in [
            (
                "/api/v1/search?text=common&project=projectBlue",
                "projectBlue",
            ),
            (
                "/api/v1/search?text=common&workspace=agentBlue",
                "agentBlue",
            ),
            ("/api/v1/overview?project=projectBlue", "projectBlue"),
            ("/api/v1/reviews?project=projectBlue", "projectBlue"),
            ("/api/v1/reviews?workspace=agentBlue", "agentBlue"),
            ("/api/v1/reviews?agent=otherBlue", "otherBlue"),
        ] {
            let there = client.get(target);
            let absent = client.get(&target.replace(missing, "nothing"));
            assert_eq!(there.status, absent.status, "{target}");
            let text = there.text().replace(missing, "nothing");
            assert_eq!(text, absent.text(), "{target}");
        }
    }
    assert!(told >= 8, "only {told} answers told anything at all");
    // The check can find something: the admin is told all of it.
    let all = admin.get("/api/v1/overview").text() + &admin.get("/api/v1/reviews").text();
    for name in ["projectBlue", "agentBlue", "fileBlue"] {
        assert!(all.contains(name), "{name}: {}", json!(all));
    }
}
