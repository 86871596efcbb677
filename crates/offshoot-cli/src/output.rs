//! Where output goes: data to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use jiff::tz::TimeZone;
use offshoot_core::{Error, ErrorCode, RelPath, Timestamp, is_unseen};
use serde::Serialize;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The request was done.
    Done,
    /// The request failed, with an error code.
    Failed,
    /// The command line was not understood.
    Usage,
    /// The request was done, and conflicts wait for review.
    Conflicts,
    /// A code of a command that has rules of its own.
    Code(u8),
}

impl Exit {
    /// What the process ends with.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Conflicts => 3,
            Exit::Code(code) => code,
        }
    }
}

/// Why a command did not finish.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request failed.
    Request(Error),
    /// Its answer could not be written.
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Request(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// What every command returns.
pub(crate) type CommandResult = std::result::Result<Exit, Failure>;

/// Whether the cause says more than the message. That a file is missing, say, needs no errno.
fn shows_cause(code: ErrorCode) -> bool {
    code == ErrorCode::InvalidRequest || code.http_status() >= 500
}

/// The error for an answer that could not be written.
pub(crate) fn unwritable(cause: io::Error) -> Error {
    Error::new(ErrorCode::WriteFailed, "the output could not be written").with_source(cause)
}

/// How output is written.
pub(crate) struct Output {
    stdout: BufWriter<io::Stdout>,
    json: bool,
    quiet: bool,
    color: bool,
}

impl Output {
    /// Chooses the form of output by the flags and by where stdout leads.
    pub(crate) fn new(json: bool, quiet: bool, no_color: bool) -> Self {
        let no_color = no_color || std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        Output {
            stdout: BufWriter::with_capacity(64 << 10, io::stdout()),
            json,
            quiet,
            color: !no_color && !json && io::stdout().is_terminal(),
        }
    }

    /// Whether one JSON document was asked for.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether a terminal shows the answer.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether progress may be shown.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// Writes a document to stdout.
    pub(crate) fn document(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.stdout, value).map_err(io::Error::from)?;
        self.stdout.write_all(b"\n")
    }

    /// Writes a line of data to stdout.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.stdout, "{text}")
    }

    /// Stdout itself, for bytes.
    pub(crate) fn stdout(&mut self) -> &mut dyn Write {
        &mut self.stdout
    }

    /// Tells the user something that is not the answer.
    pub(crate) fn note(&mut self, text: impl Display) {
        if !self.quiet {
            let _ = self.stdout.flush();
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Shows an error: as a document on stdout, or as text on stderr.
    ///
    /// What caused a failure of the machine goes to stderr in both cases: the user of this command
    /// owns the data directory and may see it.
    pub(crate) fn error(&mut self, error: &Error) -> io::Result<()> {
        let mut stderr = io::stderr();
        let told =
            self.json && self.document(&error.to_json()).is_ok() && self.stdout.flush().is_ok();
        if !told {
            // What was answered so far comes first, unless stdout is what failed.
            let _ = self.stdout.flush();
            writeln!(stderr, "error: {}", printable(error.message()))?;
        }
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source.filter(|_| shows_cause(error.code())) {
            writeln!(stderr, "cause: {}", printable(&cause.to_string()))?;
            source = cause.source();
        }
        if let (false, Some(hint)) = (told, error.hint()) {
            writeln!(stderr, "hint: {}", printable(hint))?;
        }
        Ok(())
    }

    /// Writes out what is still buffered, so that a full disk is noticed.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(Failure::Output)
    }

    /// Text in a colour, if the answer may be coloured.
    pub(crate) fn paint(&self, color: Color, text: &str) -> String {
        if self.color {
            format!("\x1b[{}m{text}\x1b[0m", color as u8)
        } else {
            text.to_owned()
        }
    }

    /// A table without lines: columns two spaces apart, the last one as long as it likes.
    pub(crate) fn table(&mut self, columns: &[Column], rows: &[Vec<String>]) -> io::Result<()> {
        let width_of = |index: usize| {
            let cells = rows.iter().map(|row| row[index].chars().count());
            cells.chain([columns[index].0.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns.len()).map(width_of).collect();
        let render = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (index, cell) in cells.enumerate() {
                if index > 0 {
                    text.push_str("  ");
                }
                let pad = " ".repeat(widths[index].saturating_sub(cell.chars().count()));
                match columns[index].1 {
                    Align::Left => text.extend([cell, &pad]),
                    Align::Right => text.extend([&pad, cell]),
                }
            }
            text.trim_end().to_owned()
        };
        if !rows.is_empty() && columns.iter().any(|column| !column.0.is_empty()) {
            let head = render(&mut columns.iter().map(|column| column.0));
            let head = self.paint(Color::Bold, &head);
            self.line(head)?;
        }
        for row in rows {
            self.line(render(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}

/// The colours in use.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Color {
    Bold = 1,
    Red = 31,
    Green = 32,
    Cyan = 36,
}

/// On which side a column is flush.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Right,
}

/// The head of a column and its alignment.
pub(crate) type Column = (&'static str, Align);

/// Text without characters that could drive a terminal or make it show something else than is there:
/// they become `\xNN`, as in every path.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_unseen(character) {
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                shown.push_str(&format!("\\x{byte:02x}"));
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A path as people see it. It can be typed in again as it is shown.
pub(crate) fn shown(path: &RelPath) -> String {
    printable(&path.to_string())
}

/// The digits of an id that are enough for people.
pub(crate) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Bytes as people read them.
pub(crate) fn size(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes.unsigned_abs() < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value.abs() >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A time as people read it: how long ago if that is short, else local time.
pub(crate) fn when(at: Timestamp) -> String {
    when_seen_from(at, Timestamp::now())
}

fn when_seen_from(at: Timestamp, now: Timestamp) -> String {
    let ago = now.seconds() - at.seconds();
    match ago {
        0..=59 => "just now".to_owned(),
        60..=3_599 => format!("{} min ago", ago / 60),
        3_600..=86_399 => format!("{} h ago", ago / 3_600),
        _ => local(at),
    }
}

/// Local time with its offset.
pub(crate) fn local(at: Timestamp) -> String {
    match jiff::Timestamp::from_second(at.seconds()) {
        Ok(moment) => {
            let zoned = moment.to_zoned(TimeZone::system());
            zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        }
        Err(_) => at.to_string(),
    }
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: impl Into<i64>, one: &str, many: &str) -> String {
    let number = number.into();
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn times() {
        let now = Timestamp(1_000_000_000_000_000);
        let ago = |seconds: i64| when_seen_from(Timestamp(now.0 - seconds * 1_000_000), now);
        assert_eq!(ago(3), "just now");
        assert_eq!(ago(59), "just now");
        assert_eq!(ago(120), "2 min ago");
        assert_eq!(ago(7_200), "2 h ago");
        assert!(ago(200_000).starts_with("2001-09-"), "{}", ago(200_000));
        // A clock that was set back must not make nonsense.
        assert!(ago(-100).starts_with("2001-09-"));
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(
            printable("a\x1b[31m\nb\u{9b}"),
            "a\\x1b[31m\\x0ab\\xc2\\x9b"
        );
        // A name that ends in `exe` and would be shown as one that ends in `txt`.
        assert_eq!(printable("a\u{202e}txt.exe"), "a\\xe2\\x80\\xaetxt.exe");
        for unseen in ['\u{2066}', '\u{200b}', '\u{feff}', '\u{2028}', '\u{e0041}'] {
            assert!(printable(&unseen.to_string()).is_ascii(), "{unseen:?}");
        }
        assert_eq!(printable("päth \u{1f980} 日本"), "päth \u{1f980} 日本");
    }
}
