//! The serving side of `git clone` and `git fetch`, as git calls it: upload-pack.
//!
//! A request comes as bytes and its answer goes to a writer, for a repository of one branch that
//! moves and others beside it.
//! Nothing is kept between two requests, which is how git works over HTTP: what was agreed on comes
//! again with each. Protocol 2 is what git asks for today; 0 and 1 are answered as well.

use std::collections::HashSet;
use std::io::{self, Write};

use offshoot_core::{Error, ErrorCode, ObjectId, Result};

use crate::fetch::{CommitGraph, FetchPlan, FetchRequest, Filter, HistoryLimit};
use crate::object::ObjectReader;
use crate::pack::pack_objects;
use crate::pkt_line::{
    Band, PackBand, Packet, Packets, write_band, write_delimiter, write_flush, write_line,
    write_packet,
};

/// The name of this server in the protocol.
pub(crate) const AGENT: &str = concat!("agent=offshoot/", env!("CARGO_PKG_VERSION"));

/// The version of git's protocol that a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GitProtocol {
    /// What git spoke before versions had numbers.
    #[default]
    V0,
    /// As version 0, with a line that names the version.
    V1,
    /// The default of git today.
    V2,
}

impl GitProtocol {
    /// Reads the header `Git-Protocol`: the highest supported version in it.
    pub fn from_header(value: &str) -> Self {
        let has = |wanted: &str| value.split(':').any(|item| item == wanted);
        if has("version=2") {
            GitProtocol::V2
        } else if has("version=1") {
            GitProtocol::V1
        } else {
            GitProtocol::V0
        }
    }
}

/// A branch or tag beside the branch of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedRef {
    /// Its whole name, such as `refs/tags/v1`.
    pub name: String,
    /// What it points at.
    pub target: ObjectId,
    /// What an annotated tag leads to in the end; for everything else the same as `target`.
    pub peeled: ObjectId,
}

/// A repository that can be cloned.
pub struct UploadPack<'a> {
    /// Where its objects are.
    pub reader: &'a dyn ObjectReader,
    /// What its branch points at; none if it is empty.
    pub head: Option<ObjectId>,
    /// The whole name of the branch, such as `refs/heads/main`.
    pub branch: &'a str,
    /// Its other branches and its tags, in the order of names.
    pub refs: &'a [AdvertisedRef],
}

