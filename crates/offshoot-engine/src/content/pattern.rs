//! Path patterns of tokens and policies: `*` and `?` match inside a part, `**` matches any number of
//! parts.

use offshoot_core::{Error, RelPath, Result};

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 1024;

/// A pattern of paths. A final `/` means everything below, as `/**` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<Vec<u8>>,
}

impl Pattern {
    /// Parses a pattern. Bytes that are not UTF-8 are escaped as in paths.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::invalid(format!(
                "the pattern `{}` is refused: {why}",
                text.escape_debug()
            ))
            .with_hint("write it like `src/**`, `*.md` or `docs/` (everything below)")
        };
        let bytes = offshoot_core::unescape_bytes(text)?;
        if bytes.is_empty() || bytes.len() > MAX_PATTERN {
            return Err(bad("it is empty or too long"));
        }
        if bytes[0] == b'/' || bytes.contains(&0) {
            return Err(bad("patterns are relative to the workspace"));
        }
        let mut parts = Vec::new();
        for part in bytes.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(bad("`..` would leave its directory")),
                _ => parts.push(part.to_vec()),
            }
        }
        if bytes.ends_with(b"/") {
            parts.push(b"**".to_vec());
        }
        let text = text.to_owned();
        Ok(Pattern { text, parts })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the path matches. `dir/**` matches `dir` itself too.
    pub fn matches(&self, path: &RelPath) -> bool {
        self.states_after(path)[self.parts.len()]
    }

    /// Whether the path matches, or something below it may.
    pub fn may_match_below(&self, path: &RelPath) -> bool {
        self.states_after(path).contains(&true)
    }

    /// Whether the path and everything below it matches.
    pub fn matches_all_below(&self, path: &RelPath) -> bool {
        // Once the final `**` is reached, every longer path matches. The name `\x01` reaches it only
        // through wildcards.
        self.parts.last().is_some_and(|last| last == b"**")
            && self.matches(path)
            && self.matches(&path.join_name(b"\x01"))
    }

    /// Which numbers of leading parts of the pattern can match the whole path. One pass, so that no
    /// pattern takes long.
    fn states_after(&self, path: &RelPath) -> Vec<bool> {
        let mut states = vec![false; self.parts.len() + 1];
        states[0] = true;
        self.skip_stars(&mut states);
        for part in path.parts() {
            let mut next = vec![false; states.len()];
            for (used, pattern) in self
                .parts
                .iter()
                .enumerate()
                .filter(|(used, _)| states[*used])
            {
                if pattern == b"**" {
                    next[used] = true;
                } else if matches_part(pattern, part) {
                    next[used + 1] = true;
                }
            }
            self.skip_stars(&mut next);
            states = next;
        }
        states
    }

    /// Lets `**` match no part at all.
    fn skip_stars(&self, states: &mut [bool]) {
        for (used, pattern) in self.parts.iter().enumerate() {
            if states[used] && pattern == b"**" {
                states[used + 1] = true;
            }
        }
    }
}

/// Matches one part, and backtracks only to the last `*`.
fn matches_part(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_matches() {
        for (pattern, yes, no) in [
            ("**", &["a", "a/b/c", "."][..], &[][..]),
            (
                "src/**",
                &["src", "src/a", "src/a/b"],
                &["srcx", "a/src", "."],
            ),
            ("src/", &["src/a"], &["b"]),
            ("*.md", &["a.md", ".md"], &["a/b.md", "a.mdx"]),
            ("**/*.md", &["a.md", "x/y/a.md"], &["a.txt"]),
            ("a/*/c", &["a/b/c"], &["a/c", "a/b/d/c"]),
            ("a?c*", &["abc", "axcdef"], &["ac"]),
            ("*a*b*c", &["xxaxxbxxc"], &["xxaxxcxxb"]),
        ] {
            let parsed = Pattern::parse(pattern).unwrap();
            for good in yes {
                assert!(parsed.matches(&path(good)), "{pattern} {good}");
            }
            for bad in no {
                assert!(!parsed.matches(&path(bad)), "{pattern} {bad}");
            }
        }
    }

    #[test]
    fn what_lies_below() {
        let src = Pattern::parse("src/lib/**").unwrap();
        assert!(src.may_match_below(&path("src")) && src.may_match_below(&path(".")));
        assert!(!src.may_match_below(&path("doc")));
        assert!(
            src.matches_all_below(&path("src/lib/x")) && src.matches_all_below(&path("src/lib"))
        );
        assert!(!src.matches_all_below(&path("src")));
        let some = Pattern::parse("src/**/*.rs").unwrap();
        assert!(!some.matches_all_below(&path("src")));
    }

    #[test]
    fn what_is_refused() {
        for bad in ["", "/a", "../a", "a/../b", "a\\x00b"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
