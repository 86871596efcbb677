//! What `check` finds, and that it finds nothing where there is no damage, also while others work.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::fixture::{TestEngine, create, p, user, write};
use offshoot_core::{EMPTY_BLOB, ObjectKind, ProjectId, RelPath, Result, Timestamp, WorkspaceId};
use offshoot_engine::{
    CompleteOptions, Content, Engine, EngineOptions, ForkOptions, ImportOptions, PrincipalKind,
    ProviderName, Scope,
};
use offshoot_fs::{CopyUp, ForkDirs, LayerWriter, is_fork_mounted, provider_named};
use offshoot_store::{Durability, HistoryFilter, WorkspaceRow, WriteTx};
use offshoot_testkit::{Rng, is_root, skip};

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    Rng::new(seed).fill(&mut noise);
    noise
}

/// Rows in every table that can have some when no operation is under way.
fn something_of_everything(test: &TestEngine) {
    let source = tempfile::tempdir().unwrap();
    for number in 0..60 {
        let file = source.path().join(format!("{number}"));
        // So many files that they go into a pack.
        fs::write(file, noise(1_000 + number, 4_000)).unwrap();
    }
    let imported: ProjectId = "imported".parse().unwrap();
    let options = ImportOptions::default();
    test.engine
        .projects
        .import_dir(&imported, source.path(), &options, &mut |_| {}, &user())
        .unwrap();
    let project = test.project("web");
    let agents = [("one", "mine\n"), ("two", "other\n")];
    for ((id, path), text) in agents.map(|(agent, text)| (test.fork(&project, agent), text)) {
        fs::write(path.join("README"), text).unwrap();
        let completed = test
            .engine
            .merges
            .complete(&id, &CompleteOptions::default(), &user())
            .unwrap();
        if let Some(review) = completed
            .conflicts
            .iter()
            .find_map(|one| one.review_id.clone())
        {
            test.engine
                .merges
                .propose(&review, Content::Bytes(b"both\n"), None, &user())
                .unwrap();
        }
    }
    let scope = Scope::everything(PrincipalKind::Admin);
    test.engine
        .access
        .issue_token(&scope, None, None, &user())
        .unwrap();
    test.engine
        .access
        .spawn("root", "coder", None, None, &user())
        .unwrap();
    let id = create(&test.engine, "plain");
    for number in 0..40 {
        let path = format!("a-long-name-of-a-directory-{number}/a-long-name-of-a-file");
        write(&test.engine, &id, &path, noise(number, 600));
    }
    test.engine
        .workspaces
        .snapshot(&id, None, false, &user())
        .unwrap();
    for number in 0..40 {
        let path = format!("a-long-name-of-another-directory-{number}/a-long-name-of-a-file");
        write(&test.engine, &id, &path, noise(100 + number, 100));
    }
    assert_eq!(empty_tables(test), [] as [&str; 0]);
}

/// The tables without rows, except those of merges under way.
fn empty_tables(test: &TestEngine) -> Vec<&'static str> {
    let mut rows = BTreeMap::new();
    let store = test.store();
    let counted = store.read(|tx| {
        rows.clear();
        rows.insert("object", tx.objects_after(None, 1, false)?.len());
        rows.insert("pack", tx.packs()?.len());
        rows.insert("layer", tx.layers()?.len());
        rows.insert("agent", tx.agents()?.len());
        rows.insert("token", tx.tokens(None, 1)?.len());
        rows.insert(
            "history and operator",
            tx.history(&HistoryFilter::default())?.len(),
        );
        let workspaces = tx.all_workspaces()?;
        rows.insert("workspace", workspaces.len());
        for row in &workspaces {
            let mut add = |table, count| *rows.entry(table).or_default() += count;
            add("entry", tx.entries_below(row.key, &RelPath::root())?.len());
            add("snapshot", tx.snapshots(row.key, 0)?.len());
            add("project", tx.project_settings(row.key)?.into_iter().count());
            add("fork", tx.fork(row.key)?.into_iter().count());
            add("merge", tx.merges(Some(row.key), None, 1)?.len());
        }
        let reviews = tx.reviews(None, false)?;
        rows.insert("review", reviews.len());
        rows.insert("candidate", 0);
        for review in reviews {
            *rows.entry("candidate").or_default() += tx.candidates(&review.id)?.len();
        }
        Ok(())
    });
    counted.unwrap();
    let empty = rows.into_iter().filter(|(_, count)| *count == 0);
    empty.map(|(table, _)| table).collect()
}

