//! Completing many forks beside `git merge` and `git merge-tree`.

use std::path::Path;

use offshoot_core::{Cause, Operator, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_engine::{CompleteOptions, Content, Engine, ForkOptions, WriteOptions};

use super::figures::{Figure, Figures, Goal, own_memory, timed};
use super::image::{BenchDir, failed, sync_disk};
use super::{forks, peers, smallest_and_largest, tree};

const FORKS: usize = 100;
const COMPLETE: &str = "100 forks of 10 files each, completed";

fn cause() -> Cause {
    Cause::by(Operator::new("bench"))
}

/// Files of the n-th fork: no two forks have one in common.
fn files_of(fork: usize, files: usize) -> impl Iterator<Item = usize> {
    (0..10).map(move |i| (fork * 10 + i) % files)
}

/// Measures merges into a project of so many files.
pub(crate) fn run(
    place: &BenchDir,
    files: usize,
    with_git: bool,
    progress: &dyn Fn(&str),
    figures: &mut Figures,
) -> Result<()> {
    let root = place.dir().join(format!("merges-{files}"));
    progress(&format!("merges into {files} files"));
    let (engine, project) = forks::project(&root, files)?;
    let mut ids = Vec::new();
    for fork in 0..FORKS {
        let id = fork_with(&engine, &project, fork, &mut |write| {
            for n in files_of(fork, files) {
                write(&tree::file_path(n), &tree::content(n, 1))?;
            }
            Ok(())
        })?;
        ids.push(id);
    }
    sync_disk(&root)?;
    // From here on the most memory is counted anew.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = own_memory("VmRSS:");
    let (clean, ours) = timed(|| complete_all(&engine, &ids))?;
    let more = own_memory("VmHWM:")
        .zip(before)
        .map(|(most, before)| most - before);
    let mut add = |name: &str, ours: f64, peer_name: &str, peer: f64, unit, goal| {
        figures.add(Figure {
            name: name.to_owned(),
            files,
            ours,
            peer_name: peer_name.to_owned(),
            peer,
            unit,
            goal,
        });
    };
    add(
        "forks that merged clean",
        clean as f64,
        "all",
        FORKS as f64,
        "",
        Goal::AtLeast(1.0),
    );
    if let Some(more) = more {
        let name = "memory that this takes beyond what was in use";
        add(name, more, "limit", 64.0, "MiB", Goal::AtMost(1.0));
    }
    if !with_git {
        add(COMPLETE, ours, "(no peer)", ours, "ms", Goal::None);
        return Ok(());
    }
    progress(&format!("git merges into {files} files"));
    let git = root.join("git");
    branches(&git, &root.join("src"), files)?;
    sync_disk(&root)?;
    let (_, merge_tree) = timed(|| merge_trees(&git))?;
    let (_, merges) = timed(|| {
        peers::git(&git, &["checkout", "-q", "main"])?;
        (0..FORKS).try_for_each(|fork| {
            peers::git(&git, &["merge", "-q", "--no-edit", &format!("b{fork}")])
        })
    })?;
    let goal = match files {
        10_000.. => Goal::AtMost(0.1),
        _ => Goal::None,
    };
    add(COMPLETE, ours, "git merge", merges, "ms", goal);
    add(
        COMPLETE,
        ours,
        "git merge-tree + commit-tree",
        merge_tree,
        "ms",
        Goal::AtMost(1.0),
    );
    Ok(())
}

/// How the time of the completions grows with the project.
pub(crate) fn growth(files: &[usize], figures: &mut Figures) {
    let of = |files: usize| {
        let mut found = figures.list.iter();
        found
            .find(|figure| figure.name == COMPLETE && figure.files == files)
            .map(|figure| figure.ours)
    };
    let Some((small, large)) = smallest_and_largest(files) else {
        return;
    };
    let (Some(small), Some(large)) = (of(small), of(large)) else {
        return;
    };
    let name = format!("{COMPLETE}, the largest against the smallest");
    figures.add_millis(0, &name, large, "the smallest", small, Goal::AtMost(1.3));
}

/// A hundred agents edit one JSON file, each at its own key: how many of them merge clean.
pub(crate) fn json(place: &BenchDir, progress: &dyn Fn(&str), figures: &mut Figures) -> Result<()> {
    progress("100 agents on one JSON file");
    let root = place.dir().join("merges-json");
    let (engine, project) = forks::project(&root, 10)?;
    let document = |changed: Option<usize>| {
        let member = |key: usize| {
            let value = if changed == Some(key) {
                "changed"
            } else {
                "old"
            };
            format!("  \"key{key}\": \"{value}\"")
        };
        let members: Vec<String> = (0..FORKS).map(member).collect();
        format!("{{\n{}\n}}\n", members.join(",\n"))
    };
    let path = RelPath::parse(b"settings.json")?;
    engine.projects.put_in_project(
        &project,
        &path,
        Content::Bytes(document(None).as_bytes()),
        &WriteOptions::default(),
        &cause(),
    )?;
    let mut ids = Vec::new();
    for fork in 0..FORKS {
        let id = fork_with(&engine, &project, fork, &mut |write| {
            write(Path::new("settings.json"), document(Some(fork)).as_bytes())
        })?;
        ids.push(id);
    }
    let clean = complete_all(&engine, &ids)?;
    figures.add(Figure {
        name: "agents on one JSON file that merged clean".to_owned(),
        files: 0,
        ours: clean as f64,
        peer_name: "all".to_owned(),
        peer: FORKS as f64,
        unit: "",
        goal: Goal::AtLeast(1.0),
    });
    Ok(())
}

type Write<'a> = &'a mut dyn FnMut(&Path, &[u8]) -> Result<()>;

fn fork_with(
    engine: &Engine,
    project: &ProjectId,
    fork: usize,
    fill: &mut dyn FnMut(Write<'_>) -> Result<()>,
) -> Result<WorkspaceId> {
    let id: WorkspaceId = format!("agent-{fork}").parse()?;
    let options = ForkOptions {
        id: Some(id.clone()),
        ..ForkOptions::default()
    };
    engine.forks.fork(project, &options, &cause())?;
    fill(&mut |path, bytes| {
        let path = RelPath::parse(path.as_os_str().as_encoded_bytes())?;
        let options = WriteOptions::default();
        engine
            .workspaces
            .write_file(&id, &path, Content::Bytes(bytes), &options, &cause())
            .map(drop)
    })?;
    Ok(id)
}

/// Completes one after the other. Returns how many merged without a conflict.
fn complete_all(engine: &Engine, ids: &[WorkspaceId]) -> Result<usize> {
    let mut clean = 0;
    for id in ids {
        let done = engine
            .merges
            .complete(id, &CompleteOptions::default(), &cause())?;
        clean += usize::from(done.conflicts.is_empty());
    }
    Ok(clean)
}

/// A repository with one branch for each fork.
fn branches(git: &Path, source: &Path, files: usize) -> Result<()> {
    std::fs::rename(source, git).map_err(|cause| failed("move a tree", cause))?;
    peers::git(git, &["init", "-q", "-b", "main"])?;
    peers::git_commit(git)?;
    for fork in 0..FORKS {
        peers::git(git, &["checkout", "-q", "-b", &format!("b{fork}"), "main"])?;
        for n in files_of(fork, files) {
            tree::write_file(git, n, 1)?;
        }
        peers::git_commit(git)?;
    }
    peers::git(git, &["checkout", "-q", "main"])
}

/// Merges every branch without a work tree, as a server does it.
fn merge_trees(git: &Path) -> Result<()> {
    let mut head = peers::git_output(git, &["rev-parse", "main"])?;
    for fork in 0..FORKS {
        let branch = format!("b{fork}");
        let tree = peers::git_output(git, &["merge-tree", "--write-tree", &head, &branch])?;
        let args = [
            "commit-tree",
            &tree,
            "-p",
            &head,
            "-p",
            &branch,
            "-m",
            "merge",
        ];
        head = peers::git_output(git, &args)?;
    }
    peers::git(git, &["update-ref", "refs/heads/merged", &head])
}
