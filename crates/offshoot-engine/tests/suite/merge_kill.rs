//! `kill -9` in the middle of large merges, and two processes that merge into one project at once.

use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fixture::child::{Child, Task, say, task};
use crate::fixture::{TestEngine, open, p, user, working};
use offshoot_core::{ProjectId, WorkspaceId};
use offshoot_engine::{CompleteOptions, Completed, Resolution};
use offshoot_fs::ProviderName;
use offshoot_testkit::{HostDir, Rng, soak, wait_until};

const LIMIT: Duration = Duration::from_secs(120);
/// Files that both sides change in every second large merge. The other merges end with the removal
/// of the fork, so that kills also hit that.
const CONFLICTS: usize = 3;

#[test]
fn child() {
    if let Some(task) = task() {
        complete_what_is_asked_for(&task);
    }
}

/// Completes the workspaces whose names it reads, and prints the outcome of each.
fn complete_what_is_asked_for(task: &Task) {
    let engine = open(&task.host, task.provider);
    say("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let id: WorkspaceId = line.parse().unwrap();
        say("begin");
        let options = CompleteOptions::default();
        let answer = engine.merges.complete(&id, &options, &user());
        say(&match answer {
            Ok(done) => format!("done {} {}", done.merged.len(), done.conflicts.len()),
            Err(error) => format!("failed {error:?}"),
        });
    }
}

fn best_provider() -> ProviderName {
    let place = HostDir::new();
    working(place.path())[0]
}

/// A project of many files, all of which one fork after the other changes.
struct Large {
    test: TestEngine,
    project: ProjectId,
    files: usize,
    round: usize,
}

impl Large {
    fn new(files: usize) -> Large {
        let test = TestEngine::new(best_provider());
        let project = test.project("web");
        let (first, path) = test.fork(&project, "first");
        let large = Large {
            test,
            project,
            files,
            round: 0,
        };
        large.write_files(&path, "round 0\n");
        for number in 0..CONFLICTS {
            fs::write(path.join(format!("both{number}")), "base\n").unwrap();
        }
        large.complete(&first);
        large
    }

    /// Half of the files exist in every round, the others are new in this one.
    fn write_files(&self, root: &Path, text: &str) {
        for number in 0..self.files {
            let dir = if number % 2 == 0 {
                format!("old/{}", number % 10)
            } else {
                format!("new{}/{}", self.round, number % 10)
            };
            fs::create_dir_all(root.join(&dir)).unwrap();
            fs::write(root.join(dir).join(number.to_string()), text).unwrap();
        }
    }

    fn complete(&self, id: &WorkspaceId) -> Completed {
        self.test
            .engine
            .merges
            .complete(id, &CompleteOptions::default(), &user())
            .unwrap()
    }

    /// How many conflicts the merge of this round has.
    fn conflicts(&self) -> usize {
        CONFLICTS * (self.round % 2)
    }

    /// A fork that changed all files, some of them in conflict with the project.
    fn prepare(&mut self) -> WorkspaceId {
        self.round += 1;
        let (id, path) = self
            .test
            .fork(&self.project, &format!("agent{}", self.round));
        self.write_files(&path, &format!("round {}\n", self.round));
        for number in 0..self.conflicts() {
            let name = format!("both{number}");
            fs::write(path.join(&name), format!("theirs {}\n", self.round)).unwrap();
            self.test
                .put(&self.project, &name, &format!("ours {}\n", self.round));
        }
        self.test.engine.context.wait_for_jobs();
        id
    }

    /// Whether the merge of this round is in the project. Either all of it is or nothing.
    fn is_merged(&self) -> bool {
        let image = self.test.project_image(&self.project, None);
        let text = format!("round {}\n", self.round).into_bytes();
        let is_of_round = |node: &offshoot_testkit::Node| matches!(node, offshoot_testkit::Node::File(_, bytes) if *bytes == text);
        let there = image.values().filter(|node| is_of_round(node)).count();
        assert!(
            there == 0 || there == self.files,
            "{there} of {} files are merged",
            self.files
        );
        there > 0
    }

