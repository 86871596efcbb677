//! What a store must do with rows of workspaces, entries, objects, snapshots and history.

use std::collections::HashSet;

use offshoot_core::{Cause, EMPTY_TREE, ErrorCode, Layout, ObjectId, Operator, RelPath, Timestamp};

use super::fixtures::{
    add_workspace, entry, id, line, object, path, read, snapshot, try_write, workspace, write,
};
use crate::{
    EntryRow, HistoryFilter, HistoryOp, MetaStore, NewHistory, ObjectPlace, Via, WorkspaceKey,
    WorkspaceState,
};

pub(super) fn names_of_workspaces(meta: &dyn MetaStore) {
    let first = add_workspace(meta, "name");
    let taken = try_write(meta, |tx| tx.add_workspace(&workspace("name")));
    assert_eq!(taken.unwrap_err().code(), ErrorCode::AlreadyExists);
    // A refused statement does not spoil the transaction around it.
    let other = write(meta, |tx| {
        assert!(tx.add_workspace(&workspace("name")).is_err());
        tx.add_workspace(&workspace("Name"))
    });
    let close = |key| {
        write(meta, |tx| {
            let mut row = tx.workspace_by_key(key)?.unwrap();
            row.state = WorkspaceState::Closed;
            tx.update_workspace(&row)
        });
    };
    let name = "name".parse().unwrap();
    close(first);
    assert_eq!(read(meta, |tx| tx.workspace(&name)).unwrap().key, first);
    let second = add_workspace(meta, "name");
    assert_eq!(read(meta, |tx| tx.workspace(&name)).unwrap().key, second);
    close(second);
    let found = read(meta, |tx| tx.workspace(&name)).unwrap();
    assert_eq!((found.key, found.state), (second, WorkspaceState::Closed));
    // A number is not used again, even when the row is gone.
    write(meta, |tx| tx.erase_workspace(second));
    let third = add_workspace(meta, "name");
    assert_eq!(HashSet::from([first, second, third, other]).len(), 4);
    assert!(third > second);
    // Opening a closed one again while its name is taken is refused as well.
    let reopened = try_write(meta, |tx| {
        let mut row = tx.workspace_by_key(first)?.unwrap();
        row.state = WorkspaceState::Open;
        tx.update_workspace(&row)
    });
    assert_eq!(reopened.unwrap_err().code(), ErrorCode::AlreadyExists);
    let mut unknown = workspace("unknown");
    unknown.key = WorkspaceKey(999);
    assert!(try_write(meta, |tx| tx.update_workspace(&unknown)).is_err());
}

pub(super) fn workspaces_are_updated_and_listed(meta: &dyn MetaStore) {
    let mut full = workspace("full");
    full.layout = Layout::Session;
    full.head = Some(id(1, 1));
    full.tree = id(1, 2);
    full.sidecar = id(1, 3);
    full.revision = 7;
    full.synced_revision = 6;
    full.materialized = true;
    full.handed_out = true;
    full.last_sync = Some(Timestamp(-5));
    full.files = 1;
    full.dirs = 2;
    full.bytes = i64::MAX;
    full.quota_bytes = Some(4);
    full.quota_inodes = Some(5);
    full.key = write(meta, |tx| tx.add_workspace(&full));
    assert_eq!(
        read(meta, |tx| tx.workspace_by_key(full.key)).unwrap(),
        full
    );
    for name in ["b", "a", "B", "a.b", "a~2", "a-b"] {
        add_workspace(meta, name);
    }
    let names = |after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(|name| name.parse().unwrap());
        let rows = read(meta, |tx| tx.workspaces(after.as_ref(), limit));
        rows.iter().map(|row| row.id.to_string()).collect()
    };
    assert_eq!(
        names(None, 100),
        ["B", "a", "a-b", "a.b", "a~2", "b", "full"]
    );
    assert_eq!(names(None, 2), ["B", "a"]);
    assert_eq!(names(Some("a"), 2), ["a-b", "a.b"]);
    let unsynced = read(meta, |tx| tx.unsynced_workspaces());
    assert_eq!(unsynced, [full.clone()]);
    full.synced_revision = 7;
    full.state = WorkspaceState::Closed;
    full.quota_bytes = None;
    write(meta, |tx| tx.update_workspace(&full));
    assert_eq!(
        read(meta, |tx| tx.workspace_by_key(full.key)).unwrap(),
        full
    );
    assert!(read(meta, |tx| tx.unsynced_workspaces()).is_empty());
    assert_eq!(names(Some("a~2"), 9), ["b"]);
    let all: Vec<_> = read(meta, |tx| tx.all_workspaces())
        .iter()
        .map(|row| row.key)
        .collect();
    assert!(all.len() == 7 && all.is_sorted());
}

