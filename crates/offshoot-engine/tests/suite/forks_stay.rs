//! A fork keeps what it was forked at, by `ls`, `stat` and `read`, while its project gets edits,
//! merges, compaction and garbage collection.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ObjectId, ProjectId, RelPath, WorkspaceId};
use offshoot_engine::{CompleteOptions, ForkOptions};
use offshoot_testkit::{DirImage, Node, NodePath, Rng, dir_image, soak};

const MOST_FORKS: usize = 10;

/// A fork and its expected content.
struct Kept {
    id: WorkspaceId,
    path: PathBuf,
    image: DirImage,
    /// How many paths it changed itself.
    own_changes: usize,
    /// A file that stays open all the time.
    held: (File, Vec<u8>),
}

struct World {
    test: TestEngine,
    project: ProjectId,
    rng: Rng,
    bases: Vec<ObjectId>,
    forks: Vec<Kept>,
    names: usize,
    merges: usize,
    collected: u64,
    looks: usize,
}

impl World {
    fn new(test: TestEngine) -> World {
        let project = test.project("web");
        World {
            test,
            project,
            rng: Rng::new(99),
            bases: Vec::new(),
            forks: Vec::new(),
            names: 0,
            merges: 0,
            collected: 0,
            looks: 0,
        }
    }

    /// Changes the project by an edit, or by the merge of a fork with changes of every kind.
    fn change_project(&mut self, round: usize) {
        if self.rng.chance(500) {
            let name = format!("edited/{}/{}", self.rng.below(3), self.rng.below(6));
            let text = format!("{round}\n").repeat(self.rng.between(1, 40));
            self.test.put(&self.project, &name, &text);
        } else {
            self.names += 1;
            let (id, path) = self
                .test
                .fork(&self.project, &format!("worker{}", self.names));
            for _ in 0..self.rng.between(1, 4) {
                some_change(&mut self.rng, &path);
            }
            let done = self
                .test
                .engine
                .merges
                .complete(&id, &CompleteOptions::default(), &user())
                .unwrap();
            assert!(done.conflicts.is_empty(), "{:?}", done.conflicts);
            self.merges += 1;
        }
        let head = self
            .test
            .engine
            .projects
            .project(&self.project)
            .unwrap()
            .head;
        self.bases.push(head.unwrap());
    }

    /// A new fork of the head or of any older snapshot, which builds layers for old states.
    fn begin_fork(&mut self) {
        self.names += 1;
        let old = self.rng.chance(400).then(|| *self.rng.pick(&self.bases));
        let options = ForkOptions {
            agent: Some(format!("kept{}", self.names).parse().unwrap()),
            at: old.map(ObjectId::to_hex),
            ..ForkOptions::default()
        };
        let (fork, path) = self
            .test
            .engine
            .forks
            .fork_out(&self.project, &options, &user())
            .unwrap();
        assert_eq!(
            dir_image(&path),
            self.test
                .project_image(&self.project, Some(&fork.base.to_hex())),
            "a new fork shows its base"
        );
        let mut own_changes = 0;
        if self.rng.chance(300) {
            // README is never removed, so this is always one changed path.
            fs::write(path.join("README"), format!("mine {}\n", self.names)).unwrap();
            own_changes = 1;
        }
        let mut held = File::open(path.join("README")).unwrap();
        let mut bytes = Vec::new();
        held.read_to_end(&mut bytes).unwrap();
        self.forks.push(Kept {
            id: fork.workspace.id,
            image: dir_image(&path),
            path,
            own_changes,
            held: (held, bytes),
        });
    }

    fn end_fork(&mut self) {
        let at = self.rng.below(self.forks.len());
        let gone = self.forks.swap_remove(at);
        self.look(&gone);
        drop(gone.held);
        self.test
            .engine
            .workspaces
            .delete_workspace(&gone.id, &user())
            .unwrap();
    }

