//! The records of requests with an idempotency key.

use offshoot_core::Timestamp;

use super::fixtures::{add_workspace, read, write};
use crate::{MadeRow, MetaStore, RequestRow, WorkspaceKey};

fn request(first: u8, at: i64) -> RequestRow {
    RequestRow {
        key: [first; 32],
        content: [first + 100; 32],
        at: Timestamp(at),
        made: Vec::new(),
    }
}

fn workspace(number: i64, key: WorkspaceKey) -> MadeRow {
    MadeRow {
        number,
        workspace: Some(key),
        ..MadeRow::default()
    }
}

pub(super) fn what_a_request_made_is_noted_once(meta: &dyn MetaStore) {
    let (a, b) = (add_workspace(meta, "a"), add_workspace(meta, "b"));
    assert_eq!(read(meta, |tx| tx.request(&[1; 32])), None);
    let first = request(1, 5);
    let file = MadeRow {
        line: Some(77),
        ..workspace(1, a)
    };
    write(meta, |tx| {
        tx.note_made(&first, &file)?;
        tx.note_made(&first, &workspace(0, a))
    });
    let noted = RequestRow {
        made: vec![workspace(0, a), file.clone()],
        ..first.clone()
    };
    assert_eq!(read(meta, |tx| tx.request(&[1; 32])), Some(noted));
    // What was made in the place of something gets its number; the rest of the note stays.
    let later = RequestRow {
        content: [9; 32],
        ..request(1, 8)
    };
    write(meta, |tx| tx.note_made(&later, &workspace(0, b)));
    let noted = RequestRow {
        made: vec![workspace(0, b), file],
        ..first
    };
    assert_eq!(read(meta, |tx| tx.request(&[1; 32])), Some(noted));
    write(meta, |tx| tx.forget_request(&[1; 32]));
    write(meta, |tx| tx.forget_request(&[1; 32]));
    assert_eq!(read(meta, |tx| tx.request(&[1; 32])), None);
    assert_eq!(meta.damage().unwrap(), Vec::<String>::new());
}

pub(super) fn the_oldest_notes_are_forgotten_first(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "a");
    for (first, at) in [(1, 30), (2, 10), (3, 20), (4, 40)] {
        write(meta, |tx| {
            tx.note_made(&request(first, at), &workspace(0, key))
        });
    }
    let there = || {
        let is_there = |first: &u8| read(meta, |tx| tx.request(&[*first; 32])).is_some();
        (1..=4).filter(is_there).collect::<Vec<u8>>()
    };
    let forget = |before, limit| write(meta, |tx| tx.forget_requests(Timestamp(before), limit));
    assert_eq!(forget(10, 9), 0);
    assert_eq!(forget(40, 2), 2);
    assert_eq!(there(), [1, 4]);
    assert_eq!(forget(40, 2), 1);
    assert_eq!(there(), [4]);
    assert_eq!(meta.damage().unwrap(), Vec::<String>::new());
}

pub(super) fn erasing_a_workspace_takes_the_notes_of_it(meta: &dyn MetaStore) {
    let (a, b) = (add_workspace(meta, "a"), add_workspace(meta, "b"));
    write(meta, |tx| {
        tx.note_made(&request(1, 1), &workspace(0, a))?;
        tx.note_made(&request(2, 1), &workspace(0, a))?;
        tx.note_made(&request(2, 1), &workspace(1, b))?;
        tx.note_made(&request(3, 1), &workspace(0, b))
    });
    write(meta, |tx| tx.erase_workspace(a));
    assert_eq!(read(meta, |tx| tx.request(&[1; 32])), None);
    let rest = read(meta, |tx| tx.request(&[2; 32])).unwrap();
    assert_eq!(rest.made, [workspace(1, b)]);
    assert!(read(meta, |tx| tx.request(&[3; 32])).is_some());
    assert_eq!(meta.damage().unwrap(), Vec::<String>::new());
}
