//! A disk that is full to the last byte, by the doors: what stores is refused with the code and a hint,
//! what frees works, and writes go on by themselves.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::support::served::{Served, command, run};
use offshoot_testkit::{FileSystem, LoopImage, Rng, skip};
use serde_json::Value;

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// Fills the disk with a file of somebody else.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("foreign");
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(&path)
        .unwrap();
    let mut length = 0;
    loop {
        for step in [1 << 20, 64 << 10, 4 << 10, 512, 1] {
            let bytes = vec![7; step];
            while file
                .write_all(&bytes)
                .and_then(|()| file.sync_all())
                .is_ok()
            {}
        }
        // What was deleted a moment ago is free once the journal has noted it.
        File::open(disk).unwrap().sync_all().unwrap();
        let now = file.metadata().unwrap().len();
        if std::mem::replace(&mut length, now) == now {
            return path;
        }
    }
}

#[track_caller]
fn assert_full(body: &Value) {
    assert_eq!(body["error"]["code"], "quota_exceeded", "{body}");
    let hint = body["error"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("purge"), "{body}");
}

#[track_caller]
fn done(data: &Path, args: &[&str]) {
    let (code, stdout, stderr) = run(data, args);
    assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
}

fn put(data: &Path, path: &str, content: &[u8]) -> (Option<i32>, Value) {
    let from = tempfile::NamedTempFile::new().unwrap();
    fs::write(from.path(), content).unwrap();
    let output = command(data)
        .args(["--json", "put", "w", path])
        .arg(from.path())
        .output()
        .unwrap();
    let body = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), body)
}

/// What frees space, each on a disk that is full again.
fn free_space(disk: &Path, data: &Path, run: usize) {
    done(data, &["rm", "w", &format!("small-{run}")]);
    fill(disk);
    done(data, &["clean", "--days", "0"]);
    fill(disk);
    done(
        data,
        &["purge", "path", "w", &format!("large-{run}"), "--yes"],
    );
    fill(disk);
    done(
        data,
        &["purge", "workspace", &format!("other-{run}"), "--yes"],
    );
}

#[test]
fn loop_a_full_disk_has_a_way_out_by_every_door() {
    if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
        return skip(&reason);
    }
    let disk = LoopImage::create(FileSystem::Ext4, 64 << 20);
    let disk = disk.path();
    let data = disk.join("data");
    let mut served = Served::start(&data);
    let file = |path: &str| format!("/api/v1/workspaces/w/files/{path}");
    done(&data, &["workspace", "create", "w"]);
    for number in 0..2 {
        for (name, length) in [("small", 40), ("large", 400_000)] {
            let (code, body) = put(&data, &format!("{name}-{number}"), &noise(number, length));
            assert_eq!(code, Some(0), "{body}");
        }
        let other = format!("other-{number}");
        done(&data, &["workspace", "create", &other]);
        let target = format!("/api/v1/workspaces/{other}/files/f");
        assert_eq!(served.send("PUT", &target, &noise(9, 200_000)).0, 201);
    }

    let foreign = fill(disk);
    let refused = |served: &Served| {
        for length in [1, 70_000, 2_000_000] {
            let (status, body) = served.send("PUT", &file("new"), &noise(5, length));
            assert_eq!(status, 507, "{}", String::from_utf8_lossy(&body));
            assert_full(&serde_json::from_slice(&body).unwrap());
        }
    };
    refused(&served);
    free_space(disk, &data, 0);
    fill(disk);
    refused(&served);
    assert_eq!(served.send("GET", &file("small-1"), b"").1, noise(1, 40));

    // Somebody makes room: the same server goes on.
    fs::remove_file(&foreign).unwrap();
    assert_eq!(
        served.send("PUT", &file("new"), &noise(5, 2_000_000)).0,
        201
    );

    // The same without a server.
    served.process.terminate();
    assert!(served.process.wait().success());
    let foreign = fill(disk);
    let (code, body) = put(&data, "newer", &noise(6, 2_000_000));
    assert_eq!(code, Some(1), "{body}");
    assert_full(&body);
    free_space(disk, &data, 1);
    fs::remove_file(&foreign).unwrap();
    let (code, body) = put(&data, "newer", &noise(6, 2_000_000));
    assert_eq!(code, Some(0), "{body}");
    done(&data, &["check"]);
}
