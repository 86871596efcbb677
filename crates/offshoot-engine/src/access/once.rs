//! Idempotency keys on behalf of a principal: a repeated request makes nothing twice. Keys of two
//! principals are never the same.

use std::collections::BTreeMap;

use offshoot_core::{AgentId, Error, ErrorCode, ProjectId, Result, WorkspaceId};
use offshoot_store::{
    Durability, HistoryFilter, HistoryOp, HistoryRow, MadeRow, ReadTx, RequestRow, WorkspaceKind,
    WorkspaceRow, WorkspaceState, WriteTx,
};
use serde::Serialize;

use super::Access;
use crate::access::AccessControl;
use crate::context::idempotency::{
    ExtraWrite, IDEMPOTENCY_RETENTION, IdempotencyRecord, KeyedRequest, REPEAT_WAIT, micros,
};
use crate::workspace::files::Written;

impl Access {
    /// Makes `count` things once for each key that this principal gives; without a key each time.
    /// Returns them, and whether this call made one. `find` gets what an earlier request made and
    /// is still there, `make` what there is so far; the access that `make` gets records what it
    /// makes under the key. A key that came with another request of the kind is refused.
    pub fn once<T>(
        &self,
        kind: &str,
        key: Option<&[u8]>,
        request: &impl Serialize,
        count: usize,
        find: impl Fn(&EarlierResult) -> Result<T>,
        mut make: impl FnMut(&Access, &[T]) -> Result<T>,
    ) -> Result<(Vec<T>, bool)> {
        let Some(key) = key else {
            let mut things = Vec::with_capacity(count);
            for _ in 0..count {
                things.push(make(self, &things)?);
            }
            return Ok((things, true));
        };
        if key.is_empty() || key.len() > 255 {
            return Err(Error::invalid(
                "the header `Idempotency-Key` has 1 to 255 bytes",
            ));
        }
        let scope = self.principal.scope.to_stored(None)?;
        let owner = [
            self.principal.operator.as_str().as_bytes(),
            scope.as_bytes(),
            kind.as_bytes(),
            key,
        ];
        let request = KeyedRequest::new(&owner, request)?;
        self.rooms.once(&request, count, find, |noting, things| {
            let noting = Access {
                noting: Some(noting),
                ..self.clone()
            };
            make(&noting, things)
        })
    }

    /// Calls `make` with a function that records the new row under the idempotency key, if the
    /// request has one.
    pub(super) fn recording_key<T>(
        &self,
        make: impl FnOnce(Option<ExtraWrite<'_>>) -> Result<T>,
    ) -> Result<T> {
        match &self.noting {
            None => make(None),
            Some(noting) => {
                let note = |tx: &mut dyn WriteTx, row: &WorkspaceRow| noting.write_for_row(tx, row);
                make(Some(&note))
            }
        }
    }
}

impl AccessControl {
    /// Makes `count` things, each once for a key. Returns them, and whether this call made one.
    /// `find` gets what an earlier request made, `make` what there is so far and where to record
    /// the next. Two calls with the same key wait for each other, in all processes. A key that came
    /// with another request is refused: its answer would be to something else.
    pub(crate) fn once<T>(
        &self,
        request: &KeyedRequest,
        count: usize,
        find: impl Fn(&EarlierResult) -> Result<T>,
        mut make: impl FnMut(IdempotencyRecord, &[T]) -> Result<T>,
    ) -> Result<(Vec<T>, bool)> {
        // Requests with other keys do not wait for this one.
        let turn = self
            .context
            .locks
            .lock_name(&request.lock_name(), REPEAT_WAIT);
        let _turn = turn.map_err(|error| match error.code() {
            ErrorCode::WorkspaceBusy => Error::new(
                ErrorCode::WorkspaceBusy,
                "the first request with this `Idempotency-Key` is still being done",
            )
            .with_hint("repeat it later with the same key"),
            _ => error,
        })?;
        let noted = self.earlier_results(request)?;
        let at = self.context.now();
        let (mut things, mut made_one) = (Vec::with_capacity(count), false);
        for number in 0..count as i64 {
            if let Some(made) = noted.get(&number) {
                things.push(find(made)?);
                continue;
            }
            let noting = IdempotencyRecord {
                request: RequestRow {
                    key: request.key,
                    content: request.content,
                    at,
                    made: Vec::new(),
                },
                number,
            };
            let made = make(noting, &things)?;
            things.push(made);
            made_one = true;
        }
        Ok((things, made_one))
    }

