//! Merges and reviews inside a transaction.

use offshoot_core::{Error, ObjectId, RelPath, Result};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use super::Tx;
use super::codec::{self, Decoded, bad, cause};
use super::read::limit_or_all;
use super::write::{Id, optional};
use crate::{
    CandidateRow, CompletionRow, MergeReads, MergeRow, MergeWrites, ReviewRow, ReviewState,
    WorkspaceKey,
};

const COMPLETION: &str = "SELECT id, project, workspace, options, \
     (SELECT name FROM operator WHERE key = completion.operator), claim, message_id, at, landed \
     FROM completion";
const MERGE: &str = "SELECT id, project, workspace, base, ours, theirs, snapshot, at, \
     (SELECT name FROM operator WHERE key = merge.operator), claim, message_id, priority, \
     outcome, undone_by FROM merge";
const REVIEW: &str = "SELECT id, project, workspace, merge, path, state, base, ours, theirs, \
     opened_at, details, snapshot FROM review";

/// A range instead of a pattern, so that the index serves it: names are hexadecimal digits, which
/// all come before the tilde.
const BEGINS: &str = "WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id";

fn completion(row: &Row<'_>) -> Decoded<CompletionRow> {
    Ok(CompletionRow {
        id: row.get(0)?,
        project: WorkspaceKey(row.get(1)?),
        workspace: WorkspaceKey(row.get(2)?),
        options: row.get(3)?,
        cause: cause(row, 4)?,
        at: codec::time(row, 7)?,
        landed: row.get(8)?,
    })
}

fn merge(row: &Row<'_>) -> Decoded<MergeRow> {
    Ok(MergeRow {
        id: row.get(0)?,
        project: WorkspaceKey(row.get(1)?),
        workspace: WorkspaceKey(row.get(2)?),
        base: codec::id(row, 3)?,
        ours: codec::optional_id(row, 4)?,
        theirs: codec::id(row, 5)?,
        snapshot: codec::optional_id(row, 6)?,
        at: codec::time(row, 7)?,
        cause: cause(row, 8)?,
        priority: row.get(11)?,
        outcome: row.get(12)?,
        undone_by: codec::optional_id(row, 13)?,
    })
}

fn review_state(row: &Row<'_>, column: usize) -> Decoded<ReviewState> {
    match row.get(column)? {
        0i64 => Ok(ReviewState::Open),
        1 => Ok(ReviewState::Decided),
        2 => Ok(ReviewState::Resolved),
        _ => bad(column, Type::Integer),
    }
}

fn review(row: &Row<'_>) -> Decoded<ReviewRow> {
    Ok(ReviewRow {
        id: row.get(0)?,
        project: WorkspaceKey(row.get(1)?),
        workspace: WorkspaceKey(row.get(2)?),
        merge: row.get(3)?,
        path: RelPath::from_normal(row.get_ref(4)?.as_blob()?),
        state: review_state(row, 5)?,
        base: codec::optional_id(row, 6)?,
        ours: codec::optional_id(row, 7)?,
        theirs: codec::optional_id(row, 8)?,
        opened_at: codec::time(row, 9)?,
        details: row.get(10)?,
        snapshot: codec::optional_id(row, 11)?,
    })
}

fn candidate(row: &Row<'_>) -> Decoded<CandidateRow> {
    Ok(CandidateRow {
        review: row.get(0)?,
        number: row.get(1)?,
        content: codec::id(row, 2)?,
        cause: cause(row, 3)?,
        at: codec::time(row, 6)?,
        note: row.get(7)?,
    })
}

/// Merges of one project or of all that are open. A page is read from where it begins: the number that
/// it comes before is one value and no alternative, so that SQLite seeks it.
pub(super) fn merges_query(of_project: bool) -> String {
    let (wanted, named) = match of_project {
        true => ("project = ?1", "project = ?1"),
        false => (
            "EXISTS (SELECT 1 FROM workspace WHERE key = merge.project AND state = 0)",
            "?1 IS NULL",
        ),
    };
    format!(
        "{MERGE} WHERE {wanted} AND number < CASE WHEN ?2 IS NULL THEN 9223372036854775807
         ELSE (SELECT number FROM merge WHERE id = ?2 AND {named}) END
         ORDER BY number DESC LIMIT ?3"
    )
}