impl UploadPack<'_> {
    /// Advertises refs and capabilities: the answer to `info/refs?service=git-upload-pack`.
    pub fn advertise(&self, version: GitProtocol, out: &mut dyn Write) -> Result<()> {
        let shallow = match version {
            GitProtocol::V2 => Vec::new(),
            _ => CommitGraph::new(self.reader).shallow_below(&self.tips())?,
        };
        match version {
            GitProtocol::V2 => advertise_v2(out),
            _ => self.advertise_v0(version, &shallow, out),
        }
        .map_err(client_gone)
    }

    /// The commits, and what else, that refs lead to.
    fn tips(&self) -> Vec<ObjectId> {
        let refs = self.refs.iter().map(|one| one.peeled);
        self.head.into_iter().chain(refs).collect()
    }

    /// Every ref with what it points at, in the order of names.
    fn all_refs(&self) -> Vec<AdvertisedRef> {
        let own = self.head.map(|head| AdvertisedRef {
            name: self.branch.to_owned(),
            target: head,
            peeled: head,
        });
        let others = self.refs.iter().filter(|one| one.name != self.branch);
        let mut all: Vec<AdvertisedRef> = own.into_iter().chain(others.cloned()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn advertise_v0(
        &self,
        version: GitProtocol,
        shallow: &[ObjectId],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write_line(out, "# service=git-upload-pack")?;
        write_flush(out)?;
        if version == GitProtocol::V1 {
            write_line(out, "version 1")?;
        }
        let abilities = format!(
            "multi_ack_detailed no-done side-band-64k no-progress shallow \
             deepen-since deepen-relative filter allow-reachable-sha1-in-want symref=HEAD:{} object-format=sha1 {AGENT}",
            self.branch
        );
        match self.head {
            Some(head) => write_line(out, format!("{head} HEAD\0{abilities}"))?,
            None => {
                let nothing = "0".repeat(40);
                write_line(out, format!("{nothing} capabilities^{{}}\0{abilities}"))?;
            }
        }
        for one in self.all_refs().iter().filter(|_| self.head.is_some()) {
            write_line(out, format!("{} {}", one.target, one.name))?;
            if one.peeled != one.target {
                write_line(out, format!("{} {}^{{}}", one.peeled, one.name))?;
            }
        }
        for id in shallow {
            write_packet(out, format!("shallow {id}"))?;
        }
        write_flush(out)
    }

    /// Answers a request to `git-upload-pack`. An error is sent to the client in git's protocol,
    /// and returned.
    pub fn answer(&self, version: GitProtocol, request: &[u8], out: &mut dyn Write) -> Result<()> {
        let answered = match version {
            GitProtocol::V2 => self.answer_v2(request, out),
            _ => self.answer_v0(request, out),
        };
        answered.inspect_err(|error| {
            // If sending fails, the client has gone or has got the error already.
            let _ = write_line(out, format!("ERR {}", error.message()));
        })
    }

    fn answer_v2(&self, request: &[u8], out: &mut dyn Write) -> Result<()> {
        let mut packets = Packets::new(request);
        let mut command: Option<&[u8]> = None;
        loop {
            match packets.next()? {
                // A client may probe for authentication before it sends something large.
                None | Some(Packet::Flush) if command.is_none() => return Ok(()),
                None | Some(Packet::Flush | Packet::Delimiter) => break,
                Some(Packet::Data(line)) => match line.strip_prefix(b"command=") {
                    Some(name) => command = Some(name),
                    None => check_object_format(line)?,
                },
            }
        }
        let mut lines = Vec::new();
        while let Some(Packet::Data(line)) = packets.next()? {
            lines.push(line);
        }
        match command {
            Some(b"ls-refs") => self.list_refs(&lines, out).map_err(client_gone),
            Some(b"fetch") => self.fetch_v2(&Request::parse(&lines)?, out),
            _ => Err(Error::invalid(
                "the command is neither `ls-refs` nor `fetch`",
            )),
        }
    }

    fn list_refs(&self, lines: &[&[u8]], out: &mut dyn Write) -> io::Result<()> {
        let asks = |word: &[u8]| lines.contains(&word);
        let prefixes: Vec<&[u8]> = lines
            .iter()
            .filter_map(|line| line.strip_prefix(b"ref-prefix "))
            .collect();
        let wanted = |name: &str| {
            prefixes.is_empty()
                || prefixes
                    .iter()
                    .any(|prefix| name.as_bytes().starts_with(prefix))
        };
        let target = match asks(b"symrefs") {
            true => format!(" symref-target:{}", self.branch),
            false => String::new(),
        };
        match self.head {
            Some(head) => {
                if wanted("HEAD") {
                    write_line(out, format!("{head} HEAD{target}"))?;
                }
                for one in self.all_refs().iter().filter(|one| wanted(&one.name)) {
                    let peeled = match asks(b"peel") && one.peeled != one.target {
                        true => format!(" peeled:{}", one.peeled),
                        false => String::new(),
                    };
                    write_line(out, format!("{} {}{peeled}", one.target, one.name))?;
                }
            }
            None if asks(b"unborn") && wanted("HEAD") => {
                write_line(out, format!("unborn HEAD{target}"))?;
            }
            None => {}
        }
        write_flush(out)
    }

    fn fetch_v2(&self, request: &Request, out: &mut dyn Write) -> Result<()> {
        if request.wants.is_empty() {
            return write_flush(out).map_err(client_gone);
        }
        let mut commits = CommitGraph::new(self.reader);
        let common = self.common_commits(&mut commits, request)?;
        if !request.done && !request.haves.is_empty() {
            let ready = !common.is_empty() && !request.wait_for_done;
            write_acknowledgments(out, &common, ready).map_err(client_gone)?;
            if !ready {
                return Ok(());
            }
        }
        let plan = commits.plan(&request.fetch(common))?;
        drop(commits);
        write_shallow_info(out, &plan, request.limit != HistoryLimit::Unchanged)
            .map_err(client_gone)?;
        write_line(out, "packfile").map_err(client_gone)?;
        self.send_pack(&plan, true, request.no_progress, out)?;
        write_flush(out).map_err(client_gone)
    }

    fn answer_v0(&self, request: &[u8], out: &mut dyn Write) -> Result<()> {
        let mut packets = Packets::new(request);
        let mut lines = Vec::new();
        while let Some(Packet::Data(line)) = packets.next()? {
            lines.push(line);
        }
        let mut talk = Vec::new();
        while let Some(packet) = packets.next()? {
            if let Packet::Data(line) = packet {
                lines.push(line);
            }
            talk.push(packet);
        }
        let request = Request::parse(&lines)?;
        if request.wants.is_empty() {
            return Ok(());
        }
        let mut commits = CommitGraph::new(self.reader);
        let common = self.common_commits(&mut commits, &request)?;
        let fetch = request.fetch(common.clone());
        let mut plan = None;
        if fetch.limit != HistoryLimit::Unchanged {
            let planned = plan.insert(commits.plan(&fetch)?);
            write_shallow_lines(out, planned)
                .and_then(|()| write_flush(out))
                .map_err(client_gone)?;
        }
        let common = common.into_iter().collect();
        if !negotiate_v0(out, &request, &talk, &common).map_err(client_gone)? {
            return Ok(());
        }
        let plan = match plan {
            Some(plan) => plan,
            None => commits.plan(&fetch)?,
        };
        drop(commits);
        self.send_pack(&plan, request.side_band, request.no_progress, out)?;
        match request.side_band {
            true => write_flush(out).map_err(client_gone),
            false => Ok(()),
        }
    }

    /// The commits that both sides have. An error if no ref reaches a wanted id.
    fn common_commits(
        &self,
        commits: &mut CommitGraph<'_>,
        request: &Request,
    ) -> Result<Vec<ObjectId>> {
        let tips = self.tips();
        let targets = self.refs.iter().map(|one| one.target);
        let advertised: HashSet<ObjectId> = tips.iter().copied().chain(targets).collect();
        let beside: Vec<ObjectId> = request
            .wants
            .iter()
            .copied()
            .filter(|want| !advertised.contains(want))
            .collect();
        // The branch may have moved since it was advertised to the client.
        let reachable = commits.reachable(&tips, &beside)?;
        let other: Vec<ObjectId> = beside
            .into_iter()
            .filter(|want| !reachable.contains(want))
            .collect();
        // A partial clone asks for the contents it lacks, and gets those of this branch alone.
        let held = commits.contained(&tips, &other)?;
        if let Some(unknown) = other.iter().find(|want| !held.contains(want)) {
            return Err(Error::invalid(format!(
                "upload-pack: not our ref {unknown}"
            )));
        }
        commits.reachable(&tips, &request.haves)
    }

    fn send_pack(
        &self,
        plan: &FetchPlan,
        side_band: bool,
        quiet: bool,
        out: &mut dyn Write,
    ) -> Result<()> {
        if !side_band {
            return pack_objects(out, self.reader, &plan.objects, &mut |_| {}).map(drop);
        }
        if !quiet {
            let text = format!("Sending {} objects.\n", plan.objects.len());
            write_band(out, Band::Progress, text.as_bytes()).map_err(client_gone)?;
        }
        let mut band = PackBand::new(out);
        let sent = pack_objects(&mut band, self.reader, &plan.objects, &mut |_| {});
        let flushed = band.flush().map_err(client_gone);
        sent.and(flushed).inspect_err(|error| {
            let _ = write_band(out, Band::Failure, error.message().as_bytes());
        })
    }
}

pub(crate) fn client_gone(error: io::Error) -> Error {
    Error::new(ErrorCode::WriteFailed, "the client went away").with_source(error)
}

fn advertise_v2(out: &mut dyn Write) -> io::Result<()> {
    for line in [
        "version 2",
        AGENT,
        "ls-refs=unborn",
        "fetch=shallow wait-for-done filter",
        "object-format=sha1",
    ] {
        write_line(out, line)?;
    }
    write_flush(out)
}

fn check_object_format(line: &[u8]) -> Result<()> {
    match line.strip_prefix(b"object-format=") {
        None | Some(b"sha1") => Ok(()),
        Some(_) => Err(Error::new(
            ErrorCode::Unsupported,
            "objects are named by SHA-1 here",
        )),
    }
}

fn write_acknowledgments(out: &mut dyn Write, common: &[ObjectId], ready: bool) -> io::Result<()> {
    write_line(out, "acknowledgments")?;
    if common.is_empty() {
        write_line(out, "NAK")?;
    }
    for id in common {
        write_line(out, format!("ACK {id}"))?;
    }
    if ready {
        write_line(out, "ready")?;
        return write_delimiter(out);
    }
    write_flush(out)
}

fn write_shallow_info(out: &mut dyn Write, plan: &FetchPlan, asked: bool) -> io::Result<()> {
    if !asked && plan.shallow.is_empty() && plan.unshallow.is_empty() {
        return Ok(());
    }
    write_line(out, "shallow-info")?;
    write_shallow_lines(out, plan)?;
    write_delimiter(out)
}

fn write_shallow_lines(out: &mut dyn Write, plan: &FetchPlan) -> io::Result<()> {
    // Without a newline, as git has it: libgit2 takes the newline for a part of the id.
    for id in &plan.shallow {
        write_packet(out, format!("shallow {id}"))?;
    }
    for id in &plan.unshallow {
        write_packet(out, format!("unshallow {id}"))?;
    }
    Ok(())
}

/// Answers the haves of an old client one by one, and says whether the pack follows.
fn negotiate_v0(
    out: &mut dyn Write,
    request: &Request,
    talk: &[Packet<'_>],
    common: &HashSet<ObjectId>,
) -> io::Result<bool> {
    let detailed = request.multi_ack_detailed;
    let mut last: Option<ObjectId> = None;
    let mut ready = false;
    let mut told = false;
    for packet in talk {
        let line = match packet {
            Packet::Data(line) => *line,
            Packet::Delimiter => continue,
            Packet::Flush => {
                if let (true, Some(id), false) = (detailed, last, ready) {
                    write_line(out, format!("ACK {id} ready"))?;
                    ready = true;
                }
                if last.is_none() || detailed {
                    write_line(out, "NAK")?;
                }
                if let (true, true, Some(id)) = (request.no_done, ready, last) {
                    write_line(out, format!("ACK {id}"))?;
                    return Ok(true);
                }
                continue;
            }
        };
        if line == b"done" {
            match last {
                Some(id) if detailed => write_line(out, format!("ACK {id}"))?,
                Some(_) => {}
                None => write_line(out, "NAK")?,
            }
            return Ok(true);
        }
        let Some(id) = line.strip_prefix(b"have ").and_then(object_id) else {
            continue;
        };
        if common.contains(&id) {
            last = Some(id);
            if detailed {
                write_line(out, format!("ACK {id} common"))?;
            } else if !told {
                write_line(out, format!("ACK {id}"))?;
                told = true;
            }
        } else if detailed && last.is_some() {
            // Nothing older can help any more.
            write_line(out, format!("ACK {id} ready"))?;
            ready = true;
        }
    }
    Ok(false)
}

fn object_id(hex: &[u8]) -> Option<ObjectId> {
    std::str::from_utf8(hex).ok()?.parse().ok()
}

/// A parsed fetch request.
#[derive(Default)]
struct Request {
    wants: Vec<ObjectId>,
    haves: Vec<ObjectId>,
    shallow: HashSet<ObjectId>,
    limit: HistoryLimit,
    filter: Filter,
    done: bool,
    wait_for_done: bool,
    no_progress: bool,
    side_band: bool,
    multi_ack_detailed: bool,
    no_done: bool,
}

impl Request {
    fn parse(lines: &[&[u8]]) -> Result<Self> {
        let mut request = Request::default();
        for line in lines {
            let (word, rest) = match line.iter().position(|&byte| byte == b' ') {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (*line, &[][..]),
            };
            let id = || object_id(rest).ok_or_else(|| not_understood(line));
            match word {
                b"want" => request
                    .take_want(rest)
                    .ok_or_else(|| not_understood(line))?,
                b"have" => request.haves.push(id()?),
                b"shallow" => drop(request.shallow.insert(id()?)),
                b"deepen" => {
                    let depth: u32 = number(rest).ok_or_else(|| not_understood(line))?;
                    let relative = matches!(request.limit, HistoryLimit::Deeper(_));
                    request.limit = match (depth, relative) {
                        (_, true) => HistoryLimit::Deeper(depth),
                        (0, false) => HistoryLimit::Unchanged,
                        (_, false) => HistoryLimit::Depth(depth),
                    };
                }
                b"deepen-relative" => request.deepen_relative(),
                b"deepen-since" => {
                    let since: i64 = number(rest).ok_or_else(|| not_understood(line))?;
                    request.limit = HistoryLimit::Since(since);
                }
                b"deepen-not" => {
                    return Err(Error::new(
                        ErrorCode::Unsupported,
                        "a history cannot be cut off at a branch here",
                    ));
                }
                b"filter" => request.filter = filter(rest)?,
                b"done" => request.done = true,
                b"wait-for-done" => request.wait_for_done = true,
                b"no-progress" => request.no_progress = true,
                // Other arguments only allow features that this server does not use.
                _ => {}
            }
        }
        Ok(request)
    }

    /// A wanted id and, in the old protocol, what the client can do.
    fn take_want(&mut self, rest: &[u8]) -> Option<()> {
        let mut words = rest.split(|&byte| byte == b' ');
        self.wants.push(object_id(words.next()?)?);
        for word in words {
            match word {
                b"side-band-64k" => self.side_band = true,
                b"multi_ack_detailed" => self.multi_ack_detailed = true,
                b"no-done" => self.no_done = true,
                b"no-progress" => self.no_progress = true,
                b"deepen-relative" => self.deepen_relative(),
                _ => {}
            }
        }
        Some(())
    }

    /// The depth, which may come before or after this, counts from where the history ended.
    fn deepen_relative(&mut self) {
        self.limit = match self.limit {
            HistoryLimit::Depth(depth) => HistoryLimit::Deeper(depth),
            HistoryLimit::Unchanged => HistoryLimit::Deeper(0),
            other => other,
        };
    }

    fn fetch(&self, common: Vec<ObjectId>) -> FetchRequest {
        FetchRequest {
            wants: self.wants.clone(),
            common,
            shallow: self.shallow.clone(),
            limit: self.limit,
            filter: self.filter,
        }
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads `blob:none` or `blob:limit=N`, where N may end in `k`, `m` or `g`.
fn filter(text: &[u8]) -> Result<Filter> {
    let limit = |text: &[u8]| {
        let (digits, unit) = match text.split_last()? {
            (b'k' | b'K', digits) => (digits, 1 << 10),
            (b'm' | b'M', digits) => (digits, 1 << 20),
            (b'g' | b'G', digits) => (digits, 1 << 30),
            _ => (text, 1),
        };
        number::<u64>(digits)?.checked_mul(unit)
    };
    let known = match text.strip_prefix(b"blob:limit=") {
        Some(text) => limit(text),
        None => (text == b"blob:none").then_some(0),
    };
    known.map(Filter::BlobsFrom).ok_or_else(|| {
        Error::new(
            ErrorCode::Unsupported,
            "of the filters, `blob:none` and `blob:limit=N` are served",
        )
    })
}

fn not_understood(line: &[u8]) -> Error {
    Error::invalid(format!(
        "the line `{}` of the request is not understood",
        offshoot_core::escape_bytes(line)
    ))
}
