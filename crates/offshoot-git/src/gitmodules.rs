//! What `.gitmodules` and `.gitattributes` may hold: the rules of git's `fsck_blob`.
//!
//! A clone that fetches submodules acts on `.gitmodules`: a name with `..` leads out of `.git`, a
//! path or an address that begins with `-` becomes an option of a command, and `update = !CMD` runs
//! one. Where git's rules are intricate (addresses), these are stricter: git accepts all that they
//! accept. What git could not parse is refused too.

/// The largest `.gitmodules` that is accepted; git itself reads up to 512 MiB.
const LARGEST_MODULES: usize = 1 << 20;
/// git's `ATTR_MAX_FILE_SIZE` and `ATTR_MAX_LINE_LENGTH`.
const LARGEST_ATTRIBUTES: usize = 100 << 20;
const LONGEST_ATTRIBUTES_LINE: usize = 2048;

/// Why git refuses this content as `.gitattributes`.
pub(crate) fn refuses_gitattributes(content: &[u8]) -> Option<&'static str> {
    if content.len() > LARGEST_ATTRIBUTES {
        return Some("git refuses it: it is too large");
    }
    let mut lines = content.split(|&byte| byte == b'\n');
    lines
        .any(|line| line.len() >= LONGEST_ATTRIBUTES_LINE)
        .then_some("git refuses it: it has a line of more than 2047 bytes")
}

/// Why git refuses this content as `.gitmodules`.
pub(crate) fn refuses_gitmodules(content: &[u8]) -> Option<&'static str> {
    if content.len() > LARGEST_MODULES {
        return Some("git refuses it: it is too large");
    }
    let mut why = None;
    let parsed = Settings::new(content).each(&mut |setting| {
        why = why.or(refuses_setting(setting));
    });
    why.or(match parsed {
        Some(()) => None,
        None => Some("git cannot read it as settings"),
    })
}

fn refuses_setting(setting: &Setting<'_>) -> Option<&'static str> {
    if !setting.section.eq_ignore_ascii_case(b"submodule") {
        return None;
    }
    if !is_safe_name(setting.name) {
        return Some("git refuses it: the name of a submodule leads elsewhere");
    }
    let value = setting.value?;
    let is_option = value.starts_with(b"-");
    match setting.key {
        b"path" if is_option => Some("git refuses it: the path of a submodule begins with `-`"),
        b"url" if is_option || !is_safe_url(value) => {
            Some("git refuses it: the address of a submodule is not safe")
        }
        b"update" if value.starts_with(b"!") => {
            Some("git refuses it: the update of a submodule is a command")
        }
        _ => None,
    }
}

/// No part of the name may be `..`, with either separator.
fn is_safe_name(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| matches!(byte, b'/' | b'\\'));
    !name.is_empty() && !name.iter().any(u8::is_ascii_control) && !parts.any(|part| part == b"..")
}

fn is_safe_url(url: &[u8]) -> bool {
    let decoded = percent_decoded(url);
    if decoded.contains(&b'\n') || url.iter().any(u8::is_ascii_control) {
        return false;
    }
    // A relative address that climbs out of the one it is relative to may replace its host.
    let mut rest = url;
    let mut climbs = false;
    loop {
        if let [b'.', b'.', b'/' | b'\\', after @ ..] = rest {
            (rest, climbs) = (after, true);
        } else if let [b'.', b'/' | b'\\', after @ ..] = rest {
            rest = after;
        } else {
            break;
        }
    }
    if climbs && matches!(rest.first(), Some(b':' | b'/' | b'\\')) {
        return false;
    }
    let helper = [&b"http::"[..], b"https::", b"ftp::", b"ftps::"];
    let inner = helper.iter().find_map(|prefix| url.strip_prefix(*prefix));
    let schemes = [&b"http://"[..], b"https://", b"ftp://", b"ftps://"];
    let web = inner.unwrap_or(url);
    match schemes.iter().find_map(|scheme| web.strip_prefix(*scheme)) {
        Some(rest) => is_plain_web_address(rest),
        None => inner.is_none(),
    }
}

/// `[user[:password]@]host[:port][/path]` without anything that has to be put in order first.
fn is_plain_web_address(rest: &[u8]) -> bool {
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
    let at = authority.iter().rposition(|&byte| byte == b'@');
    let host = &authority[at.map_or(0, |at| at + 1)..];
    let (host, port) = match host.iter().rposition(|&byte| byte == b':') {
        Some(colon) if !host.ends_with(b"]") => (&host[..colon], Some(&host[colon + 1..])),
        _ => (host, None),
    };
    let host_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
    let port_fits = port.is_none_or(|port| {
        let number = std::str::from_utf8(port)
            .ok()
            .and_then(|text| text.parse().ok());
        port.iter().all(u8::is_ascii_digit) && number.is_some_and(|port: u16| port > 0)
    });
    let decoded = percent_decoded(path);
    let mut parts = decoded.split(|&byte| byte == b'/');
    !host.is_empty()
        && host.iter().all(host_byte)
        && port_fits
        && escapes_are_whole(rest)
        && !parts.any(|part| part == b"..")
}

