//! Garbage collection: rows first, bytes after, and nothing younger than the age guard (INV-3).
//!
//! A writer that is about to name an object has either renewed the age of its row, which
//! [`crate::WriteTx::remove_object`] checks inside the transaction, or has just put its blob, whose
//! age [`crate::BlobStore::delete_older`] checks. So nothing has to be locked.

use std::collections::{HashMap, HashSet};
use std::io;

use offshoot_core::{Error, ErrorCode, ObjectId, Result, Timestamp};

use crate::objects::{Store, cannot_store, new_pack_key, object_key};
use crate::{Durability, ObjectPlace, ObjectRow, PackRow};

/// Rows that one transaction handles, so that writers never wait for long.
const ROWS_PER_TRANSACTION: usize = 500;
/// Blobs that one transaction erases: a file system takes its time over large ones.
const BLOBS_PER_TRANSACTION: usize = 16;
/// The setting that says that erased content may still be found in the files.
const ERASED_CONTENT_REMAINS: &str = "erased_content_remains";

/// What a garbage collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GarbageReport {
    /// Objects whose row was removed.
    pub objects: u64,
    /// Packs that were written anew without the dead part.
    pub packs_rewritten: u64,
    /// Packs that were removed because nothing in them was alive.
    pub packs_removed: u64,
    /// Blobs that were removed, packs included, because no row names them any more.
    pub blobs_removed: u64,
    /// Leftovers of interrupted writes.
    pub leftovers: u64,
    /// Bytes that were given back by removing and rewriting blobs and packs.
    pub blob_bytes: u64,
    /// Stored bytes of removed rows; the database reuses them and `tidy` gives them back.
    pub row_bytes: u64,
    /// Whether erased content may still be found in the files: the disk was too full to write them
    /// anew. The next collection with enough space does.
    pub remains: bool,
}

impl Store {
    /// Removes every object that is not in `reachable` and older than `before`, and the bytes
    /// that no row names any more. Packs are rewritten one at a time when less than half of them
    /// is alive, so that at most one pack exists twice.
    ///
    /// `reachable` holds what [`crate::ReadTx::visit_roots`] gives and all that can be reached
    /// from it. It must have been computed after the moment `before`.
    pub fn collect(
        &self,
        reachable: &HashSet<ObjectId>,
        before: Timestamp,
    ) -> Result<GarbageReport> {
        let mut collected = GarbageReport::default();
        let alive = self.remove_unreachable(reachable, before, &mut collected)?;
        for pack in self.read(|tx| tx.packs())? {
            let alive = alive.get(&pack.key).copied().unwrap_or(0);
            if pack.stored_at < before && alive * 2 < pack.size.max(1) {
                match self.rewrite_pack(&pack, before, &mut collected) {
                    // The rest that can go gives it the space for the next time.
                    Err(error) if error.is_disk_full() => {}
                    done => done?,
                }
            }
        }
        self.remove_unnamed_objects(before, &mut collected)?;
        self.remove_unnamed_packs(before, &mut collected)?;
        collected.leftovers = self.blobs().sweep_leftovers(before)?;
        if self
            .read(|tx| tx.setting(ERASED_CONTENT_REMAINS))?
            .as_deref()
            == Some("yes")
        {
            let packs = self.read(|tx| tx.packs())?;
            self.overwrite(packs, &mut collected)?;
        }
        Ok(collected)
    }

    /// Erases objects as [`Store::erase_incrementally`] does and scrubs the database, which keeps
    /// all writers waiting: also what was deleted before deletion overwrote it is gone then.
    ///
    /// Writing packs and the database anew needs space. If there is too little, that is left to the
    /// next collection, and the answer says so.
    pub fn erase(&self, unnamed: &[(ObjectId, Timestamp)]) -> Result<GarbageReport> {
        let (mut collected, torn) = self.erase_objects(unnamed)?;
        self.overwrite(torn, &mut collected)?;
        Ok(collected)
    }

