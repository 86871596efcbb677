//! What `git fsck --strict` asks of a single object: the rules for objects that strangers send.
//!
//! The messages name git's own words for what is wrong, so that a search for them finds git's
//! documentation. Where git only informs, nothing is refused; modes are the one exception, because
//! what is no mode of git is not checked out here either.

use std::collections::HashSet;
use std::sync::Arc;

use offshoot_core::{EntryKind, Error, GitMode, ObjectId, Result, escape_bytes};

use crate::commit::Commit;
use crate::dotgit::refuses_name;
use crate::object::Kind;
use crate::tree::Tree;

/// What is wrong with an object, in git's words.
type Verdict = Result<(), String>;

/// Refuses an object that `git fsck --strict` would not accept. Blobs are checked by what trees
/// call them, not here.
pub(crate) fn check_object(kind: Kind, id: &ObjectId, bytes: &Arc<[u8]>) -> Result<()> {
    let verdict = match kind {
        Kind::Blob => Ok(()),
        Kind::Tree => check_tree(bytes).map(drop),
        Kind::Commit => check_commit(bytes).map(drop),
        Kind::Tag => check_tag(bytes),
    };
    verdict.map_err(|why| {
        Error::invalid(format!("the {} {id} is broken: {why}", kind.as_str()))
            .with_hint("`git fsck --strict` says more; nothing was taken")
    })
}

/// Reads a tree; the error says in git's words why it is refused. What its files hold is not looked at.
pub fn check_tree(bytes: &Arc<[u8]>) -> Result<Tree, String> {
    // Order, whole names and modes in octal.
    let tree = Tree::parse(Arc::clone(bytes)).map_err(|error| error.message().to_owned())?;
    let mut at = 0;
    // A file and a directory of one name need not stand beside each other.
    let mut names = HashSet::new();
    for entry in tree.iter() {
        let name = escape_bytes(entry.name);
        if bytes[at] == b'0' {
            return Err(format!(
                "zeroPaddedFilemode: the mode of `{name}` begins with 0"
            ));
        }
        let digits = bytes[at..].iter().position(|&byte| byte == b' ');
        at += digits.unwrap_or(0) + 1 + entry.name.len() + 21;
        let kind = match entry.mode {
            0o100_644 | 0o100_755 | 0o100_664 => EntryKind::File,
            0o120_000 => EntryKind::Symlink,
            0o040_000 | 0o160_000 => EntryKind::Dir,
            mode => {
                return Err(format!(
                    "badFilemode: `{name}` has the mode {mode:o}, which git does not know"
                ));
            }
        };
        if !names.insert(entry.name) {
            return Err(format!("duplicateEntries: `{name}` is there twice"));
        }
        if entry.name == b"." {
            return Err("hasDot: it holds the name `.`".to_owned());
        }
        if entry.id == ObjectId::from_bytes([0; 20]) {
            return Err(format!("nullSha1: `{name}` names no object"));
        }
        if let Some(why) = refuses_name(entry.name, kind) {
            return Err(format!("`{name}`: {why}"));
        }
    }
    drop(names);
    Ok(tree)
}

/// Reads a commit; the error says in git's words why it is refused.
pub fn check_commit(bytes: &[u8]) -> Result<Commit, String> {
    let mut lines = Header::new(bytes)?;
    lines.id("tree ", "missingTree", "badTreeSha1")?;
    while lines.0.starts_with(b"parent ") {
        lines.id("parent ", "badParentSha1", "badParentSha1")?;
    }
    lines.identity("author ", "missingAuthor")?;
    if lines.0.starts_with(b"author ") {
        return Err("multipleAuthors: it has more than one author".to_owned());
    }
    lines.identity("committer ", "missingCommitter")?;
    if bytes.contains(&0) {
        return Err("nulInCommit: it holds a NUL".to_owned());
    }
    let commit = Commit::parse(bytes).map_err(|error| error.message().to_owned())?;
    let once = ["tree", "parent", "author", "committer"];
    let mut keys = commit.extra_headers.iter().map(|(key, _)| key.as_str());
    match keys.find(|key| once.contains(key)) {
        Some(key) => Err(format!("the header `{key}` is there twice")),
        None => Ok(commit),
    }
}

