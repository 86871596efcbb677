//! Policies: who decides a conflict when nobody looks at it.

use offshoot_core::{Cause, Error, ProjectId, RelPath, Result};
use offshoot_merge::Pattern;
use offshoot_store::{Durability, HistoryOp, Landing, ProjectRow, ReadTx, WorkspaceKey};
use serde::{Deserialize, Serialize};

use crate::content::rows::open_project;
use crate::content::workspace_row::line_of;
use crate::formats;
use crate::project::Projects;

/// How a conflict is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Somebody decides.
    #[default]
    Review,
    /// The later completion wins, where the two conflict and nowhere else.
    LastWriterWins,
    /// The higher priority wins; a tie is for somebody to decide.
    Priority,
    /// The project wins.
    Ours,
    /// The workspace wins.
    Theirs,
    /// Both, ours first, where lines or elements of a list can be joined; else somebody decides.
    Union,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 6] = [
        Policy::Review,
        Policy::LastWriterWins,
        Policy::Priority,
        Policy::Ours,
        Policy::Theirs,
        Policy::Union,
    ];

    /// Its name in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Review => "review",
            Policy::LastWriterWins => "last-writer-wins",
            Policy::Priority => "priority",
            Policy::Ours => "ours",
            Policy::Theirs => "theirs",
            Policy::Union => "union",
        }
    }
}

impl std::str::FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Policy> {
        let found = Policy::ALL
            .into_iter()
            .find(|policy| policy.as_str() == text);
        found.ok_or_else(|| {
            Error::invalid(format!("there is no policy `{}`", text.escape_debug())).with_hint(
                "use `review`, `last-writer-wins`, `priority`, `ours`, `theirs` or `union`",
            )
        })
    }
}

/// A policy for the paths that a pattern means. Patterns are those of `.gitattributes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPolicy {
    /// Which paths.
    pub path: String,
    /// What holds for them.
    pub policy: Policy,
}

/// How merges into a project are decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeSettings {
    /// The first that matches a path holds; if none does, somebody decides.
    pub policies: Vec<PathPolicy>,
    /// What lands when a merge has conflicts.
    pub landing: Landing,
    /// Whether merges take ignored files too.
    pub include_ignored: bool,
    /// Patterns of protected paths: what changes there waits for the owner, whatever the policy.
    pub protect: Vec<String>,
}

impl MergeSettings {
    /// The policy for a path.
    pub fn policy(&self, path: &RelPath) -> Policy {
        let matching = self
            .policies
            .iter()
            .find(|one| Pattern::new(&one.path).matches(path.as_bytes()));
        matching.map_or(Policy::Review, |one| one.policy)
    }

    pub(crate) fn read(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<MergeSettings> {
        MergeSettings::of_row(&settings_row(tx, project)?)
    }

    pub(crate) fn of_row(row: &ProjectRow) -> Result<MergeSettings> {
        Ok(MergeSettings {
            policies: formats::parse_policies(&row.policy)?,
            protect: formats::parse_protected(&row.protect)?,
            landing: row.landing,
            include_ignored: row.include_ignored,
        })
    }
}

/// The settings of a project.
pub(crate) fn settings_row(tx: &dyn ReadTx, project: WorkspaceKey) -> Result<ProjectRow> {
    let row = tx.project_settings(project)?;
    row.ok_or_else(|| Error::internal("a project has no settings"))
}

impl Projects {
    /// How merges into a project are decided.
    pub fn merge_settings(&self, project: &ProjectId) -> Result<MergeSettings> {
        self.store()
            .read(|tx| MergeSettings::read(tx, open_project(tx, project)?.key))
    }

    /// Sets how merges into a project are decided. Merges that are done stay as they are.
    pub fn set_merge_settings(
        &self,
        project: &ProjectId,
        settings: &MergeSettings,
        cause: &Cause,
    ) -> Result<()> {
        self.set_merge_settings_if(project, settings, |_| Ok(()), cause)
    }

    /// Like [`set_merge_settings`](Self::set_merge_settings), if `allowed` accepts the settings that
    /// there are now.
    pub(crate) fn set_merge_settings_if(
        &self,
        project: &ProjectId,
        settings: &MergeSettings,
        allowed: impl Fn(&MergeSettings) -> Result<()>,
        cause: &Cause,
    ) -> Result<()> {
        if let Some(bad) = settings.policies.iter().find(|one| one.path.is_empty()) {
            return Err(Error::invalid(format!(
                "the pattern of the policy `{}` is empty",
                bad.policy.as_str()
            ))
            .with_hint("`*` means every path"));
        }
        if settings
            .protect
            .iter()
            .any(|one| one.trim_matches('/').is_empty())
        {
            return Err(Error::invalid("the pattern of a protected path is empty")
                .with_hint("`*` means every path"));
        }
        let policy = formats::policies_text(&settings.policies)?;
        let protect = formats::protected_text(&settings.protect)?;
        let at = self.context.now();
        self.store().write(Durability::Synced, |tx| {
            let row = open_project(tx, project)?;
            allowed(&MergeSettings::read(tx, row.key)?)?;
            tx.put_project(&ProjectRow {
                landing: settings.landing,
                include_ignored: settings.include_ignored,
                policy: policy.clone(),
                protect: protect.clone(),
                ..settings_row(tx, row.key)?
            })?;
            tx.add_history(&line_of(&row, HistoryOp::WorkspaceUpdate, cause, at))
                .map(drop)
        })
    }
}
