//! Tags and branches of a linked repository beside the branch that is followed.

use std::collections::HashMap;

use offshoot_core::{Error, ErrorCode, ObjectId, Result};
use offshoot_git::{GitRepository, MAX_TAG_DEPTH, ObjectReader, full_branch_name, tag_target};
use offshoot_store::{Durability, RefRow, WorkspaceKey};

use crate::content::objects::StoredObjects;
use crate::formats::Link;
use crate::link::Links;
use crate::link::incoming::BothObjects;
use crate::link::push::OWN_BRANCH;
use crate::project::import_refs::other_refs;
use crate::workspace::export::refs_of;

impl Links {
    /// Brings them up to date, and forgets those that are gone. The cost follows what is new, beside
    /// the reading of the names. A ref that cannot be read stays as it was.
    pub(crate) fn pull_refs(
        &self,
        key: WorkspaceKey,
        link: &Link,
        repository: &GitRepository,
    ) -> Result<()> {
        let (followed, own) = (
            full_branch_name(&link.branch)?,
            full_branch_name(OWN_BRANCH)?,
        );
        let there = other_refs(repository, [Some(&followed), Some(&own)])?;
        let (head, known) = self.store().read(|tx| {
            let head = tx.workspace_by_key(key)?.and_then(|row| row.head);
            Ok((head, refs_of(tx, key)?.others))
        })?;
        let gone: Vec<&RefRow> = known
            .iter()
            .filter(|row| !there.contains_key(&row.name))
            .collect();
        if !gone.is_empty() {
            self.store().write(Durability::Synced, |tx| {
                gone.iter()
                    .try_for_each(|row| tx.remove_ref(key, &row.name).map(drop))
            })?;
        }
        let targets: HashMap<&str, ObjectId> = known
            .iter()
            .map(|row| (row.name.as_str(), row.target))
            .collect();
        let objects = BothObjects::new(StoredObjects::new(self.store(), None), repository);
        let mut new = Vec::new();
        for (name, target) in there {
            if targets.get(name.as_str()) == Some(&target) {
                continue;
            }
            match peel(&objects, target) {
                Ok(peeled) => new.push(RefRow {
                    project: key,
                    name,
                    target,
                    peeled,
                }),
                Err(error) => skip(&name, error)?,
            }
        }
        let mut common: Vec<ObjectId> = known.iter().map(|row| row.peeled).collect();
        common.extend(head);
        self.take_refs(repository, &objects, &new, &mut common)
    }

    /// Takes all of them at once. If one cannot be read, halves of them are tried, so that a few that
    /// are broken cost some more plans and not one for each ref.
    fn take_refs(
        &self,
        repository: &GitRepository,
        objects: &BothObjects<'_>,
        rows: &[RefRow],
        common: &mut Vec<ObjectId>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let tips = rows.iter().map(|row| row.target).collect();
        match self.fetch_objects(repository, objects, tips, common, &mut |_| {}) {
            Ok(fetched) => {
                self.store().write(Durability::Synced, |tx| {
                    fetched.bulk.insert(tx)?;
                    rows.iter().try_for_each(|row| tx.put_ref(row))
                })?;
                common.extend(rows.iter().map(|row| row.peeled));
                Ok(())
            }
            Err(error) if rows.len() == 1 => skip(&rows[0].name, error),
            Err(error) if error.code() == ErrorCode::InvalidRequest => {
                let (some, others) = rows.split_at(rows.len() / 2);
                self.take_refs(repository, objects, some, common)?;
                self.take_refs(repository, objects, others, common)
            }
            Err(error) => Err(error),
        }
    }
}

/// Leaves out a ref that cannot be read; any other error is one.
fn skip(name: &str, error: Error) -> Result<()> {
    if error.code() != ErrorCode::InvalidRequest {
        return Err(error);
    }
    tracing::warn!(name, %error, "a ref of the repository was not taken");
    Ok(())
}

/// What the tags that an id may be lead to.
fn peel(objects: &BothObjects<'_>, id: ObjectId) -> Result<ObjectId> {
    let mut at = id;
    for _ in 0..MAX_TAG_DEPTH {
        match objects.read(&at)? {
            Some((offshoot_core::ObjectKind::Tag, bytes)) => at = tag_target(&bytes)?,
            _ => break,
        }
    }
    Ok(at)
}
