//! Scans after random changes always end with the truth.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use offshoot_core::{EntryKind, ObjectId, RelPath};
use offshoot_fs::{Memo, NoFilter, PathResolver, SafeDir, scan};

use crate::common::{Fixture, id_of};

/// The truth, found the slow way.
fn slow_truth(dir: &SafeDir) -> BTreeMap<RelPath, (EntryKind, u32, Option<ObjectId>)> {
    let mut truth = BTreeMap::new();
    dir.walk(&RelPath::root(), |path, stat| {
        let kind = stat.entry_kind().unwrap();
        let id = (kind != EntryKind::Dir).then(|| id_of(dir, path));
        truth.insert(path.clone(), (kind, stat.perm, id));
        Ok(offshoot_fs::Walk::Enter)
    })
    .unwrap();
    truth
}

/// A small generator is enough, and its seed makes failures repeatable.
fn next_random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn random_change(root: &Path, random: &mut u64) {
    let names = ["a", "b", "a-b", "c.d", "e"];
    let mut path = root.to_owned();
    for _ in 0..=next_random(random) % 3 {
        path.push(names[next_random(random) % names.len()]);
    }
    let parent = path.parent().unwrap();
    let content = format!("{}", next_random(random) % 4);
    // Whatever is impossible just does not happen.
    let _ = match next_random(random) % 8 {
        0 | 1 => fs::write(&path, content),
        2 => fs::create_dir_all(&path),
        3 => fs::create_dir_all(parent).and_then(|()| fs::write(&path, content)),
        4 => fs::remove_file(&path),
        5 => fs::remove_dir_all(&path),
        6 => symlink(content, &path),
        _ => fs::set_permissions(
            &path,
            fs::Permissions::from_mode([0o755, 0o700][next_random(random) % 2]),
        ),
    };
}

/// After any changes the memo that a scan leads to is the truth, and the scan named every change.
#[test]
fn random_changes_are_always_found() {
    let rounds = if std::env::var_os("OFFSHOOT_SOAK").is_some() {
        5_000
    } else {
        150
    };
    for resolver in [PathResolver::Kernel, PathResolver::Portable] {
        let fixture = Fixture::new(resolver);
        let dir = fixture.dir.clone();
        let mut random = 42;
        let mut memo = Memo::empty();
        for round in 0..rounds {
            for _ in 0..next_random(&mut random) % 6 {
                random_change(&fixture.root, &mut random);
            }
            let found = scan(&dir, &memo, &NoFilter, 1 + round % 3).unwrap();
            let before: BTreeMap<_, _> = memo.iter().collect();
            for missing in &found.missing {
                assert!(before.contains_key(missing), "{missing} was never there");
            }
            let unknown: Vec<_> = found.unknown.iter().map(|seen| seen.path.clone()).collect();
            let missing = found.missing.clone();
            let dirs: Vec<_> = found.dirs.iter().map(|dir| dir.path.clone()).collect();
            let next = found.finish(0, |path| Some(id_of(&dir, path)));
            let told: BTreeMap<_, _> = next
                .iter()
                .map(|(path, e)| (path, (e.kind, e.perm, e.id)))
                .collect();
            let truth = slow_truth(&dir);
            assert_eq!(told, truth, "round {round}");
            let disk_dirs: Vec<_> = truth
                .iter()
                .filter(|(_, entry)| entry.0 == EntryKind::Dir)
                .map(|(path, _)| path.clone())
                .collect();
            assert_eq!(dirs, disk_dirs, "round {round}");
            for (path, entry) in &truth {
                let known = before.get(path).map(|e| (e.kind, e.perm, e.id));
                let named = unknown.contains(path) || entry.0 == EntryKind::Dir;
                assert!(
                    known == Some(*entry) || named,
                    "round {round}: {path} was overlooked"
                );
            }
            for path in before.keys().filter(|path| !truth.contains_key(*path)) {
                assert!(missing.contains(path), "round {round}: {path} is gone");
            }
            memo = next;
        }
    }
}
