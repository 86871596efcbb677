//! Layers while many callers build, publish, compact and collect them at once, and after a kill.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use crate::fixture::child::{Child, say, task};
use crate::fixture::{TestEngine, p, user, with_each};
use offshoot_core::{ObjectId, ProjectId};
use offshoot_engine::{Content, Engine, ForkOptions, ImportOptions, WriteOptions};
use offshoot_fs::ProviderName;
use offshoot_testkit::{HostDir, Rng, dir_image, soak};

/// What several threads and two engines, each with its own caches as in two processes, do to one
/// project.
struct Storm<'a> {
    engines: [&'a Engine; 2],
    test: &'a TestEngine,
    project: ProjectId,
    snapshots: RwLock<Vec<ObjectId>>,
    /// Numbers the names of forks, so that no two get the same one.
    names: AtomicUsize,
    forks: AtomicUsize,
    collected: AtomicU64,
    over: AtomicBool,
    wrong: Mutex<Option<String>>,
}

impl Storm<'_> {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed) && self.wrong.lock().unwrap().is_none()
    }

    /// Changes many files in each snapshot, so that writing its layer takes a while; all of them
    /// exist in the layers below.
    fn publish(&self, rng: &mut Rng) {
        let engine = self.engines[rng.below(2)];
        for _ in 0..rng.between(1, 4) {
            let name = format!("t/{}/{}", rng.below(4), rng.below(8));
            let text = format!("{}\n", rng.next_u64());
            let content = Content::Bytes(text.as_bytes());
            let options = WriteOptions::default();
            engine
                .projects
                .put_in_project(&self.project, &p(&name), content, &options, &user())
                .unwrap();
        }
        if rng.chance(300) {
            // A fork that changes many files at once, for a large layer.
            let name = self.name();
            let (_, path) = self.fork(engine, &name, None, false).unwrap();
            for n in 0..60 {
                let dir = path.join(format!("many/{}", n % 7));
                fs::create_dir_all(&dir).unwrap();
                fs::write(dir.join(n.to_string()), rng.next_u64().to_string()).unwrap();
            }
            let done = engine
                .merges
                .complete(&name.parse().unwrap(), &Default::default(), &user());
            done.unwrap();
        }
        let head = engine
            .projects
            .project(&self.project)
            .unwrap()
            .head
            .unwrap();
        self.snapshots.write().unwrap().push(head);
    }

    fn name(&self) -> String {
        format!("f{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    fn fork(
        &self,
        engine: &Engine,
        name: &str,
        at: Option<ObjectId>,
        git: bool,
    ) -> offshoot_core::Result<(offshoot_engine::Fork, std::path::PathBuf)> {
        let options = ForkOptions {
            id: Some(name.parse().unwrap()),
            at: at.map(ObjectId::to_hex),
            git,
            ..ForkOptions::default()
        };
        engine.forks.fork_out(&self.project, &options, &user())
    }

    /// A fork of the head or of any older snapshot, made at once or on demand, shows exactly that.
    fn look(&self, rng: &mut Rng) {
        let engine = self.engines[rng.below(2)];
        let at = if rng.chance(500) {
            Some(*rng.pick(&self.snapshots.read().unwrap()))
        } else {
            None
        };
        let name = self.name();
        let id = name.parse().unwrap();
        let (base, path) = if rng.chance(300) {
            let options = ForkOptions {
                id: Some(name.parse().unwrap()),
                at: at.map(ObjectId::to_hex),
                ..ForkOptions::default()
            };
            let fork = engine.forks.fork(&self.project, &options, &user()).unwrap();
            // Another thread has it.
            let path = self.engines[rng.below(2)]
                .workspaces
                .hand_out_path(&id)
                .unwrap();
            (fork.base, path)
        } else {
            let (fork, path) = self.fork(engine, &name, at, rng.chance(150)).unwrap();
            (fork.base, path)
        };
        let mut shown = dir_image(&path);
        shown.retain(|path, _| path.0 != b".git" && !path.0.starts_with(b".git/"));
        let expected = self.test.project_image(&self.project, Some(&base.to_hex()));
        if shown != expected {
            let differs: Vec<_> = expected
                .iter()
                .filter(|(path, node)| shown.get(path) != Some(node))
                .map(|(path, _)| String::from_utf8_lossy(&path.0).into_owned())
                .chain(
                    shown
                        .keys()
                        .filter(|path| !expected.contains_key(path))
                        .map(|path| format!("+{}", String::from_utf8_lossy(&path.0))),
                )
                .collect();
            *self.wrong.lock().unwrap() =
                Some(format!("fork `{name}` of {base} differs at {differs:?}"));
        }
        let set = engine.sync.changes(&id).unwrap().set;
        assert!(set.changes.is_empty(), "{set:?}");
        self.forks.fetch_add(1, Ordering::Relaxed);
        engine.workspaces.delete_workspace(&id, &user()).unwrap();
    }

    fn collect(&self, rng: &mut Rng) {
        let engine = self.engines[rng.below(2)];
        let gone = engine.directories.collect_layers(Duration::ZERO).unwrap();
        self.collected.fetch_add(gone, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(rng.below(10) as u64));
    }
}

