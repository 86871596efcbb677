//! Commits that somebody made and nobody has checked: which of them can be taken into a history.
//!
//! A commit is taken if all that it comes from is known or taken, and if all that it names beyond
//! that is there and passes the checks of `git fsck --strict`. What it names must be there itself:
//! a store that many share may hold an object that whoever made the commit must not read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use offshoot_core::{EMPTY_TREE, Error, ErrorCode, GitMode, MAX_DEPTH, ObjectId, Result, cancel};

use crate::commit::{Commit, SIDECAR_HEADER};
use crate::dotgit::{has_rules_for_content, refuses_content};
use crate::fsck::{check_commit, check_tree};
use crate::object::{Kind, ObjectReader};
use crate::tree::{EntryRef, Tree, read_tree};

/// Objects, and what each is.
type Objects = HashMap<ObjectId, Kind>;

const SUBMODULE: u32 = GitMode::Commit as u32;
const SYMLINK: u32 = GitMode::Symlink as u32;
/// The longest target of a link that git takes.
const MAX_LINK: usize = 4096;
/// The largest commit.
const MAX_COMMIT: usize = 1 << 20;
/// The most parents of a commit: each is compared with it.
const MAX_PARENTS: usize = 64;
const TOO_LATE: &str = "it takes too long to look at all of it";

/// Where the histories meet, and how much is looked at.
pub struct NewCommits<'a> {
    /// Has what whoever made the commits had, and nothing else.
    pub own: &'a dyn ObjectReader,
    /// Has the known commits and what they hold.
    pub known: &'a dyn ObjectReader,
    /// Whether a commit is part of the history already.
    pub is_known: &'a dyn Fn(&ObjectId) -> Result<bool>,
    /// The most commits that are taken.
    pub most_commits: usize,
    /// The most objects that are taken.
    pub most_objects: usize,
    /// When it is given up.
    pub until: Instant,
}

/// Commits that can be taken.
#[derive(Debug, Default)]
pub struct TakenCommits {
    /// The commits, each after its parents.
    pub commits: Vec<ObjectId>,
    /// Those that none of the others comes from, and that lead to a known commit.
    pub tips: Vec<ObjectId>,
    /// All that is new: the commits and what they hold. There may be more than the tips reach.
    pub objects: Vec<ObjectId>,
    /// Commits that cannot be taken, and why.
    pub refused: Vec<(ObjectId, String)>,
}

/// What is held of a commit. Its message may be long.
#[derive(Clone)]
struct Node {
    tree: ObjectId,
    parents: Vec<ObjectId>,
}

/// A commit that was looked at.
struct Taken {
    commit: Node,
    /// Whether it leads to a known commit.
    is_rooted: bool,
}

/// An entry of a tree that has to be looked at: what it is, and what stands there before.
struct Open {
    tree: ObjectId,
    bases: Vec<ObjectId>,
    depth: usize,
}

