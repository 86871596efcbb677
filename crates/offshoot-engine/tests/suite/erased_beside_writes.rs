//! A writer of the same content that is being erased with another workspace keeps what was
//! acknowledged.

use std::thread;
use std::time::Duration;

use crate::fixture::{TestEngine, p, user};
use offshoot_core::{ErrorCode, Layout, WorkspaceId};
use offshoot_engine::{Content, Engine, Quota, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::Rng;

const ROUNDS: u64 = 4;
const FILES: u64 = 120;

fn workspace(engine: &Engine, name: &str, layout: Layout) -> WorkspaceId {
    let id: WorkspaceId = name.parse().unwrap();
    engine
        .workspaces
        .create_workspace(Some(id.clone()), layout, Quota::default(), &user())
        .unwrap();
    id
}

/// Every tenth content is too large for its row.
fn content(round: u64, file: u64) -> Vec<u8> {
    let mut bytes = vec![
        0;
        if file.is_multiple_of(10) {
            100_000
        } else {
            300
        }
    ];
    Rng::new(round * FILES + file).fill(&mut bytes);
    bytes
}

fn path(file: u64) -> String {
    format!("outputs/d{}/f{file}", file % 7)
}

/// Writes until it is acknowledged: a write whose content was erased meanwhile is refused, not
/// lost.
fn write(engine: &Engine, id: &WorkspaceId, round: u64, file: u64) {
    let bytes = content(round, file);
    loop {
        let (content, options) = (Content::Bytes(&bytes), WriteOptions::default());
        match engine
            .workspaces
            .write_file(id, &p(&path(file)), content, &options, &user())
        {
            Ok(_) => return,
            Err(error) => assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}"),
        }
    }
}

/// One workspace is erased while another one gets the same contents, file by file.
fn all_of_it_stays(goes: Layout, erase: impl Fn(&Engine, &WorkspaceId) + Sync) {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let engine = &test.engine;
    for round in 0..ROUNDS {
        let going = workspace(engine, &format!("going-{round}"), goes);
        let staying = workspace(engine, &format!("staying-{round}"), Layout::Plain);
        for file in 0..FILES {
            write(engine, &going, round, file);
        }
        engine
            .workspaces
            .snapshot(&going, None, false, &user())
            .unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for file in 0..FILES {
                    write(engine, &staying, round, file);
                }
                // Its trees are those of the workspace that is erased.
                let taken = || engine.workspaces.snapshot(&staying, None, false, &user());
                while let Err(error) = taken() {
                    assert_eq!(error.code(), ErrorCode::StoreUnavailable, "{error}");
                }
            });
            erase(engine, &going);
        });
        let snapshot = engine.workspaces.snapshots(&staying, 1).unwrap()[0]
            .id
            .to_hex();
        for file in 0..FILES {
            let (now, _) = engine
                .workspaces
                .read_whole(&staying, &p(&path(file)))
                .unwrap();
            assert!(now == content(round, file));
            let kept = engine
                .workspaces
                .file_at(&staying, &snapshot, &p(&path(file)));
            assert!(kept.unwrap() == content(round, file));
        }
        test.check();
    }
}

#[test]
fn content_of_a_retired_session_stays_with_who_writes_it_meanwhile() {
    all_of_it_stays(Layout::Session, |engine, going| {
        let gone = engine.upkeep.retire_sessions(Duration::ZERO).unwrap();
        assert_eq!(gone, std::slice::from_ref(going));
    });
}

#[test]
fn content_of_a_purged_workspace_stays_with_who_writes_it_meanwhile() {
    all_of_it_stays(Layout::Plain, |engine, going| {
        engine.upkeep.purge_workspace(going).unwrap();
    });
}
