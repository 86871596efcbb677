//! Forks that were completed: what happened in them can still be looked at.

use offshoot_testkit::HostDir;

use crate::common::{Client, Running};

/// A project and a fork of it that was merged, with one snapshot on the way.
fn completed(running: &Running) {
    let admin = running.client();
    admin.create_project("p", &[("a.txt", "a\n")]);
    admin.fork("p", "ada");
    let at = "/api/v1/workspaces/ada";
    let put = |content: &[u8]| {
        let put = admin.put(&format!("{at}/files/a.txt"), content);
        assert_eq!(put.status, 200, "{}", put.text());
    };
    put(b"half\n");
    let taken = admin.post(&format!("{at}/snapshots"), r#"{"label":"half way"}"#);
    assert_eq!(taken.status, 201, "{}", taken.text());
    put(b"done\n");
    let done = admin.done(&format!("{at}/complete"), "{}");
    assert_eq!(done["removed"], true, "{done}");
}

/// Looks at all that there is to see.
fn look(client: &Client, who: &str) {
    let get = |rest: &str| {
        let reply = client.get(&format!("/api/v1/workspaces/ada/{rest}"));
        assert_eq!(reply.status, 200, "{who} {rest}: {}", reply.text());
        reply.json()
    };
    let history = get("history?path=a.txt");
    let edits = history["history"].as_array().unwrap().iter();
    let edits = edits.filter(|line| line["op"] == "edit" || line["op"] == "write");
    assert!(edits.count() >= 2, "{who}: {history}");
    let snapshots = get("snapshots");
    let snapshots = snapshots["snapshots"].as_array().unwrap().clone();
    let half = snapshots.iter().find(|one| one["label"] == "half way");
    let (last, half) = (&snapshots[0]["id"], &half.unwrap()["id"]);
    let id = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let differs = get(&format!("diff?from={}&to={}", id(half), id(last)));
    let text = differs["changes"][0]["diff"].as_str().unwrap();
    assert!(text.contains("-half\n+done\n"), "{who}: {differs}");
}

#[test]
fn what_happened_in_a_completed_fork_can_be_looked_at() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    completed(&running);
    look(&running.client(), "admin");
    look(&running.client_for_project("p", &[]), "project");
    look(&running.client_for("ada", &[]), "workspace");
    look(&running.agent("ada"), "agent");
    // Of another project it is not there.
    running.client().create_project("q", &[]);
    let stranger = running.client_for_project("q", &[]);
    for rest in ["history", "snapshots", "diff"] {
        let reply = stranger.get(&format!("/api/v1/workspaces/ada/{rest}"));
        assert_eq!(reply.code(), "workspace_not_found", "{rest}");
    }
}
