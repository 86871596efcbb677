//! Tags and branches of a linked repository beside the branch that is followed.

use offshoot_core::{ErrorCode, ObjectId, Result};
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
        let mut common: Vec<ObjectId> = known.iter().map(|row| row.peeled).collect();
        common.extend(head);
        for row in known.iter().filter(|row| !there.contains_key(&row.name)) {
            self.store().write(Durability::Synced, |tx| {
                tx.remove_ref(key, &row.name).map(drop)
            })?;
        }
        for (name, target) in there {
            let is_known = |row: &RefRow| row.name == name && row.target == target;
            if known.iter().any(is_known) {
                continue;
            }
            let row = |peeled| RefRow {
                project: key,
                name: name.clone(),
                target,
                peeled,
            };
            match self.pull_ref(repository, &common, row, target) {
                Ok(peeled) => common.push(peeled),
                Err(error) if error.code() == ErrorCode::InvalidRequest => {
                    tracing::warn!(name, %error, "a ref of the repository was not taken");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn pull_ref(
        &self,
        repository: &GitRepository,
        common: &[ObjectId],
        row: impl Fn(ObjectId) -> RefRow,
        target: ObjectId,
    ) -> Result<ObjectId> {
        let objects = BothObjects::new(StoredObjects::new(self.store(), None), repository);
        let peeled = peel(&objects, target)?;
        let fetched = self.fetch_objects(repository, &objects, target, common, &mut |_| {})?;
        self.store().write(Durability::Synced, |tx| {
            fetched.bulk.insert(tx)?;
            tx.put_ref(&row(peeled))
        })?;
        Ok(peeled)
    }
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
