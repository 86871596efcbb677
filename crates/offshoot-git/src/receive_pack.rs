//! The receiving side of `git push`, as git calls it: receive-pack.
//!
//! It has no version 2: clients that ask for one are answered in version 0. A request is a list of
//! commands, one for each ref, then options, then a pack; the answer says for each ref what became
//! of it. What a push may change is the caller's matter.

use std::io::{self, Read, Write};

use offshoot_core::{Error, ErrorCode, ObjectId, Result, escape_bytes};

use crate::pkt_line::{Band, OwnedPacket, read_packet, write_band, write_flush, write_line};
use crate::upload_pack::{AGENT, GitProtocol, client_gone};

/// The most bytes of commands and options.
const MAX_REQUEST: usize = 4 << 20;
/// What a client may use. Thin packs are not asked for: what they build on would have to be looked
/// for in the whole tree of the project, and the bytes that they save are few on a near network.
const ABILITIES: &str = "report-status delete-refs side-band-64k quiet atomic ofs-delta push-options \
                         no-thin object-format=sha1";

/// A ref as it is advertised to those who want to push.
pub fn advertise_refs(
    version: GitProtocol,
    refs: &[(&str, ObjectId)],
    out: &mut dyn Write,
) -> Result<()> {
    let write = |out: &mut dyn Write| -> io::Result<()> {
        write_line(out, "# service=git-receive-pack")?;
        write_flush(out)?;
        if version == GitProtocol::V1 {
            write_line(out, "version 1")?;
        }
        let mut abilities = Some(format!("\0{ABILITIES} {AGENT}"));
        for (name, id) in refs {
            let more = abilities.take().unwrap_or_default();
            write_line(out, format!("{id} {name}{more}"))?;
        }
        if let Some(more) = abilities {
            write_line(out, format!("{} capabilities^{{}}{more}", none_id()))?;
        }
        write_flush(out)
    };
    write(out).map_err(client_gone)
}

fn none_id() -> ObjectId {
    ObjectId::from_bytes([0; 20])
}

/// What a push wants of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefCommand {
    /// The whole name, such as `refs/heads/main`.
    pub name: String,
    /// What the client knows it to point at; none if it is to be made.
    pub old: Option<ObjectId>,
    /// What it is to point at; none if it is to go.
    pub new: Option<ObjectId>,
}

/// What a client asks for before it sends a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushRequest {
    /// What it wants, ref by ref.
    pub commands: Vec<RefCommand>,
    /// What `git push -o` gave.
    pub options: Vec<String>,
    /// Commits that it has without their parents.
    pub shallow: Vec<ObjectId>,
    /// Whether all refs are to change, or none.
    pub atomic: bool,
    report_status: bool,
    side_band: bool,
}

impl PushRequest {
    /// Reads all that stands before the pack. None if there is nothing: a client probes so for
    /// authentication before it sends something large.
    pub fn read(input: &mut dyn Read) -> Result<Option<PushRequest>> {
        let mut request = PushRequest::default();
        let mut has_options = false;
        let mut left = MAX_REQUEST;
        while let Some(line) = next_line(input, &mut left)? {
            if let Some(id) = line.strip_prefix(b"shallow ") {
                let id = object_id(id).ok_or_else(|| not_understood(&line))?;
                request.shallow.push(id);
                continue;
            }
            let mut parts = line.splitn(2, |&byte| byte == 0);
            let command = parts.next().unwrap_or_default();
            if let Some(abilities) = parts.next().filter(|_| request.commands.is_empty()) {
                has_options = request.take_abilities(abilities)?;
            }
            let command = parse_command(command).ok_or_else(|| not_understood(&line))?;
            request.commands.push(command);
        }
        if request.commands.is_empty() {
            return Ok(None);
        }
        if has_options {
            while let Some(line) = next_line(input, &mut left)? {
                request.options.push(escape_bytes(&line));
            }
        }
        Ok(Some(request))
    }

    /// Takes what the client can do. Returns whether it sends options.
    fn take_abilities(&mut self, abilities: &[u8]) -> Result<bool> {
        let mut has_options = false;
        for ability in abilities.split(|&byte| byte == b' ') {
            match ability {
                b"report-status" | b"report-status-v2" => self.report_status = true,
                b"side-band-64k" => self.side_band = true,
                b"atomic" => self.atomic = true,
                b"push-options" => has_options = true,
                other => {
                    let format = other.strip_prefix(b"object-format=");
                    if format.is_some_and(|format| format != b"sha1") {
                        let message = "objects are named by SHA-1 here";
                        return Err(Error::new(ErrorCode::Unsupported, message));
                    }
                }
            }
        }
        Ok(has_options)
    }

    /// Whether a pack follows: not if refs are only to go.
    pub fn has_pack(&self) -> bool {
        self.commands.iter().any(|command| command.new.is_some())
    }

    /// Writes what became of it, if the client wants to know.
    pub fn write_report(&self, report: &PushReport, out: &mut dyn Write) -> Result<()> {
        self.try_write(report, out).map_err(client_gone)
    }

    fn try_write(&self, report: &PushReport, out: &mut dyn Write) -> io::Result<()> {
        if self.side_band {
            for message in &report.messages {
                write_band(out, Band::Progress, format!("{message}\n").as_bytes())?;
            }
        }
        if self.report_status {
            let mut status = Vec::new();
            let unpacked = report.unpack_error.as_deref().unwrap_or("ok");
            write_line(&mut status, format!("unpack {}", one_line(unpacked)))?;
            for (name, refused) in &report.refs {
                match refused {
                    None => write_line(&mut status, format!("ok {name}"))?,
                    Some(why) => write_line(&mut status, format!("ng {name} {}", one_line(why)))?,
                }
            }
            write_flush(&mut status)?;
            match self.side_band {
                true => write_band(out, Band::Pack, &status)?,
                false => out.write_all(&status)?,
            }
        }
        match self.side_band {
            true => write_flush(out),
            false => Ok(()),
        }
    }
}

