//! Snapshots and archives of a workspace while an outside program writes without a pause.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::{p, user, with_each};
use offshoot_core::{ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_engine::Engine;

/// What programs do: replace files, write them in place, and make and remove directories.
fn work(root: &Path, number: usize) {
    let text = format!("{number}\n").repeat(40);
    let _ = fs::write(root.join("hot.new"), &text);
    let _ = fs::rename(root.join("hot.new"), root.join("hot"));
    let _ = fs::write(root.join("docs/hot"), &text);
    let _ = fs::create_dir_all(root.join("build/deep"));
    let _ = fs::write(root.join("build/deep/out"), &text);
    if number.is_multiple_of(3) {
        let _ = fs::remove_dir_all(root.join("build"));
    }
}

/// Replaces one file as fast as possible.
fn replace(root: &Path, number: usize) {
    let new = root.join(format!("new{:?}", std::thread::current().id()));
    let _ = fs::write(&new, format!("{number}\n"));
    let _ = fs::rename(&new, root.join("replaced"));
}

/// A large file that is written in place, and grows meanwhile.
fn rewrite(root: &Path, number: usize) {
    let part = vec![number as u8; 1 << 20];
    let file = fs::File::create(root.join("large"));
    if let Ok(mut file) = file {
        for _ in 0..6 {
            let _ = file.write_all(&part);
        }
    }
}

fn read_all(engine: &Engine, id: &WorkspaceId) -> Result<()> {
    let whole = engine.workspaces.open_archive(id, &RelPath::root())?;
    for entry in &whole.entries {
        if entry.kind == offshoot_core::EntryKind::File
            && let Some(mut content) = whole.open(entry)?
        {
            let mut bytes = Vec::new();
            content.content.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len() as u64, content.size);
        }
    }
    Ok(())
}

/// Lets programs write to a workspace while `work` runs.
fn beside(path: &Path, programs: &[fn(&Path, usize)], act: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for program in programs {
            let stop = &stop;
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    program(path, number);
                    number += 1;
                }
            });
        }
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = acted {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn snapshots_and_archives_can_be_had_beside_a_program_that_never_pauses() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        // Files that were recorded before and never rest are in the snapshot as they were then.
        for program in [work, replace, rewrite] {
            program(&path, 1);
        }
        test.engine.sync.sync_workspace(&id).unwrap();
        beside(&path, &[work, replace, rewrite], || {
            for _ in 0..15 {
                test.engine
                    .workspaces
                    .snapshot(&id, None, false, &user())
                    .unwrap();
                read_all(&test.engine, &id).unwrap();
            }
        });
        test.check();
    });
}

#[test]
fn a_new_file_that_is_never_at_rest_is_named_instead_of_left_out() {
    with_each(|test| {
        let project = test.project("web");
        let (id, path) = test.fork(&project, "one");
        beside(&path, &[rewrite], || {
            while !path.join("large").exists() {
                std::thread::yield_now();
            }
            for _ in 0..10 {
                let taken = test.engine.workspaces.snapshot(&id, None, false, &user());
                let read = read_all(&test.engine, &id);
                for error in [taken.err(), read.err()].into_iter().flatten() {
                    assert_eq!(error.code(), ErrorCode::WorkspaceBusy, "{error:?}");
                    assert!(error.to_string().contains("large"), "{error:?}");
                    assert!(error.hint().is_some());
                }
            }
        });
        // A file at rest is recorded.
        let taken = test
            .engine
            .workspaces
            .snapshot(&id, None, false, &user())
            .unwrap();
        let at = taken.snapshot.id.to_hex();
        let held = test
            .engine
            .workspaces
            .file_at(&id, &at, &p("large"))
            .unwrap();
        assert_eq!(held, fs::read(path.join("large")).unwrap());
        test.check();
    });
}
