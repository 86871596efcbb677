//! Projects that are linked to a repository of the server's machine.

use std::fs;
use std::path::{Path, PathBuf};

use offshoot_testkit::{HostDir, git};
use serde_json::json;

use crate::common::{Running, cause};

const P: &str = "/api/v1/projects/app";

/// A repository with one commit, and a project that is linked to it.
fn linked(running: &Running, place: &HostDir, auto: bool) -> PathBuf {
    let repo = place.path().join("repo");
    fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q"]);
    commit(&repo, "one\n");
    let link = offshoot_engine::LinkOptions {
        place: repo.clone(),
        address: None,
        branch: None,
        auto,
    };
    let app = "app".parse().unwrap();
    let links = &running.engine.links;
    links
        .create_linked(&app, &link, &mut |_| {}, &cause())
        .unwrap();
    repo
}

fn commit(repo: &Path, text: &str) {
    fs::write(repo.join("README"), text).unwrap();
    git(repo, &["add", "-A"]);
    git(repo, &["commit", "-q", "-m", text]);
}

/// Agents reach the server alone, and an automatic link works for them. What cannot be done is no
/// failure of theirs.
#[test]
fn forks_and_merges_of_agents_use_an_automatic_link() {
    let (data, place) = (HostDir::new(), HostDir::new());
    let running = Running::start(data.path());
    let repo = linked(&running, &place, true);
    commit(&repo, "two\n");
    let token = running.client_for_project("app", &[]);
    let work = |agent: &str, text: &str| {
        let fork = token.fork("app", agent);
        let at = format!("/api/v1/workspaces/{}", fork["id"].as_str().unwrap());
        let readme = token.get(&format!("{at}/files/README")).text();
        token.put(&format!("{at}/files/agent"), text.as_bytes());
        let done = token.done(&format!("{at}/complete"), "{}");
        assert!(done["snapshot"].is_string(), "{done}");
        readme
    };
    assert_eq!(work("ada", "work\n"), "two\n");
    assert_eq!(git(&repo, &["show", "offshoot/main:agent"]), "work");
    let away = place.path().join("away");
    fs::rename(&repo, &away).unwrap();
    work("bob", "more\n");
    fs::rename(&away, &repo).unwrap();
    work("eve", "last\n");
    assert_eq!(git(&repo, &["show", "offshoot/main:agent"]), "last");
}

/// A link names a place of the host, so nobody but an admin may look at it or use it.
#[test]
fn admins_pull_and_push_and_nobody_else_reaches_the_repository() {
    let (data, place) = (HostDir::new(), HostDir::new());
    let running = Running::start(data.path());
    let admin = running.client();
    let repo = linked(&running, &place, false);
    admin.create_project("plain", &[("a", "a\n")]);
    assert_eq!(admin.get("/api/v1/projects/plain/link").status, 404);

    commit(&repo, "two\n");
    let token = running.client_for_project("app", &[]);
    for reply in [
        token.get(&format!("{P}/link")),
        token.post(&format!("{P}/pull"), "{}"),
        token.post(&format!("{P}/push"), "{}"),
    ] {
        assert_eq!(reply.status, 403, "{}", reply.text());
        let text = reply.text();
        assert!(!text.contains(place.path().to_str().unwrap()), "{text}");
    }
    let shown = admin.get(&format!("{P}/link")).json();
    assert_eq!(
        (&shown["behind"], &shown["branch"]),
        (&json!(1), &json!("main"))
    );
    let plan = admin.done(&format!("{P}/pull"), r#"{"dry_run":true}"#);
    assert_eq!(
        (&plan["way"], &plan["dry_run"]),
        (&json!("fast_forward"), &json!(true))
    );
    let pulled = admin.done(&format!("{P}/pull"), "{}");
    assert_eq!(
        (&pulled["commits"], &pulled["conflicts"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(admin.get(&format!("{P}/files/README")).text(), "two\n");
    admin.put(&format!("{P}/files/agent"), b"work\n");
    let pushed = admin.done(&format!("{P}/push"), r#"{"to":"agents"}"#);
    assert_eq!(pushed["branch"], "agents");
    assert_eq!(git(&repo, &["show", "agents:agent"]), "work");
    let refused = admin.post(&format!("{P}/push"), r#"{"to":"main"}"#);
    assert_eq!(
        (refused.status, refused.code()),
        (409, "already_exists".to_owned())
    );
}