    /// Erases objects whatever their age, and the bytes wherever they are: rows, blobs of their
    /// own, and the packs that hold them, which are written anew. Writers wait for one step at
    /// most. Content in the log of the database is gone once the log is overwritten.
    ///
    /// Each object comes with the age of its row in one view of the store in which nothing names
    /// any of them. A transaction that names one later also renews its row: it is younger then and
    /// stays.
    pub fn erase_incrementally(&self, unnamed: &[(ObjectId, Timestamp)]) -> Result<GarbageReport> {
        let (mut collected, torn) = self.erase_objects(unnamed)?;
        for pack in torn {
            match self.rewrite_pack(&pack, Timestamp(i64::MAX), &mut collected) {
                // The rest that can go gives it the space for the next time.
                Err(error) if error.is_disk_full() => {}
                done => done?,
            }
        }
        self.meta().tidy()?;
        Ok(collected)
    }

    /// Removes rows and blobs. Returns the packs that hold bytes which no row names any more.
    fn erase_objects(
        &self,
        unnamed: &[(ObjectId, Timestamp)],
    ) -> Result<(GarbageReport, Vec<PackRow>)> {
        let mut collected = GarbageReport::default();
        let (mut packs, mut blobs) = (HashSet::new(), Vec::new());
        for step in unnamed.chunks(ROWS_PER_TRANSACTION) {
            for row in self.erase_rows(step, &mut collected)? {
                match row.place {
                    ObjectPlace::Blob => blobs.push(row.id),
                    ObjectPlace::Pack { pack, .. } => {
                        packs.insert(pack);
                    }
                    ObjectPlace::Row(_) => {}
                }
            }
        }
        self.erase_blobs(&blobs, &mut collected)?;
        let mut torn = Vec::new();
        for key in packs {
            torn.extend(self.read(|tx| tx.pack(key))?);
        }
        Ok((collected, torn))
    }

    /// Removes the rows that were not renewed since. Returns the removed ones.
    fn erase_rows(
        &self,
        unnamed: &[(ObjectId, Timestamp)],
        collected: &mut GarbageReport,
    ) -> Result<Vec<ObjectRow>> {
        let gone = self.write(Durability::Synced, |tx| {
            let mut gone = Vec::new();
            for (id, seen) in unnamed {
                let row = tx.object(id)?;
                if tx.remove_object(id, Timestamp(seen.0.saturating_add(1)))? {
                    gone.extend(row);
                }
            }
            Ok(gone)
        })?;
        for row in &gone {
            self.evict(&row.id);
            collected.objects += 1;
            if matches!(row.place, ObjectPlace::Row(_)) {
                collected.row_bytes += stored_length(row);
            }
        }
        Ok(gone)
    }

    /// Removes blobs whose row was removed, whatever their age. A writer may have put the same
    /// content again and be about to name it, so this happens in transactions: a transaction that
    /// names a blob checks that it exists.
    fn erase_blobs(&self, ids: &[ObjectId], collected: &mut GarbageReport) -> Result<()> {
        for step in ids.chunks(BLOBS_PER_TRANSACTION) {
            let (removed, bytes) = self.write(Durability::Relaxed, |tx| {
                let (mut removed, mut bytes) = (0, 0);
                for id in step {
                    let row = tx.object(id)?;
                    let key = object_key(id);
                    let size = self.blobs().size(&key)?;
                    if let Some(size) = size.filter(|_| row.is_none_or(|row| !is_blob(&row))) {
                        self.blobs().delete(&key)?;
                        removed += 1;
                        bytes += size;
                    }
                }
                Ok((removed, bytes))
            })?;
            collected.blobs_removed += removed;
            collected.blob_bytes += bytes;
        }
        Ok(())
    }

    /// Rewrites these packs if they hold bytes that no row names, and the database.
    fn overwrite(&self, packs: Vec<PackRow>, collected: &mut GarbageReport) -> Result<()> {
        let always = Timestamp(i64::MAX);
        let mut done = Ok(());
        for pack in packs {
            let objects = self.read(|tx| tx.pack_objects(pack.key))?;
            let alive: u64 = objects.iter().map(stored_length).sum();
            if alive < pack.size {
                done = done.and(self.rewrite_pack(&pack, always, collected));
            }
        }
        let done = done.and_then(|()| self.meta().scrub());
        let remained = self
            .read(|tx| tx.setting(ERASED_CONTENT_REMAINS))?
            .is_some_and(|it| it == "yes");
        collected.remains = match done {
            Ok(()) => false,
            Err(error) if error.is_disk_full() => true,
            Err(error) => return Err(error),
        };
        if collected.remains != remained {
            let remains = if collected.remains { "yes" } else { "no" };
            self.write(Durability::Synced, |tx| {
                tx.put_setting(ERASED_CONTENT_REMAINS, remains)
            })?;
        }
        Ok(())
    }

