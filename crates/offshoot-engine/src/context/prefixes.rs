//! Random names of merges and reviews, and finding one by a prefix.
//!
//! Names are random from the first digit on. Names that begin with the time would share their prefix
//! with all others of the same minute.

use offshoot_core::{Error, ErrorCode, Result};

/// The fewest digits of a prefix.
pub(crate) const MIN_PREFIX_DIGITS: usize = 4;

/// A new random name.
pub(crate) fn random_name() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

pub(crate) fn prefix_too_short(text: &str) -> Error {
    Error::invalid(format!("`{}` is too short for a name", text.escape_debug()))
        .with_hint(format!("give at least {MIN_PREFIX_DIGITS} digits of it"))
}

/// The one name that a prefix matches; none if it matches none, an error if it matches several.
pub(crate) fn unique_match(
    text: &str,
    what: &str,
    mut found: Vec<String>,
) -> Result<Option<String>> {
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
        assert_eq!(unique_match("abcd", "merges", Vec::new()).unwrap(), None);
        let one = vec!["abcd1".to_owned()];
        assert_eq!(
            unique_match("abcd", "merges", one).unwrap().as_deref(),
            Some("abcd1")
        );
        let two = vec!["abcd1".to_owned(), "abcd2".to_owned()];
        let error = unique_match("abcd", "merges", two).unwrap_err();
        assert_eq!(error.code(), ErrorCode::AmbiguousPrefix);
        assert_eq!(
            error.to_json()["error"]["details"]["matches"],
            serde_json::json!(["abcd1", "abcd2"])
        );
        assert_eq!(random_name().len(), 32);
    }
}
