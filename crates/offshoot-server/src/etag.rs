//! Entity tags and the conditions that requests put on them (RFC 9110, section 13).

use axum::http::{HeaderMap, HeaderName, header};
use offshoot_core::{Error, ErrorCode, ObjectId, RelPath, Result};
use offshoot_engine::Expect;

/// The tag of a content: its id in quotes.
pub(crate) fn of(id: &ObjectId) -> String {
    format!("\"{}\"", id.to_hex())
}

/// The tags of one header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    /// Anything that exists.
    Any,
    /// These; a weak one keeps its `W/`.
    These(Vec<String>),
}

impl Tags {
    /// The tags of a header; none if it is not there.
    pub(crate) fn of(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>> {
        if !headers.contains_key(name) {
            return Ok(None);
        }
        let bad = || {
            Error::invalid(format!("the header `{name}` is no list of entity tags"))
                .with_hint("write `*`, or tags in quotes with commas between them")
        };
        let mut tags = Vec::new();
        for value in headers.get_all(name) {
            let text = value.to_str().map_err(|_| bad())?;
            if text.trim() == "*" {
                return Ok(Some(Tags::Any));
            }
            tags.extend(list_of(text).ok_or_else(bad)?);
        }
        // A condition that names nothing is a mistake, not no condition.
        match tags.is_empty() {
            true => Err(bad()),
            false => Ok(Some(Tags::These(tags))),
        }
    }

    /// Whether one of them is this tag, byte for byte: a weak one never is.
    fn has_strongly(&self, current: &str) -> bool {
        match self {
            Tags::Any => true,
            Tags::These(tags) => tags.iter().any(|tag| tag == current),
        }
    }

    /// Whether one of them means this tag, weakly or not.
    fn has_weakly(&self, current: &str) -> bool {
        match self {
            Tags::Any => true,
            Tags::These(tags) => tags
                .iter()
                .any(|tag| tag.strip_prefix("W/").unwrap_or(tag) == current),
        }
    }
}

/// The tags of a list. A comma inside of quotes belongs to its tag.
fn list_of(text: &str) -> Option<Vec<String>> {
    let mut tags = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // Empty elements are allowed, and mean nothing.
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start();
            continue;
        }
        let (weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => ("W/", quoted),
            None => ("", rest),
        };
        let (opaque, after) = quoted.strip_prefix('"')?.split_once('"')?;
        tags.push(format!("{weak}\"{opaque}\""));
        rest = after.trim_start();
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
    }
    Some(tags)
}

/// What the conditions of a request to read lead to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The content is wanted.
    Go,
    /// The caller has it already.
    NotModified,
}

/// Decides a request to read.
pub(crate) fn decide_read(headers: &HeaderMap, path: &RelPath, current: &str) -> Result<Verdict> {
    if let Some(tags) = Tags::of(headers, &header::IF_MATCH)?
        && !tags.has_strongly(current)
    {
        return Err(failed(path));
    }
    if let Some(tags) = Tags::of(headers, &header::IF_NONE_MATCH)?
        && tags.has_weakly(current)
    {
        return Ok(Verdict::NotModified);
    }
    Ok(Verdict::Go)
}

/// What a request to change expects to find. `current` is asked only when the headers name
/// several tags; the engine compares again in the transaction that makes the change.
pub(crate) fn expectation(
    headers: &HeaderMap,
    path: &RelPath,
    current: impl Fn() -> Result<Option<ObjectId>>,
) -> Result<Expect> {
    match Tags::of(headers, &header::IF_NONE_MATCH)? {
        Some(Tags::Any) => return Ok(Expect::Absent),
        Some(tags) => {
            let now = current()?;
            if now.is_some_and(|id| tags.has_weakly(&of(&id))) {
                return Err(failed(path));
            }
        }
        None => {}
    }
    match Tags::of(headers, &header::IF_MATCH)? {
        None => Ok(Expect::Anything),
        Some(Tags::Any) => Ok(Expect::Present),
        Some(Tags::These(tags)) => {
            let mut ids = tags.iter().filter_map(|tag| id_of(tag));
            match (ids.next(), ids.next()) {
                (Some(id), None) => Ok(Expect::Content(id)),
                (None, _) => Err(failed(path)),
                _ => match current()? {
                    Some(id) if tags.contains(&of(&id)) => Ok(Expect::Content(id)),
                    _ => Err(failed(path)),
                },
            }
        }
    }
}

