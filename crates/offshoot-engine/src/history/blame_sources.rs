//! Where lines of a file may have come from other than the previous version: merges, undone merges,
//! restores, imports and the snapshot that a fork began with.

use std::collections::HashMap;

use offshoot_core::{EntryKind, Error, ObjectId, Operator, RelPath, Result, Timestamp};
use offshoot_git::read_commit;
use offshoot_store::{ReviewRow, SnapshotRow, WorkspaceKey};

use crate::content::rows::state_of;
use crate::history::blame::{AttributedContent, LineOrigin, Tracer};
use crate::history::blame_places::HistoryOwner;

impl Tracer<'_> {
    /// What a merge, a decision about a conflict, or an undo could have its lines from.
    pub(crate) fn merged_from(
        &mut self,
        place: &HistoryOwner,
        path: &RelPath,
        landed: Option<&SnapshotRow>,
        earlier: &[AttributedContent],
    ) -> Result<Vec<AttributedContent>> {
        let Some(landed) = landed.map(|row| row.id) else {
            return Ok(Vec::new());
        };
        // An undo that found nothing to change names the head, which is a merge of its own.
        let undid = place.merges.iter().any(|one| one.undone_by == Some(landed));
        if undid && place.merges_behind(path, landed).next().is_none() {
            return Ok(earlier.iter().rev().cloned().collect());
        }
        let reviews = place.reviews.iter();
        let decided: Vec<&ReviewRow> = reviews
            .filter(|one| one.snapshot == Some(landed) && one.path == *path)
            .collect();
        let mut sources = Vec::new();
        for merge in place.merges_behind(path, landed) {
            sources.extend(self.attributed_at(merge.workspace, path, &merge.theirs)?);
        }
        for review in decided {
            if let Some(base) = review.base {
                sources.extend(
                    earlier
                        .iter()
                        .rev()
                        .find(|one| one.content == Some(base))
                        .cloned(),
                );
            }
            for candidate in self.tx.candidates(&review.id)? {
                let origin = self.add_origin(LineOrigin {
                    place: place.row.key,
                    operator: candidate.cause.operator.to_string(),
                    agent: candidate.cause.claim,
                    message_id: candidate.cause.message_id,
                    snapshot: Some(landed),
                    at: candidate.at,
                });
                sources.push(self.all_from(candidate.content, origin)?);
            }
        }
        Ok(sources)
    }

    /// What lost at a path, brought back: it stood there before, or in the workspace of the merge.
    pub(crate) fn lost_to_policy(
        &mut self,
        place: &HistoryOwner,
        path: &RelPath,
        content: ObjectId,
        at: Timestamp,
        earlier: &[AttributedContent],
    ) -> Result<Vec<AttributedContent>> {
        let stood = earlier
            .iter()
            .rev()
            .find(|one| one.content == Some(content));
        if let Some(stood) = stood {
            return Ok(vec![stood.clone()]);
        }
        let merge = place.merges.iter().find(|merge| merge.at == at);
        let found = match merge {
            Some(merge) => self.attributed_at(merge.workspace, path, &merge.theirs)?,
            None => None,
        };
        Ok(found.into_iter().collect())
    }

    pub(crate) fn base_of_update(
        &mut self,
        place: &HistoryOwner,
        path: &RelPath,
        revision: i64,
    ) -> Result<Vec<AttributedContent>> {
        let found = match (place.project, place.updates.get(&revision)) {
            (Some(project), Some(base)) => self.attributed_at(project, path, base)?,
            _ => None,
        };
        Ok(found.into_iter().collect())
    }

    /// What stood at a path before its history in this place begins: it was there in the snapshot
    /// that the place began with, or came with an import.
    pub(crate) fn beginning(
        &mut self,
        key: WorkspaceKey,
        path: &RelPath,
        content: ObjectId,
    ) -> Result<AttributedContent> {
        if let Some(known) = &self.chain(key, path)?.beginning
            && known.content == Some(content)
        {
            return Ok(known.clone());
        }
        let Some(place) = self.place(key)? else {
            return Err(Error::internal("a version belongs to nothing"));
        };
        let found = match place.has_origin {
            true => self.in_origin(&place, path)?,
            false => self.imported(&place, path, content)?,
        };
        let attributed = match found.filter(|one| one.content == Some(content)) {
            Some(attributed) => attributed,
            // The history has no line, such as after a purge: the file is as old as the workspace.
            None => {
                let origin = self.add_origin(LineOrigin {
                    place: key,
                    operator: Operator::system().to_string(),
                    agent: None,
                    message_id: None,
                    snapshot: place.snapshots.first().map(|row| row.id),
                    at: place.row.created_at,
                });
                self.all_from(content, origin)?
            }
        };
        self.chain(key, path)?.beginning = Some(attributed.clone());
        Ok(attributed)
    }

    /// What an import brought, through the commits that came with it. The history has no lines for
    /// these, so each of them is looked at, as git would.
    pub(crate) fn imported(
        &mut self,
        place: &HistoryOwner,
        path: &RelPath,
        content: ObjectId,
    ) -> Result<Option<AttributedContent>> {
        let mut start = None;
        for row in place.snapshots[..place.imported].iter().rev() {
            let entry = state_of(row).entry(&self.objects, path)?;
            let is_it = entry
                .is_some_and(|entry| entry.kind == EntryKind::File && entry.id == Some(content));
            if is_it {
                start = Some(row);
                break;
            }
        }
        let Some(start) = start else {
            return Ok(None);
        };
        let blamed = self.blame_commits(start.id, path, &content)?;
        let mut origins: HashMap<ObjectId, usize> = HashMap::new();
        let mut marks = Vec::with_capacity(blamed.len());
        for commit in blamed {
            let origin = match origins.get(&commit) {
                Some(origin) => *origin,
                None => {
                    let author = read_commit(&self.objects, &commit)?;
                    let name = String::from_utf8_lossy(author.author.name()).into_owned();
                    let origin = self.add_origin(LineOrigin {
                        place: place.row.key,
                        operator: start.cause.operator.to_string(),
                        agent: Some(name).filter(|name| !name.is_empty()),
                        message_id: start.cause.message_id.clone(),
                        snapshot: Some(commit),
                        at: Timestamp::from_stat(author.committer.seconds().max(0), 0),
                    });
                    origins.insert(commit, origin);
                    origin
                }
            };
            marks.push(origin);
        }
        Ok(Some(AttributedContent {
            content: Some(content),
            lines: marks.into(),
        }))
    }

    /// What the snapshot that a workspace began with has, in the place that made the snapshot.
    pub(crate) fn in_origin(
        &mut self,
        place: &HistoryOwner,
        path: &RelPath,
    ) -> Result<Option<AttributedContent>> {
        let Some(origin) = place.snapshots.first().map(|row| row.id) else {
            return Ok(None);
        };
        if let Some(project) = place.project
            && self.tx.snapshot(project, &origin)?.is_some()
        {
            return self.attributed_at(project, path, &origin);
        }
        let mut rows = self.tx.all_workspaces()?;
        rows.sort_by_key(|row| row.key);
        for row in rows {
            if row.key < place.row.key && self.tx.snapshot(row.key, &origin)?.is_some() {
                return self.attributed_at(row.key, path, &origin);
            }
        }
        Ok(None)
    }
}

/// The versions that a restore can have its lines from: the one with that very content, or any.
pub(crate) fn restore_sources(
    earlier: &[AttributedContent],
    content: ObjectId,
) -> Vec<AttributedContent> {
    let same = earlier
        .iter()
        .rev()
        .find(|one| one.content == Some(content));
    match same {
        Some(same) => vec![same.clone()],
        None => earlier.iter().rev().cloned().collect(),
    }
}