    fn check_reviews(&self, merged: bool) {
        let reviews = self
            .test
            .engine
            .merges
            .reviews(Some(&self.project), false)
            .unwrap();
        assert_eq!(reviews.len(), if merged { self.conflicts() } else { 0 });
        for review in reviews {
            let content = |id: Option<_>| {
                String::from_utf8(
                    self.test
                        .engine
                        .workspaces
                        .content_of(&id.unwrap())
                        .unwrap(),
                )
                .unwrap()
            };
            assert_eq!(content(review.ours), format!("ours {}\n", self.round));
            assert_eq!(content(review.theirs), format!("theirs {}\n", self.round));
            assert!(review.base.is_some());
            assert_eq!(review.workspace, format!("agent{}", self.round));
        }
    }

    /// Decides every review, which removes the fork.
    fn resolve_all(&self, id: &WorkspaceId) {
        for review in self
            .test
            .engine
            .merges
            .reviews(Some(&self.project), false)
            .unwrap()
        {
            let done = self
                .test
                .engine
                .merges
                .resolve(&review.id, Resolution::Theirs, &user());
            done.unwrap();
        }
        self.test.engine.context.wait_for_jobs();
        assert!(
            self.test.engine.workspaces.workspace(id).is_err(),
            "the fork went"
        );
        for number in 0..self.conflicts() {
            let text = self
                .test
                .project_text(&self.project, &format!("both{number}"));
            assert_eq!(text, format!("theirs {}\n", self.round));
        }
    }
}

/// Starts a child, lets it complete a workspace and kills it after a delay. Returns whether it was
/// still running.
fn kill_in_the_middle(large: &Large, id: &WorkspaceId, after: Duration) -> bool {
    let host = large.test.host.path();
    let mut child = Child::start("merge_kill", "complete", host, large.test.provider);
    assert_eq!(child.hear(LIMIT).unwrap(), "ready");
    child.tell(id.as_str());
    assert_eq!(child.hear(LIMIT).unwrap(), "begin");
    std::thread::sleep(after);
    let said = child.kill();
    assert!(
        said.iter().all(|line| !line.starts_with("failed")),
        "{said:?}"
    );
    said.is_empty()
}

/// How long a child needs without a kill, so that kills are spread over that time.
fn time_of_a_merge(large: &mut Large) -> Duration {
    let id = large.prepare();
    let mut child = Child::start(
        "merge_kill",
        "complete",
        large.test.host.path(),
        large.test.provider,
    );
    assert_eq!(child.hear(LIMIT).unwrap(), "ready");
    child.tell(id.as_str());
    assert_eq!(child.hear(LIMIT).unwrap(), "begin");
    let started = Instant::now();
    assert!(child.hear(LIMIT).unwrap().starts_with("done"));
    let took = started.elapsed();
    child.end();
    large.test.reopen();
    large.resolve_all(&id);
    took
}

