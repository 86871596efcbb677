//! After any edits the changes are what a full comparison finds, and as a layer they give the same
//! tree.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use offshoot_core::RelPath;

use super::fixture::{Fixture, Node, TreeImage, image, sign};
use crate::{Difference, LayerWriter};

/// Forks, each on one layer more than the one before.
const FORKS: usize = 3;
/// Rounds of edits in each fork, with a comparison after each.
const ROUNDS: usize = 4;

/// Any generator does; the seed makes a failure repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn path(&mut self, root: &Path) -> PathBuf {
        let names = ["a", "b", "c", "a.b"];
        let mut path = root.to_owned();
        for _ in 0..=self.below(3) {
            path.push(names[self.below(names.len())]);
        }
        path
    }
}

/// One change as a program might make it. What is impossible just does not happen.
fn edit(root: &Path, random: &mut Random) {
    let path = random.path(root);
    let other = random.path(root);
    let content = random.below(3).to_string();
    let bits = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
    let _ = match random.below(14) {
        0..=2 => fs::write(&path, content),
        3 | 4 => path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, content)),
        5 => fs::create_dir(&path),
        6 => fs::remove_file(&path),
        7 => fs::remove_dir_all(&path),
        8 => fs::remove_dir_all(&path).and_then(|()| fs::create_dir_all(&path)),
        9 => symlink(content, &path),
        10 => {
            // A directory must stay one that its owner can enter: the comparison has to.
            let third = if path.is_dir() { 0o711 } else { 0o644 };
            bits([0o755, 0o700, third][random.below(3)])
        }
        11 => fs::hard_link(&path, &other),
        12 => fs::OpenOptions::new().append(true).open(&path).map(drop),
        _ => fs::rename(&path, &other),
    };
}

/// What a full comparison of two trees finds.
fn compare_slowly(base: &TreeImage, now: &TreeImage) -> BTreeMap<RelPath, char> {
    let mut found = BTreeMap::new();
    for path in base.keys().chain(now.keys()) {
        let how = match (base.get(path), now.get(path)) {
            (None, _) => '+',
            (_, None) => '-',
            (Some(before), Some(after)) if before == after => continue,
            (Some(before), Some(after)) => {
                let same_kind = std::mem::discriminant(before) == std::mem::discriminant(after);
                if same_kind { 'c' } else { 't' }
            }
        };
        found.insert(path.clone(), how);
    }
    found
}

/// What a provider said, with content compared and every directory spelt out.
fn spelt_out(changes: &[Difference], base: &TreeImage, now: &TreeImage) -> BTreeMap<RelPath, char> {
    let mut found = BTreeMap::new();
    for change in changes {
        let path = &change.path;
        if let Some(origin) = &change.content_of {
            assert_eq!(
                base.get(origin),
                now.get(path),
                "`{path}` is not `{origin}`"
            );
        }
        let how = match sign(change) {
            '?' | 'm' if base.get(path) == now.get(path) => continue,
            '?' | 'm' => 'c',
            how => how,
        };
        if how == '-' || (how == 't' && matches!(base.get(path), Some(Node::Dir(_)))) {
            let below = base.keys().filter(|below| below.starts_with(path));
            found.extend(below.map(|below| (below.clone(), '-')));
        }
        found.insert(path.clone(), how);
    }
    found
}

pub(super) fn random_edits(fixture: &Fixture<'_>, stacks: u64) {
    for seed in 0..stacks {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9) + 1);
        let empty = fixture.fresh("layer");
        LayerWriter::new(&empty).unwrap().finish().unwrap();
        let mut layers = vec![empty];
        for depth in 0..FORKS {
            let fork = fixture.fork(&layers.iter().collect::<Vec<_>>());
            let base = image(&fork.dirs.target);
            for round in 0..ROUNDS {
                for _ in 0..=random.below(20) {
                    edit(&fork.dirs.target, &mut random);
                }
                let now = fork.image();
                let changes = fork.changes();
                let context = format!("seed {seed}, fork {depth}, round {round}");
                let in_order = changes.windows(2).all(|two| two[0].path < two[1].path);
                assert!(in_order, "{context}: not in order");
                assert_eq!(
                    spelt_out(&changes, &base, &now),
                    compare_slowly(&base, &now),
                    "{context}: {:?}",
                    fork.lines()
                );
            }
            let delta = fixture.fresh("layer");
            fork.delta(&delta);
            layers.insert(0, delta);
            let next = fixture.fork(&layers.iter().collect::<Vec<_>>());
            assert_eq!(next.image(), fork.image(), "seed {seed}, as layer {depth}");
        }
    }
}
