//! Bodies of requests about projects, forks, merges, reviews and agents. An unknown field is
//! refused: it is more often a mistake than a wish.

use offshoot_core::{Error, Result};
use offshoot_engine as engine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ID_PATTERN, SNAPSHOT_PATTERN, base64_decode, objects};

/// A project to create.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProject {
    /// Its name.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub name: String,
    /// The absolute path of a directory or a git repository on the server's machine to begin with;
    /// for admins.
    #[serde(default)]
    #[schemars(regex(pattern = "^/"))]
    pub from: Option<String>,
    /// Of a git repository take the files as they are, without its history.
    #[serde(default)]
    pub files: bool,
    /// Leave out what `.gitignore` and `.offshootignore` name.
    #[serde(default)]
    pub ignore_rules: bool,
    /// What to call the first snapshot.
    #[serde(default)]
    pub label: Option<String>,
}

/// A directory of the server's machine whose changes a project takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncRequest {
    /// The absolute path of the directory; left out, the one that was taken from last.
    #[serde(default)]
    #[schemars(regex(pattern = "^/"))]
    pub from: Option<String>,
    /// Leave out what `.gitignore` and `.offshootignore` name.
    #[serde(default)]
    pub ignore_rules: bool,
    /// What to call the snapshot.
    #[serde(default)]
    pub label: Option<String>,
}

/// How commits of a linked repository come in.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PullRequest {
    /// Say what would happen, and change nothing.
    pub dry_run: bool,
    /// Decides every conflict, instead of the project's policies.
    pub policy: Option<PolicyWord>,
}

impl PullRequest {
    /// What it means.
    pub fn options(&self) -> engine::PullOptions {
        engine::PullOptions {
            dry_run: self.dry_run,
            policy: self.policy.map(PolicyWord::policy),
            fetched: None,
        }
    }
}

/// How what was merged goes to a linked repository.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PushRequest {
    /// The branch; `offshoot/main` if none is named.
    pub to: Option<String>,
    /// Say what would happen, and change nothing.
    pub dry_run: bool,
}

impl PushRequest {
    /// What it means.
    pub fn options(&self) -> engine::PushOptions {
        engine::PushOptions {
            to: self.to.clone(),
            dry_run: self.dry_run,
            fetched: None,
        }
    }
}

/// A fork to make.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewFork {
    /// The agent that owns it. Its first fork has its name, further ones `agent~2`, `agent~3`;
    /// without it the fork gets a name of its own.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub agent_id: Option<String>,
    /// The snapshot to begin with; without it the newest.
    #[schemars(regex(pattern = SNAPSHOT_PATTERN))]
    pub base: Option<String>,
    /// The provider that must be used: `overlay`, `reflink` or `copy`.
    pub provider: Option<ProviderWord>,
    /// Its weight where a policy decides by priority; without it that of its agent.
    pub priority: Option<i64>,
    /// Whether it has a `.git` at its base, so that git commands work in it.
    pub git: bool,
    /// How many; with it the answer is a list.
    #[schemars(range(min = 1, max = 256))]
    pub count: Option<u16>,
}

/// The most forks that one request makes.
const MAX_FORKS: u16 = 256;

impl NewFork {
    /// The options for the engine, and the number of forks.
    pub fn options(&self) -> Result<(engine::ForkOptions, u16)> {
        let count = self.count.unwrap_or(1);
        if count == 0 || count > MAX_FORKS {
            return Err(Error::invalid(format!(
                "`count` must be between 1 and {MAX_FORKS}"
            )));
        }
        let options = engine::ForkOptions {
            agent: self.agent_id.as_deref().map(str::parse).transpose()?,
            at: self.base.clone(),
            provider: self.provider.map(ProviderWord::name),
            priority: self.priority,
            git: self.git,
            ..engine::ForkOptions::default()
        };
        Ok((options, count))
    }
}

/// A way to make the directory of a fork.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderWord {
    /// Mounted layers.
    Overlay,
    /// Files that share their blocks.
    Reflink,
    /// Copied files.
    Copy,
}

impl ProviderWord {
    fn name(self) -> engine::ProviderName {
        match self {
            ProviderWord::Overlay => engine::ProviderName::Overlay,
            ProviderWord::Reflink => engine::ProviderName::Reflink,
            ProviderWord::Copy => engine::ProviderName::Copy,
        }
    }
}

/// Whether to do it or only to say what it would do.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateRequest {
    /// Only say what it would do.
    pub dry_run: bool,
}

/// How to merge a workspace into its project.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompleteRequest {
    /// Decide every conflict so, instead of by the policies of the project.
    pub policy: Option<PolicyWord>,
    /// What lands when there are conflicts; without it as the project says. With `atomic` conflicts
    /// are answered with the error `merge_conflict`.
    pub landing: Option<LandingWord>,
    /// Keep the workspace, moved onto the merged head.
    pub keep: bool,
    /// Only say what it would do.
    pub dry_run: bool,
    /// Also merge what the ignore rules leave out.
    pub include_ignored: bool,
}

