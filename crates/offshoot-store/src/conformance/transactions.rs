//! Isolation and atomicity of single transactions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use offshoot_core::{Error, ErrorCode};

use super::fixtures::{add_workspace, entry, line, path, read, try_write, workspace, write};
use crate::{HistoryFilter, MetaStore};

pub(super) fn a_view_does_not_change_while_it_is_read(meta: &dyn MetaStore) {
    write(meta, |tx| tx.put_setting("color", "red"));
    read(meta, |tx| {
        // The first question takes the view, whatever it asks.
        assert!(tx.workspaces(None, 10)?.is_empty());
        // The write begins after that and commits while the view is in use.
        thread::scope(|scope| {
            scope
                .spawn(|| write(meta, |tx| tx.put_setting("color", "blue")))
                .join()
                .unwrap();
        });
        assert_eq!(tx.setting("color")?.as_deref(), Some("red"));
        assert_eq!(tx.last_seq()?, 0);
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    let key = add_workspace(meta, "later");
                    write(meta, |tx| tx.add_history(&line(key, b"a")));
                })
                .join()
                .unwrap();
        });
        assert_eq!(tx.setting("color")?.as_deref(), Some("red"));
        assert!(tx.workspaces(None, 10)?.is_empty());
        assert_eq!(tx.last_seq()?, 0);
        Ok(())
    });
    assert_eq!(
        read(meta, |tx| tx.setting("color")).as_deref(),
        Some("blue")
    );
}

pub(super) fn a_transaction_sees_its_own_changes(meta: &dyn MetaStore) {
    write(meta, |tx| {
        let key = tx.add_workspace(&workspace("own"))?;
        tx.put_entry(key, &entry(b"a"))?;
        let seq = tx.add_history(&line(key, b"a"))?;
        assert_eq!(tx.entries_in(key, &path(b""))?, [entry(b"a")]);
        assert_eq!(tx.last_seq()?, seq);
        assert_eq!(tx.last_write(key, &path(b"a"))?.unwrap().seq, seq);
        Ok(())
    });
}

pub(super) fn nothing_remains_of_failed_work(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "kept");
    let seq = write(meta, |tx| tx.add_history(&line(key, b"kept")));
    let failed = try_write(meta, |tx| {
        tx.put_setting("lost", "1")?;
        tx.put_entry(key, &entry(b"lost"))?;
        tx.add_history(&line(key, b"lost"))?;
        tx.add_workspace(&workspace("lost"))?;
        Err::<(), _>(Error::new(
            ErrorCode::QuotaExceeded,
            "the caller's own error",
        ))
    });
    assert_eq!(failed.unwrap_err().code(), ErrorCode::QuotaExceeded);

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = try_write(meta, |tx| {
            tx.put_setting("lost", "2")?;
            // Not a panic of the test itself: its message would look like one.
            std::panic::resume_unwind(Box::new("on purpose"));
            #[expect(unreachable_code, reason = "gives the closure its type")]
            Ok(())
        });
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"on purpose"));

    read(meta, |tx| {
        assert_eq!(tx.setting("lost")?, None);
        assert!(tx.entries_in(key, &path(b""))?.is_empty());
        assert_eq!(tx.history(&HistoryFilter::default())?.len(), 1);
        assert_eq!(tx.workspaces(None, 10)?.len(), 1);
        Ok(())
    });
    // Gaps would be allowed, going back is not.
    assert!(write(meta, |tx| tx.add_history(&line(key, b"next"))) > seq);
}

pub(super) fn upkeep_changes_no_row(meta: &dyn MetaStore) {
    let key = add_workspace(meta, "kept");
    write(meta, |tx| tx.put_entry(key, &entry(b"a")));
    meta.tidy().unwrap();
    meta.scrub().unwrap();
    meta.tidy().unwrap();
    assert_eq!(meta.damage().unwrap(), [""; 0]);
    assert!(meta.disk_usage().unwrap() > 0);
    assert_eq!(
        read(meta, |tx| tx.entries_in(key, &path(b""))),
        [entry(b"a")]
    );
}
