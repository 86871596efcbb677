//! Names of projects, workspaces and agents: one rule, one macro.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

const RESERVED: [&str; 3] = ["root", "user", "system"];

fn check(what: &str, text: &str) -> Result<()> {
    let starts_well = text
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphanumeric);
    let all_allowed = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte));
    if !starts_well || !all_allowed || text.len() > 64 {
        return Err(Error::invalid(format!(
            "`{}` is not a valid {what} name",
            text.escape_debug()
        ))
        .with_hint("use 1 to 64 of a-z A-Z 0-9 . _ ~ -, starting with a letter or digit"));
    }
    if RESERVED.contains(&text) {
        return Err(Error::invalid(format!(
            "the {what} name `{text}` is reserved"
        )));
    }
    Ok(())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                check($what, text)?;
                Ok($name(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    )*};
}

names! {
    /// The name of a project.
    ProjectId: "project";
    /// The name of a workspace, which is its owner's.
    WorkspaceId: "workspace";
    /// The name of an agent.
    AgentId: "agent";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule() {
        for good in ["a", "Agent-7", "agent~2", "0", "a.b_c", &"x".repeat(64)] {
            assert!(good.parse::<WorkspaceId>().is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "-a",
            "~a",
            "a/b",
            "a b",
            "é",
            "root",
            "user",
            "system",
            &"x".repeat(65),
        ] {
            assert!(bad.parse::<WorkspaceId>().is_err(), "{bad}");
        }
    }
}