/// What `check` reports for one change of the rows, which is reverted afterwards.
fn said_of(
    test: &TestEngine,
    change: &dyn Fn(&mut dyn WriteTx) -> Result<()>,
) -> Vec<(String, String)> {
    let store = test.store();
    store.write(Durability::Synced, |tx| change(tx)).unwrap();
    let problems = test.engine.upkeep.check().unwrap().problems;
    let told = problems.into_iter();
    told.map(|one| (one.what.to_owned(), one.message)).collect()
}

#[test]
fn wrong_counters_are_named() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    something_of_everything(&test);
    test.check();
    let counters: [(&str, fn(&mut WorkspaceRow) -> &mut i64); 3] = [
        ("files", |row| &mut row.files),
        ("directories", |row| &mut row.dirs),
        ("bytes", |row| &mut row.bytes),
    ];
    for id in ["plain", "web"] {
        for (name, counter) in counters {
            let add = |by: i64| {
                move |tx: &mut dyn WriteTx| {
                    let mut rows = tx.all_workspaces()?;
                    rows.retain(|row| row.id.as_str() == id);
                    *counter(&mut rows[0]) += by;
                    tx.update_workspace(&rows[0])
                }
            };
            let said = said_of(&test, &add(1));
            let is_named = |(what, message): &(String, String)| {
                what == "workspace" && message.contains(&format!("`{id}` counts"))
            };
            assert!(said.len() == 1 && is_named(&said[0]), "{name}: {said:?}");
            assert_eq!(said_of(&test, &add(-1)), []);
        }
    }
}

#[test]
fn what_is_named_and_not_there_is_named() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    something_of_everything(&test);
    test.check();
    // Content that only an entry refers to, and content that snapshots refer to as well.
    for path in [
        "a-long-name-of-another-directory-7/a-long-name-of-a-file",
        "a-long-name-of-a-directory-7/a-long-name-of-a-file",
    ] {
        let id: WorkspaceId = "plain".parse().unwrap();
        let (content, _) = test.engine.workspaces.read_whole(&id, &p(path)).unwrap();
        let content = offshoot_git::hash(ObjectKind::Blob, &content).unwrap();
        let said = said_of(&test, &|tx| {
            assert!(tx.remove_object(&content, Timestamp(i64::MAX))?);
            Ok(())
        });
        let is_named = |(what, message): &(String, String)| {
            what == "entry" && message.contains(path) && message.contains(&content.to_hex())
        };
        assert!(said.iter().any(is_named), "{said:?}");
    }
    // A head that is no snapshot of its workspace.
    let test = TestEngine::in_memory(ProviderName::Copy);
    something_of_everything(&test);
    let said = said_of(&test, &|tx| {
        let mut rows = tx.all_workspaces()?;
        rows.retain(|row| row.id.as_str() == "plain");
        rows[0].head = Some(EMPTY_BLOB);
        tx.update_workspace(&rows[0])
    });
    let is_named = |(what, message): &(String, String)| {
        what == "database" && message.contains("has a head that is none of its snapshots")
    };
    assert!(said.iter().any(is_named), "{said:?}");
}

