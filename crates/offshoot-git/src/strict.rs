//! What `git fsck --strict` says of single objects that nobody vouches for: commits and trees that
//! somebody pushed or committed in a fork. What it refuses must not get into a history that others
//! fetch: their git, or the forge they push to, would refuse all of it.

use std::collections::HashSet;
use std::sync::Arc;

use offshoot_core::{EntryKind, GitMode, ObjectId, Result};

use crate::commit::Commit;
use crate::dotgit::refuses_name;
use crate::tree::Tree;

/// An object that is refused, and why.
pub type Refused = String;

/// Reads a commit. The inner error says why it is refused.
pub fn check_commit(bytes: &[u8]) -> std::result::Result<Commit, Refused> {
    if bytes.contains(&0) {
        return Err("the commit holds a NUL".to_owned());
    }
    let commit = Commit::parse(bytes).map_err(|error| error.message().to_owned())?;
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let mut next = lines
        .by_ref()
        .skip_while(|line| !line.starts_with(b"author "));
    for key in [&b"author "[..], b"committer "] {
        let line = next.next().and_then(|line| line.strip_prefix(key));
        if let Some(why) = refuses_person(line.unwrap_or_default()) {
            return Err(why.to_owned());
        }
    }
    let again = commit
        .extra_headers
        .iter()
        .any(|(key, _)| ["tree", "parent", "author", "committer"].contains(&key.as_str()));
    match again {
        true => Err("a header of the commit is there twice".to_owned()),
        false => Ok(commit),
    }
}

/// Why git refuses the line of an author or committer, after its first word.
fn refuses_person(line: &[u8]) -> Option<&'static str> {
    let bad = Some("the name, address or date of the author or committer is not as git writes it");
    let mark = |byte: &u8| b"<>".contains(byte);
    let Some(open) = line.iter().position(mark) else {
        return bad;
    };
    // A name and a space come before the address; git takes an empty name if the space is there.
    if line[open] != b'<' || open == 0 || line[open - 1] != b' ' {
        return bad;
    }
    let rest = &line[open + 1..];
    let Some(close) = rest.iter().position(mark).filter(|&at| rest[at] == b'>') else {
        return bad;
    };
    let Some(when) = rest[close + 1..].strip_prefix(b" ") else {
        return bad;
    };
    let digits = when.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // Eighteen digits are more than a date of 64 bits that git takes.
    let is_date = (1..=18).contains(&digits) && (when[0] != b'0' || digits == 1);
    let zone = when[digits..].strip_prefix(b" ");
    let is_zone = zone.is_some_and(|zone| {
        zone.len() == 5 && b"+-".contains(&zone[0]) && zone[1..].iter().all(u8::is_ascii_digit)
    });
    if is_date && is_zone { None } else { bad }
}

/// Reads a tree. The inner error says why it is refused. What its files hold is not looked at.
pub fn check_tree(bytes: &Arc<[u8]>) -> Result<std::result::Result<Tree, Refused>> {
    let tree = match Tree::parse(Arc::clone(bytes)) {
        Ok(tree) => tree,
        Err(error) => return Ok(Err(error.message().to_owned())),
    };
    // A file and a directory of one name need not stand beside each other.
    let mut names = HashSet::new();
    for entry in tree.iter() {
        let kind = match entry.mode {
            0o100_644 | 0o100_755 => EntryKind::File,
            0o120_000 => EntryKind::Symlink,
            0o040_000 | 0o160_000 => EntryKind::Dir,
            _ => return Ok(Err("a tree has a mode that git does not write".to_owned())),
        };
        if entry.name == b"." || !names.insert(entry.name) {
            return Ok(Err("a tree holds `.`, or a name twice".to_owned()));
        }
        if let Some(why) = refuses_name(entry.name, kind) {
            return Ok(Err(why.to_owned()));
        }
        if entry.id == ObjectId::from_slice(&[0; 20])? {
            return Ok(Err("a tree names the object of id 0".to_owned()));
        }
    }
    // Modes that begin with a zero read the same and are longer.
    let written: usize = tree
        .iter()
        .map(|entry| {
            entry.name.len()
                + 22
                + if entry.mode == GitMode::Dir as u32 {
                    5
                } else {
                    6
                }
        })
        .sum();
    match written == bytes.len() {
        true => Ok(Ok(tree)),
        false => Ok(Err("a tree has a mode that begins with a zero".to_owned())),
    }
}
