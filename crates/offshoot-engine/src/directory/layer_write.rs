//! Writing the files of a layer: a whole state, or the difference of two states.

use std::collections::BTreeSet;
use std::path::PathBuf;

use offshoot_core::{EntryKind, RelPath, Result};
use offshoot_fs::LayerWriter;

use crate::content::inherited::add_dirs_above;
use crate::content::objects::missing_content;
use crate::content::state::{State, StateChange, StateEntry};
use crate::directory::Directories;

impl Directories {
    /// Writes the difference of two states, or a whole one. Returns the number of entries and bytes.
    pub(crate) fn write_layer(
        &self,
        place: PathBuf,
        from: Option<State>,
        to: State,
    ) -> Result<(i64, i64)> {
        let mut writer = LayerWriter::new(place)?;
        let mut dirs = 0;
        match from {
            None => self.for_each_state_entry(to, &mut |path, entry| {
                dirs += i64::from(entry.kind == EntryKind::Dir);
                self.write_entry(&mut writer, path, entry, false)
            })?,
            Some(from) => dirs = self.write_difference(&mut writer, &from, &to)?,
        }
        let counts = writer.finish()?;
        let entries = counts.files + counts.links + counts.whiteouts;
        Ok((entries as i64 + dirs, counts.bytes as i64))
    }

    /// Writes the difference of two states. Returns the number of directories.
    fn write_difference(&self, writer: &mut LayerWriter, from: &State, to: &State) -> Result<i64> {
        let mut changes: Vec<StateChange> = Vec::new();
        let mut parents: Vec<(RelPath, u32)> = Vec::new();
        self.store().read(|tx| {
            let mut objects = self.contents.objects_in(tx);
            objects.cache_trees();
            changes = from.diff(&objects, to, &RelPath::root())?;
            // The layer also has the directories above each change, with their permission bits.
            let mut above: BTreeSet<RelPath> = BTreeSet::new();
            for change in &changes {
                add_dirs_above(&mut above, &change.path);
            }
            parents.clear();
            for dir in above {
                if let Some(entry) = to.entry(&objects, &dir)?
                    && entry.kind == EntryKind::Dir
                {
                    parents.push((dir, entry.perm));
                }
            }
            Ok(())
        })?;
        let mut steps: Vec<(&RelPath, LayerStep<'_>)> = parents
            .iter()
            .map(|(path, perm)| (path, LayerStep::Parent(*perm)))
            .chain(
                changes
                    .iter()
                    .map(|change| (&change.path, LayerStep::Change(change))),
            )
            .collect();
        // Directories come before what is in them. A change comes before a parent of the same path,
        // which is then dropped.
        steps.sort_by(|a, b| a.0.cmp(b.0).then(a.1.order().cmp(&b.1.order())));
        steps.dedup_by(|later, earlier| later.0 == earlier.0);
        let mut hidden: Option<&RelPath> = None;
        let mut dirs = 0;
        for (path, what) in steps {
            if hidden.is_some_and(|above| path.starts_with(above)) {
                continue;
            }
            match what {
                LayerStep::Parent(perm) => {
                    dirs += 1;
                    writer.dir(path, perm)?;
                }
                LayerStep::Change(change) => {
                    let was_dir = change
                        .before
                        .is_some_and(|before| before.kind == EntryKind::Dir);
                    match &change.after {
                        None => writer.whiteout(path)?,
                        Some(entry) => {
                            dirs += i64::from(entry.kind == EntryKind::Dir);
                            let hides = change.before.is_some() && !was_dir;
                            self.write_entry(writer, path, entry, hides)?;
                        }
                    }
                    // One whiteout or file hides everything that was below.
                    let is_dir = change
                        .after
                        .is_some_and(|after| after.kind == EntryKind::Dir);
                    if was_dir && !is_dir {
                        hidden = Some(path);
                    }
                }
            }
        }
        Ok(dirs)
    }

    fn write_entry(
        &self,
        writer: &mut LayerWriter,
        path: &RelPath,
        entry: &StateEntry,
        hides: bool,
    ) -> Result<()> {
        let content = || entry.id.ok_or_else(missing_content);
        match entry.kind {
            EntryKind::Dir if hides => writer.opaque_dir(path, entry.perm),
            EntryKind::Dir => writer.dir(path, entry.perm),
            EntryKind::Symlink => writer.symlink(path, &self.contents.whole_object(&content()?)?),
            EntryKind::File => {
                let (_, _, mut bytes) = self
                    .store()
                    .open_object(&content()?)?
                    .ok_or_else(missing_content)?;
                writer.file(path, entry.perm, &mut bytes).map(drop)
            }
        }
    }

    /// Visits every entry of a state, directories before what is in them.
    pub(crate) fn for_each_state_entry(
        &self,
        state: State,
        visit: &mut dyn FnMut(&RelPath, &StateEntry) -> Result<()>,
    ) -> Result<()> {
        // `visit` runs outside of the transaction, because writing a layer may take seconds.
        let mut entries = Vec::new();
        self.store().read(|tx| {
            entries.clear();
            state.walk(
                &self.contents.objects_in(tx),
                &RelPath::root(),
                &mut |path, entry| {
                    entries.push((path.clone(), *entry));
                    Ok(())
                },
            )
        })?;
        for (path, entry) in &entries {
            visit(path, entry)?;
        }
        Ok(())
    }
}

/// What is written at one path of a difference.
enum LayerStep<'a> {
    Change(&'a StateChange),
    Parent(u32),
}

impl LayerStep<'_> {
    fn order(&self) -> u8 {
        match self {
            LayerStep::Change(_) => 0,
            LayerStep::Parent(_) => 1,
        }
    }
}
