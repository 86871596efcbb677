//! Archives: what goes out comes back, and every attack is refused and reported.

use std::io::Write as _;

use crate::common;
use crate::common::{Client, Reply, Running};
use crate::raw_archives::{self, Names, TarEntry, ZipEntry, end};
use zip::write::SimpleFileOptions;

const IMPORT: &str = "/api/v1/workspaces/w/import";

fn start() -> (offshoot_testkit::HostDir, Running) {
    let data = offshoot_testkit::HostDir::new();
    let mut options = common::options();
    options.limits.max_unpacked_bytes = 20 << 20;
    options.limits.max_archive_entries = 500;
    let running = Running::start_with(data.path(), options);
    running.client().create("w");
    (data, running)
}

fn import(client: &Client, archive: &[u8]) -> Reply {
    client.send("POST", IMPORT.as_bytes(), &[], archive)
}

fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A tar entry with a header as it is given: no library checks the name.
fn tar_entry(tar: &mut Vec<u8>, name: &[u8], kind: u8, link: &[u8], content: &[u8]) {
    let entry = TarEntry {
        name,
        kind,
        link,
        content,
    };
    raw_archives::add(tar, Names::Header, &entry);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn refused(reply: &Reply) -> Vec<(String, String)> {
    let json = reply.json();
    let list = json["refused"]
        .as_array()
        .unwrap_or_else(|| panic!("{json}"))
        .clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    list.iter()
        .map(|entry| (text(&entry["name"]), text(&entry["code"])))
        .collect()
}

#[test]
fn what_goes_out_comes_back() {
    let (_data, running) = start();
    let client = running.client();
    client.put("/api/v1/workspaces/w/files/a/b.txt", b"text");
    client.send(
        "PUT",
        b"/api/v1/workspaces/w/files/run.sh?executable=true",
        &[],
        b"#!/bin/sh\n",
    );
    client.put("/api/v1/workspaces/w/files/large", &vec![7; 3 << 20]);
    client.post("/api/v1/workspaces/w/mkdir", r#"{"path":"empty"}"#);
    for format in ["zip", "tar.gz"] {
        let archive = client.get(&format!("/api/v1/workspaces/w/archive?format={format}"));
        assert_eq!(archive.status, 200);
        let id = format!("copy-{}", &format[..3]);
        client.create(&id);
        let target = format!("/api/v1/workspaces/{id}/import?path=in");
        let imported = client
            .send("POST", target.as_bytes(), &[], &archive.body)
            .json();
        assert_eq!(
            (
                imported["file_count"].as_i64(),
                imported["refused"].as_array().map(Vec::len)
            ),
            (Some(3), Some(0))
        );
        let read = |path: &str| client.get(&format!("/api/v1/workspaces/{id}/{path}"));
        assert_eq!(read("files/in/a/b.txt").text(), "text");
        assert_eq!(read("files/in/large").body.len(), 3 << 20);
        assert_eq!(read("metadata/in/run.sh").json()["mode"], "0755");
        assert_eq!(read("metadata/in/empty").json()["type"], "dir");
    }
    let part = client.get("/api/v1/workspaces/w/archive?path=a");
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(part.body)).unwrap();
    assert_eq!(zip.len(), 1);
    assert_eq!(zip.by_index(0).unwrap().name_raw(), b"b.txt");
    let bad = client.get("/api/v1/workspaces/w/archive?format=rar");
    assert_eq!((bad.status, bad.code().as_str()), (400, "invalid_request"));
}

#[test]
fn attacks_by_name_are_refused_and_the_rest_comes_in() {
    let (data, running) = start();
    let client = running.client();
    let names = [
        "../x",
        "a/../../x",
        "/etc/x",
        "//x",
        "..\\x",
        "\\x",
        "C:\\x",
        "a/..",
        "..",
        "ok\\..\\..\\x",
    ];
    let mut entries: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"evil"[..])).collect();
    entries.push(("good.txt", b"good"));
    let mut tar = Vec::new();
    for (name, content) in &entries {
        tar_entry(&mut tar, name.as_bytes(), b'0', b"", content);
    }
    let tar = end(tar);
    for (what, archive) in [
        ("zip", zip_of(&entries)),
        ("tar", tar.clone()),
        ("tar.gz", gzip(&tar)),
    ] {
        let reply = import(&client, &archive);
        assert_eq!(reply.status, 200, "{what} {}", reply.text());
        let refused = refused(&reply);
        assert_eq!(refused.len(), names.len(), "{what} {refused:?}");
        assert!(
            refused
                .iter()
                .all(|(_, code)| code == "path_traversal_blocked"),
            "{what} {refused:?}"
        );
        assert_eq!(
            client.get("/api/v1/workspaces/w/files/good.txt").text(),
            "good"
        );
        assert_eq!(
            client.get("/api/v1/workspaces/w/info").json()["file_count"],
            1
        );
    }
    assert!(!data.path().join("x").exists() && !data.path().join("workspaces/x").exists());
}

