//! Who is asking, and the one check of what they may do.
//!
//! A [`Principal`] comes from a credential. Every door turns it into an [`Access`] and calls the
//! use cases through that, which asks [`Principal::check`] first. What is out of reach answers as
//! what does not exist: the store is not even asked, so nothing tells the two apart.

mod acting;
mod cloning;
mod pattern;

pub use acting::Access;
pub use pattern::Pattern;

use offshoot_core::{
    AgentId, Error, ErrorCode, Operator, ProjectId, RelPath, Result, Timestamp, WorkspaceId,
};
use serde::{Deserialize, Serialize};

use crate::engine::no_workspace;

/// What kind of caller it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// Whoever runs this Offshoot.
    Admin,
    /// A person.
    User,
    /// An agent, which sees its own workspace and no ids of others.
    Agent,
    /// A program with a token for one workspace or project.
    Service,
}

/// What can be done with a workspace or a path of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Read content, listings, history and differences.
    Read,
    /// Create and change files and directories.
    Write,
    /// Delete them, or move them away.
    Delete,
    /// Take snapshots.
    Snapshot,
    /// Bring snapshots back.
    Restore,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 5] = [
        Operation::Read,
        Operation::Write,
        Operation::Delete,
        Operation::Snapshot,
        Operation::Restore,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Delete => "delete",
            Operation::Snapshot => "snapshot",
            Operation::Restore => "restore",
        }
    }
}

impl std::str::FromStr for Operation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| {
            Error::invalid(format!("`{}` is no operation", text.escape_debug()))
                .with_hint("use `read`, `write`, `delete`, `snapshot` and `restore`")
        })
    }
}

/// Which workspaces a principal reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of them, and what concerns the store as a whole.
    Everything,
    /// Those of one agent: its workspace, and its further forks `agent~2`, `agent~3` …
    Agent(AgentId),
    /// One.
    Workspace(WorkspaceId),
    /// Those forked from one project.
    Project(ProjectId),
}

impl Reach {
    /// Whether the workspace lies within. Decided by names alone.
    fn holds(&self, workspace: &WorkspaceId) -> bool {
        match self {
            Reach::Everything => true,
            Reach::Workspace(own) => own == workspace,
            Reach::Agent(agent) => match workspace.as_str().strip_prefix(agent.as_str()) {
                Some("") => true,
                Some(rest) => rest.strip_prefix('~').is_some_and(|number| {
                    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
                }),
                None => false,
            },
            // Forks name their project in the store, so this is decided where forks are known.
            Reach::Project(_) => false,
        }
    }
}

/// Operations that are allowed on paths of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which paths.
    pub pattern: Pattern,
    /// What may be done there.
    pub operations: Vec<Operation>,
}

impl std::str::FromStr for Rule {
    type Err = Error;

    /// Reads `PATTERN:OP,OP` as the command line has it; without operations all are meant.
    fn from_str(text: &str) -> Result<Self> {
        let (pattern, operations) = match text.rsplit_once(':') {
            None => (text, Operation::ALL.to_vec()),
            Some((pattern, words)) => {
                let words: Result<Vec<Operation>> = words.split(',').map(str::parse).collect();
                (pattern, words?)
            }
        };
        let pattern = Pattern::parse(pattern)?;
        Ok(Rule {
            pattern,
            operations,
        })
    }
}

/// What the holder of a token may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What kind of caller it makes.
    pub kind: PrincipalKind,
    /// Which workspaces.
    pub reach: Reach,
    /// Which paths in them; no rule means all paths and all operations.
    pub allow: Vec<Rule>,
}

impl Scope {
    /// All there is.
    pub fn everything(kind: PrincipalKind) -> Self {
        Scope {
            kind,
            reach: Reach::Everything,
            allow: Vec::new(),
        }
    }
}

/// Who is asking.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The name in the history.
    pub operator: Operator,
    /// What they may do.
    pub scope: Scope,
    /// The token that says so; none for whoever owns the data directory.
    pub token: Option<String>,
    /// When the token ends.
    pub expires_at: Option<Timestamp>,
}

