//! Commits: encoding and parsing, exact to the byte in both directions.

use offshoot_core::{Error, ObjectId, Result, escape_bytes, is_unseen};

/// The extra header by which a snapshot names its sidecar tree. git keeps it and shows nothing.
pub const SIDECAR_HEADER: &str = "offshoot-sidecar";

/// Who and when, as in the author and committer lines of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    name: Vec<u8>,
    email: Vec<u8>,
    seconds: i64,
    offset: i32,
    /// The line as it was read, when it is not how we would write it: old tools wrote odd dates
    /// and names, and the commit must keep its id.
    odd_line: Option<Vec<u8>>,
}

impl Signature {
    /// A signature that `git fsck --strict` accepts, whatever the name and the address are.
    ///
    /// `<`, `>`, control characters and those that are not seen, such as marks of direction, are
    /// dropped, and at both ends what git drops there too.
    /// What is then empty becomes `unknown`. `seconds` count from 1970 and are not negative;
    /// `offset` is that of the time zone in minutes east of UTC.
    pub fn new(name: &str, email: &str, seconds: i64, offset: i32) -> Self {
        Signature {
            name: clean(name),
            email: clean(email),
            seconds: seconds.max(0),
            offset: offset.clamp(-14 * 60, 14 * 60),
            odd_line: None,
        }
    }

    /// The name; from old commits it may be in any encoding.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The address.
    pub fn email(&self) -> &[u8] {
        &self.email
    }

    /// Seconds since 1970 UTC.
    pub fn seconds(&self) -> i64 {
        self.seconds
    }

    /// The time zone, in minutes east of UTC.
    pub fn offset(&self) -> i32 {
        self.offset
    }

    fn push_line(&self, line: &mut Vec<u8>) {
        if let Some(odd_line) = &self.odd_line {
            line.extend_from_slice(odd_line);
            return;
        }
        line.extend_from_slice(&self.name);
        line.extend_from_slice(b" <");
        line.extend_from_slice(&self.email);
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs());
        let when = format!(
            "> {} {sign}{:02}{:02}",
            self.seconds,
            minutes / 60,
            minutes % 60
        );
        line.extend_from_slice(when.as_bytes());
    }

    /// Reads a line as well as it can be read. Never fails: history holds every kind of line.
    fn parse(line: &[u8]) -> Self {
        let open = line
            .iter()
            .position(|&byte| byte == b'<')
            .unwrap_or(line.len());
        let close = line
            .iter()
            .rposition(|&byte| byte == b'>')
            .filter(|&close| close > open);
        let name = line[..open].strip_suffix(b" ").unwrap_or(&line[..open]);
        let email = close.map_or(&[][..], |close| &line[open + 1..close]);
        let when = close.map_or(&[][..], |close| &line[close + 1..]);
        let when = String::from_utf8_lossy(when);
        let mut words = when.split_ascii_whitespace();
        let seconds = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let offset = words.next().and_then(parse_offset).unwrap_or(0);
        let mut signature = Signature {
            name: name.to_vec(),
            email: email.to_vec(),
            seconds,
            offset,
            odd_line: None,
        };
        let mut again = Vec::with_capacity(line.len());
        signature.push_line(&mut again);
        if again != line {
            signature.odd_line = Some(line.to_vec());
        }
        signature
    }
}

/// Minutes from `+hhmm`.
fn parse_offset(word: &str) -> Option<i32> {
    let sign = match word.as_bytes() {
        [b'+', digits @ ..] if digits.len() == 4 => 1,
        [b'-', digits @ ..] if digits.len() == 4 => -1,
        _ => return None,
    };
    let number: i32 = word.get(1..)?.parse().ok()?;
    Some(sign * (number / 100 * 60 + number % 100))
}

/// A name or an address that cannot break the line that it stands in.
fn clean(text: &str) -> Vec<u8> {
    let edge = |c: char| c.is_whitespace() || c.is_control() || ".,:;<>\"\\'".contains(c);
    let kept: String = text
        .chars()
        .filter(|c| !c.is_control() && !is_unseen(*c) && !"<>".contains(*c))
        .collect();
    let kept = kept.trim_matches(edge);
    if kept.is_empty() {
        b"unknown".to_vec()
    } else {
        kept.as_bytes().to_vec()
    }
}

/// A commit: a tree, where it comes from, who made it and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The tree.
    pub tree: ObjectId,
    /// The commits that it follows; none for the first one.
    pub parents: Vec<ObjectId>,
    /// Who made the change.
    pub author: Signature,
    /// Who made the commit.
    pub committer: Signature,
    /// The message, mostly UTF-8.
    pub message: Vec<u8>,
    /// All other headers in their order, such as `gpgsig`; values may have several lines.
    pub extra_headers: Vec<(String, Vec<u8>)>,
}

