//! What happened to a path before it stood where it is: under earlier names and, in a fork, in the
//! project that it began with.

use offshoot_core::{RelPath, Result, Timestamp, cancel};
use offshoot_store::{HistoryFilter, HistoryOp, HistoryRow, NewHistory, ReadTx, Via, WorkspaceKey};

use crate::content::index::Index;
use crate::content::rows::state_of;
use crate::history::trail::is_loss;

/// The most lines of history that are read for one path.
const MAX_LINES: usize = 1000;
/// The most snapshots of a project that are searched for the one that brought a file.
const MAX_SNAPSHOTS: usize = 1000;

/// Decides whether a reader sees a line of history, and may take names out of it. The flag says
/// whether the line is of the workspace itself, and not of the project that it began with.
pub(crate) type LineFilter<'a> = &'a dyn Fn(&mut HistoryRow, bool) -> bool;

/// The filter of a reader who sees everything.
pub(crate) const ALL: LineFilter<'static> = &|_, _| true;

/// The lines of a path, newest first, under the names that it had when they were written, and its
/// name before the oldest of them.
fn follow_renames(
    tx: &dyn ReadTx,
    place: WorkspaceKey,
    path: &RelPath,
    upto: Option<Timestamp>,
) -> Result<(Vec<HistoryRow>, RelPath)> {
    let (mut lines, mut name, mut before) = (Vec::new(), path.clone(), None);
    while lines.len() < MAX_LINES {
        let mut page = tx.history(&HistoryFilter {
            workspace: Some(place),
            path: Some(name.clone()),
            before_seq: before,
            upto,
            newest_first: true,
            limit: MAX_LINES - lines.len(),
            ..HistoryFilter::default()
        })?;
        page.retain(|row| !is_loss(&row.line));
        let is_move = |row: &HistoryRow| row.line.op == HistoryOp::Move && row.line.from.is_some();
        let Some(moved) = page.iter().position(is_move) else {
            lines.extend(page);
            break;
        };
        page.truncate(moved + 1);
        if let Some(row) = page.last() {
            before = Some(row.seq);
            name = row.line.from.clone().unwrap_or_default();
        }
        lines.extend(page);
    }
    Ok((lines, name))
}

/// Everything that is known to have happened to a path, newest first, as far as the filter lets it
/// through.
pub(crate) fn past(
    index: &Index<'_>,
    path: &RelPath,
    shown: LineFilter<'_>,
) -> Result<Vec<HistoryRow>> {
    let tx = index.tx;
    let (mut lines, name) = follow_renames(tx, index.row.key, path, None)?;
    lines.retain_mut(|row| shown(row, true));
    let made_here = lines.last().is_some_and(|row| {
        let made = [HistoryOp::Create, HistoryOp::Mkdir].contains(&row.line.op);
        made && row.line.before.is_none()
    });
    let Some(fork) = tx.fork(index.row.key)?.filter(|_| !made_here) else {
        return Ok(lines);
    };
    let base = tx.snapshot(fork.project, &fork.base)?;
    let upto = base.map_or(index.row.created_at, |base| base.at);
    let (mut earlier, _) = follow_renames(tx, fork.project, &name, Some(upto))?;
    earlier.retain_mut(|row| shown(row, false));
    lines.extend(earlier);
    Ok(lines)
}

/// The snapshot of the project that first had a file as it is, for a file of a fork without a line
/// of history because it came with an import.
pub(crate) fn brought_by(
    index: &Index<'_>,
    path: &RelPath,
    shown: LineFilter<'_>,
) -> Result<Option<HistoryRow>> {
    let tx = index.tx;
    let Some(fork) = tx.fork(index.row.key)? else {
        return Ok(None);
    };
    let (Some(base), Some(entry)) = (
        tx.snapshot(fork.project, &fork.base)?,
        index.base().entry(&index.objects, path)?,
    ) else {
        return Ok(None);
    };
    let mut brought = None;
    for snapshot in tx.snapshots_before(fork.project, base.number + 1, MAX_SNAPSHOTS)? {
        cancel::check()?;
        if state_of(&snapshot).entry(&index.objects, path)? != Some(entry) {
            break;
        }
        brought = Some(snapshot);
    }
    let Some(snapshot) = brought else {
        return Ok(None);
    };
    let mut row = HistoryRow {
        seq: 0,
        line: NewHistory {
            workspace: fork.project,
            revision: 0,
            at: snapshot.at,
            op: HistoryOp::Create,
            via: Via::Call,
            path: path.clone(),
            from: None,
            cause: snapshot.cause,
            kind: Some(entry.kind),
            before: None,
            after: entry.id,
            size: 0,
            mime: None,
            modified: None,
        },
    };
    Ok(shown(&mut row, false).then_some(row))
}