impl CompleteRequest {
    /// The options for the engine.
    pub fn options(&self) -> engine::CompleteOptions {
        engine::CompleteOptions {
            policy: self.policy.map(PolicyWord::policy),
            atomic: self.landing.map(LandingWord::is_atomic),
            keep: self.keep,
            include_ignored: self.include_ignored,
            ..engine::CompleteOptions::default()
        }
    }

    /// Whether this request asks for an atomic merge.
    pub fn asks_for_atomic(&self) -> bool {
        !self.dry_run && self.landing.is_some_and(LandingWord::is_atomic)
    }
}

/// What lands when a merge has conflicts.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LandingWord {
    /// What does not conflict lands at once.
    Partial,
    /// Nothing lands until every conflict is decided.
    Atomic,
}

impl LandingWord {
    fn is_atomic(self) -> bool {
        matches!(self, LandingWord::Atomic)
    }
}

/// How a conflict is decided.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyWord {
    /// A person or an agent decides.
    Review,
    /// The later completion wins.
    LastWriterWins,
    /// The higher priority wins.
    Priority,
    /// The project wins.
    Ours,
    /// The workspace wins.
    Theirs,
    /// Both, ours first.
    Union,
}

impl PolicyWord {
    fn policy(self) -> engine::Policy {
        match self {
            PolicyWord::Review => engine::Policy::Review,
            PolicyWord::LastWriterWins => engine::Policy::LastWriterWins,
            PolicyWord::Priority => engine::Policy::Priority,
            PolicyWord::Ours => engine::Policy::Ours,
            PolicyWord::Theirs => engine::Policy::Theirs,
            PolicyWord::Union => engine::Policy::Union,
        }
    }
}

/// How merges into a project shall be decided. What is left out stays as it is.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRequest {
    /// The first pattern that matches a path holds; these take the place of all there are.
    #[serde(deserialize_with = "objects")]
    pub policies: Option<Vec<NewPathPolicy>>,
    /// What lands when a merge has conflicts.
    pub landing: Option<LandingWord>,
    /// Whether merges take ignored files too.
    pub include_ignored: Option<bool>,
    /// Patterns of protected paths, which take the place of all there are: what changes there
    /// waits for the owner or an admin, whatever the policy. Only these may change the list.
    pub protect: Option<Vec<ProtectPattern>>,
}

/// A pattern of protected paths, as in `.gitattributes`; a directory with all that is in it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProtectPattern(#[schemars(length(min = 1))] String);

/// A policy for the paths of a pattern.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPathPolicy {
    /// The pattern, as in `.gitattributes`; `*` means every path.
    #[schemars(length(min = 1))]
    pub path: String,
    /// What holds there.
    pub policy: PolicyWord,
}

impl PolicyRequest {
    /// Changes settings to what is asked for.
    pub fn apply(&self, settings: &mut engine::MergeSettings) {
        if let Some(policies) = &self.policies {
            let policy = |one: &NewPathPolicy| engine::PathPolicy {
                path: one.path.clone(),
                policy: one.policy.policy(),
            };
            settings.policies = policies.iter().map(policy).collect();
        }
        match self.landing {
            Some(LandingWord::Partial) => settings.landing = engine::Landing::Partial,
            Some(LandingWord::Atomic) => settings.landing = engine::Landing::Atomic,
            None => {}
        }
        if let Some(answer) = self.include_ignored {
            settings.include_ignored = answer;
        }
        if let Some(protect) = &self.protect {
            settings.protect = protect.iter().map(|one| one.0.clone()).collect();
        }
    }
}

/// How bytes are written in JSON.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As text.
    #[default]
    Utf8,
    /// As base64.
    Base64,
}

impl Encoding {
    /// The bytes that a text stands for.
    pub fn bytes(self, text: &str) -> Result<Vec<u8>> {
        match self {
            Encoding::Utf8 => Ok(text.as_bytes().to_vec()),
            Encoding::Base64 => {
                base64_decode(text).ok_or_else(|| Error::invalid("`content` is no base64"))
            }
        }
    }
}

/// A resolution to propose.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCandidate {
    /// The whole content of the file.
    pub content: String,
    /// How it is written here.
    #[serde(default)]
    pub encoding: Encoding,
    /// What to say about it.
    #[serde(default)]
    pub note: Option<String>,
}

impl NewCandidate {
    /// The content.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.encoding.bytes(&self.content)
    }
}

/// A role has no control characters; it is limited in bytes, so that not all of these fit.
const ROLE_PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f]{1,256}$";

/// An agent to create.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgent {
    /// Its id, which no other agent has or had; without it one that begins with its role. Only
    /// admins and holders of a token of the project choose one.
    #[serde(default)]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: Option<String>,
    /// The agent above it, or `root`; without it root or, for an agent's token, the agent itself. A
    /// direct child of root gets a workspace of its own.
    #[serde(default)]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub parent: Option<String>,
    /// What it is there for.
    #[schemars(regex(pattern = ROLE_PATTERN))]
    pub role: String,
    /// Below root: fork this project for it; without it the workspace is empty.
    #[serde(default)]
    #[schemars(regex(pattern = ID_PATTERN))]
    pub project: Option<String>,
    /// The weight of its forks where a policy decides by priority; without it that of the agent
    /// above it, or 0.
    #[serde(default)]
    pub priority: Option<i64>,
}
