//! What a fetch sends, against what git says is reachable: in random histories with merges, with
//! clocks that run and clocks that jump.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::common::Git;
use offshoot_core::ObjectId;
use offshoot_git::{CommitGraph, FetchRequest, GitProtocol, GitRepository, UploadPack};

/// Pseudo-random numbers from a fixed seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

const COMMITS: usize = 60;

/// A history of which every commit has a branch. Gives the ids in the order they were made.
pub(crate) fn history(git: &Git, dice: &mut Dice, clock_jumps: bool) -> Vec<ObjectId> {
    let mut stream = String::new();
    for n in 1..=COMMITS {
        let time = match clock_jumps {
            true => 1_600_000_000 + dice.below(40_000_000),
            false => 1_600_000_000 + n * 1000,
        };
        writeln!(stream, "commit refs/heads/c{n}\nmark :{n}").unwrap();
        writeln!(stream, "committer Bob <bob@example.com> {time} +0000").unwrap();
        writeln!(stream, "data 1\nx").unwrap();
        if n > 1 && dice.below(20) > 0 {
            let first = n - 1 - dice.below(3.min(n - 1));
            writeln!(stream, "from :{first}").unwrap();
            if dice.below(3) == 0 {
                let second = 1 + dice.below(n - 1);
                if second != first {
                    writeln!(stream, "merge :{second}").unwrap();
                }
            }
        }
        for _ in 0..1 + dice.below(3) {
            let path = format!("d{}/e{}/f{}", dice.below(3), dice.below(3), dice.below(4));
            match dice.below(5) {
                0 => writeln!(stream, "D {path}").unwrap(),
                _ => {
                    let text = format!("{}", dice.below(60));
                    writeln!(
                        stream,
                        "M 100644 inline {path}\ndata {}\n{text}",
                        text.len()
                    )
                    .unwrap();
                }
            }
        }
        writeln!(stream).unwrap();
    }
    git.run(&["fast-import", "--quiet"], stream.as_bytes());
    let id = |n| git.text(&["rev-parse", &format!("refs/heads/c{n}")], b"");
    (1..=COMMITS).map(|n| id(n).parse().unwrap()).collect()
}

fn reachable(git: &Git, tips: &[ObjectId], what: &str) -> HashSet<ObjectId> {
    let mut args = vec!["rev-list".to_owned()];
    args.extend((what == "objects").then(|| "--objects".to_owned()));
    args.extend(tips.iter().map(ObjectId::to_string));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let listed = git.text(&args, b"");
    listed
        .lines()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn a_fetch_sends_what_is_missing_and_little_else() {
    for seed in 1..=8u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let clock_jumps = seed % 2 == 0;
        let git = Git::init();
        let ids = history(&git, &mut dice, clock_jumps);
        let repository = GitRepository::open(git.path()).unwrap();
        for _ in 0..12 {
            let want = ids[COMMITS / 2 + dice.below(COMMITS / 2)];
            let haves: Vec<ObjectId> = (0..dice.below(4))
                .map(|_| ids[dice.below(COMMITS)])
                .collect();
            let mut commits = CommitGraph::new(&repository);
            let common = commits.reachable(&[want], &haves).unwrap();
            let wanted_commits = reachable(&git, &[want], "commits");
            if !clock_jumps {
                let known: HashSet<_> = haves
                    .iter()
                    .filter(|id| wanted_commits.contains(id))
                    .collect();
                assert_eq!(common.iter().collect::<HashSet<_>>(), known, "seed {seed}");
            }
            assert!(common.iter().all(|id| wanted_commits.contains(id)));
            let fetch = FetchRequest {
                wants: vec![want],
                common: common.clone(),
                ..FetchRequest::default()
            };
            let plan = commits.plan(&fetch).unwrap();
            let sent: HashSet<ObjectId> = plan.objects.iter().copied().collect();
            assert_eq!(sent.len(), plan.objects.len(), "each once");
            let all = reachable(&git, &[want], "objects");
            assert!(sent.is_subset(&all));
            let theirs = match common.is_empty() {
                true => HashSet::new(),
                false => reachable(&git, &common, "objects"),
            };
            let missing: HashSet<_> = all.difference(&theirs).copied().collect();
            assert!(
                missing.is_subset(&sent),
                "seed {seed}: something is not sent"
            );
            if !clock_jumps {
                let sent_commits = sent.intersection(&wanted_commits).count();
                let missing_commits = missing.intersection(&wanted_commits).count();
                assert_eq!(sent_commits, missing_commits, "seed {seed}");
            }
            assert!(plan.shallow.is_empty() && plan.unshallow.is_empty());
        }
    }
}