fn id_of(tag: &str) -> Option<ObjectId> {
    let hex = tag.strip_prefix('"')?.strip_suffix('"')?;
    hex.parse().ok()
}

fn failed(path: &RelPath) -> Error {
    Error::new(
        ErrorCode::PreconditionFailed,
        format!("`{path}` is not what the request expects"),
    )
    .with_hint("read it again and decide anew")
}

/// One range of bytes: from, and up to but not including.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// All of it: no range was asked for, or one that we need not heed.
    Whole,
    /// A part.
    Part(u64, u64),
    /// It lies outside.
    Unsatisfiable,
}

/// The range that a request asks for. Several ranges at once are answered with the whole, which
/// the standard allows.
pub(crate) fn range(headers: &HeaderMap, current: &str, size: u64) -> Range {
    let Some(text) = headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok())
    else {
        return Range::Whole;
    };
    if let Some(condition) = headers.get(header::IF_RANGE)
        && condition.as_bytes() != current.as_bytes()
    {
        return Range::Whole;
    }
    parse_range(text, size).unwrap_or(Range::Whole)
}

fn parse_range(text: &str, size: u64) -> Option<Range> {
    let (unit, set) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // What is too large for a number is beyond every end.
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        let length = number(last)?.min(size);
        return Some(match length {
            0 => Range::Unsatisfiable,
            _ => Range::Part(size - length, size),
        });
    }
    let first = number(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        number(last)?
    };
    if last < first {
        return None;
    }
    if first >= size {
        return Some(Range::Unsatisfiable);
    }
    Some(Range::Part(first, last.saturating_add(1).min(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, expected) in [
            ("bytes=0-0", Some(Range::Part(0, 1))),
            ("bytes=2-", Some(Range::Part(2, 10))),
            ("bytes=-3", Some(Range::Part(7, 10))),
            ("bytes=-99", Some(Range::Part(0, 10))),
            ("bytes=5-99999999999999999999999", Some(Range::Part(5, 10))),
            ("bytes=10-", Some(Range::Unsatisfiable)),
            ("bytes=-0", Some(Range::Unsatisfiable)),
            ("bytes=3-2", None),
            ("bytes=0-1,3-4", None),
            ("lines=0-1", None),
            ("bytes=a-b", None),
            ("bytes=", None),
        ] {
            assert_eq!(parse_range(text, 10), expected, "{text}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Some(Range::Unsatisfiable));
    }

    #[test]
    fn tags() {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, "\"a\", W/\"b\"".parse().unwrap());
        let tags = Tags::of(&headers, &header::IF_MATCH).unwrap().unwrap();
        assert!(tags.has_strongly("\"a\"") && !tags.has_strongly("\"b\""));
        assert!(tags.has_weakly("\"b\""));
        for bad in ["a", "\"a", "\"a\" \"b\"", "\"a\", *", "w/\"a\"", "", " , "] {
            headers.insert(header::IF_MATCH, bad.parse().unwrap());
            assert!(Tags::of(&headers, &header::IF_MATCH).is_err(), "{bad}");
        }
        headers.insert(header::IF_MATCH, "\"a,b\",, \"\"".parse().unwrap());
        headers.append(header::IF_MATCH, "\"c\"".parse().unwrap());
        let tags = Tags::of(&headers, &header::IF_MATCH).unwrap().unwrap();
        for tag in ["\"a,b\"", "\"\"", "\"c\""] {
            assert!(tags.has_strongly(tag), "{tag}");
        }
    }
}