impl Principal {
    /// Whoever owns the data directory, at the command line.
    pub fn owner(operator: Operator) -> Self {
        Principal {
            operator,
            scope: Scope::everything(PrincipalKind::Admin),
            token: None,
            expires_at: None,
        }
    }

    /// The one check: may this be done with this path of this workspace?
    ///
    /// Out of reach is `workspace_not_found`, in the very words of a workspace that does not
    /// exist. Within reach but not allowed is `permission_denied`, whatever is at the path.
    pub fn check(
        &self,
        operation: Operation,
        workspace: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        self.check_reach(workspace)?;
        self.decide(operation, path, |rule| rule.pattern.matches(path))
    }

    /// The same for a path with everything below it.
    pub fn check_all_below(
        &self,
        operation: Operation,
        workspace: &WorkspaceId,
        path: &RelPath,
    ) -> Result<()> {
        self.check_reach(workspace)?;
        self.decide(operation, path, |rule| rule.pattern.matches_all_below(path))
    }

    /// Whether the workspace is one of this principal's.
    pub fn check_reach(&self, workspace: &WorkspaceId) -> Result<()> {
        if self.reaches(workspace) {
            return Ok(());
        }
        Err(no_workspace(workspace))
    }

    /// Whether the workspace is one of this principal's.
    pub fn reaches(&self, workspace: &WorkspaceId) -> bool {
        self.scope.reach.holds(workspace)
    }

    /// Whether a listing may show the path: it may be read, or something below it.
    pub fn sees(&self, path: &RelPath) -> bool {
        !self.is_limited()
            || self.scope.allow.iter().any(|rule| {
                rule.operations.contains(&Operation::Read) && rule.pattern.may_match_below(path)
            })
    }

    /// Whether the content of the path may be read.
    pub fn reads(&self, path: &RelPath) -> bool {
        self.decide(Operation::Read, path, |rule| rule.pattern.matches(path))
            .is_ok()
    }

    /// Whether only some paths or operations are allowed.
    pub fn is_limited(&self) -> bool {
        !self.scope.allow.is_empty()
    }

    /// Refuses everyone who does not reach everything: for what concerns the store as a whole.
    pub fn check_everything(&self) -> Result<()> {
        if self.scope.reach == Reach::Everything && !self.is_limited() {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::PermissionDenied,
            "this needs an admin token",
        ))
    }

    /// Refuses a token that is not allowed to read everything that it reaches.
    pub(crate) fn check_whole(&self) -> Result<()> {
        let root = RelPath::root();
        self.decide(Operation::Read, &root, |rule| {
            rule.pattern.matches_all_below(&root)
        })
    }

    fn decide(
        &self,
        operation: Operation,
        path: &RelPath,
        matches: impl Fn(&Rule) -> bool,
    ) -> Result<()> {
        let allowed = |rule: &Rule| rule.operations.contains(&operation) && matches(rule);
        if !self.is_limited() || self.scope.allow.iter().any(allowed) {
            return Ok(());
        }
        let what = if path.is_root() {
            "the whole workspace".to_owned()
        } else {
            format!("`{path}`")
        };
        Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("the token does not allow to {} {what}", operation.as_str()),
        ))
    }
}

/// A scope as it is stored: words only, so that the store need not know them.
#[derive(Debug, Serialize, Deserialize)]
struct StoredScope {
    kind: PrincipalKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allow: Vec<StoredRule>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredRule {
    pattern: String,
    operations: Vec<Operation>,
}

impl Scope {
    /// The words for the store.
    pub(crate) fn to_stored(&self) -> Result<String> {
        let name = |wanted: &str| match &self.reach {
            Reach::Agent(id) if wanted == "agent" => Some(id.to_string()),
            Reach::Workspace(id) if wanted == "workspace" => Some(id.to_string()),
            Reach::Project(id) if wanted == "project" => Some(id.to_string()),
            _ => None,
        };
        let rule = |rule: &Rule| StoredRule {
            pattern: rule.pattern.as_str().to_owned(),
            operations: rule.operations.clone(),
        };
        serde_json::to_string(&StoredScope {
            kind: self.kind,
            agent: name("agent"),
            workspace: name("workspace"),
            project: name("project"),
            allow: self.allow.iter().map(rule).collect(),
        })
        .map_err(|cause| Error::internal("a scope could not be written").with_source(cause))
    }

