//! Blame through commits that came with an import, as `git blame` does it: into every parent.
//!
//! A line belongs to a commit if none of the parents has it. It is looked for in the parents in
//! their order; a parent that has the very same file gets all lines. A file that is not at its path
//! in a parent is looked for under another name there with the same content. What git finds beyond
//! that, renames with changes in the same commit, is not followed.

use std::collections::{BinaryHeap, HashMap};

use offshoot_core::{EMPTY_TREE, EntryKind, GitMode, ObjectId, RelPath, Result, cancel};
use offshoot_git::{Commit, EntryRef, ObjectReader, read_commit};
use offshoot_merge::{Limits, blamed_lines, lines};

use crate::content::state::State;
use crate::history::blame::Tracer;

/// A file at a commit: its place in the queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Suspect {
    /// Newer commits come first, so that each is looked at once.
    time: i64,
    commit: ObjectId,
    path: RelPath,
}

/// A line: its number in the file of a suspect, and in the file that is blamed.
type SuspectLine = (usize, usize);

/// Lines whose commit is not known yet.
#[derive(Default)]
struct Suspects {
    queue: BinaryHeap<Suspect>,
    lines: HashMap<(ObjectId, RelPath), Vec<SuspectLine>>,
}

impl Suspects {
    fn add(&mut self, suspect: Suspect, lines: Vec<SuspectLine>) {
        let key = (suspect.commit, suspect.path.clone());
        let known = self.lines.entry(key).or_default();
        if known.is_empty() {
            self.queue.push(suspect);
        }
        known.extend(lines);
    }
}

/// A parent that has the file, perhaps under another name.
struct Source {
    suspect: Suspect,
    content: ObjectId,
}

impl Tracer<'_> {
    /// The commit that each line of a file at a commit comes from.
    pub(crate) fn blame_commits(
        &self,
        commit: ObjectId,
        path: &RelPath,
        content: &ObjectId,
    ) -> Result<Vec<ObjectId>> {
        let count = self.text(content)?.map_or(0, |text| lines(&text).len());
        let mut blamed = vec![commit; count];
        let mut suspects = Suspects::default();
        let start = Suspect {
            time: read_commit(&self.objects, &commit)?.committer.seconds(),
            commit,
            path: path.clone(),
        };
        suspects.add(start, (0..count).map(|line| (line, line)).collect());
        while let Some(suspect) = suspects.queue.pop() {
            cancel::check()?;
            let key = (suspect.commit, suspect.path.clone());
            let open = suspects.lines.remove(&key).unwrap_or_default();
            let left = self.pass_to_parents(&suspect, open, &mut suspects)?;
            for (_, line) in left {
                blamed[line] = suspect.commit;
            }
        }
        Ok(blamed)
    }

    /// Gives the lines of a suspect to the parents that have them. Returns those that none has.
    fn pass_to_parents(
        &self,
        suspect: &Suspect,
        mut open: Vec<SuspectLine>,
        suspects: &mut Suspects,
    ) -> Result<Vec<SuspectLine>> {
        let commit = read_commit(&self.objects, &suspect.commit)?;
        let Some(content) = self.file_in(&commit, &suspect.path)? else {
            return Ok(open);
        };
        let mut parents = Vec::new();
        for id in &commit.parents {
            // Those of a shallow history may be missing.
            if self.objects.read(id)?.is_some() {
                parents.push((*id, read_commit(&self.objects, id)?));
            }
        }
        let mut sources: Vec<Option<Source>> = Vec::with_capacity(parents.len());
        for (id, parent) in &parents {
            let there = self.file_in(parent, &suspect.path)?;
            sources.push(there.map(|content| source(*id, parent, &suspect.path, content)));
        }
        let is_same = |one: &&Source| one.content == content;
        if let Some(same) = sources.iter().flatten().find(is_same) {
            suspects.add(same.suspect.clone(), open);
            return Ok(Vec::new());
        }
        for (number, (id, parent)) in parents.iter().enumerate() {
            if sources[number].is_none()
                && let Some(path) = self.renamed_from(parent, &commit, content)?
            {
                suspects.add(source(*id, parent, &path, content).suspect, open);
                return Ok(Vec::new());
            }
        }
        let Some(text) = self.text(&content)? else {
            return Ok(open);
        };
        let mut compared: Vec<ObjectId> = Vec::new();
        for source in sources.into_iter().flatten() {
            if compared.contains(&source.content) {
                continue;
            }
            compared.push(source.content);
            let Some(before) = self.text(&source.content)? else {
                continue;
            };
            let runs = blamed_lines(&before, &text, &Limits::default());
            let in_parent = |line: usize| {
                let run = runs.partition_point(|run| run.after + run.len <= line);
                let run = runs.get(run).filter(|run| run.after <= line);
                run.map(|run| run.before + line - run.after)
            };
            let mut passed = Vec::new();
            open.retain(|(here, line)| match in_parent(*here) {
                Some(there) => {
                    passed.push((there, *line));
                    false
                }
                None => true,
            });
            if !passed.is_empty() {
                suspects.add(source.suspect, passed);
            }
        }
        Ok(open)
    }

    /// The content of a file in a commit; none if there is no file.
    fn file_in(&self, commit: &Commit, path: &RelPath) -> Result<Option<ObjectId>> {
        let state = State {
            tree: commit.tree,
            sidecar: EMPTY_TREE,
        };
        let entry = state.entry(&self.objects, path)?;
        Ok(entry
            .filter(|entry| entry.kind == EntryKind::File)
            .and_then(|entry| entry.id))
    }

    /// The file of a parent that the commit does not have any more and that has this content.
    fn renamed_from(
        &self,
        parent: &Commit,
        commit: &Commit,
        content: ObjectId,
    ) -> Result<Option<RelPath>> {
        let mut found = None;
        let (old, new) = (parent.tree, commit.tree);
        offshoot_git::diff(&self.objects, old, new, |path, before, after| {
            let is_it = |one: EntryRef<'_>| {
                one.id == content && matches!(one.git_mode(), Some(GitMode::File | GitMode::Exec))
            };
            if found.is_none() && after.is_none() && before.is_some_and(is_it) {
                found = Some(path);
            }
            Ok(())
        })?;
        Ok(found)
    }
}

fn source(id: ObjectId, commit: &Commit, path: &RelPath, content: ObjectId) -> Source {
    Source {
        suspect: Suspect {
            time: commit.committer.seconds(),
            commit: id,
            path: path.clone(),
        },
        content,
    }
}
