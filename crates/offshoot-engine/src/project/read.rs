//! What projects hold and held: listings, files, versions, differences.

use offshoot_core::{ChangeSet, EntryKind, Error, ErrorCode, ObjectId, ProjectId, RelPath, Result};
use offshoot_store::{RefRow, SnapshotRow};

use crate::content::change_set::change_set;
use crate::content::rows::{no_file, open_project, size_of, state_of};
use crate::content::source::{OpenFile, Source};
use crate::content::state::StateEntry;
use crate::project::Projects;
use crate::workspace::export::refs_of;
use crate::workspace::list::{DirNode, nest_dirs};
use crate::workspace::snapshot::Snapshot;

/// One path of a project at a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectEntry {
    /// Its path.
    pub path: RelPath,
    /// The entry at that path.
    pub entry: StateEntry,
    /// Bytes; 0 for directories.
    pub size: i64,
}

/// One version of a file: the snapshot that brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What stands there since; none if that snapshot removed it.
    pub entry: Option<StateEntry>,
}

/// What differs between two snapshots of a project.
#[derive(Clone, Debug)]
pub struct ProjectDifference {
    /// The older one; none is an empty project.
    pub from: Option<ObjectId>,
    /// The other one; none if the project has no snapshot.
    pub to: Option<ObjectId>,
    /// The paths.
    pub set: ChangeSet,
}

/// The branch of a project, and how many refs it has beside that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefCounts {
    /// The name of the branch.
    pub branch: String,
    /// How many other branches there are.
    pub other_branches: usize,
    /// How many tags there are.
    pub tags: usize,
}

impl Projects {
    /// What git sees of a project beside its snapshots.
    pub fn ref_counts(&self, id: &ProjectId) -> Result<RefCounts> {
        let refs = self
            .store()
            .read(|tx| refs_of(tx, open_project(tx, id)?.key))?;
        let is_tag = |row: &&RefRow| row.name.starts_with("refs/tags/");
        let tags = refs.others.iter().filter(is_tag).count();
        Ok(RefCounts {
            branch: offshoot_git::short_branch_name(&refs.branch).to_owned(),
            other_branches: refs.others.len() - tags,
            tags,
        })
    }