#[test]
fn merge_kill_in_the_middle_of_large_merges() {
    let (kills, files) = if soak() { (300, 1_000) } else { (10, 100) };
    let mut large = Large::new(files);
    let mut rng = Rng::new(3);
    let mut whole = time_of_a_merge(&mut large);
    let (mut caught, mut landed) = (0, 0);
    let mut rounds = 0;
    while caught < kills {
        // The checks after each kill grow with every merge, so the project is replaced now and
        // then.
        rounds += 1;
        if rounds % 10 == 0 {
            large = Large::new(files);
        }
        let id = large.prepare();
        // Landing is at the end, so the second half gets most of the kills.
        let micros = whole.as_micros() as usize;
        let from = if rng.chance(700) { micros / 2 } else { 0 };
        let after = Duration::from_micros(rng.between(from, micros) as u64);
        let alive = kill_in_the_middle(&large, &id, after);
        caught += usize::from(alive);
        // Adapts to how long a merge takes on this machine right now.
        whole = if alive {
            whole * 103 / 100
        } else {
            (whole * 9 / 10).max(Duration::from_millis(1))
        };
        large.test.reopen();
        let merged = large.is_merged();
        assert!(merged || alive, "an acknowledged merge is not there");
        landed += usize::from(merged && alive);
        large.check_reviews(merged);
        large.test.check();
        let done = large.complete(&id);
        assert_eq!(
            (done.merged.len(), done.conflicts.len()),
            (files, large.conflicts())
        );
        assert!(large.is_merged());
        large.check_reviews(true);
        assert_eq!(large.complete(&id), done, "completing again");
        large.resolve_all(&id);
    }
    large.test.check();
    // Otherwise kills were always too early or always too late to show anything.
    assert!(
        !soak() || (landed > 0 && landed < caught),
        "{landed} landed"
    );
    println!(
        "soak: merge-kill: {caught} kills in merges of {files} files: {landed} after it had landed, {} before; nothing in between, {CONFLICTS} reviews in every second one, check clean",
        caught - landed
    );
}

/// How long the data directory takes to open.
fn time_to_open(host: &Path, provider: ProviderName) -> Duration {
    let started = Instant::now();
    let engine = open(host, provider);
    let took = started.elapsed();
    drop(engine);
    took
}

/// Kills a merge of many files after it has recorded the fork, and again after it has landed while
/// it publishes the layer and removes the fork. Returns how long the next process took to open the
/// data directory each time.
fn starts_after_kills(files: usize) -> [Duration; 2] {
    let mut large = Large::new(1);
    let (id, path) = large.test.fork(&large.project, "many");
    for number in 0..files {
        let dir = path.join(format!("many/{}", number % 100));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(number.to_string()), format!("{number}\n")).unwrap();
    }
    large.test.engine.context.wait_for_jobs();
    let files = files as i64;
    let begin = |large: &Large| {
        let mut child = Child::start(
            "merge_kill",
            "complete",
            large.test.host.path(),
            large.test.provider,
        );
        assert_eq!(child.hear(LIMIT).unwrap(), "ready");
        child.tell(id.as_str());
        child
    };
    let child = begin(&large);
    let recorded =
        |large: &Large| large.test.engine.workspaces.workspace(&id).unwrap().files > files;
    wait_until("the fork is recorded", || recorded(&large));
    child.kill();
    let after_record = time_to_open(large.test.host.path(), large.test.provider);
    let child = begin(&large);
    let is_open = |large: &Large| large.test.engine.workspaces.workspace(&id).is_ok();
    wait_until("the fork goes", || !is_open(&large));
    child.kill();
    let after_landing = time_to_open(large.test.host.path(), large.test.provider);
    let project = large.test.engine.projects.project(&large.project).unwrap();
    assert!(project.files > files, "{} files are merged", project.files);
    large.test.reopen();
    large.test.check();
    [after_record, after_landing]
}

#[test]
fn merge_kill_of_many_files_is_followed_by_a_quick_start() {
    let mut best = [Duration::MAX; 2];
    for _ in 0..3 {
        // The limit follows how long opening an empty data directory takes right now.
        let place = HostDir::new();
        let limit = Duration::from_millis(500) + 5 * time_to_open(place.path(), best_provider());
        let starts = starts_after_kills(10_000);
        println!("starts after kills: {starts:?}, limit {limit:?}");
        for (best, start) in best.iter_mut().zip(starts) {
            *best = start.min(*best);
        }
        if best.iter().all(|start| *start < limit) {
            return;
        }
    }
    panic!("it takes too long to start after a kill: {best:?}");
}

/// What two agents do to one file, and the expected outcome.
#[derive(Clone, Copy, Debug)]
enum Clash {
    /// Different files: both changes are merged.
    Apart,
    /// Different lines: both changes are merged.
    DifferentLines,
    /// The same line: one change is merged, the other waits.
    SameLine,
    /// The same change: it is merged.
    Equal,
}

