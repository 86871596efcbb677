//! Requests that may be repeated, inside a transaction.

use offshoot_core::{AgentId, Result, Timestamp};
use rusqlite::{Row, params};

use super::Tx;
use super::codec::{self, Decoded};
use super::projects::optional_name;
use crate::{MadeRow, RequestReads, RequestRow, RequestWrites, WorkspaceKey};

fn request(row: &Row<'_>) -> Decoded<RequestRow> {
    Ok(RequestRow {
        key: row.get(0)?,
        content: row.get(1)?,
        at: codec::time(row, 2)?,
        made: Vec::new(),
    })
}

fn made(row: &Row<'_>) -> Decoded<MadeRow> {
    Ok(MadeRow {
        number: row.get(0)?,
        workspace: row.get::<_, Option<i64>>(1)?.map(WorkspaceKey),
        agent: optional_name(row, 2)?,
        line: row.get(3)?,
    })
}

impl RequestReads for Tx<'_> {
    fn request(&self, key: &[u8; 32]) -> Result<Option<RequestRow>> {
        let found = self.one(
            "SELECT key, content, at FROM request WHERE key = ?1",
            [&key[..]],
            request,
        )?;
        let Some(found) = found else {
            return Ok(None);
        };
        let made = self.all(
            "SELECT number, workspace, agent, line FROM request_made WHERE request = ?1
             ORDER BY number",
            [&key[..]],
            made,
        )?;
        Ok(Some(RequestRow { made, ..found }))
    }
}

impl RequestWrites for Tx<'_> {
    fn note_made(&mut self, request: &RequestRow, made: &MadeRow) -> Result<()> {
        self.change(
            "INSERT INTO request (key, content, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            params![&request.key[..], &request.content[..], request.at.0],
        )?;
        self.change(
            "INSERT OR REPLACE INTO request_made (request, number, workspace, agent, line)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                &request.key[..],
                made.number,
                made.workspace.map(|key| key.0),
                made.agent.as_ref().map(AgentId::as_str),
                made.line,
            ],
        )?;
        Ok(())
    }

    fn forget_request(&mut self, key: &[u8; 32]) -> Result<()> {
        self.change("DELETE FROM request WHERE key = ?1", [&key[..]])?;
        Ok(())
    }

    fn forget_requests(&mut self, before: Timestamp, limit: usize) -> Result<usize> {
        self.change(
            "DELETE FROM request WHERE key IN
                (SELECT key FROM request WHERE at < ?1 ORDER BY at LIMIT ?2)",
            params![before.0, i64::try_from(limit).unwrap_or(i64::MAX)],
        )
    }
}
