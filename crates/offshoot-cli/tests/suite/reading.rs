//! Commands that only read wait for no disk. `strace` is the witness.

use std::process::Command;

use crate::support::Place;

/// The calls by which a command waits for the disk, with what strace says of each.
fn syncs(place: &Place, args: &[&str]) -> Option<Vec<String>> {
    let command = place.command(args);
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,syncfs,sync,msync"])
        .arg(command.get_program())
        .args(command.get_args())
        .env("OFFSHOOT_DATA", place.data())
        .output();
    let Some(output) = traced.ok().filter(|output| output.status.success()) else {
        offshoot_testkit::skip("it needs `strace` and the right to use it");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let waits = |line: &&str| line.contains("sync(");
    Some(text.lines().filter(waits).map(str::to_owned).collect())
}

#[test]
fn commands_that_only_read_wait_for_no_disk() {
    let place = Place::with_workspace();
    place.put("a", b"one\n");
    place.snapshot("first");
    for args in [
        &["workspace", "list"][..],
        &["workspace", "show", "w"],
        &["ls", "w"],
        &["cat", "w", "a"],
        &["tree", "w"],
        &["status", "w"],
        &["snapshots", "w"],
        &["history", "w"],
        &["project", "list"],
        &["token", "list"],
    ] {
        let Some(found) = syncs(&place, args) else {
            return;
        };
        assert!(found.is_empty(), "{args:?}: {found:#?}");
    }
    // The witness sees what a change waits for.
    let written = syncs(&place, &["mkdir", "w", "d"]).unwrap();
    assert!(!written.is_empty());
}
