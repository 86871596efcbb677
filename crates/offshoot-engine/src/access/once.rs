//! Requests that may be repeated, on behalf of a principal: a key is one of its own.

use offshoot_core::{Error, Result};
use offshoot_store::{WorkspaceRow, WriteTx};
use serde::Serialize;

use super::Access;
use crate::context::idempotency::{Also, KeyedRequest, Made};

impl Access {
    /// Makes `count` things once for each key that this principal gives; without a key each time.
    /// Returns them, and whether this call made one. `find` gets what a request before made and is
    /// still there, `make` what there is so far; the access that it gets notes what it makes. A key
    /// that came with another request of the kind is refused.
    pub fn once<T>(
        &self,
        kind: &str,
        key: Option<&[u8]>,
        request: &impl Serialize,
        count: usize,
        find: impl Fn(&Made) -> Result<T>,
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
        self.engine.once(&request, count, find, |noting, things| {
            let noting = Access {
                noting: Some(noting),
                ..self.clone()
            };
            make(&noting, things)
        })
    }

    /// Calls `make` with what notes the row that it makes, if it is to be noted.
    pub(super) fn noted<T>(&self, make: impl FnOnce(Option<Also<'_>>) -> Result<T>) -> Result<T> {
        match &self.noting {
            None => make(None),
            Some(noting) => {
                let note = |tx: &mut dyn WriteTx, row: &WorkspaceRow| noting.note_row(tx, row);
                make(Some(&note))
            }
        }
    }
}
