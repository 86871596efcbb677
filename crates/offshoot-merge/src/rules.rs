//! Which engine merges which file, and what it may decide by itself.

use crate::reason::Reasons;

/// How the content of a file is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MergeEngine {
    /// By line, then by word.
    Text,
    /// As text, and the keys of a table as entries of their own.
    Toml,
    /// As text, and the keys of a mapping and the items of a list as entries of their own.
    Yaml,
    /// As text, and the items of a list as entries of their own.
    Markdown,
    /// By line alone, as git does.
    Lines,
    /// By structure, one JSON value in the file; by text where that is not possible.
    Json,
    /// By structure, one JSON value per line.
    JsonLines,
    /// By id alone: changed on both sides is a conflict.
    Binary,
}

/// A pattern for paths, as in `.gitattributes`.
///
/// `*` and `?` stay within one name, `**` crosses directories. A pattern without `/` is compared
/// with the last name of a path, one with `/` with the whole path. Names are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<u8>);

impl Pattern {
    /// A pattern from its text.
    pub fn new(pattern: impl AsRef<[u8]>) -> Self {
        Pattern(pattern.as_ref().to_vec())
    }

    /// Whether a path is meant.
    pub fn matches(&self, path: &[u8]) -> bool {
        let pattern = self.0.as_slice();
        match pattern.strip_prefix(b"/") {
            Some(anchored) => glob(anchored, path),
            None if pattern.contains(&b'/') => glob(pattern, path),
            None => glob(
                pattern,
                path.rsplit(|&byte| byte == b'/').next().unwrap_or_default(),
            ),
        }
    }
}

/// Compares by a set of states, so that no pattern takes exponential time.
fn glob(pattern: &[u8], path: &[u8]) -> bool {
    let mut states = vec![false; pattern.len() + 1];
    states[0] = true;
    skip_stars(pattern, &mut states);
    for &byte in path {
        let mut next = vec![false; pattern.len() + 1];
        for at in (0..pattern.len()).filter(|&at| states[at]) {
            match pattern[at] {
                b'*' if is_double_star(pattern, at) || byte != b'/' => next[at] = true,
                b'*' => {}
                b'?' if byte != b'/' => next[at + 1] = true,
                wanted if wanted == byte => next[at + 1] = true,
                _ => {}
            }
        }
        skip_stars(pattern, &mut next);
        states = next;
    }
    states[pattern.len()]
}

fn is_double_star(pattern: &[u8], at: usize) -> bool {
    pattern.get(at + 1) == Some(&b'*') || (at > 0 && pattern[at - 1] == b'*')
}

/// A star may stand for nothing, and `**/` also for no directory at all.
fn skip_stars(pattern: &[u8], states: &mut [bool]) {
    for at in 0..pattern.len() {
        if states[at] && pattern[at] == b'*' {
            states[at + 1] = true;
            if pattern[at..].starts_with(b"**/") && (at == 0 || pattern[at - 1] == b'/') {
                states[at + 3] = true;
            }
        }
    }
}

/// What decides how files are merged.
///
/// The engine per path: rules in order, the first that matches; then the file's extension.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Patterns with the engine they ask for.
    pub engines: Vec<(Pattern, MergeEngine)>,
    /// The ways in which a part that both sides changed may be put together; all, unless said
    /// otherwise.
    pub allowed: Reasons,
}

impl Rules {
    /// The engine for a path.
    pub fn engine(&self, path: &[u8]) -> MergeEngine {
        if let Some((_, engine)) = self
            .engines
            .iter()
            .find(|(pattern, _)| pattern.matches(path))
        {
            return *engine;
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let extension = name.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
        match extension.to_ascii_lowercase().as_slice() {
            b"json" => MergeEngine::Json,
            b"jsonl" | b"ndjson" => MergeEngine::JsonLines,
            b"toml" => MergeEngine::Toml,
            b"yaml" | b"yml" => MergeEngine::Yaml,
            b"md" | b"markdown" => MergeEngine::Markdown,
            _ => MergeEngine::Text,
        }
    }
}