#[test]
fn forks_stay_true_to_their_base_among_builders_and_collectors() {
    let time = Duration::from_secs(if soak() { 120 } else { 4 });
    with_each(|test| {
        let other = crate::fixture::open(test.host.path(), test.provider);
        let project = test.project("web");
        let head = test
            .engine
            .projects
            .project(&project)
            .unwrap()
            .head
            .unwrap();
        let storm = Storm {
            engines: [&test.engine, &other],
            test: &test,
            project,
            snapshots: RwLock::new(vec![head]),
            names: AtomicUsize::new(0),
            forks: AtomicUsize::new(0),
            collected: AtomicU64::new(0),
            over: AtomicBool::new(false),
            wrong: Mutex::new(None),
        };
        let works: [fn(&Storm<'_>, &mut Rng); 5] = [
            |storm, rng| storm.publish(rng),
            |storm, rng| storm.look(rng),
            |storm, rng| storm.look(rng),
            |storm, rng| storm.look(rng),
            |storm, rng| storm.collect(rng),
        ];
        std::thread::scope(|scope| {
            let workers: Vec<_> = works
                .iter()
                .enumerate()
                .map(|(seed, work)| {
                    let storm = &storm;
                    scope.spawn(move || {
                        let mut rng = Rng::new(seed as u64);
                        while storm.goes_on() {
                            work(storm, &mut rng);
                        }
                    })
                })
                .collect();
            let started = Instant::now();
            while started.elapsed() < time
                && storm.goes_on()
                && !workers
                    .iter()
                    .any(std::thread::ScopedJoinHandle::is_finished)
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            storm.over.store(true, Ordering::Relaxed);
        });
        assert_eq!(*storm.wrong.lock().unwrap(), None);
        let collected = storm.collected.load(Ordering::Relaxed);
        assert!(collected > 0, "no layer was ever collected");
        println!(
            "soak: layers: {} forks with {} of {} snapshots, each as its base, while {collected} \
             layers were collected",
            storm.forks.load(Ordering::Relaxed),
            test.provider,
            storm.snapshots.read().unwrap().len(),
        );
        drop(other);
        test.check();
    });
}

fn layers(data: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(data.join("layers")).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// The killed process imports a directory, which ends with building its layer.
#[test]
fn child() {
    let Some(task) = task() else {
        return;
    };
    let engine = crate::fixture::open(&task.host, task.provider);
    say("ready");
    let options = ImportOptions::default();
    let project: ProjectId = task.words[0].parse().unwrap();
    let source = task.host.join("source");
    engine
        .projects
        .import_dir(&project, &source, &options, &mut |_| {}, &user())
        .unwrap();
    say("done");
}

#[test]
fn fork_kill_of_a_builder_leaves_no_layer_of_nobody() {
    let kills = if soak() { 30 } else { 3 };
    let host = HostDir::new();
    let source = host.path().join("source");
    for n in 0..3_000 {
        let dir = source.join((n / 100).to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(n.to_string()), format!("{n}\n")).unwrap();
    }
    let data = host.path().join("data");
    let mut caught = 0;
    for round in 0..kills * 4 {
        let child = Child::start(
            "fork_layers",
            &format!("p{round}"),
            host.path(),
            ProviderName::Copy,
        );
        let started = Instant::now();
        let is_building = || layers(&data).iter().any(|name| name.contains(".building-"));
        while !is_building() && started.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
        child.kill();
        caught += usize::from(is_building());
        // The next process, at once and without a clean-up.
        let engine = crate::fixture::open(host.path(), ProviderName::Copy);
        let left = layers(&data);
        assert!(left.is_empty(), "layers of nobody: {left:?}");
        let report = engine.upkeep.check().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        drop(engine);
        if caught >= kills {
            break;
        }
    }
    assert!(caught >= kills, "only {caught} of {kills} were at it");
    println!("soak: orphan layers: {caught} builders killed, nothing left of their layers");
}
