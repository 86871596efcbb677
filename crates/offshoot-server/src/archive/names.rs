//! What an archive may name: where an entry goes, what a link may point to, and which entries
//! cannot stand beside each other.

use std::collections::HashSet;

use offshoot_core::{Error, ErrorCode, RelPath, Result, escape_bytes};

/// The path of an entry. Names are bytes by the rules of every path; a name that would leave its
/// directory where the backslash separates is refused too, for such archives are made to.
pub(super) fn entry_path(name: &[u8]) -> Result<RelPath> {
    let path = RelPath::parse(name)?;
    if name.contains(&b'\\') {
        RelPath::parse(&slashed(name))?;
        if name.get(1) == Some(&b':') {
            return Err(blocked(name, "it is absolute"));
        }
    }
    Ok(path)
}

fn slashed(name: &[u8]) -> Vec<u8> {
    let slash = |&byte: &u8| if byte == b'\\' { b'/' } else { byte };
    name.iter().map(slash).collect()
}

fn blocked(name: &[u8], why: &str) -> Error {
    let message = format!("the path `{}` is refused: {why}", escape_bytes(name));
    Error::new(ErrorCode::PathTraversalBlocked, message)
}

/// Refuses a link that leads out of what the archive is unpacked into. `link` is its path there.
///
/// It may go up only at its beginning. After a name, `..` leads to wherever the link of that name
/// does, which a later entry can be: two links that stay inside by their text would leave together.
pub(super) fn check_link(link: &RelPath, target: &[u8]) -> Result<()> {
    check_link_text(link, target)?;
    if target.contains(&b'\\') {
        // Where the backslash separates, it would be another target.
        check_link_text(link, &slashed(target))?;
        if target.get(1) == Some(&b':') {
            return Err(blocked(target, "it is absolute"));
        }
    }
    Ok(())
}

fn check_link_text(link: &RelPath, target: &[u8]) -> Result<()> {
    if target.is_empty() {
        return Err(Error::invalid("it is a link without a target"));
    }
    if target.contains(&0) {
        return Err(blocked(target, "it holds a NUL byte"));
    }
    if target.starts_with(b"/") {
        return Err(blocked(target, "it is absolute"));
    }
    let mut depth = link.parts().count().saturating_sub(1);
    let mut named = false;
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if named => return Err(blocked(target, "`..` follows a name")),
            b".." => {
                depth = depth.checked_sub(1).ok_or_else(|| {
                    blocked(target, "it leaves what the archive is unpacked into")
                })?;
            }
            _ => named = true,
        }
    }
    Ok(())
}

/// What an archive has named so far. Small files are written in any order, so whatever cannot be
/// beside an earlier entry is refused before: the first is kept.
#[derive(Default)]
pub(super) struct EntryNames {
    named: HashSet<RelPath>,
    files: HashSet<RelPath>,
    dirs: HashSet<RelPath>,
}

impl EntryNames {
    /// Notes a directory, or something that nothing can be below.
    pub(super) fn note(&mut self, path: &RelPath, is_dir: bool) -> Result<()> {
        if self.named.contains(path) {
            return Err(Error::new(
                ErrorCode::AlreadyExists,
                "the archive holds this name twice; the first is kept",
            ));
        }
        let above = path.dirs_above();
        if let Some(file) = above.iter().find(|above| self.files.contains(*above)) {
            return Err(Error::new(
                ErrorCode::NotADirectory,
                format!("`{file}` is a file or a link in this archive; the first is kept"),
            ));
        }
        if !is_dir && self.dirs.contains(path) {
            return Err(Error::new(
                ErrorCode::IsADirectory,
                format!("`{path}` is a directory in this archive; the first is kept"),
            ));
        }
        self.named.insert(path.clone());
        self.dirs.extend(above);
        let kind = if is_dir {
            &mut self.dirs
        } else {
            &mut self.files
        };
        kind.insert(path.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_entries() {
        for good in ["a", "a/b", "./a", "a\\b", "dir/", "a..b"] {
            assert!(entry_path(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/a",
            "../a",
            "a/../../b",
            "..\\a",
            "\\a",
            "C:\\a",
            "a\0b",
        ] {
            assert!(entry_path(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn targets_of_links() {
        let check = |link: &str, target: &str| {
            let link = RelPath::parse(link.as_bytes()).unwrap();
            check_link(&link, target.as_bytes())
        };
        for (link, target) in [
            ("l", "a"),
            ("l", "./a/b/"),
            ("l", "."),
            ("d/l", ".."),
            ("d/e/l", "../../a"),
            ("d/e/l", ".././../a"),
            ("l", "a..b"),
        ] {
            assert!(check(link, target).is_ok(), "{link} {target}");
        }
        for (link, target) in [
            ("l", ""),
            ("l", ".."),
            ("l", "../x"),
            ("d/l", "../../x"),
            ("d/l", "x/../y"),
            ("l", "/"),
            ("l", "/etc/passwd"),
            ("d/l", "..\\..\\x"),
            ("l", "\\x"),
            ("l", "C:\\x"),
            ("l", "a\0"),
        ] {
            assert!(check(link, target).is_err(), "{link} {target}");
        }
    }
}