#[test]
fn links_to_outside_and_devices_stay_out() {
    let (data, running) = start();
    let client = running.client();
    let outside = data.path().join("secret");
    std::fs::write(&outside, "secret").unwrap();
    let mut tar = Vec::new();
    tar_entry(&mut tar, b"link", b'2', b"../../secret", b"");
    tar_entry(&mut tar, b"dir", b'2', b"/tmp", b"");
    tar_entry(&mut tar, b"hard", b'1', b"../../secret", b"");
    tar_entry(&mut tar, b"char", b'3', b"", b"");
    tar_entry(&mut tar, b"block", b'4', b"", b"");
    tar_entry(&mut tar, b"pipe", b'6', b"", b"");
    // Through the link that was refused: an ordinary file of an ordinary name now.
    tar_entry(&mut tar, b"dir/through", b'0', b"", b"inside");
    let reply = import(&client, &end(tar));
    let names: Vec<String> = refused(&reply).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["link", "dir", "hard", "char", "block", "pipe"]);
    assert_eq!(
        client.get("/api/v1/workspaces/w/files/dir/through").text(),
        "inside"
    );
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "secret");
    let entry = |name: &'static [u8], mode: u32, content: &'static [u8]| ZipEntry {
        name,
        local_name: name,
        mode,
        content,
    };
    let zip = raw_archives::zip_of(&[
        entry(b"zlink", 0o120_777, b"../../secret"),
        entry(b"zlink/x", 0o100_644, b"x"),
        entry(b"device", 0o020_644, b""),
        entry(b"socket", 0o140_644, b""),
    ]);
    let names = refused(&import(&client, &zip));
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["zlink", "device", "socket"]);
    let list = client.get("/api/v1/workspaces/w/list").text();
    assert!(!list.contains("symlink"), "{list}");
}