    /// What an earlier request made and is still there, by its number.
    pub(crate) fn earlier_results(
        &self,
        request: &KeyedRequest,
    ) -> Result<BTreeMap<i64, EarlierResult>> {
        let Some(row) = self.store().read(|tx| tx.request(&request.key))? else {
            return Ok(BTreeMap::new());
        };
        let is_old = self.context.now().0.saturating_sub(row.at.0) > micros(IDEMPOTENCY_RETENTION);
        if !is_old && row.content != request.content {
            return Err(
                Error::invalid("this `Idempotency-Key` came with another request before")
                    .with_hint("give every request a key of its own; repeat it as it was"),
            );
        }
        let mut there = BTreeMap::new();
        for made in row.made.iter().filter(|_| !is_old) {
            if let Some(found) = self.still_there(made)? {
                there.insert(made.number, found);
            }
        }
        if there.is_empty() {
            self.store()
                .write(Durability::Relaxed, |tx| tx.forget_request(&request.key))?;
        }
        Ok(there)
    }

    pub(crate) fn still_there(&self, made: &MadeRow) -> Result<Option<EarlierResult>> {
        if let Some(agent) = &made.agent {
            let row = self.store().read(|tx| tx.agent(agent))?;
            let is_there = row.is_some_and(|row| row.ended_at.is_none());
            return Ok(is_there.then(|| EarlierResult::Agent(agent.clone())));
        }
        let Some(key) = made.workspace else {
            return Ok(None);
        };
        let row = self.store().read(|tx| tx.workspace_by_key(key))?;
        let Some(row) = row.filter(|row| row.state == WorkspaceState::Open) else {
            return Ok(None);
        };
        match (made.line, row.kind) {
            (Some(number), _) => {
                let line = self.store().read(|tx| line_numbered(tx, &row, number))?;
                let written = line.map(|line| self.written_then(&line)).transpose()?;
                Ok(written.map(EarlierResult::File))
            }
            (None, WorkspaceKind::Project) => {
                Ok(Some(EarlierResult::Project(row.id.as_str().parse()?)))
            }
            (None, _) => Ok(Some(EarlierResult::Workspace(row.id))),
        }
    }

    /// The answer that the writer of a file got, from its line of history.
    pub(crate) fn written_then(&self, row: &HistoryRow) -> Result<Written> {
        let line = &row.line;
        let id = line.after;
        let id = id.ok_or_else(|| Error::internal("a write without content was noted"))?;
        let mime = match &line.mime {
            Some(mime) => mime.clone(),
            None => self.contents.mime_in_store(&line.path, id)?,
        };
        Ok(Written {
            path: line.path.clone(),
            size: line.size,
            mime,
            version: line.revision,
            id,
            created: line.op == HistoryOp::Create,
        })
    }
}

/// Something that an earlier request with the same key made and that is still there.
#[derive(Clone, Debug)]
pub enum EarlierResult {
    /// A workspace.
    Workspace(WorkspaceId),
    /// A project.
    Project(ProjectId),
    /// An agent.
    Agent(AgentId),
    /// A file, as it was written.
    File(Written),
}

impl EarlierResult {
    /// The workspace that it is.
    pub fn workspace(&self) -> Result<&WorkspaceId> {
        match self {
            EarlierResult::Workspace(id) => Ok(id),
            _ => Err(key_of_another_request()),
        }
    }

    /// The project that it is.
    pub fn project(&self) -> Result<&ProjectId> {
        match self {
            EarlierResult::Project(id) => Ok(id),
            _ => Err(key_of_another_request()),
        }
    }

    /// The agent that it is.
    pub fn agent(&self) -> Result<&AgentId> {
        match self {
            EarlierResult::Agent(id) => Ok(id),
            _ => Err(key_of_another_request()),
        }
    }

    /// The file that it is.
    pub fn file(&self) -> Result<&Written> {
        match self {
            EarlierResult::File(written) => Ok(written),
            _ => Err(key_of_another_request()),
        }
    }
}

pub(crate) fn key_of_another_request() -> Error {
    Error::internal("a request has a note of another kind of thing")
}

pub(crate) fn line_numbered(
    tx: &dyn ReadTx,
    row: &WorkspaceRow,
    number: i64,
) -> Result<Option<HistoryRow>> {
    let mut found = tx.history(&HistoryFilter {
        workspace: Some(row.key),
        after_seq: number - 1,
        before_seq: Some(number + 1),
        limit: 1,
        ..HistoryFilter::default()
    })?;
    Ok(found.pop())
}

#[cfg(test)]
mod tests {
    use offshoot_core::{Cause, Operator};
    use serde_json::json;

    use std::time::Duration;

    use offshoot_core::Timestamp;
    use serde_json::Value;