/// What became of a push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Why the pack was refused.
    pub unpack_error: Option<String>,
    /// Each ref, and why it was refused.
    pub refs: Vec<(String, Option<String>)>,
    /// Lines for the person who pushed, which git shows after `remote: `.
    pub messages: Vec<String>,
}

/// The text of an error cannot end the line that it stands in.
fn one_line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    // A packet holds less than 64 KiB.
    if let Some((end, _)) = line.char_indices().nth(1_000) {
        line.truncate(end);
    }
    line
}

fn next_line(input: &mut dyn Read, left: &mut usize) -> Result<Option<Vec<u8>>> {
    match read_packet(input)? {
        OwnedPacket::Data(line) => {
            *left = left.checked_sub(line.len() + 4).ok_or_else(|| {
                Error::new(ErrorCode::PayloadTooLarge, "the push names too many refs")
                    .with_hint("push fewer at once")
            })?;
            Ok(Some(line))
        }
        OwnedPacket::Flush | OwnedPacket::End => Ok(None),
    }
}

fn parse_command(line: &[u8]) -> Option<RefCommand> {
    let mut parts = line.splitn(3, |&byte| byte == b' ');
    let (old, new) = (object_id(parts.next()?)?, object_id(parts.next()?)?);
    let name = parts.next()?.to_vec();
    let is_plain = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    if name.is_empty() || !name.iter().all(is_plain) {
        return None;
    }
    let some = |id: ObjectId| (id != none_id()).then_some(id);
    Some(RefCommand {
        name: String::from_utf8(name).ok()?,
        old: some(old),
        new: some(new),
    })
}

fn object_id(hex: &[u8]) -> Option<ObjectId> {
    std::str::from_utf8(hex).ok()?.parse().ok()
}

fn not_understood(line: &[u8]) -> Error {
    let mut shown = escape_bytes(line);
    if let Some((end, _)) = shown.char_indices().nth(120) {
        shown.truncate(end);
    }
    Error::invalid(format!("`{shown}` is no command of a push"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &[&str], rest: &str) -> Result<Option<PushRequest>> {
        let mut bytes = Vec::new();
        for line in lines {
            match *line {
                "" => write_flush(&mut bytes).unwrap(),
                line => write_line(&mut bytes, line).unwrap(),
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
        let mut input = &bytes[..];
        let read = PushRequest::read(&mut input);
        if matches!(read, Ok(Some(_))) {
            assert_eq!(input, rest.as_bytes(), "the pack is left");
        }
        read
    }

    #[test]
    fn commands_options_and_what_is_no_request() {
        let (a, b, none) = ("a".repeat(40), "b".repeat(40), "0".repeat(40));
        let shallow = format!("shallow {a}");
        let first = format!("{a} {b} refs/heads/main\0 report-status atomic push-options agent=x");
        let second = format!("{b} {none} refs/heads/old");
        let third = format!("{none} {b} refs/tags/v1");
        let lines = [&shallow, &first, &second, &third, "", "review", ""];
        let read = request(&lines, "PACK").unwrap().unwrap();
        assert_eq!(read.commands.len(), 3);
        assert_eq!(read.commands[0].name, "refs/heads/main");
        assert_eq!((read.commands[1].new, read.commands[2].old), (None, None));
        assert_eq!(read.options, ["review"]);
        assert!(read.atomic && read.has_pack() && !read.side_band && read.shallow.len() == 1);
        assert_eq!(request(&[""], "").unwrap(), None);
        assert_eq!(request(&[], "").unwrap(), None);
        let sha256 = format!("{a} {b} refs/heads/main\0object-format=sha256");
        for bad in [
            "x",
            "shallow x",
            &format!("{a} {b}"),
            &format!("{a} {b} "),
            &format!("{a} {b} a b"),
            &sha256,
        ] {
            assert!(request(&[bad, ""], "").is_err(), "{bad}");
        }
        let name = "x".repeat(60_000);
        let many = format!("{a} {b} refs/heads/{name}");
        let many = vec![many.as_str(); 100];
        assert_eq!(
            request(&many, "").unwrap_err().code(),
            ErrorCode::PayloadTooLarge
        );
    }

    #[test]
    fn a_report_is_one_line_for_each_ref_whatever_an_error_says() {
        let mut request = PushRequest {
            report_status: true,
            ..PushRequest::default()
        };
        let report = PushReport {
            refs: vec![
                ("refs/heads/main".to_owned(), None),
                ("refs/heads/x".to_owned(), Some("two\nlines".to_owned())),
            ],
            messages: vec!["told".to_owned()],
            ..PushReport::default()
        };
        let mut out = Vec::new();
        request.write_report(&report, &mut out).unwrap();
        let plain = "000eunpack ok\n0017ok refs/heads/main\n001eng refs/heads/x two lines\n0000";
        assert_eq!(String::from_utf8(out).unwrap(), plain);
        request.side_band = true;
        let mut out = Vec::new();
        request.write_report(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("000a\u{2}told\n"), "{text:?}");
        assert!(text.ends_with(&format!("\u{1}{plain}0000")), "{text:?}");
    }
}
