//! Merges, reviews, policies, blame and agents through the real binary: JSON shapes, exit codes,
//! and what people see.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::support::{Place, Ran};
use serde_json::{Value, json};

/// A place with the project `p`.
fn with_project() -> Place {
    let place = Place::new();
    place.done(&["project", "create", "p"]);
    put(&place, "a.txt", "one\ntwo\nthree\nfour\nfive\n");
    put(&place, "b.txt", "b\n");
    place
}

fn put(place: &Place, path: &str, text: &str) {
    let ran = place.run_with_input(&["project", "put", "p", path], text.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.golden());
}

fn fork(place: &Place, agent: &str) -> PathBuf {
    let ran = place.done(&["fork", "p", "--agent", agent]);
    PathBuf::from(ran.stdout.trim_end())
}

fn json(place: &Place, args: &[&str]) -> Value {
    coded(place, args, 0).json()
}

fn coded(place: &Place, args: &[&str], code: i32) -> Ran {
    let ran = place.run(&[&["--json"], args].concat());
    assert_eq!(ran.code, code, "{args:?}: {}", ran.golden());
    assert_eq!(ran.stderr, "", "{args:?}");
    ran
}

fn refused(place: &Place, args: &[&str]) -> String {
    let ran = coded(place, args, 1);
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

fn cat(place: &Place, path: &str) -> String {
    place.done(&["project", "cat", "p", path]).stdout
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Two agents that changed the same line. The second completion waits, and its review is given.
fn conflict(place: &Place) -> (Value, String) {
    let (one, two) = (fork(place, "one"), fork(place, "two"));
    fs::write(one.join("a.txt"), "one\nONE\nthree\nfour\nfive\n").unwrap();
    fs::write(two.join("a.txt"), "one\nTWO\nthree\nfour\nFIVE\n").unwrap();
    fs::write(two.join("new.txt"), "new\n").unwrap();
    json(place, &["complete", "one", "--message", "m-1"]);
    let done = coded(place, &["complete", "two"], 3).json();
    let review = text(&done["conflicts"][0]["review_id"]);
    (done, review)
}

/// The same once more, after the first was decided.
fn conflict_again(place: &Place) -> (Value, String) {
    put(place, "a.txt", "one\ntwo\nthree\nfour\nfive\n");
    conflict(place)
}

#[test]
fn complete_tells_what_it_leaves_out() {
    let place = with_project();
    let one = fork(&place, "one");
    offshoot_testkit::git(&one, &["init", "-q"]);
    offshoot_testkit::git(&one, &["config", "core.fsmonitor", "touch ran; false"]);
    fs::write(one.join("new.txt"), "new\n").unwrap();
    let plan = json(&place, &["complete", "one", "--dry-run"]);
    assert_eq!(plan["left_out"][0]["path"], ".git");
    let told = place.done(&["complete", "one"]).stdout;
    assert!(told.contains("  - .git  (left out: "), "{told}");
    let two = fork(&place, "two");
    assert!(two.join("new.txt").exists() && !two.join(".git").exists());
}

#[test]
fn complete_tells_what_landed_and_what_waits() {
    let place = with_project();
    let one = fork(&place, "one");
    fs::write(one.join("a.txt"), "ONE\ntwo\nthree\nfour\nfive\n").unwrap();
    let plan = json(&place, &["complete", "one", "--dry-run"]);
    assert_eq!(plan["merge_id"], Value::Null);
    assert_eq!(plan["merged"], json!(["a.txt"]));
    assert!(cat(&place, "a.txt").starts_with("one\n"));
    let done = json(&place, &["complete", "one"]);
    assert_eq!(
        keys(&done),
        BTreeSet::from([
            "merge_id",
            "project",
            "workspace",
            "snapshot",
            "workspace_snapshot",
            "merged",
            "conflicts",
            "unchanged",
            "auto_resolved",
            "decided",
            "left_out",
            "ignored_removed",
            "keep",
            "landing",
            "removed",
        ])
    );
    assert_eq!(done["removed"], true);
    assert_eq!(done["snapshot"].as_str().unwrap().len(), 40);
    assert!(cat(&place, "a.txt").starts_with("ONE\n"));
    assert!(!one.exists(), "the workspace is gone");
    assert_eq!(json(&place, &["complete", "one"]), done, "once is enough");

    let (done, review) = conflict_again(&place);
    assert_eq!(done["merged"], json!(["new.txt"]));
    let waiting = &done["conflicts"][0];
    assert_eq!(
        keys(waiting),
        BTreeSet::from(["path", "part", "parts", "kind", "review_id"])
    );
    assert_eq!(
        (&waiting["path"], &waiting["part"]),
        (&json!("a.txt"), &json!("line 2"))
    );
    // It waits as long as nobody decides, and not a moment longer.
    coded(&place, &["complete", "two"], 3);
    let ran = place.run(&["complete", "two"]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.stderr.contains("offshoot review show"),
        "{}",
        ran.stderr
    );
    json(&place, &["review", "resolve", &review, "union"]);
    coded(&place, &["complete", "two"], 0);
    assert_eq!(cat(&place, "a.txt"), "one\nONE\nTWO\nthree\nfour\nFIVE\n");
    let log = place.done(&["merge", "log", "p"]).stdout;
    assert!(log.contains("landed") && !log.contains("in part"), "{log}");
}

#[test]
fn a_merge_that_landed_exits_well_although_the_workspace_is_held() {
    let place = with_project();
    let path = fork(&place, "one");
    fs::write(path.join("new"), "one\n").unwrap();
    let held = fs::OpenOptions::new()
        .append(true)
        .open(path.join("new"))
        .unwrap();
    let kept = json(&place, &["complete", "one", "--keep"]);
    assert_eq!(
        (&kept["moved"], &kept["merged"]),
        (&json!(false), &json!(["new"]))
    );
    assert!(text(&kept["waits"]).contains("offshoot update one"));
    let said = place.done(&["complete", "one", "--keep"]);
    assert!(
        said.stderr.contains("`offshoot update one`"),
        "{}",
        said.stderr
    );
    drop(held);
    json(&place, &["update", "one"]);
    let again = json(&place, &["complete", "one", "--keep"]);
    assert_eq!((&again["moved"], again.get("waits")), (&json!(true), None));
}

#[test]
fn landing_keeping_and_policies_can_be_asked_for() {
    let place = with_project();
    let (one, two) = (fork(&place, "one"), fork(&place, "two"));
    fs::write(one.join("b.txt"), "ONE\n").unwrap();
    fs::write(two.join("b.txt"), "TWO\n").unwrap();
    fs::write(two.join("free"), "free\n").unwrap();
    let kept = json(&place, &["complete", "one", "--keep"]);
    assert_eq!(kept["keep"], true);
    assert!(one.exists());
    let plan = coded(&place, &["complete", "two", "--dry-run", "--atomic"], 3).json();
    assert_eq!(
        (&plan["landing"], &plan["merged"]),
        (&json!("atomic"), &json!([]))
    );
    let plan = coded(&place, &["complete", "two", "--dry-run", "--partial"], 3).json();
    assert_eq!(plan["merged"], json!(["free"]));
    let usage = place.run(&["complete", "two", "--atomic", "--partial"]);
    assert_eq!(usage.code, 2);
    assert_eq!(
        refused(&place, &["complete", "two", "--policy", "coin"]),
        "invalid_request"
    );
    let done = json(&place, &["complete", "two", "--policy", "last-writer-wins"]);
    let decided = &done["decided"][0];
    assert_eq!(
        (&decided["policy"], &decided["winner"], &decided["lost_by"]),
        (&json!("last-writer-wins"), &json!("theirs"), &json!("one"))
    );
    assert_eq!(cat(&place, "b.txt"), "TWO\n");
    let merge = text(&done["merge_id"]);
    let taken = json(&place, &["merge", "take", &merge[..8], "b.txt"]);
    assert_eq!(
        keys(&taken),
        BTreeSet::from(["merge_id", "path", "snapshot"])
    );
    assert_eq!(cat(&place, "b.txt"), "ONE\n");
    assert_eq!(
        refused(&place, &["merge", "take", &merge, "free"]),
        "file_not_found"
    );
    // Nothing of a workspace that is no fork can be merged.
    place.done(&["workspace", "create", "w"]);
    assert_eq!(refused(&place, &["complete", "w"]), "invalid_request");
    assert_eq!(
        refused(&place, &["complete", "nobody"]),
        "workspace_not_found"
    );
}

#[test]
fn merges_are_listed_shown_and_undone() {
    let place = with_project();
    let (done, review) = conflict(&place);
    json(&place, &["review", "resolve", &review, "ours"]);
    let log = json(&place, &["merge", "log", "p"]);
    assert_eq!(log["merges"].as_array().unwrap().len(), 2);
    assert_eq!(log["merges"][0]["merge_id"], done["merge_id"]);
    assert_eq!(log["merges"][1]["message_id"], "m-1");
    assert_eq!(
        json(&place, &["merge", "log", "p", "-n", "1"])["merges"][0],
        log["merges"][0]
    );
    let id = text(&done["merge_id"]);
    assert_eq!(
        json(&place, &["merge", "show", &id[..4]])["merge_id"],
        done["merge_id"]
    );
    let undone = json(&place, &["merge", "undo", &id[..6]]);
    assert_eq!(
        keys(&undone),
        BTreeSet::from(["merge_id", "project", "snapshot"])
    );
    assert_eq!(
        json(&place, &["merge", "show", &id])["undone_by"],
        undone["snapshot"]
    );
    let gone = place.run(&["project", "cat", "p", "new.txt"]);
    assert_eq!(gone.code, 1);
    assert_eq!(refused(&place, &["merge", "undo", &id]), "already_exists");
    assert_eq!(
        refused(&place, &["merge", "show", "abc"]),
        "invalid_request"
    );
    assert_eq!(
        refused(&place, &["merge", "show", "nothing"]),
        "invalid_request"
    );
    assert_eq!(refused(&place, &["merge", "log", "q"]), "project_not_found");
    assert!(place.done(&["merge", "log", "p"]).stdout.contains("undone"));
}

#[test]
fn reviews_are_listed_shown_proposed_for_and_resolved() {
    let place = with_project();
    let (_, review) = conflict(&place);
    let listed = json(&place, &["review", "list", "--project", "p"]);
    assert_eq!(listed["reviews"].as_array().unwrap().len(), 1);
    assert_eq!(listed["reviews"][0]["state"], "open");
    assert!(listed["reviews"][0].get("ours_diff").is_none());
    let shown = json(&place, &["review", "show", &review[..8]]);
    assert_eq!(
        shown["ours_diff"],
        "@@ -1,5 +1,5 @@\n one\n-two\n+ONE\n three\n four\n five\n"
    );
    assert!(text(&shown["theirs_diff"]).contains("+TWO"));
    assert_eq!(shown["ours_by"]["claim"], "one");
    assert_eq!(shown["ours_by"]["message_id"], "m-1");
    let people = place.done(&["review", "show", &review]);
    for part in [
        "ours: the project `p`, by one",
        "+ONE",
        "theirs: the workspace `two`",
        "+TWO",
    ] {
        assert!(people.stdout.contains(part), "{part}: {}", people.stdout);
    }
    assert!(
        people.stderr.contains("review resolve"),
        "{}",
        people.stderr
    );

    let both = b"one\nboth\nthree\nfour\nFIVE\n";
    let args = [
        "--json",
        "review",
        "propose",
        &review,
        "-",
        "--note",
        "fair",
        "--operator",
        "cy",
    ];
    let proposed = place.run_with_input(&args, both).json();
    let candidate = &proposed["candidates"][0];
    assert_eq!(
        (
            &candidate["number"],
            &candidate["note"],
            &candidate["operator"]
        ),
        (&json!(1), &json!("fair"), &json!("cy"))
    );
    assert_eq!(proposed["state"], "open", "nothing is decided by it");
    for wrong in [
        &["review", "resolve", &review, "content"][..],
        &["review", "resolve", &review, "candidate"],
        &["review", "resolve", &review, "candidate", "7"],
        &["review", "resolve", &review, "ours", "x"],
    ] {
        assert_eq!(refused(&place, wrong), "invalid_request", "{wrong:?}");
    }
    assert_eq!(place.run(&["review", "resolve", &review, "coin"]).code, 2);
    let resolved = json(&place, &["review", "resolve", &review, "candidate", "1"]);
    assert_eq!(
        keys(&resolved),
        BTreeSet::from(["review", "snapshot", "recomputed", "ignored_removed"])
    );
    assert_eq!(resolved["review"]["state"], "resolved");
    assert_eq!(resolved["review"]["decision"]["choice"], "candidate 1");
    assert_eq!(cat(&place, "a.txt").as_bytes(), both);
    assert_eq!(json(&place, &["review", "list"])["reviews"], json!([]));
    let all = json(&place, &["review", "list", "--all"]);
    assert_eq!(all["reviews"][0]["id"], json!(review));
    assert_eq!(
        refused(&place, &["review", "show", "nothing"]),
        "review_not_found"
    );
    let again = ["review", "resolve", review.as_str(), "ours"];
    assert_eq!(refused(&place, &again), "already_exists");
}

#[test]
fn a_review_is_resolved_with_a_file_or_stdin() {
    let place = with_project();
    let (_, review) = conflict(&place);
    fs::write(place.path().join("mine"), "mine\n").unwrap();
    let resolved = json(&place, &["review", "resolve", &review, "content", "mine"]);
    assert_eq!(resolved["review"]["decision"]["choice"], "content");
    assert_eq!(cat(&place, "a.txt"), "mine\n");
    let (_, review) = conflict_again(&place);
    let missing = [
        "review",
        "resolve",
        review.as_str(),
        "content",
        "no-such-file",
    ];
    assert_eq!(place.run(&missing).code, 1);
    let typed = place.run_with_input(&["review", "resolve", &review, "content", "-"], b"typed\n");
    assert_eq!(typed.code, 0, "{}", typed.golden());
    assert_eq!(cat(&place, "a.txt"), "typed\n");
}

#[test]
fn policies_are_set_kept_and_cleared() {
    let place = with_project();
    let set = json(
        &place,
        &[
            "project",
            "policy",
            "p",
            "--set",
            "*.lock=theirs",
            "--set",
            "a=b/*=union",
            "--landing",
            "atomic",
            "--include-ignored",
            "yes",
        ],
    );
    let expected = json!({
        "project": "p",
        "policies": [
            {"path": "*.lock", "policy": "theirs"},
            {"path": "a=b/*", "policy": "union"},
        ],
        "landing": "atomic",
        "include_ignored": true,
        "protect": [],
    });
    assert_eq!(set, expected);
    assert_eq!(json(&place, &["project", "policy", "p"]), expected);
    // The same pattern again changes its policy in its place.
    let set = json(&place, &["project", "policy", "p", "--set", "*.lock=ours"]);
    assert_eq!(
        set["policies"][0],
        json!({"path": "*.lock", "policy": "ours"})
    );
    let set = json(
        &place,
        &["project", "policy", "p", "--clear", "--set", "*=review"],
    );
    assert_eq!(set["policies"], json!([{"path": "*", "policy": "review"}]));
    for wrong in ["*.lock", "*.lock=coin", "=ours"] {
        let args = ["project", "policy", "p", "--set", wrong];
        assert_eq!(refused(&place, &args), "invalid_request", "{wrong}");
    }
    assert_eq!(
        json(&place, &["project", "policy", "p"])["policies"],
        set["policies"]
    );
    assert_eq!(
        refused(&place, &["project", "policy", "q"]),
        "project_not_found"
    );
    let people = place.done(&["project", "policy", "p"]).stdout;
    assert!(
        people.contains("atomic") && people.contains("everything else"),
        "{people}"
    );
}

#[test]
fn blame_names_agents_messages_and_snapshots() {
    let place = with_project();
    let one = fork(&place, "one");
    fs::write(one.join("a.txt"), "one\nONE\nthree\nfour\nfive\n").unwrap();
    let done = json(&place, &["complete", "one", "--message", "m-1"]);
    let blamed = json(&place, &["blame", "p", "a.txt"]);
    assert_eq!(keys(&blamed), BTreeSet::from(["path", "lines"]));
    let line = &blamed["lines"][1];
    assert_eq!(
        keys(line),
        BTreeSet::from([
            "line",
            "text",
            "operator",
            "agent",
            "message_id",
            "snapshot",
            "at"
        ])
    );
    assert_eq!(
        (
            &line["line"],
            &line["text"],
            &line["agent"],
            &line["message_id"],
            &line["snapshot"]
        ),
        (
            &json!(2),
            &json!("ONE"),
            &json!("one"),
            &json!("m-1"),
            &done["snapshot"]
        )
    );
    assert_eq!(blamed["lines"][0]["operator"], "user");
    // A workspace of the same name comes first, unless the project is asked for.
    place.done(&["workspace", "create", "p"]);
    let own = place.run_with_input(&["put", "p", "a.txt"], b"other\n");
    assert_eq!(own.code, 0);
    assert_eq!(
        json(&place, &["blame", "p", "a.txt"])["lines"][0]["text"],
        "other"
    );
    assert_eq!(json(&place, &["blame", "p", "a.txt", "--project"]), blamed);
    put(&place, "binary", "a\0b");
    assert_eq!(
        refused(&place, &["blame", "p", "binary", "--project"]),
        "unsupported"
    );
    assert_eq!(refused(&place, &["blame", "p", "none"]), "file_not_found");
    let people = place.done(&["blame", "--project", "p", "a.txt"]).stdout;
    assert!(
        people.lines().nth(2).unwrap().ends_with("2  ONE"),
        "{people}"
    );
}

#[test]
fn agents_are_spawned_listed_and_ended() {
    let place = with_project();
    let spawn = |parent: &str, role: &str, more: &[&str]| {
        let args = ["agent", "spawn", "--parent", parent, "--role", role];
        json(&place, &[&args, more].concat())
    };
    let lead = spawn("root", "lead", &["--project", "p"]);
    assert_eq!(
        keys(&lead),
        BTreeSet::from([
            "id",
            "parent",
            "role",
            "workspace_id",
            "owns_workspace",
            "priority",
            "created_at"
        ])
    );
    assert_eq!(
        (&lead["parent"], &lead["workspace_id"]),
        (&json!("root"), &lead["id"])
    );
    let id = text(&lead["id"]);
    let helper = spawn(&id, "helper", &[]);
    assert_eq!(helper["workspace_id"], lead["id"]);
    assert_eq!(helper["owns_workspace"], false);
    let helper = text(&helper["id"]);
    let where_to = json(&place, &["agent", "workspace", &helper]);
    assert_eq!(where_to, json!({"id": helper, "workspace_id": id}));
    let listed = place.done(&["agent", "list"]).stdout;
    assert!(listed.contains(&format!("\n  {helper}")), "{listed}");
    assert_eq!(
        json(&place, &["agent", "list"])["agents"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    json(&place, &["complete", &id]);
    assert_eq!(
        refused(&place, &["agent", "workspace", &helper]),
        "workspace_not_assigned"
    );
    let ended = json(&place, &["agent", "end", &helper]);
    assert_eq!(ended, json!({"id": helper, "ended": true}));
    assert_eq!(
        refused(&place, &["agent", "workspace", &helper]),
        "agent_not_found"
    );
    assert_eq!(
        json(&place, &["agent", "list"])["agents"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn priorities_come_from_agents_and_stand_for_their_own_lines() {
    let place = with_project();
    json(&place, &["project", "policy", "p", "--set", "*=priority"]);
    let agents = [("five", "5"), ("one", "1"), ("three", "3")].map(|(role, priority)| {
        let args = ["agent", "spawn", "--parent", "root", "--role", role];
        let more = ["--project", "p", "--priority", priority];
        let agent = json(&place, &[&args[..], &more[..]].concat());
        assert_eq!(agent["priority"].to_string(), priority);
        let path = place.done(&["workspace", "path", &text(&agent["id"])]);
        fs::write(
            PathBuf::from(path.stdout.trim_end()).join("a.txt"),
            format!("by {role}\ntwo\nthree\nfour\nfive\n"),
        )
        .unwrap();
        text(&agent["id"])
    });
    json(&place, &["complete", &agents[0], "--message", "m-5"]);
    for loser in &agents[1..] {
        let done = json(&place, &["complete", loser]);
        let decided = &done["decided"][0];
        assert_eq!(decided["winner"], "ours", "{done}");
        assert_eq!(decided["ours_by"], json!(agents[0]));
        assert_eq!(decided["ours_message_id"], "m-5");
        assert_eq!(decided["lost_by"], json!(loser));
    }
    assert_eq!(cat(&place, "a.txt"), "by five\ntwo\nthree\nfour\nfive\n");
}

#[test]
fn protected_paths_wait_for_the_owner() {
    let place = with_project();
    let args = ["project", "policy", "p", "--protect", ".github/**"];
    let more = ["--set", "*.key=protect", "--set", "*=theirs"];
    let set = json(&place, &[&args[..], &more[..]].concat());
    assert_eq!(set["protect"], json!([".github/**", "*.key"]));
    let people = place.done(&["project", "policy", "p"]).stdout;
    assert!(people.contains(".github/**       protect"), "{people}");
    let path = fork(&place, "ada");
    fs::create_dir_all(path.join(".github")).unwrap();
    fs::write(path.join(".github/ci.yml"), "run: anything\n").unwrap();
    fs::write(path.join("b.txt"), "B\n").unwrap();
    let ran = place.run(&["complete", "ada", "--policy", "theirs"]);
    assert_eq!(ran.code, 3, "{}", ran.golden());
    assert!(
        ran.stdout.contains("! .github/ci.yml  (protected)  review"),
        "{}",
        ran.golden()
    );
    assert_eq!(cat(&place, "b.txt"), "B\n");
    assert_eq!(
        refused(&place, &["project", "cat", "p", ".github/ci.yml"]),
        "file_not_found"
    );
    let review = json(&place, &["review", "list"])["reviews"][0].clone();
    assert_eq!(
        (&review["kind"], &review["protected"]),
        (&json!("protected"), &json!(true))
    );
    json(
        &place,
        &["review", "resolve", &text(&review["id"]), "theirs"],
    );
    assert_eq!(cat(&place, ".github/ci.yml"), "run: anything\n");
    let less = json(
        &place,
        &["project", "policy", "p", "--clear", "--unprotect", "*.key"],
    );
    assert_eq!(
        (&less["protect"], &less["policies"]),
        (&json!([".github/**"]), &json!([]))
    );
    let unknown = ["project", "policy", "p", "--unprotect", "nothing"];
    assert_eq!(refused(&place, &unknown), "invalid_request");
    let empty = ["project", "policy", "p", "--protect", "/"];
    assert_eq!(refused(&place, &empty), "invalid_request");
}

#[test]
fn ignored_files_go_and_the_answer_says_how_much() {
    let place = with_project();
    put(&place, ".gitignore", "built/\n");
    let build = |agent: &str| {
        let dir = fork(&place, agent).join("built");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("app"), "12345").unwrap();
    };
    let one = json!({ "files": 1, "bytes": 5 });
    build("one");
    let said = place.done(&["complete", "one"]).stdout;
    assert!(
        said.contains("1 ignored file (5 B) went with it; `--include-ignored` keeps"),
        "{said}"
    );
    assert_eq!(json(&place, &["complete", "one"])["ignored_removed"], one);
    build("two");
    let deleted = json(&place, &["workspace", "delete", "two"]);
    assert_eq!(deleted["ignored_removed"], one);
    build("three");
    let args = ["workspace", "delete", "three", "--include-ignored"];
    let deleted = json(&place, &args);
    assert_eq!(deleted["ignored_removed"]["files"], 0);
    build("four");
    let plan = json(&place, &["clean", "--days", "0", "--dry-run"]);
    assert_eq!(plan["workspaces"][0]["ignored_removed"], one);
    let done = json(&place, &["clean", "--days", "0", "--include-ignored"]);
    assert_eq!(done["workspaces"][0]["ignored_removed"]["files"], 0);
    assert_eq!(place.done(&["cat", "four", "built/app"]).stdout, "12345");
}
