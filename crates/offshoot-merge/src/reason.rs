//! Why a part that both sides changed is no conflict, and which of these ways are allowed.

use crate::conflict::Part;

/// The way in which a part that both sides changed was put together.
///
/// Each can be switched off in [`crate::Rules::allowed`]; the part is then a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The sides changed different words of the same lines.
    Words,
    /// One side did all that the other did, and more.
    MoreOfTheSame,
    /// Both added members, elements or entries at the same place of a JSON container, a TOML table,
    /// a YAML mapping or a list.
    Joined,
    /// Both made the same change and differ in blanks; ours' blanks are kept.
    Blanks,
    /// Both changed a list of imports; it is merged as a set.
    Imports,
    /// Both raised the same version; the higher one is kept.
    HigherVersion,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 6] = [
        Reason::Words,
        Reason::MoreOfTheSame,
        Reason::Joined,
        Reason::Blanks,
        Reason::Imports,
        Reason::HigherVersion,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Words => "words",
            Reason::MoreOfTheSame => "more_of_the_same",
            Reason::Joined => "joined",
            Reason::Blanks => "blanks",
            Reason::Imports => "imports",
            Reason::HigherVersion => "higher_version",
        }
    }
}

/// A set of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons(u16);

impl Reasons {
    /// Every reason.
    pub fn all() -> Self {
        Reason::ALL.into_iter().fold(Reasons::none(), Reasons::with)
    }

    /// No reason: what git calls a conflict stays one.
    pub fn none() -> Self {
        Reasons(0)
    }

    /// The set with one more.
    #[must_use]
    pub fn with(self, reason: Reason) -> Self {
        Reasons(self.0 | 1 << reason as u16)
    }

    /// The set with one less.
    #[must_use]
    pub fn without(self, reason: Reason) -> Self {
        Reasons(self.0 & !(1 << reason as u16))
    }

    /// Whether a reason is among them.
    pub fn contains(self, reason: Reason) -> bool {
        self.0 & (1 << reason as u16) != 0
    }
}

impl Default for Reasons {
    fn default() -> Self {
        Reasons::all()
    }
}

/// A part that both sides changed and that was put together, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPart {
    /// Where.
    pub part: Part,
    /// Why it is no conflict.
    pub reason: Reason,
}
