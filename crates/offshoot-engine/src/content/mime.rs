//! What kind of content a file holds: its MIME type and the short type name people see.

use offshoot_core::{ObjectId, RelPath, Result};

use crate::content::Contents;
use crate::content::source::Source;

/// How many bytes at the start of a file its type is detected from.
pub(crate) const HEAD: usize = 8 << 10;
/// The type of unknown content.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// The MIME type: as given, else by the signature of the content, else by name, else text if it is
/// text.
pub(crate) fn of(given: Option<&str>, name: &[u8], head: &[u8]) -> String {
    if let Some(given) = given.map(str::trim).filter(|given| given.contains('/')) {
        return given.to_owned();
    }
    let by_name = mime_by_name(name);
    if let Some(by_content) = by_content(head) {
        return match by_name {
            Some(by_name) if is_container_of(&by_content, &by_name) => by_name,
            _ => media_of_container(&by_content).map_or(by_content, str::to_owned),
        };
    }
    match by_name {
        Some(by_name) => by_name,
        None if is_text(head) => "text/plain".to_owned(),
        None => UNKNOWN.to_owned(),
    }
}

/// Whether the content is a container format and the name says more: an .xlsx is a zip file, and an
/// .mp4 may hold video or audio.
fn is_container_of(content: &str, name: &str) -> bool {
    let container = [
        "application/zip",
        "application/x-cfb",
        "application/gzip",
        "text/xml",
    ];
    let is_media = name.starts_with("audio/") || name.starts_with("video/");
    container.contains(&content) || is_media && media_of_container(content).is_some()
}

/// The type that players know for a container of audio and video; none for everything else.
fn media_of_container(content: &str) -> Option<&'static str> {
    match content {
        "application/mp4" | "video/mp4" | "audio/mp4" => Some("video/mp4"),
        "application/ogg" | "audio/ogg" | "audio/opus" | "audio/vorbis" => Some("audio/ogg"),
        "application/x-ebml" | "application/x-matroska" | "video/matroska" | "audio/matroska" => {
            Some("video/x-matroska")
        }
        "video/webm" => Some("video/webm"),
        "application/x-id3v2" => Some("audio/mpeg"),
        _ => None,
    }
}

/// The MIME type by name alone.
pub fn mime_by_name(name: &[u8]) -> Option<String> {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension)?;
    // Extensions that the table of `mime_guess` lacks or has wrong.
    let own = match extension {
        "ts" | "mts" | "cts" | "tsx" => Some("text/x-typescript"),
        "rs" => Some("text/x-rust"),
        "py" | "pyi" => Some("text/x-python"),
        "md" | "markdown" => Some("text/markdown"),
        "jsonl" | "ndjson" => Some("application/x-ndjson"),
        "yml" | "yaml" => Some("application/yaml"),
        "toml" => Some("application/toml"),
        "js" | "mjs" | "cjs" => Some("text/javascript"),
        "sh" | "bash" => Some("application/x-sh"),
        "csv" => Some("text/csv"),
        "log" | "txt" | "ini" | "cfg" | "conf" | "lock" => Some("text/plain"),
        _ => None,
    };
    match own {
        Some(own) => Some(own.to_owned()),
        None => mime_guess::from_ext(extension)
            .first_raw()
            .map(str::to_owned),
    }
}

fn by_content(head: &[u8]) -> Option<String> {
    use file_format::{FileFormat, Kind};
    let format = FileFormat::from_bytes(head);
    match format {
        FileFormat::ArbitraryBinaryData | FileFormat::PlainText | FileFormat::Empty => None,
        // Text formats are detected by their first line, which proves nothing.
        _ if format.media_type().starts_with("text/") && format.kind() != Kind::Image => None,
        _ => Some(format.media_type().to_owned()),
    }
}

/// Whether bytes from the start of a file look like text.
pub(crate) fn is_text(head: &[u8]) -> bool {
    if head.contains(&0) {
        return false;
    }
    match std::str::from_utf8(head) {
        Ok(_) => true,
        // The last character may be cut in two.
        Err(error) => error.error_len().is_none() && head.len() - error.valid_up_to() < 4,
    }
}