/// Names around `/` in the order of bytes, and bytes that are not text.
pub(super) fn entries_with_tricky_names(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "tricky");
    let other = add_workspace(meta, "other");
    let paths: [&[u8]; 14] = [
        b"", b"a", b"a!", b"a!/x", b"a-", b"a/!", b"a/b", b"a/b/c", b"a/b0", b"a/\xff", b"a0",
        b"a0/b", b"aa", b"\xff",
    ];
    write(meta, |tx| {
        for at in paths.iter().rev() {
            tx.put_entry(key, &entry(at))?;
        }
        tx.put_entry(other, &entry(b"a/other"))
    });
    let below = |dir: &[u8]| -> Vec<Vec<u8>> {
        bytes_of(&read(meta, |tx| tx.entries_below(key, &path(dir))))
    };
    let inside =
        |dir: &[u8]| -> Vec<Vec<u8>> { bytes_of(&read(meta, |tx| tx.entries_in(key, &path(dir)))) };
    assert_eq!(below(b""), paths[1..]);
    assert_eq!(
        below(b"a"),
        [&b"a/!"[..], b"a/b", b"a/b/c", b"a/b0", b"a/\xff"]
    );
    assert_eq!(below(b"a/b"), [b"a/b/c"]);
    assert!(below(b"a/b/c").is_empty());
    assert_eq!(
        inside(b""),
        [&b"a"[..], b"a!", b"a-", b"a0", b"aa", b"\xff"]
    );
    assert_eq!(inside(b"a"), [&b"a/!"[..], b"a/b", b"a/b0", b"a/\xff"]);
    let on_path = bytes_of(&read(meta, |tx| tx.entries_on_path(key, &path(b"a/b/c"))));
    assert_eq!(on_path, [&b""[..], b"a", b"a/b", b"a/b/c"]);
    let on_path = bytes_of(&read(meta, |tx| {
        tx.entries_on_path(key, &path(b"a!/none/x"))
    }));
    assert_eq!(on_path, [&b""[..], b"a!"]);

    let gone = EntryRow {
        kind: None,
        id: None,
        size: 0,
        opaque: true,
        ..entry(b"a/b")
    };
    write(meta, |tx| tx.put_entry(key, &gone));
    assert_eq!(
        read(meta, |tx| tx.entries_on_path(key, &path(b"a/b")))
            .pop()
            .unwrap(),
        gone
    );
    let at = |bytes: &[u8]| read(meta, |tx| tx.entry_at(key, &path(bytes)));
    assert_eq!(at(b"a/b"), Some(gone.clone()));
    assert_eq!(at(b""), Some(entry(b"")));
    assert_eq!(at(b"a/none"), None);
    write(meta, |tx| {
        tx.remove_entry(key, &path(b"a!"))?;
        tx.remove_entry(key, &path(b"never there"))?;
        tx.remove_entries_below(key, &path(b"a"))
    });
    assert_eq!(
        below(b""),
        [&b"a"[..], b"a!/x", b"a-", b"a0", b"a0/b", b"aa", b"\xff"]
    );
    write(meta, |tx| tx.remove_entries_below(key, &path(b"")));
    assert!(below(b"").is_empty());
    assert_eq!(
        read(meta, |tx| tx.entries_on_path(key, &path(b""))),
        [entry(b"")]
    );
    assert_eq!(
        read(meta, |tx| tx.entries_below(other, &path(b""))),
        [entry(b"a/other")]
    );
}

