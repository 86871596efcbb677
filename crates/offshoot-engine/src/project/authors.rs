//! Under which names the work of agents is in the history of projects.

use offshoot_core::{AgentId, Error, ProjectId, Result, is_unseen};
use offshoot_store::{AuthorRow, Durability, ReadTx, WorkspaceKey};

use crate::content::credit::Author;
use crate::content::rows::open_project;
use crate::project::Projects;

/// The longest name or address, in bytes.
const LONGEST: usize = 256;

/// An author, and whose work it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorSetting {
    /// In which project; none is all of them.
    pub project: Option<ProjectId>,
    /// Of which agent, or operator; none is all agents.
    pub agent: Option<AgentId>,
    /// The author. `{agent}` in it stands for the name of the agent.
    pub author: Author,
}

impl Projects {
    /// Every author that was set.
    pub fn authors(&self) -> Result<Vec<AuthorSetting>> {
        self.store().read(|tx| {
            let mut settings = Vec::new();
            for row in tx.authors()? {
                let project = match row.project {
                    Some(key) => match tx.workspace_by_key(key)? {
                        Some(row) => Some(row.id.as_str().parse()?),
                        None => continue,
                    },
                    None => None,
                };
                settings.push(AuthorSetting {
                    project,
                    agent: row.agent,
                    author: Author {
                        name: row.name,
                        email: row.email,
                    },
                });
            }
            Ok(settings)
        })
    }

    /// Sets an author, in the place of the one that was set for the same agent and project. What
    /// has been committed stays as it is.
    pub fn set_author(&self, setting: &AuthorSetting) -> Result<()> {
        check(&setting.author)?;
        self.store().write(Durability::Synced, |tx| {
            tx.put_author(&AuthorRow {
                project: key_of(tx, setting.project.as_ref())?,
                agent: setting.agent.clone(),
                name: setting.author.name.clone(),
                email: setting.author.email.clone(),
            })
        })
    }

    /// Forgets an author. Returns whether there was one.
    pub fn remove_author(
        &self,
        project: Option<&ProjectId>,
        agent: Option<&AgentId>,
    ) -> Result<bool> {
        self.store().write(Durability::Synced, |tx| {
            let key = key_of(tx, project)?;
            tx.remove_author(key, agent)
        })
    }
}

fn key_of(tx: &dyn ReadTx, project: Option<&ProjectId>) -> Result<Option<WorkspaceKey>> {
    let row = project.map(|project| open_project(tx, project));
    Ok(row.transpose()?.map(|row| row.key))
}

/// Refuses what a commit could not hold as it is.
fn check(author: &Author) -> Result<()> {
    for (text, what) in [(&author.name, "a name"), (&author.email, "an address")] {
        let is_bad = |c: char| c.is_control() || is_unseen(c) || "<>".contains(c);
        if text.trim().is_empty() || text.len() > LONGEST || text.contains(is_bad) {
            return Err(Error::invalid(format!(
                "{what} has 1 to {LONGEST} bytes that can be seen, without `<` and `>`"
            ))
            .with_hint("write an author as `Name <address>`"));
        }
    }
    Ok(())
}

impl std::str::FromStr for Author {
    type Err = Error;

    /// Reads `Name <address>`.
    fn from_str(text: &str) -> Result<Author> {
        let parts = text
            .trim()
            .strip_suffix('>')
            .and_then(|text| text.split_once('<'));
        let (name, email) = parts.ok_or_else(|| {
            Error::invalid(format!("`{}` is no author", text.escape_debug()))
                .with_hint("write it as `Name <address>`")
        })?;
        let author = Author {
            name: name.trim().to_owned(),
            email: email.trim().to_owned(),
        };
        check(&author).map(|()| author)
    }
}