/// What an archive of links brings into a workspace and a project, in both formats.
#[test]
fn links_that_stay_inside_come_in() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[]);
    let mut tar = Vec::new();
    // A link may come before what it leads to, or lead to nothing.
    tar_entry(&mut tar, b"bin/tool", b'2', b"../lib/tool.js", b"");
    tar_entry(&mut tar, b"lib/tool.js", b'0', b"", b"tool");
    tar_entry(&mut tar, b"here", b'2', b"lib", b"");
    tar_entry(&mut tar, b"nowhere", b'2', b"lib/none", b"");
    tar_entry(&mut tar, b"here/through", b'0', b"", b"no");
    let entry = |name: &'static [u8], mode: u32, content: &'static [u8]| ZipEntry {
        name,
        local_name: name,
        mode,
        content,
    };
    let zip = raw_archives::zip_of(&[
        entry(b"bin/tool", 0o120_777, b"../lib/tool.js"),
        entry(b"lib/tool.js", 0o100_644, b"tool"),
        entry(b"here", 0o120_777, b"lib"),
        entry(b"nowhere", 0o120_777, b"lib/none"),
        entry(b"here/through", 0o100_644, b"no"),
    ]);
    for (what, archive) in [("tar", end(tar)), ("zip", zip)] {
        let id = format!("in-{what}");
        client.create(&id);
        let base = format!("/api/v1/workspaces/{id}");
        let target = format!("{base}/import?path=deep");
        let reply = client.send("POST", target.as_bytes(), &[], &archive);
        let told = reply.json();
        assert_eq!(
            (told["file_count"].as_u64(), told["link_count"].as_u64()),
            (Some(1), Some(3)),
            "{told}"
        );
        assert_eq!(
            refused(&reply),
            [("here/through".to_owned(), "not_a_directory".to_owned())]
        );
        for path in ["deep/bin/tool", "deep/here/tool.js"] {
            let read = client.get(&format!("{base}/files/{path}"));
            assert_eq!(read.text(), "tool", "{what} {path}");
        }
        let list = client.get(&format!("{base}/list?path=deep")).json();
        let kinds: Vec<&str> = list["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["dir", "symlink", "dir", "symlink"], "{list}");
        // They are in the history, in snapshots, and in an archive of their own.
        let history = client.get(&format!("{base}/history?path=deep/here")).text();
        assert!(history.contains("create"), "{history}");
        let taken = client.post(&format!("{base}/snapshots"), "{}").json();
        client.delete(&format!("{base}/files/deep?recursive=true"));
        let body = format!(r#"{{"snapshot":"{}"}}"#, taken["id"].as_str().unwrap());
        client.done(&format!("{base}/restore"), &body);
        assert_eq!(
            client.get(&format!("{base}/files/deep/bin/tool")).text(),
            "tool"
        );
        for format in ["zip", "tar.gz"] {
            let out = client.get(&format!("{base}/archive?format={format}")).body;
            let back = format!("back-{what}-{}", &format[..3]);
            client.create(&back);
            let target = format!("/api/v1/workspaces/{back}/import");
            let told = client.send("POST", target.as_bytes(), &[], &out).json();
            assert_eq!(told["link_count"], 3, "{what} {format} {told}");
        }
        // Into a project: one snapshot, and its forks have them.
        let target = format!("/api/v1/projects/p/import?path={what}");
        let told = client.send("POST", target.as_bytes(), &[], &archive).json();
        assert_eq!(told["link_count"], 3, "{told}");
        client.fork("p", &format!("fork-{what}"));
        let read = client.get(&format!(
            "/api/v1/workspaces/fork-{what}/files/{what}/bin/tool"
        ));
        assert_eq!(read.text(), "tool", "{what}");
    }
    // A token that is limited to some paths makes none.
    let mut tar = Vec::new();
    tar_entry(&mut tar, b"l", b'2', b"f", b"");
    tar_entry(&mut tar, b"f", b'0', b"", b"f");
    let limited = running.client_for("w", &["box/**:write"]);
    let target = b"/api/v1/workspaces/w/import?path=box";
    let reply = limited.send("POST", target, &[], &end(tar));
    assert_eq!(
        refused(&reply),
        [("l".to_owned(), "permission_denied".to_owned())]
    );
    assert_eq!(reply.json()["file_count"], 1);
}

#[test]
fn hard_links_become_files_of_their_own() {
    let (_data, running) = start();
    let client = running.client();
    client.create_project("p", &[]);
    client.put("/api/v1/workspaces/w/files/there", b"was there before");
    let large: Vec<u8> = (0..600_000u32).map(|n| (n % 251) as u8).collect();
    let mut tar = Vec::new();
    tar_entry(&mut tar, b"early", b'1', b"small", b"");
    tar_entry(&mut tar, b"small", b'0', b"", b"small");
    tar_entry(&mut tar, b"dir/one", b'1', b"./small", b"");
    tar_entry(&mut tar, b"dir/two", b'1', b"dir/one", b"");
    tar_entry(&mut tar, b"large", b'0', b"", &large);
    tar_entry(&mut tar, b"large-too", b'1', b"large", b"");
    tar_entry(&mut tar, b"symbolic", b'2', b"small", b"");
    tar_entry(&mut tar, b"to-link", b'1', b"symbolic", b"");
    tar_entry(&mut tar, b"to-dir", b'1', b"dir", b"");
    tar_entry(&mut tar, b"to-there", b'1', b"there", b"");
    tar_entry(&mut tar, b"small", b'1', b"large", b"");
    let tar = end(tar);
    for (place, archive) in [
        ("workspaces/w/import", tar.clone()),
        ("projects/p/import", gzip(&tar)),
    ] {
        let target = format!("/api/v1/{place}");
        let reply = client.send("POST", target.as_bytes(), &[], &archive);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let names: Vec<String> = refused(&reply).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["early", "to-link", "to-dir", "to-there", "small"],
            "{place}"
        );
        let told = reply.json();
        assert_eq!(
            (told["file_count"].as_u64(), told["link_count"].as_u64()),
            (Some(5), Some(1))
        );
        assert_eq!(told["total_size"], 3 * 5 + 2 * 600_000);
        let base = place.replace("/import", "/files");
        for (path, content) in [
            ("small", &b"small"[..]),
            ("dir/one", b"small"),
            ("dir/two", b"small"),
            ("large", &large),
            ("large-too", &large),
        ] {
            let read = client.get(&format!("/api/v1/{base}/{path}"));
            assert_eq!(read.body, content, "{place} {path}");
        }
    }
    // They are no links any more: what changes one leaves the others alone.
    client.put("/api/v1/workspaces/w/files/small", b"changed");
    let other = client.get("/api/v1/workspaces/w/files/dir/one");
    assert_eq!(other.text(), "small");
}

