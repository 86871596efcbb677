//! Objects against their ids, and packs against their files.

use offshoot_core::Result;
use offshoot_store::ObjectRow;

use super::{Check, missing};

const STEP: usize = 1_000;

impl Check<'_> {
    /// Reads and hashes every object.
    pub(super) fn objects(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            let mut rows = Vec::new();
            self.look_repeatedly("object", |check, _| {
                let store = check.upkeep.store();
                rows = store.read(|tx| tx.objects_after(after.as_ref(), STEP, false))?;
                Ok(())
            })?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.id);
            for row in &rows {
                if self.object(row).is_ok() {
                    continue;
                }
                self.look_repeatedly("object", |check, found| {
                    // It may have been collected since its row was read, or be elsewhere by now.
                    let row = check.upkeep.store().read(|tx| tx.object(&row.id))?;
                    if let Some(row) = row
                        && let Err(error) = check.object(&row)
                    {
                        let (kind, id) = (row.kind.as_str(), row.id);
                        found.add("object", format!("{kind} `{id}`: {error}"));
                    }
                    Ok(())
                })?;
            }
        }
    }

    /// Reads one object, which is counted if it is what its id says: whatever is read is compared
    /// with that.
    pub(super) fn object(&mut self, row: &ObjectRow) -> Result<()> {
        let store = self.upkeep.store();
        let kind = store.verify(&row.id, &mut std::io::sink())?;
        if kind != Some(row.kind) {
            return Err(missing("content"));
        }
        if self.whole.insert(row.id) {
            self.report.objects += 1;
            self.report.bytes += row.size;
        }
        Ok(())
    }

    /// Compares packs with their files. What is in them was read with the objects.
    pub(super) fn packs(&mut self) -> Result<()> {
        self.look_repeatedly("pack", |check, found| {
            let store = check.upkeep.store();
            for pack in store.read(|tx| tx.packs())? {
                let size = store.blobs().size(&pack.blob)?;
                if size == Some(pack.size) {
                    continue;
                }
                let key = pack.key;
                match size {
                    Some(size) => {
                        let told = format!("pack {key} has {size} bytes instead of {}", pack.size);
                        found.add("pack", told);
                    }
                    None => found.add("pack", format!("pack {key} is missing")),
                }
            }
            Ok(())
        })
    }
}