impl Commit {
    /// The first value of an extra header.
    pub fn header(&self, key: &str) -> Option<&[u8]> {
        self.extra_headers
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| &value[..])
    }

    /// The sidecar tree that a snapshot names; none for commits that git made.
    pub fn sidecar(&self) -> Option<ObjectId> {
        std::str::from_utf8(self.header(SIDECAR_HEADER)?)
            .ok()?
            .parse()
            .ok()
    }

    /// Names another sidecar tree, or none.
    pub fn set_sidecar(&mut self, sidecar: Option<ObjectId>) {
        self.extra_headers.retain(|(key, _)| key != SIDECAR_HEADER);
        if let Some(id) = sidecar {
            self.extra_headers
                .push((SIDECAR_HEADER.to_owned(), id.to_hex().into_bytes()));
        }
    }

    /// The raw bytes. An error when a header could not be read back or git would not take it.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(256 + self.message.len());
        bytes.extend_from_slice(format!("tree {}\n", self.tree).as_bytes());
        for parent in &self.parents {
            bytes.extend_from_slice(format!("parent {parent}\n").as_bytes());
        }
        for (key, signature) in [("author ", &self.author), ("committer ", &self.committer)] {
            bytes.extend_from_slice(key.as_bytes());
            signature.push_line(&mut bytes);
            bytes.push(b'\n');
        }
        for (key, value) in &self.extra_headers {
            push_header(&mut bytes, key, value)?;
        }
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.message);
        Ok(bytes)
    }

    /// Reads raw bytes. What is no commit is an error, never a panic; `encode` of the result
    /// gives the same bytes again.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut lines = Lines(bytes);
        let tree = lines
            .id(b"tree ")?
            .ok_or_else(|| damaged("it names no tree"))?;
        let mut parents = Vec::new();
        while let Some(parent) = lines.id(b"parent ")? {
            parents.push(parent);
        }
        let author = lines
            .value(b"author ")
            .ok_or_else(|| damaged("it has no author"))?;
        let committer = lines
            .value(b"committer ")
            .ok_or_else(|| damaged("it has no committer"))?;
        let (author, committer) = (Signature::parse(author), Signature::parse(committer));
        let mut extra_headers: Vec<(String, Vec<u8>)> = Vec::new();
        loop {
            let line = lines
                .next()
                .ok_or_else(|| damaged("it ends within its headers"))?;
            match (line.first(), extra_headers.last_mut()) {
                (None, _) => break,
                (Some(b' '), Some((_, value))) => {
                    value.push(b'\n');
                    value.extend_from_slice(&line[1..]);
                }
                _ => extra_headers.push(split_header(line)?),
            }
        }
        let message = lines.0.to_vec();
        Ok(Commit {
            tree,
            parents,
            author,
            committer,
            message,
            extra_headers,
        })
    }
}

fn damaged(what: &str) -> Error {
    Error::invalid(format!("a commit is damaged: {what}"))
}

fn split_header(line: &[u8]) -> Result<(String, Vec<u8>)> {
    let space = line
        .iter()
        .position(|&byte| byte == b' ')
        .filter(|&at| at > 0);
    let split =
        space.and_then(|at| Some((std::str::from_utf8(&line[..at]).ok()?, &line[at + 1..])));
    match split {
        Some((key, value)) => Ok((key.to_owned(), value.to_vec())),
        None => Err(damaged(&format!("`{}` is no header", escape_bytes(line)))),
    }
}

fn push_header(bytes: &mut Vec<u8>, key: &str, value: &[u8]) -> Result<()> {
    if key.is_empty() || key.contains([' ', '\n', '\0']) || value.contains(&0) {
        return Err(Error::invalid(format!(
            "`{key}` cannot be a header of a commit"
        )));
    }
    bytes.extend_from_slice(key.as_bytes());
    bytes.push(b' ');
    for (index, line) in value.split(|&byte| byte == b'\n').enumerate() {
        if index > 0 {
            bytes.extend_from_slice(b"\n ");
        }
        bytes.extend_from_slice(line);
    }
    bytes.push(b'\n');
    Ok(())
}

/// The lines of a header that are still to be read.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    /// The next line without its end; none when there is no further complete line.
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == b'\n')?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(line)
    }

    /// The rest of the next line when it begins with `key`; otherwise nothing is read.
    fn value(&mut self, key: &[u8]) -> Option<&'a [u8]> {
        if !self.0.starts_with(key) {
            return None;
        }
        self.next().map(|line| &line[key.len()..])
    }

    /// Like `value`, for an id.
    fn id(&mut self, key: &[u8]) -> Result<Option<ObjectId>> {
        let Some(text) = self.value(key) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(text).map_err(|_| damaged("an id is not hexadecimal"))?;
        let id: ObjectId = text
            .parse()
            .map_err(|_| damaged("an id is not hexadecimal"))?;
        // Upper-case digits would come back as lower-case ones.
        if id.to_hex() == text {
            Ok(Some(id))
        } else {
            Err(damaged("an id is not in lower case"))
        }
    }
}