fn bytes_of(rows: &[EntryRow]) -> Vec<Vec<u8>> {
    rows.iter()
        .map(|row| row.path.as_bytes().to_vec())
        .collect()
}

pub(super) fn snapshots_are_found(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "shots");
    let other = add_workspace(meta, "other");
    let ids = [
        id(0xab, 1),
        id(0xab, 2),
        id(0xa0, 3),
        id(0xff, 4),
        id(0xab, 1),
    ];
    write(meta, |tx| {
        for (index, commit) in ids.iter().enumerate() {
            tx.add_snapshot(&snapshot(key, index as i64 + 1, *commit))?;
        }
        tx.add_snapshot(&snapshot(other, 1, id(0xab, 9)))
    });
    let wrong = try_write(meta, |tx| tx.add_snapshot(&snapshot(key, 9, id(1, 1))));
    assert!(wrong.is_err(), "numbers leave no gap");
    let numbers = |prefix: &str| -> Vec<i64> {
        let rows = read(meta, |tx| tx.snapshots_by_prefix(key, prefix));
        rows.iter().map(|row| row.number).collect()
    };
    assert_eq!(numbers(""), [5, 4, 3, 2, 1]);
    assert_eq!(numbers("a"), [5, 3, 2, 1]);
    assert_eq!(numbers("AB"), [5, 2, 1]);
    assert_eq!(numbers("ab5"), [5, 2, 1]);
    assert_eq!(numbers(&ids[1].to_hex()), [2]);
    assert_eq!(numbers("f"), [4]);
    for none in ["b", "abc", "xyz", "é", &"a".repeat(41)] {
        assert!(numbers(none).is_empty(), "{none}");
    }
    assert_eq!(
        read(meta, |tx| tx.snapshot(key, &ids[0])).unwrap(),
        snapshot(key, 5, ids[0])
    );
    assert!(read(meta, |tx| tx.snapshot(other, &ids[0])).is_none());
    let newest = read(meta, |tx| tx.snapshots(key, 2));
    assert_eq!(newest, [snapshot(key, 5, ids[4]), snapshot(key, 4, ids[3])]);
    assert_eq!(read(meta, |tx| tx.snapshots(key, 0)).len(), 5);
    let earlier = read(meta, |tx| tx.snapshots_before(key, 5, 2));
    assert_eq!(earlier, read(meta, |tx| tx.snapshots(key, 3))[1..]);
    assert_eq!(read(meta, |tx| tx.snapshots_before(key, 3, 0)).len(), 2);
    assert!(read(meta, |tx| tx.snapshots_before(key, 1, 0)).is_empty());

    let mut changed = snapshot(key, 2, id(0x33, 3));
    changed.parent = Some(id(0x33, 2));
    changed.tree = id(0x33, 4);
    changed.sidecar = id(0x33, 5);
    write(meta, |tx| tx.rewrite_snapshot(&changed));
    assert_eq!(
        read(meta, |tx| tx.snapshots_by_prefix(key, "33")),
        [changed]
    );
}