    /// Removes all unreachable rows of objects. Returns how many bytes of each pack are alive.
    fn remove_unreachable(
        &self,
        reachable: &HashSet<ObjectId>,
        before: Timestamp,
        collected: &mut GarbageReport,
    ) -> Result<HashMap<i64, u64>> {
        let mut alive: HashMap<i64, u64> = HashMap::new();
        let mut after: Option<ObjectId> = None;
        loop {
            let rows =
                self.read(|tx| tx.objects_after(after.as_ref(), ROWS_PER_TRANSACTION, false))?;
            let Some(last) = rows.last() else {
                return Ok(alive);
            };
            after = Some(last.id);
            let (dead, live): (Vec<ObjectRow>, Vec<ObjectRow>) = rows
                .into_iter()
                .partition(|row| row.stored_at < before && !reachable.contains(&row.id));
            let (removed, kept) = self.remove_rows(dead, before, collected)?;
            for row in live.iter().chain(&kept) {
                if let ObjectPlace::Pack { pack, length, .. } = row.place {
                    *alive.entry(pack).or_default() += length;
                }
            }
            for row in removed.iter().filter(|row| row.place == ObjectPlace::Blob) {
                self.remove_blob(&object_key(&row.id), before, collected)?;
            }
        }
    }

    /// Removes rows in one transaction; those that were renewed meanwhile stay.
    fn remove_rows(
        &self,
        rows: Vec<ObjectRow>,
        before: Timestamp,
        collected: &mut GarbageReport,
    ) -> Result<(Vec<ObjectRow>, Vec<ObjectRow>)> {
        if rows.is_empty() {
            return Ok((rows, Vec::new()));
        }
        let (gone, row_bytes) = self.write(Durability::Synced, |tx| {
            let (mut gone, mut row_bytes) = (HashSet::new(), 0);
            for row in &rows {
                let in_row = match &row.place {
                    ObjectPlace::Row(_) => tx.object(&row.id)?.map_or(0, |row| stored_length(&row)),
                    _ => 0,
                };
                if tx.remove_object(&row.id, before)? {
                    gone.insert(row.id);
                    row_bytes += in_row;
                }
            }
            Ok((gone, row_bytes))
        })?;
        gone.iter().for_each(|id| self.evict(id));
        collected.objects += gone.len() as u64;
        collected.row_bytes += row_bytes;
        Ok(rows.into_iter().partition(|row| gone.contains(&row.id)))
    }

    /// Copies what is alive in a pack into a new one and removes the old one.
    fn rewrite_pack(
        &self,
        pack: &PackRow,
        before: Timestamp,
        collected: &mut GarbageReport,
    ) -> Result<()> {
        let objects = self.read(|tx| tx.pack_objects(pack.key))?;
        let mut kept = 0;
        if objects.is_empty() {
            self.write(Durability::Synced, |tx| tx.remove_pack(pack.key))?;
            collected.packs_removed += 1;
        } else {
            let new = new_pack_key();
            let (size, places) = self.copy_pack(pack, &objects, &new)?;
            // Only rows that still point into the old pack: an object may have been removed and
            // stored again in another form. New ones do not come into an old pack.
            self.write(Durability::Synced, |tx| {
                let key = tx.add_pack(&new, size)?;
                let mut moved = Vec::with_capacity(places.len());
                for place in &places {
                    let row = tx.object(&place.0)?;
                    if row.is_some_and(|row| is_in(&row, pack.key)) {
                        moved.push(*place);
                    }
                }
                tx.move_objects(key, &moved)?;
                tx.remove_pack(pack.key)
            })?;
            collected.packs_rewritten += 1;
            kept = size;
        }
        self.remove_blob(&pack.blob, before, collected)?;
        collected.blob_bytes = collected.blob_bytes.saturating_sub(kept);
        Ok(())
    }

