//! The id of a git object: the SHA-1 of its header and content, as git computes it.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// Twenty bytes that name a blob, a tree or a commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 20]);

/// The tree without entries, `4b825dc6…`.
pub const EMPTY_TREE: ObjectId = ObjectId([
    0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88,
    0xfb, 0xee, 0x49, 0x04,
]);

/// The blob without bytes, `e69de29b…`.
pub const EMPTY_BLOB: ObjectId = ObjectId([
    0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b, 0x29, 0xae, 0x77, 0x5a, 0xd8, 0xc2,
    0xe4, 0x8c, 0x53, 0x91,
]);

impl ObjectId {
    /// An id from its bytes.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        ObjectId(bytes)
    }

    /// An id from a slice, which must have twenty bytes.
    pub fn from_slice(bytes: &[u8]) -> Result<Self> {
        bytes
            .try_into()
            .map(ObjectId)
            .map_err(|_| Error::internal(format!("an object id has 20 bytes, not {}", bytes.len())))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Forty lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        to_hex(&self.0)
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    faster_hex::hex_string(bytes)
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_hex())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("`{text}` is not an object id of 40 hex digits"));
        let mut bytes = [0u8; 20];
        if text.len() != 40 {
            return Err(bad());
        }
        faster_hex::hex_decode(text.as_bytes(), &mut bytes).map_err(|_| bad())?;
        Ok(ObjectId(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_bad_text_is_refused() {
        let text = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        assert_eq!(text.parse::<ObjectId>().unwrap(), EMPTY_TREE);
        assert_eq!(EMPTY_TREE.to_hex(), text);
        assert_eq!(
            text.to_ascii_uppercase().parse::<ObjectId>().unwrap(),
            EMPTY_TREE
        );
        let signed = "+b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let longer = "4b825dc642cb6eb9a060e54bf8d69288fbee490400";
        for bad in [
            "",
            "4b",
            "zz825dc642cb6eb9a060e54bf8d69288fbee4904",
            "é",
            signed,
            longer,
        ] {
            assert!(bad.parse::<ObjectId>().is_err(), "{bad}");
        }
    }
}