#[test]
fn two_completers_of_one_project_lose_nothing() {
    let rounds = if soak() { 1_000 } else { 30 };
    let test = TestEngine::new(best_provider());
    let project = test.project("web");
    let host = test.host.path();
    let mut children = [0, 1].map(|_| Child::start("merge_kill", "complete", host, test.provider));
    for child in &children {
        assert_eq!(child.hear(LIMIT).unwrap(), "ready");
    }
    let mut rng = Rng::new(8);
    let mut waiting = 0;
    for round in 0..rounds {
        use Clash::{Apart, DifferentLines, Equal, SameLine};
        let clash = *rng.pick(&[Apart, DifferentLines, SameLine, SameLine, Equal]);
        let file = format!("f{round}");
        test.put(&project, &file, "a\nb\nc\nd\ne\nf\n");
        let forks = [0, 1].map(|side| {
            let (id, path) = test.fork(&project, &format!("agent{round}-{side}"));
            fs::write(path.join(format!("own{round}-{side}")), "own\n").unwrap();
            let text = match (clash, side) {
                (Apart, _) => None,
                (Equal, _) => Some("a\nEQUAL\nc\nd\ne\nf\n"),
                (SameLine, 0) => Some("a\nb\nc\nd\ne\nZERO\n"),
                (DifferentLines, 0) => Some("ZERO\nb\nc\nd\ne\nf\n"),
                _ => Some("a\nb\nc\nd\ne\nONE\n"),
            };
            if let Some(text) = text {
                fs::write(path.join(&file), text).unwrap();
            }
            id
        });
        for (child, id) in children.iter_mut().zip(&forks) {
            child.tell(id.as_str());
        }
        let mut conflicts = 0;
        for child in &children {
            assert_eq!(child.hear(LIMIT).unwrap(), "begin");
            let answer = child.hear(LIMIT).unwrap();
            let words: Vec<&str> = answer.split(' ').collect();
            assert_eq!(words[0], "done", "{answer}");
            conflicts += words[2].parse::<usize>().unwrap();
        }
        let now = test.project_text(&project, &file);
        let (expected, lost): (&[&str], _) = match clash {
            Apart => (&["a\nb\nc\nd\ne\nf\n"], 0),
            DifferentLines => (&["ZERO\nb\nc\nd\ne\nONE\n"], 0),
            Equal => (&["a\nEQUAL\nc\nd\ne\nf\n"], 0),
            SameLine => (&["a\nb\nc\nd\ne\nZERO\n", "a\nb\nc\nd\ne\nONE\n"], 1),
        };
        assert!(expected.contains(&now.as_str()), "round {round}: {now:?}");
        assert_eq!(conflicts, lost, "round {round}, {clash:?}");
        for side in 0..2 {
            let own = test.project_text(&project, &format!("own{round}-{side}"));
            assert_eq!(own, "own\n");
        }
        if lost == 1 {
            waiting += 1;
            let reviews = test.engine.merges.reviews(Some(&project), false).unwrap();
            let review = reviews.iter().find(|one| one.path == p(&file)).unwrap();
            let theirs = test
                .engine
                .workspaces
                .content_of(&review.theirs.unwrap())
                .unwrap();
            let ours = test
                .engine
                .workspaces
                .content_of(&review.ours.unwrap())
                .unwrap();
            assert_eq!(ours, now.as_bytes());
            assert!(theirs != ours && expected.contains(&std::str::from_utf8(&theirs).unwrap()));
            test.engine
                .merges
                .resolve(&review.id, Resolution::Theirs, &user())
                .unwrap();
            assert_eq!(test.project_text(&project, &file).as_bytes(), theirs);
        }
    }
    children.into_iter().for_each(Child::end);
    test.check();
    assert!(waiting > 0);
    println!(
        "soak: two-completers: {rounds} rounds by two processes, {waiting} conflicts, every one in a review; nothing lost, check clean"
    );
}
