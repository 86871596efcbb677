//! Tokens and the server itself.

use offshoot_core::{AgentId, Error, Result};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::{NewToken, Time, time};

/// A token without its secret.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Token {
    id: String,
    /// `admin`, `user`, `agent` or `service`.
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// Rules as `PATTERN:read,write`; none means all paths and operations.
    allow: Vec<String>,
    label: Option<String>,
    issued_by: String,
    created_at: Time,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
}

fn kind_word(kind: engine::PrincipalKind) -> String {
    match kind {
        engine::PrincipalKind::Admin => "admin",
        engine::PrincipalKind::User => "user",
        engine::PrincipalKind::Agent => "agent",
        engine::PrincipalKind::Service => "service",
    }
    .to_owned()
}

fn rule_text(rule: &engine::Rule) -> String {
    let words: Vec<&str> = rule.operations.iter().map(|op| op.as_str()).collect();
    format!("{}:{}", rule.pattern.as_str(), words.join(","))
}

impl From<&engine::Token> for Token {
    fn from(token: &engine::Token) -> Self {
        let (mut agent, mut workspace, mut project) = (None, None, None);
        match &token.scope.reach {
            engine::Reach::Everything => {}
            engine::Reach::Agent(id) => agent = Some(id.to_string()),
            engine::Reach::Workspace(id) => workspace = Some(id.to_string()),
            engine::Reach::Project(id) => project = Some(id.to_string()),
        }
        Token {
            id: token.id.clone(),
            kind: kind_word(token.scope.kind),
            agent,
            workspace,
            project,
            allow: token.scope.allow.iter().map(rule_text).collect(),
            label: token.label.clone(),
            issued_by: token.issued_by.as_str().to_owned(),
            created_at: time(token.created_at),
            expires_at: token.expires_at.map(time),
            revoked_at: token.revoked_at.map(time),
        }
    }
}

impl Token {
    /// What it reaches, in words.
    pub fn reach(&self) -> String {
        let named = [
            ("agent", &self.agent),
            ("workspace", &self.workspace),
            ("project", &self.project),
        ];
        let found = named
            .iter()
            .find_map(|(what, name)| name.as_ref().map(|name| format!("{what} {name}")));
        let mut reach = found.unwrap_or_else(|| self.kind.clone());
        if !self.allow.is_empty() {
            reach = format!("{reach}, {}", self.allow.join(" "));
        }
        reach
    }
}

/// A new token with its secret, which is shown this once.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IssuedToken {
    #[serde(flatten)]
    token: Token,
    /// The secret: send it as `Authorization: Bearer SECRET`.
    secret: String,
}

impl From<&engine::IssuedToken> for IssuedToken {
    fn from(issued: &engine::IssuedToken) -> Self {
        IssuedToken {
            token: Token::from(&issued.token),
            secret: issued.secret.clone(),
        }
    }
}

/// Several tokens.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tokens {
    tokens: Vec<Token>,
}

impl From<&[engine::Token]> for Tokens {
    fn from(tokens: &[engine::Token]) -> Self {
        Tokens {
            tokens: tokens.iter().map(Token::from).collect(),
        }
    }
}

/// A revoked token.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RevokedToken {
    /// Which.
    pub id: String,
    /// False if it had been revoked before.
    pub revoked: bool,
}

impl NewToken {
    /// What the token shall reach.
    pub fn scope(&self) -> Result<engine::Scope> {
        use engine::{PrincipalKind, Reach};
        let named = [&self.agent, &self.workspace, &self.project];
        let count = named.iter().filter(|name| name.is_some()).count() + usize::from(self.admin);
        if count != 1 {
            return Err(Error::invalid(
                "exactly one of `admin`, `agent`, `workspace` and `project` must be given",
            ));
        }
        let (kind, reach) = if let Some(id) = &self.agent {
            (PrincipalKind::Agent, Reach::Agent(id.parse::<AgentId>()?))
        } else if let Some(id) = &self.workspace {
            (PrincipalKind::Service, Reach::Workspace(id.parse()?))
        } else if let Some(id) = &self.project {
            (PrincipalKind::Service, Reach::Project(id.parse()?))
        } else {
            (PrincipalKind::Admin, Reach::Everything)
        };
        let allow: Result<Vec<engine::Rule>> = self.allow.iter().map(|rule| rule.parse()).collect();
        Ok(engine::Scope {
            kind,
            reach,
            allow: allow?,
        })
    }
}

/// The principal of a credential.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Me {
    operator: String,
    /// `admin`, `user`, `agent` or `service`.
    kind: String,
    /// The workspace that the credential stands for, if it stands for one.
    workspace: Option<String>,
    allow: Vec<String>,
    expires_at: Option<Time>,
}

impl Me {
    /// The answer for a principal.
    pub fn new(principal: &engine::Principal, workspace: Option<String>) -> Self {
        Me {
            operator: principal.operator.as_str().to_owned(),
            kind: kind_word(principal.scope.kind),
            workspace,
            allow: principal.scope.allow.iter().map(rule_text).collect(),
            expires_at: principal.expires_at.map(time),
        }
    }
}

/// A browser that is signed in.
#[derive(Serialize, JsonSchema)]
pub struct SignedIn {
    /// The value of the header `Offshoot-Page`, which every request by the cookie needs.
    pub page: String,
}

/// An address that works once.
#[derive(Serialize, JsonSchema)]
pub struct Ticket {
    /// The address that was asked for, with the ticket in its query.
    pub address: String,
}

/// Whether the server answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    /// `ok`, or the request fails.
    pub status: &'static str,
    /// The version of the server.
    pub version: &'static str,
}

/// What a server can do, and its limits.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Capabilities {
    /// The version of the server.
    pub version: &'static str,
    /// Layouts of workspaces.
    pub layouts: Vec<&'static str>,
    /// Formats of archive downloads.
    pub archives: Vec<&'static str>,
    /// Formats of archive imports.
    pub imports: Vec<&'static str>,
    /// Ways to make the directory of a fork that work here, the best first.
    pub providers: Vec<&'static str>,
    /// How conflicts of merges can be decided.
    pub policies: Vec<&'static str>,
    /// The tools that agents can call.
    pub tools: Vec<String>,
    /// Whether changes by outside programs arrive as they happen: `watching`, `syncing` where
    /// watches ran out, or `off`.
    pub outside_changes: &'static str,
    /// The largest file or archive in a request.
    pub max_body_bytes: u64,
    /// The most items on one page of a list.
    pub max_page: usize,
}
