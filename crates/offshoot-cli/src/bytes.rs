//! What was typed, turned into what it means: ids, paths, sizes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use offshoot_core::{Error, RelPath, Result, unescape_bytes};

/// A path in a workspace as it was typed: escaped text, or bytes as the shell passed them.
pub(crate) fn path(typed: &OsStr) -> Result<RelPath> {
    RelPath::parse(&unescape(typed)?)
}

/// Like [`path`], where nothing typed means the workspace itself.
pub(crate) fn path_or_root(typed: Option<&OsStr>) -> Result<RelPath> {
    typed.map_or(Ok(RelPath::root()), path)
}

/// Resolves `\xNN`. Bytes that are not UTF-8 can only mean themselves.
pub(crate) fn unescape(typed: &OsStr) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(typed.len());
    for chunk in typed.as_bytes().utf8_chunks() {
        plain.extend(unescape_bytes(chunk.valid())?);
        plain.extend_from_slice(chunk.invalid());
    }
    Ok(plain)
}

/// A number of bytes: `1000`, `64k`, `10MiB`. Units are powers of 1024.
pub(crate) fn amount(typed: &str) -> Result<i64> {
    let bad = || {
        Error::invalid(format!("`{}` is no size", typed.escape_debug()))
            .with_hint("write a number of bytes, such as `1000000`, `64k` or `10MiB`")
    };
    let digits = typed.len() - typed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = typed.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(bad()),
    };
    let number: i64 = number.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}

/// A time: `90`, `90s`, `15m`, `1h`, `30d`. In seconds.
pub(crate) fn seconds(typed: &str) -> Result<u64> {
    let bad = || {
        Error::invalid(format!("`{}` is no time", typed.escape_debug()))
            .with_hint("write a number of seconds, or `15m`, `1h`, `30d`")
    };
    let digits = typed.len() - typed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = typed.split_at(digits);
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(bad()),
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    number
        .checked_mul(factor)
        .filter(|&n| n > 0)
        .ok_or_else(bad)
}

/// A limit: an amount, or `none`.
pub(crate) fn limit(typed: &str) -> Result<Option<i64>> {
    if typed == "none" {
        return Ok(None);
    }
    amount(typed).map(Some)
}

/// A word that a POSIX shell reads back as it is.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:@%+,~".contains(&byte);
    if !text.is_empty() && !text.starts_with('~') && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (typed, bytes) in [("0", 0), ("12", 12), ("2k", 2048), ("3MiB", 3 << 20)] {
            assert_eq!(amount(typed).unwrap(), bytes);
        }
        for bad in [
            "",
            "k",
            "-1",
            "1.5k",
            "1q",
            "99999999999999999999",
            "9999999t9",
        ] {
            assert!(amount(bad).is_err(), "{bad}");
        }
        assert!(amount("9000000000t").is_err());
        assert_eq!(limit("none").unwrap(), None);
        for (typed, expected) in [("90", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800)] {
            assert_eq!(seconds(typed).unwrap(), expected);
        }
        for bad in ["", "0", "1w", "h", "-1", "99999999999999999999d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_of_the_shell_and_escapes_name_the_same_file() {
        let raw = path(OsStr::from_bytes(b"d/\xff.txt")).unwrap();
        assert_eq!(raw, path(OsStr::new("d/\\xff.txt")).unwrap());
        assert!(path(OsStr::new("..")).is_err());
        assert!(path(OsStr::new("a\\b")).is_err());
    }

    #[test]
    fn shell_words() {
        assert_eq!(shell_word("a/b-c.d"), "a/b-c.d");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("~x"), "'~x'");
    }
}