impl NewCommits<'_> {
    /// Looks at all commits that the tips reach and that are not known.
    pub fn take(&self, tips: &[ObjectId]) -> Result<TakenCommits> {
        let mut done = TakenCommits::default();
        let mut taken: HashMap<ObjectId, Taken> = HashMap::new();
        let mut refused: HashSet<ObjectId> = HashSet::new();
        let mut seen: Objects = HashMap::new();
        let mut read: HashMap<ObjectId, Node> = HashMap::new();
        let mut known: HashMap<ObjectId, bool> = HashMap::new();
        // Each commit comes twice: to find its parents, and when those are done.
        let mut stack: Vec<(ObjectId, bool)> = tips.iter().map(|id| (*id, false)).collect();
        while let Some((id, parents_done)) = stack.pop() {
            cancel::check()?;
            if self.is_too_late() {
                return Ok(nothing(id, TOO_LATE));
            }
            if !parents_done {
                if known.contains_key(&id) {
                    continue;
                }
                let is_known = (self.is_known)(&id)?;
                known.insert(id, is_known);
                if is_known {
                    continue;
                }
                if known.len() > self.most_commits {
                    let most = self.most_commits;
                    return Ok(nothing(
                        id,
                        &format!("there are more than {most} new commits"),
                    ));
                }
                match self.read_commit(&id)? {
                    Ok(commit) => {
                        stack.push((id, true));
                        stack.extend(commit.parents.iter().map(|parent| (*parent, false)));
                        read.insert(id, commit);
                    }
                    Err((why, parents)) => {
                        refused.insert(id);
                        done.refused.push((id, why));
                        // What it comes from may be good all the same.
                        stack.extend(parents.into_iter().map(|parent| (parent, false)));
                    }
                }
                continue;
            }
            let Some(commit) = read.get(&id).cloned() else {
                continue;
            };
            if commit.parents.iter().any(|id| refused.contains(id)) {
                refused.insert(id);
                done.refused
                    .push((id, "a commit that it comes from was left out".to_owned()));
                continue;
            }
            let left = self.most_objects.saturating_sub(done.objects.len());
            match self.new_objects(&commit, &taken, &seen, left)? {
                Err(why) => {
                    refused.insert(id);
                    done.refused.push((id, why));
                }
                Ok(new) => {
                    done.objects.push(id);
                    done.objects.extend(new.keys());
                    seen.extend(new);
                    done.commits.push(id);
                    let leads = |parent: &ObjectId| {
                        known.get(parent) == Some(&true)
                            || taken.get(parent).is_some_and(|one| one.is_rooted)
                    };
                    let is_rooted = commit.parents.iter().any(leads);
                    taken.insert(id, Taken { commit, is_rooted });
                }
            }
        }
        self.choose_tips(&taken, &mut done);
        Ok(done)
    }

    /// The newest commits that lead to a known one. The others go: there is nothing that they grow
    /// out of.
    fn choose_tips(&self, taken: &HashMap<ObjectId, Taken>, done: &mut TakenCommits) {
        let parents = |one: &Taken| one.commit.parents.clone();
        let inner: HashSet<ObjectId> = taken.values().flat_map(parents).collect();
        let is_tip = |id: &&ObjectId| !inner.contains(*id);
        let (tips, lone): (Vec<ObjectId>, Vec<ObjectId>) = done
            .commits
            .iter()
            .filter(is_tip)
            .partition(|id| taken[*id].is_rooted);
        let mut reached: HashSet<ObjectId> = HashSet::new();
        let mut next = tips.clone();
        while let Some(id) = next.pop() {
            if let Some(one) = taken.get(&id)
                && reached.insert(id)
            {
                next.extend(&one.commit.parents);
            }
        }
        done.commits.retain(|id| reached.contains(id));
        let why = "it does not come from what the fork began with";
        let lone = lone.into_iter().map(|id| (id, why.to_owned()));
        done.refused.extend(lone);
        if tips.is_empty() {
            done.objects.clear();
        }
        done.tips = tips;
    }

    /// A commit, or why it is refused and what it comes from.
    fn read_commit(
        &self,
        id: &ObjectId,
    ) -> Result<std::result::Result<Node, (String, Vec<ObjectId>)>> {
        let bytes = match self.read_own(id, Kind::Commit)? {
            Ok(bytes) => bytes,
            Err(why) => return Ok(Err((why, Vec::new()))),
        };
        if bytes.len() > MAX_COMMIT {
            return Ok(Err(("the commit is too large".to_owned(), Vec::new())));
        }
        Ok(match check_commit(&bytes) {
            Ok(commit) if commit.parents.len() > MAX_PARENTS => {
                Err(("it has too many parents".to_owned(), Vec::new()))
            }
            // Whoever makes a commit could name in it what is somebody else's.
            Ok(commit) if commit.header(SIDECAR_HEADER).is_some() => Err((
                "it was made from a snapshot by `git commit --amend` and names what only that \
                 snapshot has"
                    .to_owned(),
                commit.parents,
            )),
            Ok(commit) => Ok(Node {
                tree: commit.tree,
                parents: commit.parents,
            }),
            Err(why) => {
                let parents = Commit::parse(&bytes).map(|commit| commit.parents);
                Err((why, parents.unwrap_or_default()))
            }
        })
    }

    fn is_too_late(&self) -> bool {
        Instant::now() > self.until
    }

    /// An object of whoever made the commits.
    fn read_own(
        &self,
        id: &ObjectId,
        kind: Kind,
    ) -> Result<std::result::Result<Arc<[u8]>, String>> {
        if *id == EMPTY_TREE && kind == Kind::Tree {
            // git knows it without having it.
            return Ok(Ok(Arc::default()));
        }
        match self.own.read(id) {
            Ok(Some((there, bytes))) if there == kind => Ok(Ok(bytes)),
            Ok(Some(_)) => Ok(Err(format!("`{id}` is no {}", kind.as_str()))),
            Ok(None) => Ok(Err(format!("the {} `{id}` is missing", kind.as_str()))),
            // What stops the caller is no fault of the commit.
            Err(error) if stops(&error) => Err(error),
            Err(error) => Ok(Err(error.message().to_owned())),
        }
    }

    /// What a commit holds and none of its parents has at the same place.
    fn new_objects(
        &self,
        commit: &Node,
        taken: &HashMap<ObjectId, Taken>,
        seen: &Objects,
        most: usize,
    ) -> Result<std::result::Result<Objects, String>> {
        let mut bases = Vec::with_capacity(commit.parents.len());
        for parent in &commit.parents {
            bases.push(match taken.get(parent) {
                Some(one) => one.commit.tree,
                None => crate::history::read_commit(self.known, parent)?.tree,
            });
        }
        let mut new = Objects::new();
        if bases.contains(&commit.tree) || seen.get(&commit.tree) == Some(&Kind::Tree) {
            return Ok(Ok(new));
        }
        let mut next = vec![Open {
            tree: commit.tree,
            bases,
            depth: 1,
        }];
        new.insert(commit.tree, Kind::Tree);
        while let Some(open) = next.pop() {
            cancel::check()?;
            if self.is_too_late() {
                return Ok(Err(TOO_LATE.to_owned()));
            }
            let tree = match self.read_own(&open.tree, Kind::Tree)? {
                Ok(bytes) => check_tree(&bytes),
                Err(why) => Err(why),
            };
            let tree = match tree {
                Ok(tree) => tree,
                Err(why) => return Ok(Err(why)),
            };
            if new.len() > most || open.depth > MAX_DEPTH {
                return Ok(Err("it holds too many files or too deep paths".to_owned()));
            }
            if let Some(why) = self.enter(&tree, &open, seen, &mut new, &mut next)? {
                return Ok(Err(why));
            }
        }
        Ok(Ok(new))
    }

    /// Looks at the entries of one tree. Returns why one of them is refused.
    fn enter(
        &self,
        tree: &Tree,
        open: &Open,
        seen: &Objects,
        new: &mut Objects,
        next: &mut Vec<Open>,
    ) -> Result<Option<String>> {
        let mut base_trees = Vec::with_capacity(open.bases.len());
        for base in &open.bases {
            base_trees.push(self.base_tree(base)?);
        }
        for entry in tree.iter().filter(|entry| entry.mode != SUBMODULE) {
            let there = base_trees.iter().filter_map(|base| base.get(entry.name));
            let same_kind =
                |base: &EntryRef<'_>| base.mode != SUBMODULE && base.is_dir() == entry.is_dir();
            let there: Vec<EntryRef<'_>> = there.filter(same_kind).collect();
            if there.iter().any(|base| base.id == entry.id) {
                continue;
            }
            let kind = if entry.is_dir() {
                Kind::Tree
            } else {
                Kind::Blob
            };
            let rules = has_rules_for_content(entry.name);
            match seen.get(&entry.id).or_else(|| new.get(&entry.id)) {
                // One object under two names, once as a directory: git would find it broken.
                Some(known) if *known != kind => {
                    return Ok(Some(format!("`{}` is no {}", entry.id, kind.as_str())));
                }
                // The name decides about some contents, so those are looked at under each.
                Some(_) if !rules || kind == Kind::Tree => continue,
                _ => {}
            }
            new.insert(entry.id, kind);
            if kind == Kind::Tree {
                next.push(Open {
                    tree: entry.id,
                    bases: there.iter().map(|base| base.id).collect(),
                    depth: open.depth + 1,
                });
                continue;
            }
            let content = match self.read_own(&entry.id, Kind::Blob)? {
                Ok(content) => content,
                Err(why) => return Ok(Some(why)),
            };
            if entry.mode == SYMLINK && content.len() > MAX_LINK {
                return Ok(Some("the target of a link is too long".to_owned()));
            }
            if let Some(why) = refuses_content(entry.name, &content) {
                return Ok(Some(why.to_owned()));
            }
        }
        Ok(None)
    }

    /// A tree of a commit that is known or was taken.
    fn base_tree(&self, id: &ObjectId) -> Result<Tree> {
        match self.known.read(id)? {
            Some((Kind::Tree, bytes)) => Tree::parse(bytes),
            _ => read_tree(self.own, id),
        }
    }
}

/// None of the commits can be taken.
fn nothing(id: ObjectId, why: &str) -> TakenCommits {
    TakenCommits {
        refused: vec![(id, why.to_owned())],
        ..TakenCommits::default()
    }
}

/// Whether an error stops the caller, whatever was read.
fn stops(error: &Error) -> bool {
    matches!(
        error.code(),
        ErrorCode::Timeout | ErrorCode::StoreUnavailable
    )
}
