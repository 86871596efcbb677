//! The kinds of git objects.

/// What an object is; part of what its id is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ObjectKind {
    /// The content of a file, or the target of a link.
    Blob = 1,
    /// A directory.
    Tree = 2,
    /// A snapshot.
    Commit = 3,
    /// An annotated tag, which only imports bring.
    Tag = 4,
}

impl ObjectKind {
    /// The word that git writes into the object's header.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Blob => "blob",
            ObjectKind::Tree => "tree",
            ObjectKind::Commit => "commit",
            ObjectKind::Tag => "tag",
        }
    }

    /// The kind of that word; none for any other word.
    pub fn from_word(word: &[u8]) -> Option<Self> {
        [
            ObjectKind::Blob,
            ObjectKind::Tree,
            ObjectKind::Commit,
            ObjectKind::Tag,
        ]
        .into_iter()
        .find(|kind| kind.as_str().as_bytes() == word)
    }
}

impl TryFrom<u8> for ObjectKind {
    type Error = crate::Error;

    fn try_from(number: u8) -> crate::Result<Self> {
        Ok(match number {
            1 => ObjectKind::Blob,
            2 => ObjectKind::Tree,
            3 => ObjectKind::Commit,
            4 => ObjectKind::Tag,
            _ => {
                return Err(crate::Error::internal(format!(
                    "no object kind has number {number}"
                )));
            }
        })
    }
}