fn escapes_are_whole(text: &[u8]) -> bool {
    let mut percents = text.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    percents.all(|(at, _)| hex_pair(&text[at + 1..]).is_some())
}

fn hex_pair(text: &[u8]) -> Option<u8> {
    let pair = text
        .get(..2)
        .filter(|pair| pair.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match hex_pair(&text[at + 1..]).filter(|_| text[at] == b'%') {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(text[at]);
                at += 1;
            }
        }
    }
    decoded
}

/// One setting of a file in git's format, with the section it is in.
struct Setting<'a> {
    section: &'a [u8],
    /// What the section is about: `x` of `[submodule "x"]`.
    name: &'a [u8],
    /// In lower case.
    key: &'a [u8],
    /// None for a key without `=`.
    value: Option<&'a [u8]>,
}

/// Reads a file of settings as git does (`git_parse_source`).
struct Settings<'a> {
    rest: &'a [u8],
}

impl<'a> Settings<'a> {
    fn new(content: &'a [u8]) -> Self {
        let rest = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
        Settings { rest }
    }

    /// The next byte; a line end at the end of the file, and for CR LF.
    fn next(&mut self) -> u8 {
        let (byte, rest) = match self.rest {
            [] => (b'\n', self.rest),
            [b'\r', b'\n', rest @ ..] => (b'\n', rest),
            [byte, rest @ ..] => (*byte, rest),
        };
        self.rest = rest;
        byte
    }

    /// Calls `visit` with every setting. None where the file cannot be read on.
    fn each(mut self, visit: &mut dyn FnMut(&Setting<'_>)) -> Option<()> {
        let (mut section, mut name) = (Vec::new(), None);
        let mut comment = false;
        // Git would take the first NUL for the end of the file.
        if self.rest.contains(&0) {
            return None;
        }
        while !self.rest.is_empty() {
            match self.next() {
                b'\n' => comment = false,
                _ if comment => {}
                byte if is_space(byte) => {}
                b'#' | b';' => comment = true,
                b'[' => (section, name) = self.section()?,
                byte if byte.is_ascii_alphabetic() => {
                    let (key, value) = self.setting(byte)?;
                    if let Some(name) = &name {
                        visit(&Setting {
                            section: &section,
                            name,
                            key: &key,
                            value: value.as_deref(),
                        });
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// `name]`, `name.sub]` or `name "sub"]`.
    fn section(&mut self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut section = Vec::new();
        loop {
            match self.next() {
                b']' => break,
                b'\n' => return None,
                byte if is_space(byte) => {
                    let name = self.quoted_section()?;
                    return Some((section, Some(name)));
                }
                byte if is_key_byte(byte) || byte == b'.' => {
                    section.push(byte.to_ascii_lowercase());
                }
                _ => return None,
            }
        }
        let dot = section.iter().position(|&byte| byte == b'.');
        let name = dot.map(|dot| section.split_off(dot + 1));
        section.truncate(dot.unwrap_or(section.len()));
        Some((section, name))
    }

    fn quoted_section(&mut self) -> Option<Vec<u8>> {
        let mut byte = self.next();
        while is_space(byte) && byte != b'\n' {
            byte = self.next();
        }
        if byte != b'"' {
            return None;
        }
        let mut name = Vec::new();
        loop {
            match self.next() {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next() {
                    b'\n' => return None,
                    byte => name.push(byte),
                },
                byte => name.push(byte),
            }
        }
        (self.next() == b']').then_some(name)
    }

    fn setting(&mut self, first: u8) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut key = vec![first.to_ascii_lowercase()];
        let mut byte = self.next();
        while is_key_byte(byte) {
            key.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next();
        }
        match byte {
            b'\n' => Some((key, None)),
            b'=' => Some((key, Some(self.value()?))),
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        // How long the value is without the spaces at its end.
        let mut len = 0;
        let (mut quoted, mut comment) = (false, false);
        loop {
            match self.next() {
                b'\n' if quoted => return None,
                b'\n' => {
                    value.truncate(len);
                    return Some(value);
                }
                _ if comment => continue,
                byte if is_space(byte) && !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b';' | b'#' if !quoted => {
                    comment = true;
                    continue;
                }
                b'\\' => match self.next() {
                    b'\n' => continue,
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                b'"' => quoted = !quoted,
                byte => value.push(byte),
            }
            len = value.len();
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}
