//! Damaged content in the store, as a client sees it: a transfer that is whole is right, and one that
//! cannot be right is an error or breaks off.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use offshoot_testkit::{HostDir, Rng, git_command};

use crate::common::{Client, Running};

const W: &str = "/api/v1/workspaces/w";

/// What came, and whether the transfer reached its end.
struct Transfer {
    status: u16,
    body: Vec<u8>,
    whole: bool,
}

/// A request whose answer may break off.
fn get(client: &Client, target: &str, headers: &[(&str, &str)]) -> Transfer {
    let mut stream = client.connect();
    let mut request = client.head("GET", target.as_bytes(), headers);
    request.extend_from_slice(b"Connection: close\r\n\r\n");
    stream.write_all(&request).unwrap();
    let mut all = Vec::new();
    // A connection that is reset is one way to break off.
    let _ = stream.read_to_end(&mut all);
    let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Transfer {
            status: 0,
            body: Vec::new(),
            whole: false,
        };
    };
    let end = end + 4;
    let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
    let status = head[9..12].parse().unwrap();
    let raw = &all[end..];
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let (body, whole) = match length {
        Some(length) => (
            raw.to_vec(),
            raw.len() == length.trim().parse::<usize>().unwrap(),
        ),
        None => chunks(raw),
    };
    Transfer {
        status,
        body,
        whole,
    }
}

fn chunks(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = raw.windows(2).position(|two| two == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&raw[..line]).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let Some(chunk) = raw.get(line + 2..line + 2 + size) else {
            return (body, false);
        };
        if size == 0 {
            return (body, true);
        }
        body.extend_from_slice(chunk);
        raw = raw.get(line + 4 + size..).unwrap_or_default();
    }
}

/// Changes one bit of a blob, or changes it back.
fn flip(data: &Path, id: &str, at: u64) {
    let path: PathBuf = data.join(format!("blobs/data/object/+{}/{id}", &id[..2]));
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 8], at).unwrap();
}

fn put(client: &Client, path: &str, bytes: &[u8]) -> String {
    let reply = client.put(&format!("{W}/files/{path}"), bytes);
    assert!(reply.status < 300, "{}", reply.text());
    reply.header("etag").unwrap().trim_matches('"').to_owned()
}

/// Right and whole, or an error, or broken off.
fn is_right(transfer: &Transfer, expected: &[u8]) -> bool {
    if transfer.status >= 500 {
        let told = String::from_utf8_lossy(&transfer.body);
        assert!(told.contains("\"read_failed\""), "{told}");
        return false;
    }
    if transfer.whole {
        assert!(transfer.body == expected, "wrong bytes with success");
    }
    transfer.whole
}

fn clone_works(running: &Running, dir: &Path) -> bool {
    let url = format!(
        "http://anyone:{}@{}/git/workspaces/w.git",
        running.admin, running.address
    );
    let target = dir.join("clone");
    let cloned = git_command(dir)
        .args(["clone", "-q", "--mirror", &url])
        .arg(&target)
        .output();
    let works = cloned.unwrap().status.success();
    if works {
        std::fs::remove_dir_all(target).unwrap();
    } else {
        let left = std::fs::read_dir(dir).unwrap().count();
        assert_eq!(left, 0, "a failed clone left something");
    }
    works
}

#[test]
fn damaged_content_never_comes_whole() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    client.create("w");
    let mut rng = Rng::new(3);
    let mut noise = |length: usize| {
        let mut bytes = vec![0; length];
        rng.fill(&mut bytes);
        bytes
    };
    let (then, now) = (noise(900_000), noise(500_000));
    let old = put(&client, "file", &then);
    let taken = client.post(&format!("{W}/snapshots"), "{}").json();
    let snapshot = taken["id"].as_str().unwrap().to_owned();
    let new = put(&client, "file", &now);
    let at = format!("{W}/files/file?at={snapshot}");
    let clones = HostDir::new();
    let parts = [(0, 100), (450_000, 600_000), (899_000, 900_000)];
    let range = |(from, to): (usize, usize)| format!("bytes={from}-{}", to - 1);
    let read_parts = || {
        let read = |&part: &(usize, usize)| {
            let answer = get(&client, &at, &[("Range", &range(part))]);
            is_right(&answer, &then[part.0..part.1])
        };
        parts.iter().filter(|part| read(part)).count()
    };
    assert!(is_right(&get(&client, &at, &[]), &then));
    assert_eq!(read_parts(), parts.len());
    assert!(clone_works(&running, clones.path()));
    for place in [0, 1, 123_456, 450_000, 899_999] {
        flip(data.path(), &old, place);
        assert!(!is_right(&get(&client, &at, &[]), &then), "{place}");
        assert_eq!(read_parts(), 0, "{place}");
        // What is short enough to be read before the answer begins is an honest error.
        let short = get(&client, &at, &[("Range", "bytes=200-300")]);
        assert_eq!(short.status, 500, "{place}");
        // What the directory holds is as good as before.
        let direct = get(&client, &format!("{W}/files/file"), &[]);
        assert!(is_right(&direct, &now), "{place}");
        flip(data.path(), &old, place);
    }
    flip(data.path(), &old, 600_000);
    assert!(!clone_works(&running, clones.path()));
    let checked = running.engine.upkeep.check().unwrap();
    assert!(
        checked
            .problems
            .iter()
            .any(|one| one.message.contains(&old)),
        "{checked:?}"
    );
    flip(data.path(), &old, 600_000);
    for format in ["zip", "tar.gz"] {
        let archive = || get(&client, &format!("{W}/archive?format={format}"), &[]);
        assert!(archive().whole);
        flip(data.path(), &new, 499_999);
        let damaged = archive();
        assert!(damaged.status >= 500 || !damaged.whole, "{format}");
        flip(data.path(), &new, 499_999);
    }
    assert!(is_right(&get(&client, &at, &[]), &then));
}

