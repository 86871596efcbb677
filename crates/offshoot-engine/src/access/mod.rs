//! Who is asking, and the one check of what they may do.
//!
//! A [`Principal`] comes from a credential. Every door turns it into an [`Access`] and calls the
//! use cases through that, which asks the one check first: what the principal reaches
//! ([`Reach`]), then what its rules allow there. What is out of reach answers in the very words of
//! what does not exist.

mod acting;
pub(crate) mod agent_tree;
mod agents;
mod cloning;
mod files;
mod forks;
mod merges;
pub(crate) mod once;
mod projects;
mod reach;
mod reviews;
mod sessions;
pub(crate) mod tokens;
mod workspaces;

use offshoot_core::{Error, ErrorCode, Operator, RelPath, Result, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::content::Contents;
use crate::context::Context;
use crate::fork::Forks;
use crate::history::History;
use crate::link::Links;
use crate::merge::Merges;
use crate::project::Projects;
use crate::sync::Synchronizer;
use crate::workspace::Workspaces;
use offshoot_store::Store;

use crate::content::pattern::Pattern;
use crate::content::rows::ParentProject;
use crate::formats;
use crate::formats::{StoredRule, StoredScope};

pub use acting::Access;
pub use projects::ProjectSource;
pub use reach::{Reach, View};
pub use reviews::Overview;

/// Tokens, agents, and what each may do. Cheap to clone.
#[derive(Clone)]
pub struct AccessControl {
    pub(crate) context: Arc<Context>,
    pub(crate) contents: Arc<Contents>,
    pub(crate) sync: Arc<Synchronizer>,
    pub(crate) history: Arc<History>,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) projects: Arc<Projects>,
    pub(crate) forks: Arc<Forks>,
    pub(crate) merges: Arc<Merges>,
    pub(crate) links: Arc<Links>,
}

impl AccessControl {
    pub(crate) fn new(links: &Arc<Links>) -> AccessControl {
        let merges = &links.merges;
        AccessControl {
            context: Arc::clone(&merges.context),
            contents: Arc::clone(&merges.contents),
            sync: Arc::clone(&merges.sync),
            history: Arc::clone(&merges.history),
            workspaces: Arc::clone(&merges.workspaces),
            projects: Arc::clone(&merges.projects),
            forks: Arc::clone(&merges.forks),
            merges: Arc::clone(merges),
            links: Arc::clone(links),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.context.store
    }
}

/// What kind of caller it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// The person who runs this Offshoot.
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
    /// The scope of everything.
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
    /// The token that says so; none for the owner of the data directory.
    pub token: Option<String>,
    /// When the token ends.
    pub expires_at: Option<Timestamp>,
    /// Where the one workspace of the token was when the token was issued; none if it is not bound
    /// to that.
    pub home: Option<ParentProject>,
}

impl Principal {
    /// The owner of the data directory, at the command line.
    pub fn owner(operator: Operator) -> Self {
        Principal {
            operator,
            scope: Scope::everything(PrincipalKind::Admin),
            token: None,
            expires_at: None,
            home: None,
        }
    }

    /// Whether the rules allow this with this path; `permission_denied` if not, whatever is there.
    pub fn allows(&self, operation: Operation, path: &RelPath) -> Result<()> {
        self.decide(operation, path, |rule| rule.pattern.matches(path))
    }

    /// Whether the rules allow this with a path and everything below it.
    pub fn allows_all_below(&self, operation: Operation, path: &RelPath) -> Result<()> {
        self.decide(operation, path, |rule| rule.pattern.matches_all_below(path))
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
        self.allows(Operation::Read, path).is_ok()
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

impl Scope {
    /// The words for the store, and what the token is bound to.
    pub(crate) fn to_stored(&self, home: Option<ParentProject>) -> Result<String> {
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
        formats::to_text(&StoredScope {
            kind: self.kind,
            agent: name("agent"),
            workspace: name("workspace"),
            project: name("project"),
            home,
            allow: self.allow.iter().map(rule).collect(),
        })
    }

    /// Reads the words of the store. One that names nothing is not taken for everything.
    pub(crate) fn from_stored(text: &str) -> Result<Self> {
        Self::and_home_from_stored(text).map(|(scope, _)| scope)
    }

    /// Like [`from_stored`](Self::from_stored), with what the token is bound to.
    pub(crate) fn and_home_from_stored(text: &str) -> Result<(Self, Option<ParentProject>)> {
        let broken = || Error::internal("the scope of a token is wrong");
        let stored: StoredScope = formats::parse_text(text)?;
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
        let scope = Scope {
            kind: stored.kind,
            reach,
            allow: allow?,
        };
        Ok((scope, stored.home))
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
            home: None,
        }
    }

    #[test]
    fn rules_limit_paths_and_operations() {
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let limited = principal(
            Reach::Workspace("w".parse().unwrap()),
            &["src/**:read,write", "*.md:read"],
        );
        let may = |operation, at: &str| limited.allows(operation, &path(at)).is_ok();
        assert!(may(Operation::Read, "src/a") && may(Operation::Write, "src/a/b"));
        assert!(may(Operation::Read, "a.md") && !may(Operation::Write, "a.md"));
        assert!(!may(Operation::Delete, "src/a") && !may(Operation::Read, "."));
        assert!(limited.sees(&path(".")) && !limited.sees(&path("doc")));
        let code = limited
            .allows(Operation::Read, &path("x"))
            .unwrap_err()
            .code();
        assert_eq!(code, ErrorCode::PermissionDenied);
    }

    #[test]
    fn scopes_survive_the_store_and_broken_ones_grant_nothing() {
        let scope = principal(Reach::Agent("a".parse().unwrap()), &["x:read"]).scope;
        for home in [
            None,
            Some(ParentProject::None),
            Some(ParentProject::Project(7)),
        ] {
            assert_eq!(
                Scope::and_home_from_stored(&scope.to_stored(home).unwrap()).unwrap(),
                (scope.clone(), home)
            );
        }
        for broken in ["", "{}", r#"{"kind":"agent"}"#, r#"{"kind":"service"}"#] {
            assert!(Scope::from_stored(broken).is_err(), "{broken}");
        }
    }
}