    fn copy_pack(
        &self,
        pack: &PackRow,
        objects: &[ObjectRow],
        new: &str,
    ) -> Result<(u64, Vec<(ObjectId, u64, u64)>)> {
        let mut places = Vec::with_capacity(objects.len());
        let size = self.blobs().put(new, &mut |out| {
            places.clear();
            let mut written = 0;
            for row in objects {
                let ObjectPlace::Pack { offset, length, .. } = row.place else {
                    continue;
                };
                let mut reader = self
                    .blobs()
                    .read(&pack.blob, offset, Some(length))?
                    .ok_or_else(|| pack_is_short(pack))?;
                let copied = io::copy(&mut reader, out).map_err(cannot_store)?;
                if copied != length {
                    return Err(pack_is_short(pack));
                }
                places.push((row.id, written, length));
                written += length;
            }
            Ok(())
        })?;
        Ok((size, places))
    }

    /// Removes blobs of single objects that no row names.
    fn remove_unnamed_objects(
        &self,
        before: Timestamp,
        collected: &mut GarbageReport,
    ) -> Result<()> {
        let mut step: Vec<(ObjectId, String)> = Vec::new();
        self.blobs().list("object/", &mut |info| {
            let id = info
                .key
                .strip_prefix("object/")
                .and_then(|hex| hex.parse().ok());
            if let Some(id) = id.filter(|_| info.written_at < before) {
                step.push((id, info.key));
            }
            if step.len() >= ROWS_PER_TRANSACTION {
                self.remove_unnamed_step(&mut step, before, collected)?;
            }
            Ok(())
        })?;
        self.remove_unnamed_step(&mut step, before, collected)
    }

    fn remove_unnamed_step(
        &self,
        step: &mut Vec<(ObjectId, String)>,
        before: Timestamp,
        collected: &mut GarbageReport,
    ) -> Result<()> {
        let unnamed = self.read(|tx| {
            let mut unnamed = Vec::new();
            for (id, key) in step.iter() {
                if tx
                    .object(id)?
                    .is_none_or(|row| row.place != ObjectPlace::Blob)
                {
                    unnamed.push(key.clone());
                }
            }
            Ok(unnamed)
        })?;
        step.clear();
        for key in unnamed {
            self.remove_blob(&key, before, collected)?;
        }
        Ok(())
    }

    /// Removes packs that no row names.
    fn remove_unnamed_packs(&self, before: Timestamp, collected: &mut GarbageReport) -> Result<()> {
        let mut candidates = Vec::new();
        self.blobs().list("pack/", &mut |info| {
            if info.written_at < before {
                candidates.push(info.key);
            }
            Ok(())
        })?;
        // Read after the listing, so that a pack that was named meanwhile counts as named.
        let named: HashSet<String> = self
            .read(|tx| tx.packs())?
            .into_iter()
            .map(|pack| pack.blob)
            .collect();
        for key in candidates.iter().filter(|key| !named.contains(*key)) {
            self.remove_blob(key, before, collected)?;
        }
        Ok(())
    }

    fn remove_blob(
        &self,
        key: &str,
        before: Timestamp,
        collected: &mut GarbageReport,
    ) -> Result<()> {
        let size = self.blobs().size(key)?.unwrap_or(0);
        if self.blobs().delete_older(key, before)? {
            collected.blobs_removed += 1;
            collected.blob_bytes += size;
        }
        Ok(())
    }
}

fn stored_length(row: &ObjectRow) -> u64 {
    match &row.place {
        ObjectPlace::Row(bytes) => bytes.len() as u64,
        ObjectPlace::Pack { length, .. } => *length,
        ObjectPlace::Blob => 0,
    }
}

fn is_blob(row: &ObjectRow) -> bool {
    row.place == ObjectPlace::Blob
}

fn is_in(row: &ObjectRow, key: i64) -> bool {
    matches!(row.place, ObjectPlace::Pack { pack, .. } if pack == key)
}

fn pack_is_short(pack: &PackRow) -> Error {
    Error::new(
        ErrorCode::ReadFailed,
        format!("the pack `{}` is damaged", pack.blob),
    )
    .with_hint("run `offshoot check` to see which objects are affected")
}
