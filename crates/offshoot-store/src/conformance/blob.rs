//! What a blob store must do.

use std::io::Read;
use std::thread;

use offshoot_core::{Error, Timestamp};

use crate::BlobStore;

const FUTURE: Timestamp = Timestamp(i64::MAX);
const PAST: Timestamp = Timestamp(1_000_000);

fn put(blobs: &dyn BlobStore, key: &str, bytes: &[u8]) {
    let size = blobs
        .put(key, &mut |out| out.write_all(bytes).map_err(wrapped))
        .unwrap();
    assert_eq!(size, bytes.len() as u64);
}

fn wrapped(error: std::io::Error) -> Error {
    Error::internal("cannot write").with_source(error)
}

fn get(blobs: &dyn BlobStore, key: &str, offset: u64, length: Option<u64>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    blobs
        .read(key, offset, length)
        .unwrap()?
        .read_to_end(&mut bytes)
        .unwrap();
    Some(bytes)
}

fn keys(blobs: &dyn BlobStore, prefix: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let visited = blobs.list(prefix, &mut |info| {
        keys.push(info.key);
        Ok(())
    });
    visited.unwrap();
    keys
}

pub(super) fn what_was_put_is_read(blobs: &dyn BlobStore) {
    let large: Vec<u8> = (0..3_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let before = Timestamp::now();
    for (key, bytes) in [
        ("object/ab12", &large[..]),
        ("empty", b""),
        ("a/b/c", b"three parts"),
    ] {
        assert_eq!(blobs.size(key).unwrap(), None);
        assert!(get(blobs, key, 0, None).is_none());
        put(blobs, key, bytes);
        put(blobs, key, bytes);
        assert_eq!(blobs.size(key).unwrap(), Some(bytes.len() as u64));
        assert!(get(blobs, key, 0, None).unwrap() == bytes);
    }
    let visited = blobs.list("object/", &mut |info| {
        assert_eq!((info.key.as_str(), info.size), ("object/ab12", 3_000_000));
        // The clock of the store may be coarser than ours, or another machine's.
        assert!((info.written_at.0 - before.0).abs() < 60_000_000);
        Ok(())
    });
    visited.unwrap();
}

pub(super) fn ranges(blobs: &dyn BlobStore) {
    put(blobs, "digits", b"0123456789");
    for (offset, length, expected) in [
        (0, Some(3), &b"012"[..]),
        (4, Some(2), b"45"),
        (8, Some(10), b"89"),
        (8, None, b"89"),
        (10, Some(1), b""),
        (99, None, b""),
        (5, Some(0), b""),
    ] {
        assert_eq!(
            get(blobs, "digits", offset, length).unwrap(),
            expected,
            "{offset} {length:?}"
        );
    }
}

pub(super) fn a_failed_put_stores_nothing(blobs: &dyn BlobStore) {
    put(blobs, "there", b"before");
    for key in ["there", "new", "dir/new"] {
        let result = blobs.put(key, &mut |out| {
            out.write_all(&vec![1; 700_000]).map_err(wrapped)?;
            Err(Error::invalid("half-way"))
        });
        assert_eq!(result.unwrap_err().message(), "half-way");
    }
    assert_eq!(keys(blobs, ""), ["there"]);
    assert_eq!(get(blobs, "there", 0, None).unwrap(), b"before");
    // What a failed put left is swept, what was stored is not.
    blobs.sweep_leftovers(FUTURE).unwrap();
    assert_eq!(blobs.sweep_leftovers(FUTURE).unwrap(), 0);
    assert_eq!(keys(blobs, ""), ["there"]);
}

pub(super) fn listing_is_in_the_order_of_keys(blobs: &dyn BlobStore) {
    let mut expected = [
        "a",
        "a-b",
        "a.b",
        "a/b",
        "a/b/c",
        "a/b-c",
        "a0",
        "ab",
        "ab/a",
        "abc",
        "b/a",
        "b/aa",
        "object/00ff",
        "object/01aa",
        "object/0100",
        "pack/1",
        "_",
        "-x",
        ".x",
    ];
    for key in expected {
        put(blobs, key, key.as_bytes());
    }
    expected.sort_unstable();
    assert_eq!(keys(blobs, ""), expected);
    for prefix in [
        "a",
        "a/",
        "a/b",
        "ab",
        "object/",
        "object/01",
        "b/a",
        "none",
        "zz/",
    ] {
        let expected: Vec<&str> = expected
            .into_iter()
            .filter(|key| key.starts_with(prefix))
            .collect();
        assert_eq!(keys(blobs, prefix), expected, "{prefix}");
    }
    let mut seen = 0;
    let stopped = blobs.list("", &mut |_| {
        seen += 1;
        if seen == 3 {
            Err(Error::invalid("enough"))
        } else {
            Ok(())
        }
    });
    assert_eq!((seen, stopped.unwrap_err().message()), (3, "enough"));
}

pub(super) fn deleting(blobs: &dyn BlobStore) {
    put(blobs, "object/aa11", b"1");
    put(blobs, "object/aa22", b"2");
    blobs.delete("object/aa11").unwrap();
    blobs.delete("object/aa11").unwrap();
    blobs.delete("never/there").unwrap();
    assert_eq!(keys(blobs, ""), ["object/aa22"]);
    put(blobs, "object/aa11", b"1");
    assert_eq!(get(blobs, "object/aa11", 0, None).unwrap(), b"1");
}

pub(super) fn deleting_by_age(blobs: &dyn BlobStore) {
    put(blobs, "object/aa11", b"1");
    assert!(!blobs.delete_older("object/aa11", PAST).unwrap());
    assert!(blobs.delete_older("object/aa11", FUTURE).unwrap());
    assert!(!blobs.delete_older("object/aa11", FUTURE).unwrap());
    assert!(!blobs.delete_older("never/there", FUTURE).unwrap());
    assert!(keys(blobs, "").is_empty());
}

pub(super) fn the_same_key_may_be_put_at_once(blobs: &dyn BlobStore) {
    let bytes: Vec<u8> = (0..200_000u32).map(|number| (number % 253) as u8).collect();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for round in 0..4 {
                    let key = format!("round/{round}");
                    put(blobs, &key, &bytes);
                    // Whole from the first moment on, also while other threads put it again.
                    assert!(get(blobs, &key, 0, None).unwrap() == bytes);
                }
            });
        }
    });
    assert_eq!(keys(blobs, "").len(), 4);
}

pub(super) fn keys_are_checked(blobs: &dyn BlobStore) {
    for bad in [
        "", "/", "a/", "/a", "a//b", ".", "..", "a/..", "../a", "A", "a b", "a/b/c/d", "a\0",
        "+aa", "é",
    ] {
        assert!(blobs.put(bad, &mut |_| Ok(())).is_err(), "{bad}");
        assert!(blobs.read(bad, 0, None).is_err(), "{bad}");
        assert!(blobs.size(bad).is_err(), "{bad}");
        assert!(blobs.delete(bad).is_err(), "{bad}");
    }
}
