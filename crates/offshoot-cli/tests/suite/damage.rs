//! Damaged content by the command line: an error with its code, and nothing wrong put in place.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Place, Ran};
use offshoot_testkit::{Rng, dir_image};

fn noise(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; 700_000];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found
}

/// The stored form of the contents that are large.
fn large_blobs(data: &Path) -> Vec<PathBuf> {
    let mut blobs = files_below(&data.join("blobs"));
    blobs.retain(|blob| fs::metadata(blob).unwrap().len() > 100_000);
    blobs
}

/// Changes one byte in the middle of every blob.
fn flip_bytes(data: &Path) {
    for blob in large_blobs(data) {
        let mut bytes = fs::read(&blob).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&blob, &bytes).unwrap();
    }
}

/// Puts each of two blobs in the place of the other: whole, and not what its id says.
fn swap_blobs(data: &Path) {
    let [one, two] = &large_blobs(data)[..] else {
        panic!("two contents are large");
    };
    let (first, second) = (fs::read(one).unwrap(), fs::read(two).unwrap());
    fs::write(one, second).unwrap();
    fs::write(two, first).unwrap();
}

#[track_caller]
fn assert_damaged(ran: &Ran) {
    assert_eq!(ran.code, 1, "{}", ran.golden());
    assert_eq!(ran.json()["error"]["code"], "read_failed", "{}", ran.stdout);
}

#[test]
fn a_flipped_byte_is_an_error_and_nothing_is_put_in_place() {
    refuses_content_after(flip_bytes);
}

#[test]
fn another_content_is_an_error_and_nothing_is_put_in_place() {
    refuses_content_after(swap_blobs);
}

fn refuses_content_after(damage: fn(&Path)) {
    let place = Place::with_workspace();
    place.put("large", &noise(1));
    place.put("other", &noise(2));
    place.put("small", b"then");
    let snapshot = place.snapshot("then");
    // What is there now is small: only the snapshot needs the blob.
    place.put("large", b"now");
    place.put("other", b"now");
    place.put("small", b"now");
    let path = place.done(&["workspace", "path", "w"]).stdout;
    let path = Path::new(path.trim_end());
    let before = dir_image(path);
    damage(&place.data());

    let ran = place.run(&["cat", "w", "large", "--at", &snapshot]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.bytes.len() < noise(1).len(), "the transfer breaks off");
    assert_damaged(&place.run(&["--json", "cat", "w", "large", "--at", &snapshot]));

    for args in [
        &["restore", "w", &snapshot][..],
        &["restore", "w", &snapshot, "large"],
    ] {
        assert_damaged(&place.run(&[&["--json"], args].concat()));
        assert_eq!(dir_image(path), before, "{args:?}");
        assert_eq!(place.done(&["cat", "w", "large"]).stdout, "now");
    }

    assert_damaged(&place.run(&["--json", "workspace", "export", "w", "--git", "out.git"]));
    // Nobody can clone what is there: no branch names any of it.
    let out = place.path().join("out.git");
    assert!(!out.join("packed-refs").exists());
    assert!(!out.join("refs").exists() || files_below(&out.join("refs")).is_empty());

    let ran = place.run(&["check"]);
    assert_eq!(ran.code, 1, "{}", ran.golden());
}
