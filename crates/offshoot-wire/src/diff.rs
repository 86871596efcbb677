//! Text differences in the unified format, byte for byte as `patch` and `git apply` read them.

use std::fmt::{self, Write as _};

use imara_diff::{
    Algorithm, Diff, InternedInput, Interner, Token, UnifiedDiffConfig, UnifiedDiffPrinter,
};

/// Git reads so many bytes to see whether a file is text.
const SNIFFED_BYTES: usize = 8000;
/// Larger contents are not compared line by line.
const MAX_TEXT_BYTES: usize = 32 << 20;

/// The difference between two contents.
pub struct TextDiff {
    /// Lines that came.
    pub added: u32,
    /// Lines that went.
    pub removed: u32,
    /// The hunks, without a file header.
    pub hunks: Vec<u8>,
}

/// Compares two texts line by line. None if one of them is no text.
pub fn compare(before: &[u8], after: &[u8]) -> Option<TextDiff> {
    if !is_text(before) || !is_text(after) {
        return None;
    }
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let printer = Printer(&input.interner);
    let text = diff
        .unified_diff(&printer, UnifiedDiffConfig::default(), &input)
        .to_string();
    Some(TextDiff {
        added: diff.count_additions(),
        removed: diff.count_removals(),
        hunks: to_bytes(&text),
    })
}

fn is_text(content: &[u8]) -> bool {
    content.len() <= MAX_TEXT_BYTES && !content[..content.len().min(SNIFFED_BYTES)].contains(&0)
}

/// Prints hunks. The printer's trait knows only text while files are bytes, so each byte travels
/// as the character of the same number and is turned back at the end.
struct Printer<'a>(&'a Interner<&'a [u8]>);

impl Printer<'_> {
    fn print(&self, f: &mut impl fmt::Write, sign: char, token: Token) -> fmt::Result {
        let line = self.0[token];
        f.write_char(sign)?;
        for &byte in line {
            f.write_char(char::from(byte))?;
        }
        if line.ends_with(b"\n") {
            return Ok(());
        }
        f.write_str("\n\\ No newline at end of file\n")
    }
}

impl UnifiedDiffPrinter for Printer<'_> {
    fn display_header(
        &self,
        mut f: impl fmt::Write,
        start_before: u32,
        start_after: u32,
        len_before: u32,
        len_after: u32,
    ) -> fmt::Result {
        // Lines count from 1, and an empty range names the line before it.
        let range = |start: u32, len: u32| match len {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            _ => format!("{},{len}", start + 1),
        };
        let (before, after) = (
            range(start_before, len_before),
            range(start_after, len_after),
        );
        writeln!(f, "@@ -{before} +{after} @@")
    }

    fn display_context_token(&self, mut f: impl fmt::Write, token: Token) -> fmt::Result {
        self.print(&mut f, ' ', token)
    }

    fn display_hunk(
        &self,
        mut f: impl fmt::Write,
        before: &[Token],
        after: &[Token],
    ) -> fmt::Result {
        for &token in before {
            self.print(&mut f, '-', token)?;
        }
        for &token in after {
            self.print(&mut f, '+', token)?;
        }
        Ok(())
    }
}

fn to_bytes(text: &str) -> Vec<u8> {
    text.chars()
        .map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?'))
        .collect()
}

/// The two lines that name a file. None means that it is not there on that side.
pub fn file_header(before: Option<&str>, after: Option<&str>) -> String {
    let side = |prefix: &str, path: Option<&str>| match path {
        None => "/dev/null".to_owned(),
        Some(path) => quoted(&format!("{prefix}/{path}")),
    };
    let mut text = String::new();
    let _ = writeln!(text, "--- {}", side("a", before));
    let _ = writeln!(text, "+++ {}", side("b", after));
    text
}

/// A tab after the name keeps `patch` from taking what follows a space for a date.
fn quoted(path: &str) -> String {
    if path.contains(' ') {
        format!("{path}\t")
    } else {
        path.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunks(before: &[u8], after: &[u8]) -> String {
        String::from_utf8_lossy(&compare(before, after).unwrap().hunks).into_owned()
    }

    #[test]
    fn unified_format() {
        assert_eq!(
            hunks(b"a\nb\nc\n", b"a\nB\nc\n"),
            "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        );
        assert_eq!(hunks(b"", b"new\n"), "@@ -0,0 +1 @@\n+new\n");
        assert_eq!(hunks(b"old\n", b""), "@@ -1 +0,0 @@\n-old\n");
        assert_eq!(
            hunks(b"x", b"x\n"),
            "@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n"
        );
    }

    #[test]
    fn bytes_stay_bytes() {
        let diff = compare(b"caf\xe9\n", "caf\u{e9}\n".as_bytes()).unwrap();
        assert_eq!(diff.hunks, b"@@ -1 +1 @@\n-caf\xe9\n+caf\xc3\xa9\n");
        assert_eq!((diff.added, diff.removed), (1, 1));
        assert!(compare(b"a\0b", b"x").is_none());
    }
}
