//! Names of merges and reviews.
//!
//! They are random from the first digit on: a name that begins with the time would share its
//! beginning with every other of that minute, and people type beginnings.

use offshoot_core::{Error, ErrorCode, Result};

/// The fewest digits that can stand for a whole name.
pub(crate) const SHORTEST: usize = 4;

/// A name that nothing else has.
pub(crate) fn fresh_name() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

pub(crate) fn too_short(text: &str) -> Error {
    Error::invalid(format!("`{}` is too short for a name", text.escape_debug()))
        .with_hint(format!("give at least {SHORTEST} digits of it"))
}

pub(crate) fn only_one(text: &str, what: &str, mut found: Vec<String>) -> Result<Option<String>> {
    if found.len() <= 1 {
        return Ok(found.pop());
    }
    Err(Error::new(
        ErrorCode::AmbiguousPrefix,
        format!("`{text}` begins {} {what}", found.len()),
    )
    .with_hint(format!("it can be {}", found.join(", ")))
    .with_details(serde_json::json!({ "matches": found })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_names_one_or_says_which_it_could_be() {
        assert_eq!(only_one("abcd", "merges", Vec::new()).unwrap(), None);
        let one = vec!["abcd1".to_owned()];
        assert_eq!(
            only_one("abcd", "merges", one).unwrap().as_deref(),
            Some("abcd1")
        );
        let two = vec!["abcd1".to_owned(), "abcd2".to_owned()];
        let error = only_one("abcd", "merges", two).unwrap_err();
        assert_eq!(error.code(), ErrorCode::AmbiguousPrefix);
        assert_eq!(
            error.to_json()["error"]["details"]["matches"],
            serde_json::json!(["abcd1", "abcd2"])
        );
        assert_eq!(fresh_name().len(), 32);
    }
}