    use super::*;
    use crate::context::EngineOptions;
    use crate::context::idempotency::PRUNED_PER_WRITE;
    use crate::engine::Engine;

    #[test]
    fn a_request_is_the_same_however_it_is_spelt() {
        let content = |text: &str| {
            let value: Value = serde_json::from_str(text).unwrap();
            KeyedRequest::new(&[b"k"], &value).unwrap().content
        };
        let one = content(r#"{"name": "a", "count": 2, "deep": {"x": 1, "y": [null]}}"#);
        for same in [
            r#"{"count":2,"deep":{"y":[null],"x":1,"z":null},"name":"\u0061"}"#,
            r#"{"other":null,"name":"a","count":2,"deep":{"x":1,"y":[null]}}"#,
        ] {
            assert_eq!(content(same), one, "{same}");
        }
        for other in [
            r#"{"name":"b","count":2,"deep":{"x":1,"y":[null]}}"#,
            r#"{"name":"a","count":2,"deep":{"x":1,"y":[]}}"#,
            r#"{"name":"a","deep":{"x":1,"y":[null]}}"#,
        ] {
            assert_ne!(content(other), one, "{other}");
        }
    }

    fn ask(engine: &Engine, request: &KeyedRequest) -> Result<(Vec<String>, bool)> {
        let find = |made: &EarlierResult| made.workspace().map(ToString::to_string);
        engine.access.once(request, 1, find, |noting, _| {
            let also = |tx: &mut dyn WriteTx, row: &WorkspaceRow| noting.write_for_row(tx, row);
            let (layout, quota) = (Default::default(), Default::default());
            let cause = Cause::by(Operator::user());
            let made =
                engine
                    .workspaces
                    .create_workspace_and(None, layout, quota, Some(&also), &cause)?;
            Ok(made.id.to_string())
        })
    }

    /// Notes a request as if that had been done so long ago.
    fn make_older(engine: &Engine, request: &KeyedRequest, by: Duration) {
        let store = &engine.context.store;
        let aged = store.write(Durability::Synced, |tx| {
            let row = tx.request(&request.key)?.unwrap();
            let at = Timestamp(row.at.0 - micros(by));
            tx.forget_request(&request.key)?;
            tx.note_made(&RequestRow { at, ..row.clone() }, &row.made[0])
        });
        aged.unwrap();
    }

    #[test]
    fn notes_are_kept_for_a_day_and_then_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(EngineOptions::new(dir.path().join("data"))).unwrap();
        let request = |key: &[u8], asked: i64| KeyedRequest::new(&[key], &json!(asked)).unwrap();
        let is_noted = |request: &KeyedRequest| {
            let found = engine.context.store.read(|tx| tx.request(&request.key));
            found.unwrap().is_some()
        };
        let (first, minute) = (request(b"a", 1), Duration::from_secs(60));
        let (names, _) = ask(&engine, &first).unwrap();
        make_older(&engine, &first, IDEMPOTENCY_RETENTION - minute);
        assert_eq!(ask(&engine, &first).unwrap(), (names.clone(), false));
        assert!(ask(&engine, &request(b"a", 2)).is_err());
        // From then on it is as if it had never been asked, also for another request.
        make_older(&engine, &first, 2 * minute);
        let (others, made) = ask(&engine, &request(b"a", 2)).unwrap();
        assert!(made && others != names);
        assert_eq!(ask(&engine, &request(b"a", 2)).unwrap(), (others, false));
        // Each new note removes some old ones, and a clean-up removes all of them.
        let old: Vec<_> = (0..PRUNED_PER_WRITE as u8 + 3)
            .map(|n| request(&[n], 3))
            .collect();
        for request in &old {
            ask(&engine, request).unwrap();
        }
        for request in &old {
            make_older(&engine, request, 2 * IDEMPOTENCY_RETENTION);
        }
        ask(&engine, &request(b"b", 1)).unwrap();
        assert_eq!(old.iter().filter(|request| is_noted(request)).count(), 3);
        let unused_for = Duration::from_secs(3600);
        let cause = Cause::by(Operator::user());
        engine.upkeep.clean(unused_for, false, &cause).unwrap();
        assert!(!old.iter().any(is_noted) && is_noted(&request(b"b", 1)));
    }

    #[test]
    fn keys_of_two_owners_are_two_keys() {
        let key = |owner: &[&[u8]]| KeyedRequest::new(owner, &json!({})).unwrap().key;
        assert_eq!(key(&[b"a", b"b"]), key(&[b"a", b"b"]));
        assert_ne!(key(&[b"a", b"b"]), key(&[b"ab", b""]));
    }
}
