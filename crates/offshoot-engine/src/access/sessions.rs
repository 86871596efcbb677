//! Workspaces of conversations, for callers that know a session instead of a workspace, and paths as
//! such callers write them.

use offshoot_core::{Error, ErrorCode, Layout, RelPath, Result, WorkspaceId};

use super::Access;
use crate::workspace::life::Workspace;

/// How many workspaces are read at once.
const PAGE: usize = 256;
/// The most workspaces that an error names where one was meant.
const MOST_NAMED: usize = 10;

impl Access {
    /// A path as tools and older routes take it: `\` is read as `/`, and in a session's workspace an
    /// inner `..` that stays inside is taken out. Everywhere else `..` is refused.
    pub fn loose_path(&self, id: &WorkspaceId, bytes: &[u8]) -> Result<RelPath> {
        let refused = match RelPath::parse_loose(bytes) {
            Err(error) if error.code() == ErrorCode::PathTraversalBlocked => error,
            settled => return settled,
        };
        match RelPath::parse_loose_with_dotdot(bytes) {
            Ok(path) if self.workspace(id).is_ok_and(|one| is_session(&one)) => Ok(path),
            _ => Err(refused),
        }
    }

    /// The workspace of a session: the one that `name` is the id of or begins, or, without a name,
    /// the only one there is.
    ///
    /// What is out of reach is not counted. Costs a walk over the ids of all workspaces, but for a
    /// whole id.
    pub fn session_workspace(&self, name: Option<&str>) -> Result<WorkspaceId> {
        let begins = name.unwrap_or_default();
        if let Ok(id) = begins.parse::<WorkspaceId>()
            && let Some(open) = self.session_named(&id)?
        {
            return Ok(open.id);
        }
        let mut found: Vec<WorkspaceId> = Vec::new();
        let mut after: Option<WorkspaceId> = None;
        while found.len() <= MOST_NAMED {
            let page = self.workspaces(after.as_ref(), PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            let fits = |one: &Workspace| is_session(one) && one.id.as_str().starts_with(begins);
            found.extend(page.into_iter().filter(fits).map(|one| one.id));
        }
        match (&found[..], name) {
            ([only], _) => Ok(only.clone()),
            ([], Some(name)) => Err(Error::new(
                ErrorCode::SessionNotFound,
                format!("there is no session `{}`", name.escape_debug()),
            )),
            ([], None) => Err(Error::new(
                ErrorCode::SessionNotFound,
                "there is no session",
            )),
            (several, _) => Err(ambiguous(name, several)),
        }
    }

    fn session_named(&self, id: &WorkspaceId) -> Result<Option<Workspace>> {
        match self.workspace(id) {
            Ok(open) => Ok(Some(open).filter(is_session)),
            Err(error) if error.code() == ErrorCode::WorkspaceNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_session(workspace: &Workspace) -> bool {
    workspace.layout == Layout::Session
}

fn ambiguous(name: Option<&str>, found: &[WorkspaceId]) -> Error {
    let names: Vec<&str> = found.iter().map(WorkspaceId::as_str).collect();
    let names = &names[..names.len().min(MOST_NAMED)];
    let message = match name {
        Some(name) => format!("`{}` begins several sessions", name.escape_debug()),
        None => "there are several sessions, and the request names none".to_owned(),
    };
    Error::new(ErrorCode::AmbiguousPrefix, message)
        .with_hint(format!("it can be {}", names.join(", ")))
        .with_details(serde_json::json!({ "matches": names }))
}
