//! What kind of content a file holds: its MIME type and the short type name people see.

/// How many bytes at the start of a file are looked at.
pub(crate) const HEAD: usize = 8 << 10;
/// The type of what nothing is known about.
pub(crate) const UNKNOWN: &str = "application/octet-stream";

/// The MIME type: as given, else by content where its signature is plain, else by name, else text
/// if it is text.
pub(crate) fn of(given: Option<&str>, name: &[u8], head: &[u8]) -> String {
    if let Some(given) = given.map(str::trim).filter(|given| given.contains('/')) {
        return given.to_owned();
    }
    let by_name = mime_by_name(name);
    if let Some(by_content) = by_content(head) {
        // A container format says less than a name that belongs to it: an .xlsx is a zip file.
        let container = [
            "application/zip",
            "application/x-cfb",
            "application/gzip",
            "text/xml",
        ];
        return match by_name {
            Some(by_name) if container.contains(&by_content.as_str()) => by_name,
            _ => by_content,
        };
    }
    match by_name {
        Some(by_name) => by_name,
        None if is_text(head) => "text/plain".to_owned(),
        None => UNKNOWN.to_owned(),
    }
}

/// The MIME type that a name alone tells.
pub fn mime_by_name(name: &[u8]) -> Option<String> {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension)?;
    // Names that the general table gets wrong or does not have.
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
        // A first line that looks like one of these is no proof.
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
