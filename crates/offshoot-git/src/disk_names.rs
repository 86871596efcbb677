//! Which names some file system takes for the same file. A rule about one name must hold for all of
//! them: other cases on most systems but Linux, code points that HFS+ ignores, dots and spaces at
//! the end that NTFS drops, and the short names that NTFS gives to long ones.

/// Folds a name, or a path, so that names which some file system takes for the same become equal.
///
/// Some other names become equal too: this is for refusing, not for finding.
pub fn folded(path: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(path.len());
    for (number, name) in path.split(|&byte| byte == b'/').enumerate() {
        if number > 0 {
            all.push(b'/');
        }
        let start = all.len();
        for chunk in name.utf8_chunks() {
            for c in chunk.valid().chars().filter(|&c| !is_ignored(c)) {
                // By way of the upper case, which also folds a long s and a dotless i.
                let lower = c.to_uppercase().flat_map(char::to_lowercase);
                lower.for_each(|c| all.extend(c.encode_utf8(&mut [0; 4]).as_bytes()));
            }
            all.extend(chunk.invalid());
        }
        // The name of a file ends where that of one of its streams begins.
        let stream = all[start..].iter().skip(1).position(|&byte| byte == b':');
        all.truncate(stream.map_or(all.len(), |at| start + 1 + at));
        let is_dropped = |byte: &u8| matches!(byte, b'.' | b' ');
        let kept = all[start..].iter().rposition(|byte| !is_dropped(byte));
        let end = (start + kept.map_or(1, |last| last + 1)).min(all.len());
        // The dot of a pattern such as `*.` is kept: without it, the pattern would match any name.
        if !all[start..end]
            .iter()
            .all(|byte| matches!(byte, b'*' | b'?'))
        {
            all.truncate(end);
        }
    }
    all
}

/// Whether HFS+ ignores this code point in names.
pub(crate) fn is_ignored(c: char) -> bool {
    matches!(c,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Whether NTFS may have given a file of the name `long` the name `short`: `GITHUB~1` to `.github`.
/// Both are [`folded`].
pub fn may_be_short_name(short: &[u8], long: &[u8]) -> bool {
    let (short_stem, short_ending) = stem_and_ending(short);
    let Some(tilde) = short_stem.iter().rposition(|&byte| byte == b'~') else {
        return false;
    };
    let number = &short_stem[tilde + 1..];
    if number.is_empty() || !number.iter().all(u8::is_ascii_digit) || short_stem.len() > 8 {
        return false;
    }
    let (long_stem, long_ending) = stem_and_ending(long);
    let kept = |text: &[u8]| -> Vec<u8> {
        let kept = text.iter().filter(|byte| !matches!(byte, b'.' | b' '));
        kept.copied().collect()
    };
    let (begins, stem) = (&short_stem[..tilde], kept(long_stem));
    if short_ending != &long_ending[..long_ending.len().min(3)] {
        return false;
    }
    // When the first few are taken, two letters and a hash follow.
    let is_hashed = tilde >= 2
        && begins.len() <= 6
        && stem.starts_with(&begins[..2])
        && begins[2..].iter().all(u8::is_ascii_hexdigit);
    (!begins.is_empty() && stem.starts_with(begins)) || is_hashed
}

/// A leading dot begins a name, not an ending.
fn stem_and_ending(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(at) if at > 0 => (&name[..at], &name[at + 1..]),
        _ => (name, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_some_disk_takes_for_the_same_is_the_same() {
        for (one, other) in [
            (".GitHub/Workflows", ".github/workflows"),
            ("agent\u{17f}.md", "AGENTS.md"),
            ("CLAUDE.MD", "claude.md"),
            (".v\u{200d}scode", ".vscode"),
            ("\u{212a}ey", "key"),
            (".envrc. .", ".envrc"),
            (".envrc::$DATA", ".envrc"),
            ("É", "é"),
        ] {
            assert_eq!(folded(one.as_bytes()), folded(other.as_bytes()), "{one}");
        }
        for (one, other) in [("a/b", "ab"), ("a", "b"), (".", "x"), ("a.b", "ab")] {
            assert_ne!(folded(one.as_bytes()), folded(other.as_bytes()), "{one}");
        }
        assert_eq!(folded(b"a\xffB/\xfe"), b"a\xffb/\xfe");
        assert_eq!(folded(b"..."), b".");
        assert_eq!(folded(b"a/ "), b"a/ ");
        assert_eq!(folded(b""), b"");
        // Patterns that are about the end of a name do not come to mean any name.
        for pattern in ["*.", "**/*.", "?. .", "a/*. "] {
            assert_eq!(folded(pattern.as_bytes()), pattern.as_bytes());
        }
        assert_eq!(folded(b"*.env."), b"*.env");
    }

    #[test]
    fn short_names_are_known() {
        for (short, long) in [
            ("github~1", ".github"),
            ("gitlab~1.yml", ".gitlab-ci.yml"),
            ("devcon~2", ".devcontainer"),
            ("de1f2a~1", ".devcontainer"),
            ("mcp~1.jso", ".mcp.json"),
        ] {
            assert!(
                may_be_short_name(short.as_bytes(), long.as_bytes()),
                "{short}"
            );
        }
        for (short, long) in [
            ("github", ".github"),
            ("github~", ".github"),
            ("github~x", ".github"),
            ("other~1", ".github"),
            ("gitlab~1", ".gitlab-ci.yml"),
            ("~1", ".github"),
        ] {
            assert!(
                !may_be_short_name(short.as_bytes(), long.as_bytes()),
                "{short}"
            );
        }
    }
}