#[test]
fn two_histories_meet_where_git_says() {
    for seed in 1..=8u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let clock_jumps = seed % 2 == 0;
        let git = Git::init();
        let ids = history(&git, &mut dice, clock_jumps);
        let repository = GitRepository::open(git.path()).unwrap();
        for _ in 0..20 {
            let (one, other) = (ids[dice.below(COMMITS)], ids[dice.below(COMMITS)]);
            let mut commits = CommitGraph::new(&repository);
            let found = commits.divergence(one, other).unwrap();
            let (hex, other_hex) = (one.to_hex(), other.to_hex());
            let apart = format!("{hex}...{other_hex}");
            let listed = git.text(&["rev-list", "--left-right", "--count", &apart], b"");
            let told = (found.one, found.other);
            let counts: Vec<usize> = listed.split('\t').map(|n| n.parse().unwrap()).collect();
            if clock_jumps {
                assert!(told.0 >= counts[0] && told.1 >= counts[1], "seed {seed}");
            } else {
                assert_eq!(told, (counts[0], counts[1]), "seed {seed}: {apart}");
            }
            // git fails where there is no base.
            let common = reachable(&git, &[one], "commits");
            let theirs = reachable(&git, &[other], "commits");
            let mut bases: Vec<ObjectId> = Vec::new();
            if common.intersection(&theirs).next().is_some() {
                let listed = git.text(&["merge-base", "--all", &hex, &other_hex], b"");
                bases = listed.lines().map(|id| id.parse().unwrap()).collect();
            }
            let mut met = found.bases.clone();
            met.sort();
            bases.sort();
            assert_eq!(met, bases, "seed {seed}: {apart}");
            let is_below = commits.is_ancestor(one, other).unwrap();
            assert_eq!(is_below, theirs.contains(&one), "seed {seed}: {apart}");
            assert_eq!(found.is_contained(one), is_below, "seed {seed}: {apart}");
        }
    }
}

/// libgit2 takes a newline after the id of a shallow commit for a part of the id.
#[test]
fn shallow_commits_are_told_without_a_newline() {
    let git = Git::init();
    let mut dice = Dice(7);
    let ids = history(&git, &mut dice, false);
    let head = *ids.last().unwrap();
    let repository = GitRepository::open(git.path()).unwrap();
    let upload = UploadPack {
        reader: &repository,
        head: Some(head),
        branch: "refs/heads/main",
        refs: &[],
    };
    let packet = |line: String| format!("{:04x}{line}\n", line.len() + 5);
    let asked = format!("want {head} shallow side-band-64k");
    let v0 = packet(asked) + &packet("deepen 1".to_owned()) + "0000" + &packet("done".to_owned());
    let v2 = packet("command=fetch".to_owned())
        + "0001"
        + &packet(format!("want {head}"))
        + &packet("deepen 1".to_owned())
        + &packet("done".to_owned())
        + "0000";
    for (version, request) in [(GitProtocol::V0, v0), (GitProtocol::V2, v2)] {
        let mut answer = Vec::new();
        upload
            .answer(version, request.as_bytes(), &mut answer)
            .unwrap();
        let wanted = format!("0034shallow {head}000");
        let there = answer
            .windows(wanted.len())
            .any(|bytes| bytes == wanted.as_bytes());
        assert!(there, "{version:?}: {}", String::from_utf8_lossy(&answer));
    }
}