    /// Snapshots of a project, newest first: those before another, whose id begins so, or from the
    /// newest; at most `limit`, 0 means all. Before one that the project does not have there is none.
    pub fn project_snapshots(
        &self,
        id: &ProjectId,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Snapshot>> {
        self.store().read(|tx| {
            let key = open_project(tx, id)?.key;
            let rows = match before {
                None => tx.snapshots(key, limit)?,
                Some(before) => match tx.snapshots_by_prefix(key, before)?.first() {
                    None => Vec::new(),
                    Some(known) => tx.snapshots_before(key, known.number, limit)?,
                },
            };
            Ok(rows.into_iter().map(Snapshot::from).collect())
        })
    }

    /// What a project holds at a snapshot, or now, in and below a directory. With `deep` all of it,
    /// otherwise what is directly there.
    pub fn project_entries(
        &self,
        id: &ProjectId,
        at: Option<&str>,
        dir: &RelPath,
        deep: bool,
    ) -> Result<Vec<ProjectEntry>> {
        self.store().read(|tx| {
            let state = self.project_state(tx, id, at)?;
            let objects = self.contents.objects_in(tx);
            match state.entry(&objects, dir)? {
                None => return Err(no_file(dir)),
                Some(entry) if entry.kind != EntryKind::Dir => {
                    return Err(Error::new(
                        ErrorCode::NotADirectory,
                        format!("`{dir}` is no directory"),
                    ));
                }
                Some(_) => {}
            }
            let mut entries = Vec::new();
            let mut add = |path: &RelPath, entry: &StateEntry| -> Result<()> {
                entries.push(ProjectEntry {
                    path: path.clone(),
                    entry: *entry,
                    size: size_of(tx, entry)?,
                });
                Ok(())
            };
            if deep {
                state.walk(&objects, dir, &mut add)?;
            } else {
                for (name, entry) in state.children(&objects, dir)? {
                    add(&dir.join_name(&name), &entry)?;
                }
            }
            entries.sort_by(|a, b| a.path.cmp(&b.path));
            Ok(entries)
        })
    }

    /// The directories of a project at a snapshot, or now, nested.
    pub fn project_tree(&self, id: &ProjectId, at: Option<&str>) -> Result<DirNode> {
        self.store().read(|tx| {
            let state = self.project_state(tx, id, at)?;
            let mut dirs = Vec::new();
            state.walk(
                &self.contents.objects_in(tx),
                &RelPath::root(),
                &mut |path, entry| {
                    if entry.kind == EntryKind::Dir {
                        dirs.push(path.clone());
                    }
                    Ok(())
                },
            )?;
            Ok(nest_dirs(&RelPath::root(), dirs))
        })
    }

    /// Opens a file of a project at a snapshot, or now.
    pub fn open_project_file(
        &self,
        id: &ProjectId,
        at: Option<&str>,
        path: &RelPath,
    ) -> Result<OpenFile> {
        let content = self.store().read(|tx| {
            let state = self.project_state(tx, id, at)?;
            let entry = state.entry(&self.contents.objects_in(tx), path)?;
            let entry = entry.ok_or_else(|| no_file(path))?;
            entry.id.ok_or_else(|| {
                Error::new(ErrorCode::IsADirectory, format!("`{path}` is a directory"))
            })
        })?;
        OpenFile::of(Source::of_object(&self.contents, content)?, path)
    }

    /// Every version that a path had, newest first. Looks at each snapshot.
    pub fn project_versions(&self, id: &ProjectId, path: &RelPath) -> Result<Vec<FileVersion>> {
        self.store().read(|tx| {
            let row = open_project(tx, id)?;
            let objects = self.contents.objects_in(tx);
            let mut versions = Vec::new();
            let mut before = None;
            for snapshot in tx.snapshots(row.key, 0)?.into_iter().rev() {
                let entry = state_of(&snapshot).entry(&objects, path)?;
                if entry != before {
                    versions.push(FileVersion {
                        snapshot: snapshot.into(),
                        entry,
                    });
                    before = entry;
                }
            }
            if versions.is_empty() {
                return Err(no_file(path));
            }
            versions.reverse();
            Ok(versions)
        })
    }

    /// What differs between two snapshots of a project; none is its head.
    pub fn project_diff(&self, id: &ProjectId, from: &str, to: Option<&str>) -> Result<ChangeSet> {
        self.store().read(|tx| {
            let from = self.project_state(tx, id, Some(from))?;
            let to = self.project_state(tx, id, to)?;
            let changes = from.diff(&self.contents.objects_in(tx), &to, &RelPath::root())?;
            Ok(change_set(&changes))
        })
    }

    /// What differs between two snapshots of a project, and which they are: without `from` what `to`
    /// brought, without `to` up to its head. A project without snapshots has no difference.
    pub fn project_difference(
        &self,
        id: &ProjectId,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<ProjectDifference> {
        self.store().read(|tx| {
            let row = open_project(tx, id)?;
            let find = |text: &str| self.contents.find_snapshot(tx, &row, text);
            let to = match (to, row.head) {
                (Some(text), _) => Some(find(text)?),
                (None, Some(head)) => tx.snapshot(row.key, &head)?,
                (None, None) => None,
            };
            let parent = to.as_ref().and_then(|to| to.parent);
            let from = match (from, parent) {
                (Some(text), _) => Some(find(text)?),
                (None, Some(parent)) => tx.snapshot(row.key, &parent)?,
                (None, None) => None,
            };
            let state = |row: &Option<SnapshotRow>| row.as_ref().map(state_of).unwrap_or_default();
            let objects = self.contents.objects_in(tx);
            let changes = state(&from).diff(&objects, &state(&to), &RelPath::root())?;
            Ok(ProjectDifference {
                from: from.map(|from| from.id),
                to: to.map(|to| to.id),
                set: change_set(&changes),
            })
        })
    }
}