/// Every page of the database except free ones: tables, indexes, long rows, and SQLite's own.
#[test]
fn the_damage_of_every_page_is_found() {
    const PAGE: usize = 4096;
    let mut test = TestEngine::in_memory(ProviderName::Copy);
    something_of_everything(&test);
    test.check();
    test.close();
    let data = test.host.path().join("data");
    let database = data.join("offshoot.db");
    let whole = fs::read(&database).unwrap();
    let pages = whole.len() / PAGE;
    assert!(pages > 60, "{pages}");
    let garbage = noise(7, PAGE);
    for page in 0..pages {
        let mut torn = whole.clone();
        // Without the header of the file, which is no page of a table and is tried below.
        let from = page * PAGE + if page == 0 { 100 } else { 0 };
        torn[from..(page + 1) * PAGE].copy_from_slice(&garbage[from - page * PAGE..]);
        let found = damage_of(&data, &torn);
        assert!(
            found.is_some(),
            "page {} of {pages} went unnoticed",
            page + 1
        );
    }
    let mut torn = whole.clone();
    torn[..PAGE].copy_from_slice(&garbage);
    assert!(damage_of(&data, &torn).is_some());
    assert_eq!(damage_of(&data, &whole), None);
}

/// The first problem that is found in a data directory with this database, or why it cannot be
/// opened.
fn damage_of(data: &Path, database: &[u8]) -> Option<String> {
    for side in ["-wal", "-shm"] {
        let _ = fs::remove_file(data.join(format!("offshoot.db{side}")));
    }
    fs::write(data.join("offshoot.db"), database).unwrap();
    let mut options = EngineOptions::new(data);
    options.provider = Some(ProviderName::Copy);
    match Engine::open(options) {
        Err(error) => {
            assert!(error.message().contains("damaged"), "{error:?}");
            assert!(error.hint().is_some());
            Some(error.to_string())
        }
        Ok(engine) => match engine.upkeep.check() {
            Err(error) => Some(error.to_string()),
            Ok(report) => report
                .problems
                .first()
                .map(|problem| problem.message.clone()),
        },
    }
}

