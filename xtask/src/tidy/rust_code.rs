//! Rust code without its comments and literals, so that a rule about code does not trip over text.

/// `source` with every comment, string and character literal replaced by spaces. Newlines stay, so
/// that line numbers do.
pub(super) fn without_text(source: &str) -> String {
    let mut scanner = Scanner {
        rest: source,
        code: String::with_capacity(source.len()),
    };
    while let Some(next) = scanner.rest.chars().next() {
        let hidden = scanner.hidden_length();
        if hidden > 0 {
            scanner.hide(hidden);
        } else if next.is_alphanumeric() || next == '_' {
            // A whole word at once: the `r` of `for"` must not look like a raw string.
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let end = scanner
                .rest
                .find(|c| !is_word(c))
                .unwrap_or(scanner.rest.len());
            scanner.keep(end);
        } else {
            scanner.keep(next.len_utf8());
        }
    }
    scanner.code
}

/// Whether `word` stands in `code` as a word of its own.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(start, _)| {
        !code[..start].ends_with(is_word) && !code[start + word.len()..].starts_with(is_word)
    })
}

struct Scanner<'a> {
    rest: &'a str,
    code: String,
}

impl Scanner<'_> {
    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length);
        self.code.push_str(kept);
        self.rest = rest;
    }

    fn hide(&mut self, length: usize) {
        let (hidden, rest) = self.rest.split_at(length);
        self.code
            .extend(hidden.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }

    /// How many bytes from here on are a comment or a literal; 0 if it is code.
    fn hidden_length(&self) -> usize {
        let rest = self.rest;
        if rest.starts_with("//") {
            return rest.find('\n').unwrap_or(rest.len());
        }
        if rest.starts_with("/*") {
            return block_comment_length(rest);
        }
        for prefix in ["", "b", "c"] {
            let Some(literal) = rest.strip_prefix(prefix) else {
                continue;
            };
            if literal.starts_with('"') {
                return prefix.len() + quoted_length(literal, '"');
            }
            if literal.starts_with('r')
                && let Some(length) = raw_string_length(&literal[1..])
            {
                return prefix.len() + 1 + length;
            }
            if prefix != "c" && literal.starts_with('\'') && is_char_literal(literal) {
                return prefix.len() + quoted_length(literal, '\'');
            }
        }
        0
    }
}

/// Block comments nest in Rust.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0;
    let mut position = 0;
    while position < text.len() {
        if text[position..].starts_with("/*") {
            depth += 1;
            position += 2;
        } else if text[position..].starts_with("*/") {
            depth -= 1;
            position += 2;
            if depth == 0 {
                return position;
            }
        } else {
            position += text[position..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a literal that begins and ends with `quote`, where a backslash hides the next.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (position, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return position + 1;
        }
    }
    text.len()
}

/// The length of `##"…"##`, if `text` begins with one.
fn raw_string_length(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let content = text[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &text[..hashes]);
    Some(
        content
            .find(&end)
            .map_or(text.len(), |found| hashes + 1 + found + end.len()),
    )
}

/// Tells `'a'` and `'\n'` from the lifetime `'a`.
fn is_char_literal(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn leaves(source: &str, code: &str) {
        assert_eq!(without_text(source), code);
    }

    #[test]
    fn comments_and_literals_disappear() {
        leaves("a // b\nc", "a     \nc");
        leaves("a /* b /* c */ \n d */ e", "a              \n      e");
        leaves(r#"f("x\"y") g"#, "f(      ) g");
        leaves(r####"f(r##"x"#y"##) g"####, "f(           ) g");
        leaves(r#"f(b"x", br"y\", c"z") g"#, "f(    ,       ,     ) g");
        leaves(r"let c = '\''; d", "let c =     ; d");
        leaves("b'x' '\"' e", "         e");
    }

    #[test]
    fn code_stays() {
        for code in [
            "fn f<'a>(x: &'a str) {}",
            "r#type = b + r",
            "for x in bar {}",
            "a / b",
        ] {
            leaves(code, code);
        }
        // A word that ends in `r` before a string is not a raw string.
        leaves("macro_r\"x\\\"\" y", "macro_r      y");
    }

    #[test]
    fn words_have_borders() {
        assert!(has_word("x unsafe { }", "unsafe"));
        assert!(!has_word("unsafe_code = deny", "unsafe"));
        assert!(!has_word("not_unsafe()", "unsafe"));
    }
}
