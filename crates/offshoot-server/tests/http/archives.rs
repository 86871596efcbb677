//! Archives: what goes out comes back, and every attack is refused and reported.

use std::io::Write as _;

use crate::common;
use crate::common::{Client, Reply, Running};
use zip::write::SimpleFileOptions;

const IMPORT: &str = "/api/v1/workspaces/w/import";

fn start() -> (tempfile::TempDir, Running) {
    let data = tempfile::tempdir().unwrap();
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
    let mut header = [0u8; 512];
    header[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    header[100..107].copy_from_slice(b"0000644");
    header[108..115].copy_from_slice(b"0000000");
    header[116..123].copy_from_slice(b"0000000");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[136..147].copy_from_slice(b"00000000000");
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link);
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar.extend_from_slice(&header);
    tar.extend_from_slice(content);
    tar.resize(tar.len().div_ceil(512) * 512, 0);
}

fn end(mut tar: Vec<u8>) -> Vec<u8> {
    tar.resize(tar.len() + 1024, 0);
    tar
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
fn links_and_devices_stay_out() {
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
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.add_symlink("zlink", "../../secret", SimpleFileOptions::default())
        .unwrap();
    zip.start_file("zlink/x", SimpleFileOptions::default())
        .unwrap();
    let reply = import(&client, &zip.finish().unwrap().into_inner());
    assert_eq!(refused(&reply).len(), 1, "{}", reply.text());
    assert!(
        !client
            .get("/api/v1/workspaces/w/list")
            .text()
            .contains("symlink")
    );
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