impl MergeReads for Tx<'_> {
    fn completions(&self, project: Option<WorkspaceKey>) -> Result<Vec<CompletionRow>> {
        match project {
            Some(project) => self.all(
                &format!("{COMPLETION} WHERE project = ?1 ORDER BY number"),
                [project.0],
                completion,
            ),
            None => self.all(&format!("{COMPLETION} ORDER BY number"), [], completion),
        }
    }

    fn merge(&self, id: &str) -> Result<Option<MergeRow>> {
        self.one(&format!("{MERGE} WHERE id = ?1"), [id], merge)
    }

    fn merge_ids(&self, prefix: &str) -> Result<Vec<String>> {
        self.all(&format!("SELECT id FROM merge {BEGINS}"), [prefix], |row| {
            row.get(0)
        })
    }

    fn merges(
        &self,
        project: Option<WorkspaceKey>,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<MergeRow>> {
        self.all(
            &merges_query(project.is_some()),
            params![
                project.map(|project| project.0),
                before,
                limit_or_all(limit)
            ],
            merge,
        )
    }

    fn last_merge(&self, workspace: WorkspaceKey) -> Result<Option<MergeRow>> {
        self.one(
            &format!("{MERGE} WHERE workspace = ?1 ORDER BY number DESC LIMIT 1"),
            [workspace.0],
            merge,
        )
    }

    fn last_landed(
        &self,
        workspace: WorkspaceKey,
        base: &ObjectId,
        before: Option<&str>,
    ) -> Result<Option<MergeRow>> {
        self.one(
            &format!(
                "{MERGE} WHERE workspace = ?1 AND base = ?2 AND snapshot IS NOT NULL
                 AND undone_by IS NULL AND (?3 IS NULL
                 OR number < (SELECT number FROM merge WHERE id = ?3 AND workspace = ?1))
                 ORDER BY number DESC LIMIT 1"
            ),
            params![workspace.0, Id(base), before],
            merge,
        )
    }

    fn undone_merges(&self, workspace: WorkspaceKey) -> Result<Vec<MergeRow>> {
        self.all(
            &format!("{MERGE} WHERE workspace = ?1 AND undone_by IS NOT NULL ORDER BY number"),
            [workspace.0],
            merge,
        )
    }

    fn merges_landed_as(
        &self,
        project: WorkspaceKey,
        snapshot: &ObjectId,
    ) -> Result<Vec<MergeRow>> {
        self.all(
            &format!("{MERGE} WHERE snapshot = ?1 AND project = ?2 ORDER BY number"),
            params![Id(snapshot), project.0],
            merge,
        )
    }

    fn reviews_landed_as(
        &self,
        project: WorkspaceKey,
        snapshot: &ObjectId,
    ) -> Result<Vec<ReviewRow>> {
        self.all(
            &format!("{REVIEW} WHERE snapshot = ?1 AND project = ?2 ORDER BY number"),
            params![Id(snapshot), project.0],
            review,
        )
    }

    fn reviews_of(&self, workspace: WorkspaceKey) -> Result<Vec<ReviewRow>> {
        self.all(
            &format!("{REVIEW} WHERE workspace = ?1 ORDER BY number"),
            [workspace.0],
            review,
        )
    }

    fn review(&self, id: &str) -> Result<Option<ReviewRow>> {
        self.one(&format!("{REVIEW} WHERE id = ?1"), [id], review)
    }

    fn review_ids(&self, prefix: &str) -> Result<Vec<String>> {
        self.all(
            &format!("SELECT id FROM review {BEGINS}"),
            [prefix],
            |row| row.get(0),
        )
    }

    fn reviews(&self, project: Option<WorkspaceKey>, unresolved: bool) -> Result<Vec<ReviewRow>> {
        let below = if unresolved { 2 } else { 3 };
        match project {
            Some(project) => self.all(
                &format!("{REVIEW} WHERE project = ?1 AND state < ?2 ORDER BY number"),
                params![project.0, below],
                review,
            ),
            None => self.all(
                &format!("{REVIEW} WHERE state < ?1 ORDER BY number"),
                [below],
                review,
            ),
        }
    }

    fn reviews_after(
        &self,
        project: Option<WorkspaceKey>,
        unresolved: bool,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ReviewRow>> {
        let below = if unresolved { 2 } else { 3 };
        // Only the conditions that are asked for, so that SQLite can choose the right index.
        let of_project = match project {
            Some(_) => "project = ?1",
            None => "?1 IS NULL",
        };
        self.all(
            &format!(
                "{REVIEW} WHERE {of_project} AND state < ?2 AND (?3 IS NULL
                 OR number > (SELECT number FROM review WHERE id = ?3 AND {of_project}))
                 ORDER BY number LIMIT ?4"
            ),
            params![
                project.map(|project| project.0),
                below,
                after,
                limit_or_all(limit)
            ],
            review,
        )
    }

    fn candidates(&self, review: &str) -> Result<Vec<CandidateRow>> {
        self.all(
            "SELECT review, number, content,
                (SELECT name FROM operator WHERE key = candidate.operator), claim, message_id, at,
                note
             FROM candidate WHERE review = ?1 ORDER BY number",
            [review],
            candidate,
        )
    }

    fn last_candidate(&self, review: &str) -> Result<Option<i64>> {
        self.one(
            "SELECT number FROM candidate WHERE review = ?1 ORDER BY number DESC LIMIT 1",
            [review],
            |row| row.get(0),
        )
    }
}

