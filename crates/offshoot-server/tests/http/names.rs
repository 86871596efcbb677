//! Names that are git's or ours: what each door says of them.

use offshoot_testkit::HostDir;

use crate::common::Running;
use crate::raw_archives::{Names, TarEntry, tar_of};

#[test]
fn names_of_git_and_ours_are_refused_at_every_door() {
    let data = HostDir::new();
    let running = Running::start(&data.path().join("data"));
    let client = running.client();
    client.create_project("p", &[("a.txt", "a")]);
    client.fork("p", "ada");
    for path in [
        ".git/config",
        "x/.GIT",
        ".meta/.meta",
        ".logs/x",
        ".gitmodules/x",
    ] {
        let reply = client.put(&format!("/api/v1/projects/p/files/{path}"), b"x");
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (403, "permission_denied"),
            "{path}"
        );
        assert!(reply.json()["error"]["hint"].is_string());
    }
    for path in [".meta/.meta", ".meta/a.txt", ".logs/x"] {
        let reply = client.put(&format!("/api/v1/workspaces/ada/files/{path}"), b"x");
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (403, "permission_denied"),
            "{path}"
        );
        let body = format!(r#"{{"path":"{path}","content":"x"}}"#);
        let reply = running.agent("ada").post("/api/v1/tools/write_file", &body);
        assert_eq!(reply.code(), "permission_denied", "{path}");
    }
    let entry = |name: &'static [u8]| TarEntry {
        name,
        kind: b'0',
        content: b"x",
        ..TarEntry::default()
    };
    let entries = [
        entry(b"ok.txt"),
        entry(b".meta/.meta"),
        entry(b"s/.git/config"),
    ];
    let archive = tar_of(Names::Header, &entries);
    let send = |place: &str| {
        let target = format!("/api/v1/{place}/import");
        let reply = client.send("POST", target.as_bytes(), &[], &archive);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let refused = reply.json()["refused"].as_array().unwrap().clone();
        assert!(refused.iter().all(|one| one["code"] == "permission_denied"));
        refused.len()
    };
    assert_eq!(send("projects/p"), 2);
    // A repository in a workspace is the workspace's own. No merge takes it.
    assert_eq!(send("workspaces/ada"), 1);
    let done = client.done("/api/v1/workspaces/ada/complete", "{}");
    assert_eq!(done["left_out"][0]["path"], "s/.git");
    assert!(
        done["left_out"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("git")
    );
    assert_eq!(
        client.get("/api/v1/projects/p/files/s/.git/config").status,
        404
    );
}