pub(super) fn history_is_filtered(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "one");
    let other = add_workspace(meta, "other");
    let full = NewHistory {
        revision: 2,
        op: HistoryOp::Move,
        via: Via::Sync,
        from: Some(path(b"from\xff")),
        cause: Cause {
            operator: Operator::new("agent-1"),
            claim: Some("for somebody".into()),
            message_id: Some("m".into()),
        },
        before: Some(id(1, 2)),
        after: None,
        mime: Some("text/plain".into()),
        modified: Some(Timestamp(1_500_000_000_000_000)),
        ..line(key, b"a")
    };
    let seqs = write(meta, |tx| {
        Ok([
            tx.add_history(&line(key, b"a"))?,
            tx.add_history(&line(other, b"a"))?,
            tx.add_history(&full)?,
            tx.add_history(&line(key, b"a/b"))?,
        ])
    });
    assert!(seqs.is_sorted() && seqs[0] > 0);
    let find = |filter: HistoryFilter| -> Vec<i64> {
        read(meta, |tx| tx.history(&filter))
            .iter()
            .map(|row| row.seq)
            .collect()
    };
    let all = HistoryFilter::default;
    assert_eq!(find(all()), seqs);
    let mine = || HistoryFilter {
        workspace: Some(key),
        ..all()
    };
    assert_eq!(find(mine()), [seqs[0], seqs[2], seqs[3]]);
    assert_eq!(
        find(HistoryFilter {
            after_seq: seqs[0],
            limit: 1,
            ..mine()
        }),
        [seqs[2]]
    );
    assert_eq!(
        find(HistoryFilter {
            newest_first: true,
            limit: 2,
            ..mine()
        }),
        [seqs[3], seqs[2]]
    );
    assert_eq!(
        find(HistoryFilter {
            before_seq: Some(seqs[3]),
            newest_first: true,
            limit: 1,
            ..mine()
        }),
        [seqs[2]]
    );
    assert_eq!(
        find(HistoryFilter {
            path: Some(path(b"a")),
            ..mine()
        }),
        [seqs[0], seqs[2]]
    );
    assert_eq!(
        find(HistoryFilter {
            path: Some(path(b"a")),
            ..all()
        }),
        seqs[..3]
    );
    assert_eq!(
        find(HistoryFilter {
            after_revision: 1,
            ..mine()
        }),
        [seqs[2]]
    );
    assert!(
        find(HistoryFilter {
            after_seq: seqs[3],
            ..all()
        })
        .is_empty()
    );
    let rows = read(meta, |tx| tx.history(&mine()));
    assert_eq!(rows[1].line, full);
    for at in rows.iter().map(|row| row.line.at) {
        let upto = HistoryFilter {
            upto: Some(at),
            ..mine()
        };
        let until = rows.iter().filter(|row| row.line.at <= at);
        let until: Vec<i64> = until.map(|row| row.seq).collect();
        assert_eq!(find(upto), until);
    }
    // The newest line of `a` has no content after it.
    assert_eq!(
        read(meta, |tx| tx.last_write(key, &path(b"a")))
            .unwrap()
            .seq,
        seqs[0]
    );
    assert!(read(meta, |tx| tx.last_write(key, &path(b"b"))).is_none());
    let known = read(meta, |tx| tx.paths_with_history(key, &RelPath::root(), 0));
    assert!(known.contains(&path(b"a")) && !known.contains(&path(b"none")));
    assert!(known.is_sorted() && !known.contains(&RelPath::root()));
    let first = read(meta, |tx| tx.paths_with_history(key, &RelPath::root(), 1));
    assert_eq!(first, known[..1]);
    assert!(read(meta, |tx| tx.paths_with_history(key, &path(b"none"), 0)).is_empty());
    for op in HistoryOp::ALL {
        for via in Via::ALL {
            let new = NewHistory {
                op: *op,
                via: *via,
                ..line(other, b"each")
            };
            let seq = write(meta, |tx| tx.add_history(&new));
            let filter = HistoryFilter {
                after_seq: seq - 1,
                ..all()
            };
            assert_eq!(read(meta, |tx| tx.history(&filter))[0].line, new);
        }
    }
}