/// What is computed from damaged content fails rather than show it.
#[test]
fn nothing_is_computed_from_damaged_content() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let admin = running.client();
    // Too random to be kept as anything but its bytes, and of lines all the same.
    let mut rng = Rng::new(11);
    let mut noise = |lines: usize| -> String {
        let line = |rng: &mut Rng| -> String {
            let mut bytes = vec![0; 60];
            rng.fill(&mut bytes);
            let letters = b"abcdefghijklmnopqrstuvwxyz0123456789-+*/ABCDEFGHIJKLMNOPQRSTUVWX";
            let letter = |byte: &u8| char::from(letters[usize::from(*byte) % letters.len()]);
            bytes.iter().map(letter).chain(['\n']).collect()
        };
        (0..lines).map(|_| line(&mut rng)).collect()
    };
    let (base, ours, theirs) = (noise(20_000), noise(20_000), noise(20_000));
    admin.create_project("p", &[("file", &base)]);
    let tag = |target: &str| {
        let reply = admin.send("HEAD", target.as_bytes(), &[], b"");
        reply.header("etag").unwrap().trim_matches('"').to_owned()
    };
    let base_id = tag("/api/v1/projects/p/files/file");
    for (agent, content) in [("ada", &ours), ("bob", &theirs)] {
        admin.fork("p", agent);
        let target = format!("/api/v1/workspaces/{agent}/files/file");
        assert_eq!(admin.put(&target, content.as_bytes()).status, 200);
    }
    let ours_id = tag("/api/v1/workspaces/ada/files/file");
    let theirs_id = tag("/api/v1/workspaces/bob/files/file");
    admin.done("/api/v1/workspaces/ada/complete", r#"{"keep":true}"#);
    let done = admin.done("/api/v1/workspaces/bob/complete", r#"{"keep":true}"#);
    let review = done["conflicts"][0]["review_id"].as_str().unwrap();
    let sides = format!("/api/v1/reviews/{review}/sides");
    let ada = running.agent("ada");
    let version =
        ada.get("/api/v1/workspaces/ada/history?path=file").json()["history"][0]["version"]
            .as_i64()
            .unwrap();
    // A version that is not the newest comes from the store.
    let later = ada.put("/api/v1/workspaces/ada/files/file", b"short\n");
    assert_eq!(later.status, 200, "{}", later.text());
    let old = format!("/api/v1/workspaces/ada/files/file?version={version}");
    for (blob, target, expected) in [
        (&ours_id, old.clone(), &ours),
        (&base_id, format!("{sides}/base"), &base),
        (&ours_id, format!("{sides}/ours"), &ours),
        (&theirs_id, format!("{sides}/theirs"), &theirs),
    ] {
        let right = |transfer: &Transfer| is_right(transfer, expected.as_bytes());
        assert!(right(&get(&admin, &target, &[])), "{target}");
        for place in [0, 400_000] {
            flip(data.path(), blob, place);
            assert!(!right(&get(&admin, &target, &[])), "{target} {place}");
            flip(data.path(), blob, place);
        }
        assert!(right(&get(&admin, &target, &[])), "{target}");
    }
    // Tools and what a person looks at.
    let fails = |client: &Client, target: &str, body: Option<&str>| {
        let ask = || match body {
            Some(body) => client.post(target, body),
            None => client.get(target),
        };
        let fine = ask();
        assert_eq!(fine.status, 200, "{target} {}", fine.text());
        flip(data.path(), &ours_id, 400_000);
        let damaged = ask();
        flip(data.path(), &ours_id, 400_000);
        assert_eq!(
            (damaged.status, damaged.code().as_str()),
            (500, "read_failed"),
            "{target} {body:?}"
        );
    };
    let head = admin.get("/api/v1/workspaces/ada/snapshots").json();
    let head = head["snapshots"][0]["id"].as_str().unwrap().to_owned();
    let from = format!("{{\"from\":\"{head}\"}}");
    fails(&ada, "/api/v1/tools/diff", Some(&from));
    let at = format!("{{\"path\":\"file\",\"at\":\"{head}\"}}");
    fails(&ada, "/api/v1/tools/blame", Some(&at));
    fails(
        &admin,
        &format!("/api/v1/workspaces/ada/diff?from={head}"),
        None,
    );
    fails(&admin, &format!("/api/v1/reviews/{review}/content"), None);
    fails(&admin, "/api/v1/projects/p/blame/file", None);
}