#[test]
fn headers_that_would_get_around_the_limits_are_refused() {
    let (_data, running) = start();
    let client = running.client();
    let zeros = vec![0; 2 << 20];
    let mut hidden = Vec::new();
    for n in 0..600 {
        tar_entry(&mut hidden, format!("f{n}").as_bytes(), b'0', b"", b"");
    }
    let mut archives = Vec::new();
    // Names that the reader would hold in memory.
    for kind in *b"LKxg" {
        let mut tar = Vec::new();
        raw_archives::add_raw(&mut tar, kind, &zeros);
        tar_entry(&mut tar, b"f", b'0', b"", b"f");
        archives.push((400, end(tar)));
    }
    // To a reader that does not know the size that the pax header sets, the entries are content.
    let mut tar = Vec::new();
    raw_archives::add_pax(&mut tar, "size", b"0");
    tar_entry(&mut tar, b"f", b'0', b"", &hidden);
    archives.push((400, end(tar)));
    let mut tar = Vec::new();
    tar_entry(&mut tar, b"f", b'S', b"", b"");
    archives.push((400, end(tar)));
    // Copies count.
    let mut tar = Vec::new();
    tar_entry(&mut tar, b"f", b'0', b"", &vec![1; 1 << 20]);
    for n in 0..30 {
        tar_entry(&mut tar, format!("h{n}").as_bytes(), b'1', b"f", b"");
    }
    archives.push((413, end(tar)));
    for (index, (status, archive)) in archives.iter().enumerate() {
        let reply = import(&client, archive);
        assert_eq!(reply.status, *status, "{index} {}", reply.text());
        assert!(!reply.code().is_empty());
    }
    let info = client.get("/api/v1/workspaces/w/info").json();
    assert_eq!(info["file_count"], 0, "{info}");
}

#[test]
fn bombs_are_bounded() {
    let (_data, running) = start();
    let client = running.client();
    let zeros = vec![0; 30 << 20];
    let mut tar = Vec::new();
    tar_entry(&mut tar, b"bomb", b'0', b"", &zeros);
    let mut many = Vec::new();
    for n in 0..600 {
        tar_entry(&mut many, format!("f{n}").as_bytes(), b'0', b"", b"");
    }
    let entries: Vec<String> = (0..600).map(|n| format!("f{n}")).collect();
    let entries: Vec<(&str, &[u8])> = entries
        .iter()
        .map(|name| (name.as_str(), &b""[..]))
        .collect();
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("bomb", SimpleFileOptions::default())
        .unwrap();
    zip.write_all(&zeros).unwrap();
    let mut lying = zip.finish().unwrap().into_inner();
    let honest = lying.clone();
    // Both directories of the file say that it is small.
    for at in 0..lying.len() - 4 {
        let size_at = match &lying[at..at + 4] {
            b"PK\x03\x04" => at + 22,
            b"PK\x01\x02" => at + 24,
            _ => continue,
        };
        lying[size_at..size_at + 4].copy_from_slice(&100u32.to_le_bytes());
    }
    for (what, archive) in [
        ("a large tar.gz", gzip(&end(tar))),
        ("many entries", end(many.clone())),
        ("many entries, packed", gzip(&end(many))),
        ("many entries of a zip", zip_of(&entries)),
        ("a large zip", honest),
    ] {
        let reply = import(&client, &archive);
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (413, "payload_too_large"),
            "{what} {}",
            reply.text()
        );
    }
    let reply = import(&client, &lying);
    assert!(reply.status < 500, "{} {}", reply.status, reply.text());
    let info = client.get("/api/v1/workspaces/w/info").json();
    assert_eq!(info["file_count"], 0, "{info}");
}

#[test]
fn what_is_no_archive_is_refused() {
    let (_data, running) = start();
    let client = running.client();
    let good = zip_of(&[("a", b"aaaaaaaaaaaaaaaaaaaaaaaaa")]);
    for (what, archive) in [
        ("nothing", Vec::new()),
        ("text", b"this is no archive at all".to_vec()),
        ("the beginning of a zip", good[..good.len() / 2].to_vec()),
        ("the magic of a zip", b"PK\x03\x04".to_vec()),
        ("the magic of gzip", b"\x1f\x8b\x08".to_vec()),
        ("gzip of text", gzip(b"text")),
        (
            "noise",
            (0..5000u32).map(|n| (n * 7919 % 256) as u8).collect(),
        ),
    ] {
        let reply = import(&client, &archive);
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "invalid_request"),
            "{what} {}",
            reply.text()
        );
    }
    let twice = {
        let mut tar = Vec::new();
        tar_entry(&mut tar, b"same", b'0', b"", b"first");
        tar_entry(&mut tar, b"./same", b'0', b"", b"second");
        end(tar)
    };
    let reply = import(&client, &twice);
    assert_eq!(
        refused(&reply),
        [("./same".to_owned(), "already_exists".to_owned())]
    );
    assert_eq!(
        client.get("/api/v1/workspaces/w/files/same").text(),
        "first"
    );
}
