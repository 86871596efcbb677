//! A durable write flushes in the one order that survives a power cut: content, then the name.
//!
//! `strace` is the witness, for a missing flush changes nothing that a running system would show.

use std::process::Command;

use offshoot_core::RelPath;
use offshoot_fs::{SafeDir, Sync};

/// The calls of interest that a write makes in a process of its own, in order.
fn calls(sync: &str) -> Option<Vec<String>> {
    let traced = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-e",
            "trace=fsync,fdatasync,mkdirat,renameat,renameat2",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "durability::traced_body"])
        .env("OFFSHOOT_TEST_SYNC", sync)
        .output();
    let Some(output) = traced.ok().filter(|output| output.status.success()) else {
        println!("skipped: durability needs `strace` and the right to use it (skipped=1)");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let name = |line: &str| {
        let call = line.split('(').next()?.rsplit(' ').next()?;
        line.contains('(').then(|| call.to_owned())
    };
    Some(text.lines().filter_map(name).collect())
}

/// Not a test by itself: the body of the process that is traced.
#[test]
fn traced_body() {
    let Ok(sync) = std::env::var("OFFSHOOT_TEST_SYNC") else {
        return;
    };
    let sync = if sync == "durable" {
        Sync::Durable
    } else {
        Sync::None
    };
    let host = tempfile::tempdir().unwrap();
    let dir = SafeDir::open(host.path()).unwrap();
    dir.write(&RelPath::parse(b"d/f").unwrap(), b"x", 0o644, sync)
        .unwrap();
}

#[test]
fn content_is_flushed_before_its_name() {
    let Some(durable) = calls("durable") else {
        return;
    };
    // The directory and its parent, the content, the rename, the directory again.
    assert_eq!(durable, ["mkdirat", "fsync", "fsync", "renameat", "fsync"]);
    assert_eq!(calls("none").unwrap(), ["mkdirat", "renameat"]);
}
