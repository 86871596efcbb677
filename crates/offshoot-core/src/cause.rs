//! Who made a change, and why.

use std::fmt;

use crate::is_unseen;

/// Who did it, from the credential: `user`, `system`, `outside` or an agent's or person's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operator(Box<str>);

impl Operator {
    /// An operator of that name. Control characters are dropped, for it ends up in commit headers,
    /// and so is what would let it look like another name.
    pub fn new(name: &str) -> Self {
        let clean: String = name
            .chars()
            .filter(|c| !c.is_control() && !is_unseen(*c) && !"<>".contains(*c))
            .take(128)
            .collect();
        let clean = clean.trim();
        Operator(if clean.is_empty() { "user" } else { clean }.into())
    }

    /// The person at the command line or in the web UI.
    pub fn user() -> Self {
        Operator("user".into())
    }

    /// Offshoot itself: merges, recovery, clean-up.
    pub fn system() -> Self {
        Operator("system".into())
    }

    /// An outside program that changed a workspace directory by itself.
    pub fn outside() -> Self {
        Operator("outside".into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Who and why, recorded with every change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Who, from the credential.
    pub operator: Operator,
    /// On whose behalf, as the caller merely claims.
    pub claim: Option<String>,
    /// The message of a conversation that led to it.
    pub message_id: Option<String>,
}

impl Cause {
    /// A cause with nothing but an operator.
    pub fn by(operator: Operator) -> Self {
        Cause {
            operator,
            claim: None,
            message_id: None,
        }
    }
}
