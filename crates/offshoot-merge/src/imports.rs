//! Imports that both sides added at the same place of a sorted list: both are kept, sorted.
//!
//! The list must show its order by at least two imports around the new ones, so that there is one
//! place for each, and the sides must bring in different names.

use std::collections::HashSet;

use crate::diff3::Region;
use crate::split::ThreeWay;

/// So many imports around the new ones show that a list is kept sorted.
const MIN_AROUND: usize = 2;
/// No further than this is looked on either side.
const MAX_AROUND: usize = 100;

/// The imports of ours right before and after a hunk.
pub(crate) struct ImportLines<'a> {
    before: Vec<&'a [u8]>,
    after: Vec<&'a [u8]>,
}

impl<'a> ImportLines<'a> {
    /// The import lines around a region of ours.
    pub(crate) fn around(lines: &ThreeWay, region: &Region, ours: &'a [u8]) -> Self {
        let line = |place: usize| &ours[lines.ours.bytes(&(place..place + 1))];
        let is_import = |line: &&[u8]| names(line).is_some();
        let before = (0..region.ours.start).rev().take(MAX_AROUND).map(line);
        let after = (region.ours.end..lines.ours.len())
            .take(MAX_AROUND)
            .map(line);
        let mut before: Vec<&[u8]> = before.take_while(is_import).collect();
        before.reverse();
        ImportLines {
            before,
            after: after.take_while(is_import).collect(),
        }
    }

    /// Both sides' imports, if each side is sorted with the lines around it.
    pub(crate) fn merge(&self, base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
        if !base.is_empty() || !ours.ends_with(b"\n") || !theirs.ends_with(b"\n") {
            return None;
        }
        let of_ours: Vec<&[u8]> = ours.split_inclusive(|&byte| byte == b'\n').collect();
        let of_theirs: Vec<&[u8]> = theirs.split_inclusive(|&byte| byte == b'\n').collect();
        let mut known = HashSet::new();
        for line in &of_ours {
            known.extend(names(line)?);
        }
        for line in &of_theirs {
            if names(line)?.iter().any(|name| known.contains(name)) {
                return None;
            }
        }
        let sorted = self.is_sorted_with(&of_ours) && self.is_sorted_with(&of_theirs);
        let mut merged = [of_ours, of_theirs].concat();
        merged.sort_unstable();
        sorted.then(|| merged.concat())
    }

    fn is_sorted_with(&self, lines: &[&[u8]]) -> bool {
        let all = self.before.iter().chain(lines).chain(&self.after);
        self.before.len() + self.after.len() >= MIN_AROUND && all.is_sorted()
    }
}

/// The names that an import brings in; none if the line is not a whole import.
pub(crate) fn names(line: &[u8]) -> Option<Vec<&[u8]>> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let text = text.strip_suffix(';').unwrap_or(text);
    let first = text.split_ascii_whitespace().next()?;
    let rest = text[first.len()..].trim_start();
    let open = |brackets: [char; 2]| {
        let count = |bracket: char| text.matches(bracket).count();
        count(brackets[0]) != count(brackets[1])
    };
    if open(['(', ')']) || open(['{', '}']) || open(['[', ']']) {
        return None;
    }
    let part = match first {
        "from" => rest.split_once(" import ")?.1,
        "import" | "export" if rest.contains(" from ") => rest.rsplit_once(" from ")?.0,
        "import" => last_part(rest),
        "use" | "using" if !rest.starts_with('(') && !rest.contains('=') => last_part(rest),
        "pub" => last_part(rest.strip_prefix("use ")?),
        "#include" | "@import" => rest,
        "const" | "let" | "var" => {
            let (name, value) = rest.split_once('=')?;
            value.trim_start().starts_with("require(").then_some(name)?
        }
        _ => return None,
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let words = part.split(|c: char| !is_name(c));
    let names: Vec<&[u8]> = words
        .filter(|word| !matches!(*word, "" | "as" | "type"))
        .map(str::as_bytes)
        .collect();
    (!names.is_empty()).then_some(names)
}

/// What stands behind the last separator of a path, or in the braces at its end.
fn last_part(path: &str) -> &str {
    if let Some((_, group)) = path.split_once('{') {
        return group;
    }
    let named = path.rsplit_once(" as ").map(|(_, name)| name);
    let last = || path.rsplit(['.', ':', '\\', '/']).next();
    named.or_else(last).unwrap_or(path)
}