/// Writes, forks, merges, deletions and purges are never taken for damage.
#[test]
fn check_beside_others_at_work_raises_no_alarm() {
    const ROUNDS: usize = 12;
    let test = TestEngine::new(crate::fixture::working(&std::env::temp_dir())[0]);
    let project = test.project("web");
    let shared = create(&test.engine, "shared");
    let (at_work, checks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = |work: &dyn Fn(usize)| {
        (0..ROUNDS).for_each(work);
        at_work.fetch_sub(1, Ordering::SeqCst);
    };
    at_work.store(4, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            done(&|round| {
                for file in 0..6 {
                    let content = format!("{round} {file}").repeat(40 * file * file * file);
                    write(
                        &test.engine,
                        &shared,
                        &format!("d/{file}"),
                        content.as_bytes(),
                    );
                }
                let path = p(&format!("d/{}", round % 6));
                test.engine
                    .workspaces
                    .delete_file(&shared, &path, false, &user())
                    .unwrap();
                test.engine
                    .workspaces
                    .snapshot(&shared, None, false, &user())
                    .unwrap();
            });
        });
        scope.spawn(|| {
            done(&|round| {
                let (id, path) = test.fork(&project, &format!("agent-{round}"));
                fs::write(path.join(format!("new-{round}")), format!("{round}")).unwrap();
                let options = CompleteOptions::default();
                test.engine.merges.complete(&id, &options, &user()).unwrap();
            });
        });
        scope.spawn(|| {
            done(&|round| {
                let options = ForkOptions::default();
                let fork = test.engine.forks.fork(&project, &options, &user()).unwrap();
                let id = fork.workspace.id;
                write(&test.engine, &id, "own", format!("own {round}").as_bytes());
                test.engine.merges.update(&id, false, &user()).unwrap();
                test.engine
                    .workspaces
                    .delete_workspace(&id, &user())
                    .unwrap();
            });
        });
        scope.spawn(|| {
            done(&|round| {
                let id = create(&test.engine, &format!("short-{round}"));
                write(&test.engine, &id, "large", noise(round as u64, 200_000));
                test.engine.upkeep.purge_workspace(&id).unwrap();
                test.engine
                    .upkeep
                    .clean(std::time::Duration::from_secs(60), false, &user())
                    .unwrap();
            });
        });
        while at_work.load(Ordering::SeqCst) > 0 {
            let report = test.engine.upkeep.check().unwrap();
            assert_eq!(report.problems, []);
            checks.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(checks.load(Ordering::SeqCst) > 0);
    test.check();
    // Damage is found.
    write(&test.engine, &shared, "large", noise(99, 300_000));
    fs::remove_dir_all(test.engine.workspaces.hand_out_path(&shared).unwrap()).unwrap();
    let blob = newest_blob(&test.host.path().join("data/blobs/data/object"));
    let file = fs::OpenOptions::new().write(true).open(blob).unwrap();
    file.write_all_at(b"damaged", 1_000).unwrap();
    let problems = test.engine.upkeep.check().unwrap().problems;
    let whats: Vec<&str> = problems.iter().map(|problem| problem.what).collect();
    assert!(whats.contains(&"object"), "{problems:?}");
    assert!(whats.contains(&"directory"), "{problems:?}");
}

fn newest_blob(dir: &Path) -> std::path::PathBuf {
    let fans = fs::read_dir(dir).unwrap().flatten();
    let files = fans.flat_map(|fan| fs::read_dir(fan.path()).unwrap().flatten());
    files
        .max_by_key(|file| file.metadata().unwrap().modified().unwrap())
        .unwrap()
        .path()
}

#[test]
fn the_damage_of_a_difference_between_layers_is_found() {
    let test = TestEngine::new(ProviderName::Copy);
    let project = test.project("web");
    let (_, _) = test.fork(&project, "one");
    test.put(&project, "README", "newer\n");
    let (_, _) = test.fork(&project, "two");
    test.check();
    let layers = test.host.path().join("data/layers");
    let newer = fs::read_dir(&layers)
        .unwrap()
        .flatten()
        .map(|layer| layer.path().join("README"))
        .find(|file| fs::read(file).is_ok_and(|text| text == b"newer\n"))
        .unwrap();
    fs::write(&newer, "wrong\n").unwrap();
    let problems = test.engine.upkeep.check().unwrap().problems;
    assert!(
        problems.iter().any(|problem| problem.what == "layer"),
        "{problems:?}"
    );
}

/// What a process leaves that is killed while it probes providers.
#[test]
fn what_a_killed_probe_left_is_swept_and_no_damage() {
    let mut test = TestEngine::new(ProviderName::Copy);
    test.check();
    test.close();
    let tmp = test.host.path().join("data/tmp");
    let area = tmp.join(".offshoot-probe-1-0");
    fs::create_dir(&area).unwrap();
    fs::write(area.join("half"), "half").unwrap();
    let works = crate::fixture::working(test.host.path());
    let fork = ForkDirs::new(area.join("overlay-private"), area.join("overlay-target"));
    let mounted = works.contains(&ProviderName::Overlay);
    if mounted {
        let layer = area.join("overlay-layer");
        let mut writer = LayerWriter::new(&layer).unwrap();
        writer.file(&p("file"), 0o644, &mut &b"base"[..]).unwrap();
        writer.finish().unwrap();
        let overlay = provider_named(ProviderName::Overlay, CopyUp::WholeFile).unwrap();
        overlay.create(&[layer], &fork).unwrap();
        assert!(is_fork_mounted(&fork.target).unwrap());
    } else {
        skip("the mount of a killed probe needs the right to mount");
        assert!(!is_root(), "root can mount here");
    }
    // The files of a process that is still probing stay.
    let alive = tmp.join(".offshoot-probe-2-0");
    fs::create_dir(&alive).unwrap();
    let held = fs::File::open(&alive).unwrap();
    held.lock().unwrap();
    test.reopen();
    assert!(!area.exists());
    assert!(alive.exists());
    test.check();
    drop(held);
    test.engine.directories.probe_providers().unwrap();
    assert!(!alive.exists());
    let left: Vec<_> = fs::read_dir(&tmp).unwrap().flatten().collect();
    let probes = left
        .iter()
        .filter(|entry| entry.file_name().to_string_lossy().contains("probe"));
    assert_eq!(probes.filter(|entry| entry.path().is_dir()).count(), 0);
    test.check();
}
