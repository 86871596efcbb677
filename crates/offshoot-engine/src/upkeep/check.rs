//! Proving that everything a row names is there, whole, and what it says.
//!
//! Others work meanwhile. What belongs together is read in one transaction, and what is found once
//! may only have been seen in passing: between a commit and its projection, or before the bytes of
//! a row that is gone were. So a problem is reported only if a second look finds it too, under the
//! lock that a process at work there would hold.

mod disk;
mod objects;
mod snapshots;
mod workspaces;

use std::collections::HashSet;

use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::upkeep::Upkeep;

/// How often something is looked at again before it is called a problem.
const MORE_LOOKS: usize = 2;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `database`, `object`, `pack`, `snapshot`, `ref`, `entry`, `history`, `workspace`,
    /// `directory` or `layer`.
    pub what: &'static str,
    /// Which one, and what is wrong with it.
    pub message: String,
}

/// What a check looked at and what it found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Objects that were read and hashed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Snapshots that were walked.
    pub snapshots: u64,
    /// Workspaces, the closed ones too.
    pub workspaces: u64,
    /// What is wrong; empty if all is well.
    pub problems: Vec<Problem>,
}

impl Upkeep {
    /// Reads everything and names what is not whole. Changes nothing. May run beside everything
    /// else.
    pub fn check(&self) -> Result<CheckReport> {
        let mut check = Check {
            upkeep: self,
            report: CheckReport::default(),
            whole: HashSet::new(),
            walked: HashSet::new(),
        };
        check.look_repeatedly("database", |check, found| {
            for message in check.upkeep.store().meta().damage()? {
                found.add("database", message);
            }
            Ok(())
        })?;
        check.objects()?;
        check.packs()?;
        check.workspaces()?;
        check.layers()?;
        check.forks()?;
        Ok(check.report)
    }
}

/// A check in progress.
struct Check<'e> {
    upkeep: &'e Upkeep,
    report: CheckReport,
    /// Objects that were read and are what their ids say.
    whole: HashSet<ObjectId>,
    /// Trees and blobs that were reached from a snapshot: most snapshots share most of them.
    walked: HashSet<ObjectId>,
}

/// What one look found.
#[derive(Default)]
struct Findings(Vec<Problem>);

impl Findings {
    fn add(&mut self, what: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.0.push(Problem { what, message });
    }
}

impl Check<'_> {
    /// Looks, and looks again if something seems to be wrong. What every look finds is a problem,
    /// and so is an error while looking; only an error of the store ends the check.
    fn look_repeatedly(
        &mut self,
        what: &'static str,
        mut look: impl FnMut(&mut Self, &mut Findings) -> Result<()>,
    ) -> Result<()> {
        let mut confirmed: Option<Vec<Problem>> = None;
        for _ in 0..=MORE_LOOKS {
            let mut found = Findings::default();
            match look(self, &mut found) {
                Err(error) if error.code() == ErrorCode::StoreUnavailable => return Err(error),
                Err(error) => found.add(what, error.to_string()),
                Ok(()) => {}
            }
            let still = match confirmed.take() {
                None => found.0,
                Some(before) => before
                    .into_iter()
                    .filter(|problem| found.0.contains(problem))
                    .collect(),
            };
            if still.is_empty() {
                return Ok(());
            }
            confirmed = Some(still);
            // A walk that was cut short must not pass for one that was made.
            self.walked.clear();
        }
        self.report.problems.extend(confirmed.unwrap_or_default());
        Ok(())
    }

    /// Whether an object is there and whole. One that came into being since all were looked at is
    /// looked at now.
    fn is_whole(&mut self, id: &ObjectId) -> Result<bool> {
        if self.whole.contains(id)
            || *id == offshoot_core::EMPTY_TREE
            || *id == offshoot_core::EMPTY_BLOB
        {
            return Ok(true);
        }
        let row = self.upkeep.store().read(|tx| tx.object(id))?;
        match row {
            Some(row) => Ok(self.object(&row).is_ok()),
            None => Ok(false),
        }
    }
}

/// A lock, or none if it stays busy: then its holder is at work on what the check would look at.
fn unless_busy<T>(lock: Result<T>) -> Result<Option<T>> {
    match lock {
        Err(error) if error.code() == ErrorCode::WorkspaceBusy => Ok(None),
        lock => lock.map(Some),
    }
}

fn missing(what: &str) -> Error {
    Error::internal(format!("its {what} is missing"))
}
