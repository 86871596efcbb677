//! Many writers and readers at once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use offshoot_core::Error;

use super::fixtures::{add_workspace, line, read, try_write};
use crate::{Durability, HistoryFilter, MetaStore, WriteTx};

const WRITERS: usize = 8;
const EACH: usize = 40;

fn number(tx: &dyn WriteTx, key: &str) -> offshoot_core::Result<u64> {
    Ok(tx.setting(key)?.map_or(0, |text| text.parse().unwrap()))
}

/// Tries again as long as the store says that it is safe to.
fn increment(meta: &dyn MetaStore, durability: Durability) {
    meta.write(durability, &mut |tx| {
        let next = number(tx, "counter")? + 1;
        tx.put_setting("counter", &next.to_string())
    })
    .unwrap();
}

pub(super) fn no_increment_is_lost(meta: &dyn MetaStore) {
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for turn in 0..EACH {
                    let synced = (writer + turn) % 3 == 0;
                    let durability = if synced {
                        Durability::Synced
                    } else {
                        Durability::Relaxed
                    };
                    increment(meta, durability);
                }
            });
        }
    });
    let expected = (WRITERS * EACH).to_string();
    assert_eq!(read(meta, |tx| tx.setting("counter")), Some(expected));
}

pub(super) fn errors_and_panics_of_some_do_not_touch_the_others(meta: &dyn MetaStore) {
    let acknowledged = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                for turn in 0..EACH {
                    let fate = (writer * 31 + turn * 17) % 5;
                    let result = catch_unwind(AssertUnwindSafe(|| {
                        try_write(meta, |tx| {
                            let next = number(tx, "counter")? + 1;
                            tx.put_setting("counter", &next.to_string())?;
                            match fate {
                                0 => Err(Error::invalid("on purpose")),
                                1 => resume_unwind(Box::new("on purpose")),
                                _ => Ok(()),
                            }
                        })
                    }));
                    match (fate, result) {
                        (0, Ok(Err(error))) => assert_eq!(error.message(), "on purpose"),
                        (1, Err(_)) => {}
                        (2.., Ok(Ok(()))) => {
                            acknowledged.fetch_add(1, Ordering::SeqCst);
                        }
                        (fate, other) => panic!("work of fate {fate} ended as {other:?}"),
                    }
                }
            });
        }
    });
    let expected = acknowledged.load(Ordering::SeqCst).to_string();
    assert_eq!(read(meta, |tx| tx.setting("counter")), Some(expected));
}

pub(super) fn a_follower_sees_every_line_once_and_in_order(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "followed");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut seen: Vec<i64> = Vec::new();
            loop {
                let finished = done.load(Ordering::SeqCst);
                let after_seq = seen.last().copied().unwrap_or(0);
                let filter = HistoryFilter {
                    after_seq,
                    limit: 7,
                    ..HistoryFilter::default()
                };
                let (lines, last) = read(meta, |tx| Ok((tx.history(&filter)?, tx.last_seq()?)));
                assert!(lines.last().is_none_or(|line| line.seq <= last));
                if lines.is_empty() && finished {
                    return seen;
                }
                for line in lines {
                    assert!(seen.last().is_none_or(|last| *last < line.seq));
                    seen.push(line.seq);
                }
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || {
                    let mut given = Vec::new();
                    for turn in 0..EACH {
                        let lines = 1 + (writer + turn) % 3;
                        given.extend(try_write_lines(meta, key, lines, turn % 4 == 0));
                    }
                    given
                })
            })
            .collect();
        let mut given: Vec<i64> = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        done.store(true, Ordering::SeqCst);
        given.sort_unstable();
        assert_eq!(follower.join().unwrap(), given);
    });
}

fn try_write_lines(
    meta: &dyn MetaStore,
    key: crate::WorkspaceKey,
    lines: usize,
    fail: bool,
) -> Vec<i64> {
    let result = try_write(meta, |tx| {
        let mut given = Vec::new();
        for _ in 0..lines {
            given.push(tx.add_history(&line(key, b"file"))?);
        }
        if fail {
            Err(Error::invalid("on purpose"))
        } else {
            Ok(given)
        }
    });
    if fail {
        assert!(result.is_err());
        return Vec::new();
    }
    result.unwrap()
}
