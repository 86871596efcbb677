//! Names that mean something to git itself, on any platform, as git's own `verify_path` and `fsck`
//! know them: `.git` and what a case-insensitive disk, NTFS or HFS+ would take for it, and
//! `.gitmodules` and `.gitattributes`, which must be files that git can trust.
//!
//! An attacker who gets such a name into another user's checkout runs commands there
//! (CVE-2014-9390, CVE-2019-1353, CVE-2018-11235). The functions are named after those of git that
//! they follow.

use offshoot_core::{EntryKind, RelPath};

use crate::disk_names::is_ignored;
use crate::gitmodules::{refuses_gitattributes, refuses_gitmodules};

const DOT_GIT: &str = "git would take it for a `.git` of its own";
const MODULES_NO_FILE: &str = "git refuses a `.gitmodules` that is not a file";
const ATTRIBUTES_NO_FILE: &str = "git refuses a `.gitattributes` that is a directory";

/// Whether git, on some platform, takes this name in a directory for `.git`.
pub fn is_dot_git(name: &[u8]) -> bool {
    may_be_special_name(name)
        && (is_hfs_dot(name, b"git") || is_ntfs_dotgit(name) || {
            // Where the backslash separates, what follows one is a name of its own.
            let mut after = after_backslashes(name);
            after.any(is_ntfs_dotgit)
        })
}

/// Why git refuses an entry of this name, whatever it holds; none if it does not.
pub fn refuses_name(name: &[u8], kind: EntryKind) -> Option<&'static str> {
    if !may_be_special_name(name) {
        return None;
    }
    if is_dot_git(name) {
        return Some(DOT_GIT);
    }
    match kind {
        EntryKind::File => None,
        EntryKind::Symlink | EntryKind::Dir if is_dot_gitmodules(name) => Some(MODULES_NO_FILE),
        // A link is only warned of: git does not follow it.
        EntryKind::Dir if is_dot_gitattributes(name) => Some(ATTRIBUTES_NO_FILE),
        _ => None,
    }
}

/// The topmost part of a path that git refuses by its name, and why. `kind` is what stands at the
/// path itself; above it are directories.
pub fn refuses_path(path: &RelPath, kind: EntryKind) -> Option<(RelPath, &'static str)> {
    let mut parts = path.parts().enumerate().peekable();
    while let Some((number, part)) = parts.next() {
        let is_last = parts.peek().is_none();
        if let Some(why) = refuses_name(part, if is_last { kind } else { EntryKind::Dir }) {
            let top = path.ancestors().into_iter().nth(number + 1);
            return Some((top.unwrap_or_else(|| path.clone()), why));
        }
    }
    None
}

/// Whether git also checks the content of a file of this name.
pub fn has_rules_for_content(name: &[u8]) -> bool {
    may_be_special_name(name) && (is_dot_gitmodules(name) || is_dot_gitattributes(name))
}

/// Why git refuses a file of this name with this content; none if it does not.
pub fn refuses_content(name: &[u8], content: &[u8]) -> Option<&'static str> {
    if !may_be_special_name(name) {
        return None;
    }
    if is_dot_gitmodules(name) {
        return refuses_gitmodules(content);
    }
    is_dot_gitattributes(name)
        .then(|| refuses_gitattributes(content))
        .flatten()
}

/// A quick check: nearly all names are ruled out by their first byte.
fn may_be_special_name(name: &[u8]) -> bool {
    // 0xe2 and 0xef begin the code points that HFS+ ignores; a short name may be a number alone.
    matches!(name.first(), Some(b'.' | b'g' | b'G' | b'~' | 0xe2 | 0xef)) || name.contains(&b'\\')
}

fn is_dot_gitmodules(name: &[u8]) -> bool {
    let is_ntfs = |name| is_ntfs_dot(name, b"gitmodules", b"gi7eba");
    is_hfs_dot(name, b"gitmodules") || is_ntfs(name) || after_backslashes(name).any(is_ntfs)
}

fn is_dot_gitattributes(name: &[u8]) -> bool {
    is_hfs_dot(name, b"gitattributes") || is_ntfs_dot(name, b"gitattributes", b"gi7d29")
}

/// The rests of a name after each of its backslashes.
fn after_backslashes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let backslashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'\\');
    backslashes.map(|(at, _)| &name[at + 1..])
}

/// `.git` or its short name `git~1`, in any case, with the spaces and dots at the end that NTFS
/// drops, and whatever follows a `:` (an alternate stream) or a separator.
fn is_ntfs_dotgit(name: &[u8]) -> bool {
    let rest = strip_prefix(name, b".git").or_else(|| strip_prefix(name, b"git~1"));
    rest.is_some_and(|rest| {
        let end = rest.iter().find(|byte| !matches!(byte, b'.' | b' '));
        matches!(end, None | Some(b'\\' | b':'))
    })
}