/// The short name of a type: `pdf`, `spreadsheet`, `python` … or `unknown`.
pub fn type_name(mime: &str, name: &[u8]) -> &'static str {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "pdf" => return "pdf",
        "doc" | "docx" | "odt" | "rtf" | "pages" => return "document",
        "xls" | "xlsx" | "ods" | "numbers" => return "spreadsheet",
        "ppt" | "pptx" | "odp" | "key" => return "presentation",
        "csv" | "tsv" => return "csv",
        "md" | "markdown" => return "markdown",
        "py" | "pyi" | "ipynb" => return "python",
        "json" | "jsonl" | "ndjson" => return "json",
        "yaml" | "yml" => return "yaml",
        "toml" => return "toml",
        "xml" => return "xml",
        "html" | "htm" => return "html",
        "css" | "scss" => return "css",
        "js" | "mjs" | "cjs" | "jsx" => return "javascript",
        "ts" | "mts" | "cts" | "tsx" => return "typescript",
        "rs" => return "rust",
        "go" => return "go",
        "java" | "kt" => return "java",
        "c" | "h" => return "c",
        "cc" | "cpp" | "cxx" | "hpp" => return "cpp",
        "rb" => return "ruby",
        "sh" | "bash" | "zsh" => return "shell",
        "sql" => return "sql",
        "txt" | "log" => return "text",
        "zip" | "tar" | "gz" | "tgz" | "bz2" | "xz" | "zst" | "7z" => return "archive",
        _ => {}
    }
    match mime.split_once('/') {
        Some(("image", _)) => "image",
        Some(("audio", _)) => "audio",
        Some(("video", _)) => "video",
        Some(("font", _)) => "font",
        Some((_, "pdf")) => "pdf",
        Some((_, "json")) => "json",
        Some(("text", "csv")) => "csv",
        Some(("text", "markdown")) => "markdown",
        Some(("text", "html")) => "html",
        Some(("text", _)) => "text",
        Some((_, "zip" | "gzip" | "x-tar")) => "archive",
        _ => "unknown",
    }
}

impl Contents {
    pub(crate) fn mime_in_store(&self, path: &RelPath, id: ObjectId) -> Result<String> {
        Source::of_object(self, id)?.mime(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_then_content_then_name_then_text() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        assert_eq!(of(Some("x/y"), b"a.png", png), "x/y");
        assert_eq!(of(None, b"a.bin", png), "image/png");
        assert_eq!(of(None, b"a.txt", png), "image/png");
        assert_eq!(of(None, b"main.py", b"print(1)"), "text/x-python");
        assert_eq!(of(None, b"a.json", b"{}"), "application/json");
        assert_eq!(of(None, b"README", b"hello"), "text/plain");
        assert_eq!(of(None, b"x", b"\0\x01"), UNKNOWN);
        assert_eq!(of(None, b"x", b""), "text/plain");
    }

    /// The first bytes as ffmpeg writes them.
    #[test]
    fn sound_and_film_are_what_their_names_say() {
        let mp4 = b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41\0\0\0\x08free";
        let m4a = b"\0\0\0\x1cftypM4A \0\0\x02\0M4A isomiso2\0\0\0\x08free";
        let mp3 = b"ID3\x04\0\0\0\0\0\x23TSSE\0\0\0\x0f\0\0\x03Lavf59.27.100\0";
        let webm = b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08\
            B\x82\x84webmB\x87\x81\x04B\x85\x81\x02";
        let mkv = b"\x1a\x45\xdf\xa3\xa3B\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08\
            B\x82\x88matroskaB\x87\x81\x04B\x85\x81\x02";
        let ogg = b"OggS\0\x02\0\0\0\0\0\0\0\0\x01\x02\x03\x04\0\0\0\0\0\0\0\0\x01\x13OpusHead";
        for (name, head, wanted) in [
            ("a.mp4", &mp4[..], "video/mp4"),
            ("a", mp4, "video/mp4"),
            ("a.m4a", m4a, "audio/x-m4a"),
            ("a.mp3", mp3, "audio/mpeg"),
            ("a", mp3, "audio/mpeg"),
            ("a.webm", webm, "video/webm"),
            ("a.mkv", mkv, "video/x-matroska"),
            ("a.ogg", ogg, "audio/ogg"),
            // A name without a media extension does not hide the type of the content.
            ("a.txt", mp4, "video/mp4"),
        ] {
            assert_eq!(of(None, name.as_bytes(), head), wanted, "{name}");
        }
    }

    #[test]
    fn type_names() {
        for (name, mime, expected) in [
            ("a.pdf", "application/pdf", "pdf"),
            ("a.docx", "", "document"),
            ("a.xlsx", "", "spreadsheet"),
            ("a.CSV", "text/csv", "csv"),
            ("a.md", "", "markdown"),
            ("a.py", "", "python"),
            ("a.json", "", "json"),
            ("a", "image/png", "image"),
            ("a", "text/plain", "text"),
            ("a", UNKNOWN, "unknown"),
        ] {
            assert_eq!(type_name(mime, name.as_bytes()), expected, "{name}");
        }
    }
}