fn check_tag(bytes: &[u8]) -> Verdict {
    let mut lines = Header::new(bytes)?;
    lines.id("object ", "missingObject", "badObjectSha1")?;
    let kind = lines.value("type ", "missingTypeEntry")?;
    if Kind::from_word(kind).is_none() {
        return Err("badType: it names an unknown type".to_owned());
    }
    if lines.value("tag ", "missingTagEntry")?.is_empty() {
        return Err("badTagName: it has no name".to_owned());
    }
    // Old tags have no tagger.
    if lines.0.starts_with(b"tagger ") {
        lines.identity("tagger ", "missingTaggerEntry")?;
    }
    Ok(())
}

/// The lines of a header that are still to be read.
struct Header<'a>(&'a [u8]);

impl<'a> Header<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let end = bytes.windows(2).position(|two| two == b"\n\n");
        let header = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
        if header.contains(&0) {
            return Err("nulInHeader: there is a NUL in its header".to_owned());
        }
        // A header without a message may end with the object.
        if end.is_none() && !bytes.ends_with(b"\n") {
            return Err("unterminatedHeader: its header does not end".to_owned());
        }
        Ok(Header(header))
    }

    fn value(&mut self, key: &str, missing: &str) -> Result<&'a [u8], String> {
        let no_line = || format!("{missing}: the line `{}` is not there", key.trim_end());
        let rest = self.0.strip_prefix(key.as_bytes()).ok_or_else(no_line)?;
        let end = rest.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or_else(no_line)?;
        self.0 = &rest[end + 1..];
        Ok(&rest[..end])
    }

    fn id(&mut self, key: &str, missing: &str, bad: &str) -> Verdict {
        let value = self.value(key, missing)?;
        let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        match value.len() == 40 && value.iter().all(is_hex) {
            true => Ok(()),
            false => Err(format!("{bad}: `{}` names no object", key.trim_end())),
        }
    }

    fn identity(&mut self, key: &str, missing: &str) -> Verdict {
        let line = self.value(key, missing)?;
        check_identity(line).map_err(|why| format!("{why} in the line `{}`", key.trim_end()))
    }
}

/// The rules of git's `fsck_ident`: `NAME <EMAIL> SECONDS ZONE`.
fn check_identity(line: &[u8]) -> Result<(), &'static str> {
    let until = |text: &[u8]| text.iter().position(|byte| matches!(byte, b'<' | b'>'));
    let open = until(line).ok_or("missingEmail: there is no address")?;
    match (line[open], open) {
        (b'>', _) => return Err("badName: the name holds `>`"),
        (_, 0) => return Err("missingNameBeforeEmail: there is no name"),
        _ if line[open - 1] != b' ' => {
            return Err("missingSpaceBeforeEmail: no space stands before the address");
        }
        _ => {}
    }
    let rest = &line[open + 1..];
    let close = until(rest).filter(|&at| rest[at] == b'>');
    let rest = &rest[close.ok_or("badEmail: the address does not end")? + 1..];
    let rest = rest.strip_prefix(b" ");
    let rest = rest.ok_or("missingSpaceBeforeDate: no space stands before the date")?;
    // git reads over further ones.
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let rest = &rest[blanks.count()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (date, zone) = rest.split_at(digits);
    if date.is_empty() || !zone.starts_with(b" ") {
        return Err("badDate: the date is no number");
    }
    if date.len() > 1 && date[0] == b'0' {
        return Err("zeroPaddedDate: the date begins with 0");
    }
    let seconds = std::str::from_utf8(date).map(str::parse::<i64>);
    if !matches!(seconds, Ok(Ok(_))) {
        return Err("badDateOverflow: the date is too large");
    }
    match &zone[1..] {
        [b'+' | b'-', digits @ ..]
            if digits.len() == 4 && digits.iter().all(u8::is_ascii_digit) =>
        {
            Ok(())
        }
        _ => Err("badTimezone: the time zone is not `+hhmm`"),
    }
}

/// What stands at a place of a tree by its mode; none for commits of other repositories.
pub(crate) fn expected_kind(mode: Option<GitMode>) -> Option<Kind> {
    match mode {
        Some(GitMode::Dir) => Some(Kind::Tree),
        Some(GitMode::Commit) | None => None,
        Some(GitMode::File | GitMode::Exec | GitMode::Symlink) => Some(Kind::Blob),
    }
}