impl MergeWrites for Tx<'_> {
    fn put_completion(&mut self, row: &CompletionRow) -> Result<()> {
        let operator = self.operator(&row.cause.operator)?;
        self.change(
            "INSERT INTO completion (id, project, workspace, options, operator, claim, message_id,
                at, landed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (id) DO UPDATE SET options = excluded.options, landed = excluded.landed",
            params![
                row.id,
                row.project.0,
                row.workspace.0,
                row.options,
                operator,
                row.cause.claim,
                row.cause.message_id,
                row.at.0,
                row.landed,
            ],
        )?;
        Ok(())
    }

    fn remove_completion(&mut self, id: &str) -> Result<()> {
        self.change("DELETE FROM completion WHERE id = ?1", [id])?;
        Ok(())
    }

    fn put_merge(&mut self, row: &MergeRow) -> Result<()> {
        let operator = self.operator(&row.cause.operator)?;
        self.change(
            "INSERT INTO merge (id, project, workspace, base, ours, theirs, snapshot, at, operator,
                claim, message_id, priority, outcome, undone_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT (id) DO UPDATE SET ours = excluded.ours, snapshot = excluded.snapshot,
                outcome = excluded.outcome, undone_by = excluded.undone_by",
            params![
                row.id,
                row.project.0,
                row.workspace.0,
                Id(&row.base),
                optional(&row.ours),
                Id(&row.theirs),
                optional(&row.snapshot),
                row.at.0,
                operator,
                row.cause.claim,
                row.cause.message_id,
                row.priority,
                row.outcome,
                optional(&row.undone_by),
            ],
        )?;
        Ok(())
    }

    fn put_review(&mut self, row: &ReviewRow) -> Result<()> {
        let state = match row.state {
            ReviewState::Open => 0,
            ReviewState::Decided => 1,
            ReviewState::Resolved => 2,
        };
        self.change(
            "INSERT INTO review (id, project, workspace, merge, path, state, base, ours, theirs,
                opened_at, details, snapshot)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (id) DO UPDATE SET merge = excluded.merge, state = excluded.state,
                base = excluded.base, ours = excluded.ours, theirs = excluded.theirs,
                details = excluded.details, snapshot = excluded.snapshot",
            params![
                row.id,
                row.project.0,
                row.workspace.0,
                row.merge,
                row.path.as_bytes(),
                state,
                optional(&row.base),
                optional(&row.ours),
                optional(&row.theirs),
                row.opened_at.0,
                row.details,
                optional(&row.snapshot),
            ],
        )?;
        Ok(())
    }

    fn add_candidate(&mut self, row: &CandidateRow) -> Result<()> {
        let newest = self
            .candidates(&row.review)?
            .last()
            .map_or(0, |row| row.number);
        if row.number != newest + 1 {
            return Err(Error::internal(format!(
                "candidate number {} does not follow {newest}",
                row.number
            )));
        }
        let operator = self.operator(&row.cause.operator)?;
        self.change(
            "INSERT INTO candidate (review, number, content, operator, claim, message_id, at, note)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                row.review,
                row.number,
                Id(&row.content),
                operator,
                row.cause.claim,
                row.cause.message_id,
                row.at.0,
                row.note,
            ],
        )?;
        Ok(())
    }
}
