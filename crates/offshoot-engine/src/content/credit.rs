//! Who a commit is by, and what its message says beside its label: which agent, which workspace,
//! which message of a conversation.
//!
//! Names and labels come from agents. What could be taken for another line of a commit, or is not
//! seen, is dropped, so that nobody signs in the name of somebody else.

use offshoot_core::{AgentId, Cause, Operator, Result, Timestamp, is_unseen};
use offshoot_git::Signature;
use offshoot_store::{ForkRow, ReadTx, WorkspaceKey, WorkspaceRow};

use crate::content::rows::agent_of;

/// Stands for the agent's name in an author that is set for several agents.
const AGENT: &str = "{agent}";
/// Who commits what a project gets.
const COMMITTER: &str = "Offshoot";

/// The author of commits: a name and an e-mail address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Author {
    /// The author that stands for an agent in a project: what is set, or else its own name.
    pub(crate) fn of_agent(tx: &dyn ReadTx, project: WorkspaceKey, agent: &str) -> Result<Author> {
        let id: Option<AgentId> = agent.parse().ok();
        let set = tx.author(project, id.as_ref())?;
        Ok(set.map_or_else(
            || Author::named(agent),
            |row| Author {
                name: row.name.replace(AGENT, agent),
                email: row.email.replace(AGENT, &address_of(agent)),
            },
        ))
    }

    /// The author that stands for an operator, who need not be an agent: what is set for that name,
    /// and not what is set for all agents.
    pub(crate) fn of_operator(
        tx: &dyn ReadTx,
        project: WorkspaceKey,
        operator: &Operator,
    ) -> Result<Author> {
        let set = match operator.as_str().parse::<AgentId>() {
            Ok(id) => tx.author(project, Some(&id))?,
            Err(_) => None,
        };
        let set = set.filter(|row| row.agent.is_some());
        Ok(set.map_or_else(
            || Author::named(operator.as_str()),
            |row| Author {
                name: row.name,
                email: row.email,
            },
        ))
    }

    /// One of whom only the name is known.
    fn named(name: &str) -> Author {
        Author {
            name: name.to_owned(),
            email: format!("{}@offshoot.invalid", address_of(name)),
        }
    }

    pub(crate) fn signature(&self, at: Timestamp) -> Signature {
        Signature::new(&self.name, &self.email, at.seconds(), 0)
    }
}

/// A name as the first part of an address.
fn address_of(name: &str) -> String {
    let dash = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(dash).collect()
}

/// Who a snapshot of a workspace is by.
pub(crate) fn signature(cause: &Cause, at: Timestamp) -> Signature {
    Author::named(cause.operator.as_str()).signature(at)
}

/// Who commits to a project.
pub(crate) fn committer(at: Timestamp) -> Signature {
    Signature::new(COMMITTER, "offshoot@offshoot.invalid", at.seconds(), 0)
}

/// Whose work a commit of a project brings.
#[derive(Clone, Debug)]
pub(crate) struct WorkOf {
    pub(crate) agent: String,
    pub(crate) workspace: String,
}

impl WorkOf {
    pub(crate) fn fork(row: &WorkspaceRow, fork: &ForkRow) -> WorkOf {
        WorkOf {
            agent: agent_of(row, fork),
            workspace: row.id.to_string(),
        }
    }
}

/// The message of a commit: the label, then trailers in a paragraph of their own, where git looks
/// for them.
pub(crate) fn message(
    label: Option<&str>,
    number: i64,
    cause: &Cause,
    work: Option<&WorkOf>,
) -> Vec<u8> {
    let mut message = match label.map(clean_label).filter(|label| !label.is_empty()) {
        Some(label) => format!("{label}\n"),
        None => format!("Snapshot {number}\n"),
    };
    let trailers = [
        ("Offshoot-Agent", work.map(|work| &work.agent)),
        ("Offshoot-Workspace", work.map(|work| &work.workspace)),
        ("Offshoot-Message-Id", cause.message_id.as_ref()),
    ];
    let mut separator = "\n";
    for (key, value) in trailers {
        let Some(value) = value else { continue };
        let is_shown = |c: &char| !c.is_control() && !is_unseen(*c);
        let one_line: String = value.chars().filter(is_shown).collect();
        message.push_str(&format!("{separator}{key}: {one_line}\n"));
        separator = "";
    }
    message.into_bytes()
}

/// A label without what is not seen. A line of it that begins like one of our trailers is indented:
/// git looks for trailers at the end alone, but people and programs may look anywhere.
fn clean_label(label: &str) -> String {
    let is_shown = |c: &char| (*c == '\n' || *c == '\t' || !c.is_control()) && !is_unseen(*c);
    let text: String = label.chars().filter(is_shown).collect();
    let lines = text.trim().lines().map(|line| {
        let start = line.trim_start().get(..9);
        match start.is_some_and(|start| start.eq_ignore_ascii_case("offshoot-")) {
            true => format!("    {}", line.trim_start()),
            false => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(label: &str, message_id: &str, agent: &str) -> String {
        let cause = Cause {
            message_id: Some(message_id.to_owned()),
            ..Cause::by(Operator::user())
        };
        let work = WorkOf {
            agent: agent.to_owned(),
            workspace: "w".to_owned(),
        };
        String::from_utf8(message(Some(label), 1, &cause, Some(&work))).unwrap()
    }

    #[test]
    fn a_label_is_the_subject_and_trailers_are_a_paragraph() {
        assert_eq!(
            text("Fix it", "m-1", "ada"),
            "Fix it\n\nOffshoot-Agent: ada\nOffshoot-Workspace: w\nOffshoot-Message-Id: m-1\n"
        );
        let plain = message(None, 7, &Cause::by(Operator::user()), None);
        assert_eq!(plain, b"Snapshot 7\n");
    }

    #[test]
    fn nobody_signs_for_somebody_else() {
        let forged = text(
            "a\u{202e}b\r\n\nOffshoot-Agent: root\n  offshoot-workspace: x\u{0}",
            "m\nOffshoot-Agent: root\u{2028}Offshoot-Agent: root",
            "ada",
        );
        let agents: Vec<&str> = forged
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("offshoot-agent"))
            .collect();
        assert_eq!(agents, ["Offshoot-Agent: ada"], "{forged}");
        assert!(forged.starts_with("ab\n"), "{forged}");
        assert_eq!(clean_label("Offshoot-Agent: x"), "    Offshoot-Agent: x");
        assert_eq!(clean_label("größe\u{200b}"), "größe");
    }
}