    /// Reads the words of the store. One that names nothing is not taken for everything.
    pub(crate) fn from_stored(text: &str) -> Result<Self> {
        let broken = || Error::internal("the scope of a token is wrong");
        let stored: StoredScope =
            serde_json::from_str(text).map_err(|cause| broken().with_source(cause))?;
        let reach = match (stored.agent, stored.workspace, stored.project) {
            (Some(id), None, None) => Reach::Agent(id.parse()?),
            (None, Some(id), None) => Reach::Workspace(id.parse()?),
            (None, None, Some(id)) => Reach::Project(id.parse()?),
            (None, None, None)
                if matches!(stored.kind, PrincipalKind::Admin | PrincipalKind::User) =>
            {
                Reach::Everything
            }
            _ => return Err(broken()),
        };
        let rule = |rule: StoredRule| {
            Ok(Rule {
                pattern: Pattern::parse(&rule.pattern)?,
                operations: rule.operations,
            })
        };
        let allow: Result<Vec<Rule>> = stored.allow.into_iter().map(rule).collect();
        Ok(Scope {
            kind: stored.kind,
            reach,
            allow: allow?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(reach: Reach, allow: &[&str]) -> Principal {
        Principal {
            operator: Operator::new("a"),
            scope: Scope {
                kind: PrincipalKind::Agent,
                reach,
                allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(),
            },
            token: None,
            expires_at: None,
        }
    }

    #[test]
    fn an_agent_reaches_its_own_workspaces_alone() {
        let agent = principal(Reach::Agent("a".parse().unwrap()), &[]);
        for (name, within) in [
            ("a", true),
            ("a~2", true),
            ("a~", false),
            ("ab", false),
            ("a~x", false),
        ] {
            let id: WorkspaceId = name.parse().unwrap();
            assert_eq!(agent.reaches(&id), within, "{name}");
        }
    }

    #[test]
    fn rules_limit_paths_and_operations() {
        let ws: WorkspaceId = "w".parse().unwrap();
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let limited = principal(
            Reach::Workspace(ws.clone()),
            &["src/**:read,write", "*.md:read"],
        );
        let may = |operation, at: &str| limited.check(operation, &ws, &path(at)).is_ok();
        assert!(may(Operation::Read, "src/a") && may(Operation::Write, "src/a/b"));
        assert!(may(Operation::Read, "a.md") && !may(Operation::Write, "a.md"));
        assert!(!may(Operation::Delete, "src/a") && !may(Operation::Read, "."));
        assert!(limited.sees(&path(".")) && !limited.sees(&path("doc")));
        let code = limited
            .check(Operation::Read, &ws, &path("x"))
            .unwrap_err()
            .code();
        assert_eq!(code, ErrorCode::PermissionDenied);
        let other: WorkspaceId = "v".parse().unwrap();
        let code = limited
            .check(Operation::Read, &other, &path("x"))
            .unwrap_err()
            .code();
        assert_eq!(code, ErrorCode::WorkspaceNotFound);
    }

    #[test]
    fn scopes_survive_the_store_and_broken_ones_grant_nothing() {
        let scope = principal(Reach::Agent("a".parse().unwrap()), &["x:read"]).scope;
        assert_eq!(
            Scope::from_stored(&scope.to_stored().unwrap()).unwrap(),
            scope
        );
        for broken in ["", "{}", r#"{"kind":"agent"}"#, r#"{"kind":"service"}"#] {
            assert!(Scope::from_stored(broken).is_err(), "{broken}");
        }
    }
}