    /// Checks directory listings, `stat` and `read`, an open file, and the engine's own reads.
    fn look(&self, fork: &Kept) {
        let now = dir_image(&fork.path);
        assert!(
            now == fork.image,
            "`{}` changed: {now:#?}\ninstead of {:#?}",
            fork.id,
            fork.image
        );
        let (mut file, bytes) = (&fork.held.0, &fork.held.1);
        file.rewind().unwrap();
        let mut again = Vec::new();
        file.read_to_end(&mut again).unwrap();
        assert_eq!(&again, bytes, "an open file of `{}` changed", fork.id);
        let listed = self
            .test
            .engine
            .workspaces
            .list(&fork.id, &RelPath::root())
            .unwrap();
        let top = fork.image.keys().filter(|path| !path.0.contains(&b'/'));
        assert_eq!(listed.len(), top.count());
        let (read, _) = self
            .test
            .engine
            .workspaces
            .read_whole(&fork.id, &p("src/lib.rs"))
            .unwrap();
        let key = NodePath(b"src/lib.rs".to_vec());
        assert!(matches!(&fork.image[&key], Node::File(_, bytes) if *bytes == read));
        assert_eq!(self.test.changes(&fork.id).len(), fork.own_changes);
    }

    fn collect(&mut self) {
        let engine = &self.test.engine;
        self.collected += engine.directories.collect_layers(Duration::ZERO).unwrap();
        engine.upkeep.collect_garbage(Duration::ZERO).unwrap();
    }

    fn round(&mut self, round: usize) {
        self.change_project(round);
        if self.forks.len() < 3 || self.rng.chance(250) {
            self.begin_fork();
        }
        if self.forks.len() > MOST_FORKS {
            self.end_fork();
        }
        match self.rng.below(4) {
            0 => self.test.engine.context.wait_for_jobs(),
            1 => self.collect(),
            _ => {}
        }
        for _ in 0..2 {
            let at = self.rng.below(self.forks.len());
            self.look(&self.forks[at]);
            self.looks += 1;
        }
        if round % 100 == 99 {
            if soak() {
                // The content of a fork must not depend on the kernel's caches of its layers.
                let _ = fs::write("/proc/sys/vm/drop_caches", "2");
            }
            self.forks.iter().for_each(|fork| self.look(fork));
            self.test.check();
        }
    }
}

/// One change of each kind that layers represent differently: content, deletion, directory over
/// file and the other way round, permission bits, links, an emptied directory.
fn some_change(rng: &mut Rng, root: &Path) {
    let path = root.join(format!("t/{}/{}", rng.below(3), rng.below(4)));
    let is_dir = fs::symlink_metadata(&path).is_ok_and(|stat| stat.is_dir());
    let clear = |path: &Path| {
        let _ = if is_dir {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
    };
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match rng.below(8) {
        0 => clear(&path),
        1 => {
            clear(&path);
            fs::create_dir_all(path.join("inner")).unwrap();
            fs::write(path.join("inner/deep"), "deep\n").unwrap();
        }
        2 => {
            clear(&path);
            symlink("../../README", &path).unwrap();
        }
        3 if path.is_file() => {
            let mode = *rng.pick(&[0o644, 0o755, 0o600]);
            // Through a link the bits of `README` would change, which forks edit themselves.
            if !path.is_symlink() {
                fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            }
        }
        4 => {
            let dir = path.parent().unwrap();
            fs::remove_dir_all(dir).unwrap();
            fs::create_dir(dir).unwrap();
        }
        5 => {
            let lib = format!("one\ntwo\n{}\n", rng.below(1_000));
            fs::write(root.join("src/lib.rs"), lib).unwrap();
        }
        _ => {
            clear(&path);
            fs::write(&path, format!("{}\n", rng.next_u64())).unwrap();
        }
    }
}

#[test]
fn forks_stay_as_they_are_while_their_project_goes_on() {
    let rounds = if soak() { 1_000 } else { 40 };
    with_each(|test| {
        let provider = test.provider;
        let mut world = World::new(test);
        for round in 0..rounds {
            world.round(round);
        }
        world.test.engine.context.wait_for_jobs();
        world.collect();
        world.forks.iter().for_each(|fork| world.look(fork));
        assert!(world.collected > 0, "no layer was ever collected");
        // The next process sees it too.
        world.test.reopen();
        world.forks.iter().for_each(|fork| world.look(fork));
        world.test.check();
        println!(
            "soak: forks: {rounds} rounds with {provider}, {} merges, {} layers collected, {} looks at forks, all as their base, check clean",
            world.merges, world.collected, world.looks
        );
    });
}
