//! Brackets, and lines that open or close a block, found without knowing the language.

/// How many more of each kind of bracket are opened than closed: round, square, curly.
pub(crate) fn bracket_balance(text: &[u8]) -> [i64; 3] {
    let mut bracket_balance = [0; 3];
    for &byte in text {
        if let Some((kind, step)) = bracket(byte) {
            bracket_balance[kind] += step;
        }
    }
    bracket_balance
}

/// Whether a text closes what it opens and nothing else: it can stand or go without what is around.
pub(crate) fn is_closed_run(text: &[u8]) -> bool {
    let mut bracket_balance = [0; 3];
    for &byte in text {
        if let Some((kind, step)) = bracket(byte) {
            bracket_balance[kind] += step;
            if bracket_balance[kind] < 0 {
                return false;
            }
        }
    }
    bracket_balance == [0; 3]
}

/// Whether what follows a text would belong to its last line, without a bracket that shows it: a
/// block as in Python or in shell scripts, a heading, an attribute, a statement that goes on.
pub(crate) fn opens_block(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    let last = text.rsplit(|&byte| byte == b'\n').next().unwrap_or(text);
    let last = last.trim_ascii_start();
    let word = last.rsplit(u8::is_ascii_whitespace).next();
    matches!(last.first(), Some(b'[' | b'#' | b'@'))
        || matches!(last.last(), Some(b':' | b'\\' | b'=' | b'&' | b'|'))
        || matches!(
            word,
            Some(b"then" | b"do" | b"else" | b"begin" | b"try" | b"ensure" | b"rescue")
        )
}

fn bracket(byte: u8) -> Option<(usize, i64)> {
    match byte {
        b'(' => Some((0, 1)),
        b')' => Some((0, -1)),
        b'[' => Some((1, 1)),
        b']' => Some((1, -1)),
        b'{' => Some((2, 1)),
        b'}' => Some((2, -1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_run_closes_what_it_opens_and_nothing_else() {
        assert!(is_closed_run(b"f(a[1]) {\n}\n"));
        assert!(is_closed_run(b"plain words\n"));
        assert!(!is_closed_run(b"}\n{\n"));
        assert!(!is_closed_run(b"if x {\n"));
        assert_eq!(bracket_balance(b"({[[\n}"), [1, 2, 0]);
    }

    #[test]
    fn a_block_opens_without_brackets_too() {
        assert!(opens_block(b"x\nif a:\n"));
        assert!(opens_block(b"if a; then\n"));
        assert!(opens_block(b"[table]\n\n"));
        assert!(opens_block(b"    #[cfg(x)]\n"));
        assert!(!opens_block(b"if a:\n    b\n"));
        assert!(!opens_block(b""));
    }
}