/// `.NAME` in one of the forms that NTFS takes for it: as it is, by the short name that it usually
/// has (`gitmod~1` to `~4`), or by the one made of a hash when those are taken (`gi7eba~1`).
fn is_ntfs_dot(name: &[u8], wanted: &[u8], hashed: &[u8; 6]) -> bool {
    let ends = |rest: &[u8]| {
        let end = rest.iter().find(|byte| !matches!(byte, b'.' | b' '));
        matches!(end, None | Some(b':'))
    };
    let long = name.strip_prefix(b".");
    if let Some(rest) = long.and_then(|name| strip_prefix(name, wanted)) {
        return ends(rest);
    }
    if let Some([b'~', b'1'..=b'4', rest @ ..]) = strip_prefix(name, &wanted[..6]) {
        return ends(rest);
    }
    // Up to six letters of the hash, then `~` and a number: eight bytes in all.
    let Some((short, rest)) = name.split_at_checked(8) else {
        return false;
    };
    let Some(tilde) = short.iter().position(|&byte| byte == b'~') else {
        return false;
    };
    let number = &short[tilde + 1..];
    tilde <= 6
        && short[..tilde].eq_ignore_ascii_case(&hashed[..tilde])
        && matches!(number.first(), Some(b'1'..=b'9'))
        && number.iter().all(u8::is_ascii_digit)
        && ends(rest)
}

/// `.NAME` as HFS+ sees it: in any case, with code points anywhere in it that it ignores.
fn is_hfs_dot(name: &[u8], wanted: &[u8]) -> bool {
    let mut rest = name;
    for &expected in [b"."].into_iter().flatten().chain(wanted) {
        match next_hfs_char(&mut rest) {
            Some(c) if c.is_ascii() && (c as u8).eq_ignore_ascii_case(&expected) => {}
            _ => return false,
        }
    }
    // What is no UTF-8 ends the name for git, so it does here.
    next_hfs_char(&mut rest).is_none()
}

/// The next code point that HFS+ does not ignore; none at the end or where UTF-8 is broken.
fn next_hfs_char(rest: &mut &[u8]) -> Option<char> {
    loop {
        let c = next_char(rest)?;
        if !is_ignored(c) {
            return Some(c);
        }
    }
}

fn next_char(rest: &mut &[u8]) -> Option<char> {
    let longest = rest.len().min(4);
    for len in 1..=longest {
        if let Ok(text) = std::str::from_utf8(&rest[..len]) {
            *rest = &rest[len..];
            // Git takes these two for broken.
            return text
                .chars()
                .next()
                .filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'));
        }
    }
    None
}

fn strip_prefix<'a>(name: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_disk_takes_for_git() {
        for name in [
            ".git",
            ".GIT",
            ".Git ",
            ".git. . .",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "git~1",
            "GIT~1.",
            ".g\u{200c}it",
            "\u{feff}.git\u{206f}",
            "a\\.git",
            "a\\b\\git~1\\config",
            ".git\\config",
        ] {
            assert!(is_dot_git(name.as_bytes()), "{name:?}");
        }
        assert!(is_dot_git(b".git\xff"), "broken UTF-8 ends a name");
        for name in [
            "git",
            ".gi",
            ".gitx",
            ".git-x",
            "git~2",
            "git~1x",
            ".github",
            ".git x",
            "x.git",
            "a/b",
            ".gıt",
            ".gitignore",
            "",
        ] {
            assert!(!is_dot_git(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn the_topmost_part_is_told() {
        let told = |path: &str, kind| {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            refuses_path(&path, kind).map(|(at, _)| at.to_text())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            told("a/b/.git/hooks/.git", EntryKind::File),
            some("a/b/.git")
        );
        assert_eq!(told("a/.gitmodules", EntryKind::File), None);
        assert_eq!(
            told("a/.gitmodules", EntryKind::Symlink),
            some("a/.gitmodules")
        );
        assert_eq!(told(".GITMODULES/x", EntryKind::File), some(".GITMODULES"));
        assert_eq!(told("gi7eba~1", EntryKind::Symlink), some("gi7eba~1"));
        assert_eq!(told(".gitattributes", EntryKind::Symlink), None);
        assert_eq!(
            told(".gitattributes", EntryKind::Dir),
            some(".gitattributes")
        );
        assert_eq!(told("src/lib.rs", EntryKind::File), None);
    }
}