pub(super) fn objects_and_their_age(meta: &dyn MetaStore) {
    let (old, later) = (Timestamp(1_000), Timestamp(2_000));
    let in_row = object(id(2, 0), ObjectPlace::Row(b"abc".to_vec()), old);
    let empty = object(id(3, 0), ObjectPlace::Row(Vec::new()), old);
    let blob = object(id(1, 0), ObjectPlace::Blob, old);
    write(meta, |tx| {
        for new in [&in_row, &empty, &blob] {
            assert!(tx.put_object(new)?);
        }
        Ok(())
    });
    assert_eq!(read(meta, |tx| tx.object(&id(2, 0))).unwrap(), in_row.0);
    assert_eq!(read(meta, |tx| tx.object(&id(3, 0))).unwrap(), empty.0);
    assert_eq!(read(meta, |tx| tx.object(&id(1, 0))).unwrap(), blob.0);
    assert!(read(meta, |tx| tx.object(&id(9, 0))).is_none());
    let has = read(meta, |tx| {
        tx.has_objects(&[id(9, 0), id(2, 0), id(9, 0), id(1, 0)])
    });
    assert_eq!(has, [false, true, false, true]);
    let ids = |after: Option<ObjectId>, limit| -> Vec<ObjectId> {
        let rows = read(meta, |tx| tx.objects_after(after.as_ref(), limit, true));
        rows.iter().map(|row| row.id).collect()
    };
    assert_eq!(ids(None, 10), [id(1, 0), id(2, 0), id(3, 0)]);
    assert_eq!(ids(Some(id(1, 0)), 1), [id(2, 0)]);
    assert!(ids(Some(id(3, 0)), 10).is_empty());
    let without = read(meta, |tx| tx.objects_after(Some(&id(1, 0)), 1, false));
    assert_eq!(without[0].place, ObjectPlace::Row(Vec::new()));

    // Storing again renews the age and nothing else.
    let again = object(id(2, 0), ObjectPlace::Blob, old);
    assert!(!write(meta, |tx| tx.put_object(&again)));
    assert!(write(meta, |tx| tx.renew_object(&id(3, 0))));
    assert!(!write(meta, |tx| tx.renew_object(&id(9, 0))));
    let kept = read(meta, |tx| tx.object(&id(2, 0))).unwrap();
    assert_eq!(kept.place, in_row.0.place);
    let remove = |id: ObjectId, before| write(meta, |tx| tx.remove_object(&id, before));
    assert!(!remove(id(2, 0), later) && !remove(id(3, 0), later));
    assert!(!remove(id(1, 0), old) && remove(id(1, 0), later) && !remove(id(1, 0), later));
    assert_eq!(ids(None, 10), [id(2, 0), id(3, 0)]);
}

pub(super) fn packs_and_moves(meta: &dyn MetaStore) {
    let at = Timestamp(5);
    let place = |pack, offset| ObjectPlace::Pack {
        pack,
        offset,
        length: 10,
    };
    let (first, second) = write(meta, |tx| {
        let first = tx.add_pack("pack/one", 30)?;
        let second = tx.add_pack("pack/two", 1 << 40)?;
        tx.put_object(&object(id(5, 0), place(first, 0), at))?;
        tx.put_object(&object(id(4, 0), place(first, 20), at))?;
        tx.put_object(&object(id(3, 0), place(first, 10), at))?;
        tx.put_object(&object(id(2, 0), place(second, 1 << 33), at))?;
        Ok((first, second))
    });
    let packs = read(meta, |tx| tx.packs());
    assert_eq!(
        packs.iter().map(|pack| pack.key).collect::<Vec<_>>(),
        [first, second]
    );
    assert_eq!(
        (packs[0].blob.as_str(), packs[1].size),
        ("pack/one", 1 << 40)
    );
    assert_eq!(read(meta, |tx| tx.pack(second)).unwrap(), packs[1]);
    let in_first: Vec<_> = read(meta, |tx| tx.pack_objects(first))
        .into_iter()
        .map(|row| row.id)
        .collect();
    assert_eq!(in_first, [id(5, 0), id(3, 0), id(4, 0)]);
    let refused = try_write(meta, |tx| tx.remove_pack(first));
    assert!(refused.is_err(), "objects are still in it");
    write(meta, |tx| {
        tx.move_objects(second, &[(id(5, 0), 7, 10), (id(3, 0), 17, 10)])?;
        assert!(tx.remove_object(&id(4, 0), Timestamp(6))?);
        tx.remove_pack(first)
    });
    assert!(read(meta, |tx| tx.pack(first)).is_none());
    let moved = read(meta, |tx| tx.object(&id(5, 0))).unwrap();
    assert_eq!(moved.place, place(second, 7));
    assert_eq!(read(meta, |tx| tx.pack_objects(second)).len(), 3);
    write(meta, |tx| {
        for gone in [5, 3, 2] {
            tx.remove_object(&id(gone, 0), Timestamp(6))?;
        }
        tx.remove_pack(second)
    });
    let third = write(meta, |tx| tx.add_pack("pack/three", 1));
    assert!(third > second, "a number is not used again");
}

pub(super) fn erasing_and_roots(meta: &dyn MetaStore) {
    let kept = add_workspace(meta, "kept");
    let erased = write(meta, |tx| {
        let mut row = workspace("erased");
        row.head = Some(id(10, 1));
        row.tree = id(10, 2);
        row.sidecar = id(10, 3);
        let key = tx.add_workspace(&row)?;
        let shot = crate::SnapshotRow {
            parent: Some(id(10, 4)),
            tree: id(10, 5),
            sidecar: id(10, 6),
            ..snapshot(key, 1, id(10, 7))
        };
        tx.add_snapshot(&shot)?;
        tx.put_entry(
            key,
            &EntryRow {
                id: Some(id(10, 8)),
                ..entry(b"a")
            },
        )?;
        let (before, after) = (Some(id(10, 9)), Some(id(10, 10)));
        tx.add_history(&NewHistory {
            before,
            after,
            ..line(key, b"a")
        })?;
        Ok(key)
    });
    let last = write(meta, |tx| tx.add_history(&line(erased, b"b")));
    let roots = || {
        let mut roots = HashSet::new();
        meta.read(&mut |tx| {
            tx.visit_roots(&mut |id| {
                roots.insert(id);
            })
        })
        .unwrap();
        roots
    };
    let mut expected: HashSet<ObjectId> = (1..=10).map(|last| id(10, last)).collect();
    expected.extend([EMPTY_TREE, id(9, 9)]);
    assert_eq!(roots(), expected);
    write(meta, |tx| tx.erase_workspace(erased));
    assert_eq!(roots(), HashSet::from([EMPTY_TREE]));
    read(meta, |tx| {
        assert!(tx.workspace_by_key(erased)?.is_none());
        assert!(tx.history(&HistoryFilter::default())?.is_empty());
        assert!(tx.snapshots(erased, 0)?.is_empty());
        assert!(tx.entries_below(erased, &path(b""))?.is_empty());
        assert!(tx.workspace_by_key(kept)?.is_some());
        // Followers have seen numbers up to this one: it must not go back.
        assert_eq!(tx.last_seq()?, last);
        Ok(())
    });
    let newer = write(meta, |tx| tx.add_history(&line(kept, b"c")));
    assert!(newer > last);
    write(meta, |tx| tx.add_history(&line(kept, b"d")));
    assert_eq!(write(meta, |tx| tx.erase_oldest_history(kept, 1)), 1);
    assert_eq!(write(meta, |tx| tx.erase_oldest_history(erased, 1)), 0);
    read(meta, |tx| {
        let left = tx.history(&HistoryFilter::default())?;
        assert_eq!(left.len(), 1);
        assert!(left[0].seq > newer);
        Ok(())
    });
}

pub(super) fn replacing_an_object_id(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "one");
    let (old, new, other) = (id(1, 1), id(2, 2), id(3, 3));
    write(meta, |tx| {
        tx.put_entry(
            key,
            &EntryRow {
                id: Some(old),
                ..entry(b"a")
            },
        )?;
        tx.put_entry(
            key,
            &EntryRow {
                id: Some(other),
                ..entry(b"b")
            },
        )?;
        let line = line(key, b"a");
        tx.add_history(&NewHistory {
            before: None,
            after: Some(old),
            ..line.clone()
        })?;
        tx.add_history(&NewHistory {
            before: Some(old),
            after: Some(other),
            ..line
        })?;
        tx.replace_object_id(&old, &new)
    });
    read(meta, |tx| {
        let ids: Vec<_> = tx
            .entries_in(key, &path(b""))?
            .iter()
            .map(|row| row.id)
            .collect();
        assert_eq!(ids, [Some(new), Some(other)]);
        let lines = tx.history(&HistoryFilter::default())?;
        assert_eq!(
            (lines[0].line.before, lines[0].line.after),
            (None, Some(new))
        );
        assert_eq!(
            (lines[1].line.before, lines[1].line.after),
            (Some(new), Some(other))
        );
        Ok(())
    });
}
