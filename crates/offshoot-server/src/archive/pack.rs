//! Packs a workspace into an archive, entry by entry, as it was at one moment, whatever is written
//! to it meanwhile. Links are packed as links and never followed.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use offshoot_core::{EntryKind, Error, ErrorCode, RelPath, Result, escape_bytes};
use offshoot_engine::{ArchiveContent, WorkspaceArchive};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The formats of archives that can be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Zip,
    TarGz,
}

impl Format {
    /// By the word in the query; without one a zip file.
    pub(crate) fn parse(word: Option<&str>) -> Result<Self> {
        match word {
            None | Some("zip") => Ok(Format::Zip),
            Some("tar.gz" | "tgz") => Ok(Format::TarGz),
            Some(_) => Err(Error::invalid(
                "the parameter `format` is neither `zip` nor `tar.gz`",
            )),
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Format::Zip => "application/zip",
            Format::TarGz => "application/gzip",
        }
    }

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Format::Zip => "zip",
            Format::TarGz => "tar.gz",
        }
    }
}

/// Writes the entries to `out`. Names are relative to `below`.
pub(crate) fn pack<W: Write>(
    whole: &WorkspaceArchive,
    below: &RelPath,
    format: Format,
    out: W,
) -> Result<W> {
    match format {
        Format::Zip => pack_zip(whole, below, out),
        Format::TarGz => pack_tar(whole, below, out),
    }
}

fn read_target(mut target: ArchiveContent) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    target.content.read_to_end(&mut bytes).map_err(broken)?;
    Ok(bytes)
}

fn broken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorCode::ReadFailed, "the archive could not be written").with_source(cause)
}

fn pack_zip<W: Write>(whole: &WorkspaceArchive, below: &RelPath, out: W) -> Result<W> {
    let mut zip = ZipWriter::new_stream(out);
    for entry in &whole.entries {
        let name = entry.path.strip_prefix(below).unwrap_or_default();
        let name = escape_bytes(name.as_bytes());
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .unix_permissions(entry.perm);
        if entry.kind == EntryKind::Dir {
            zip.add_directory(name, options).map_err(broken)?;
            continue;
        }
        let Some(mut content) = whole.open(entry)? else {
            continue;
        };
        if entry.kind == EntryKind::Symlink {
            let target = escape_bytes(&read_target(content)?);
            zip.add_symlink(name, target, options).map_err(broken)?;
        } else {
            let options = options.large_file(content.size >= u64::from(u32::MAX));
            zip.start_file(name, options).map_err(broken)?;
            io::copy(&mut content.content, &mut zip).map_err(broken)?;
        }
    }
    Ok(zip.finish().map_err(broken)?.into_inner())
}

fn pack_tar<W: Write>(whole: &WorkspaceArchive, below: &RelPath, out: W) -> Result<W> {
    let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::fast()));
    for entry in &whole.entries {
        let name = entry.path.strip_prefix(below).unwrap_or_default();
        let name = Path::new(OsStr::from_bytes(name.as_bytes()));
        let mut header = tar::Header::new_gnu();
        header.set_mode(entry.perm);
        header.set_mtime(entry.modified_at.seconds().max(0) as u64);
        header.set_size(0);
        if entry.kind == EntryKind::Dir {
            header.set_entry_type(tar::EntryType::Directory);
            tar.append_data(&mut header, name, io::empty())
                .map_err(broken)?;
            continue;
        }
        let Some(content) = whole.open(entry)? else {
            continue;
        };
        if entry.kind == EntryKind::Symlink {
            header.set_entry_type(tar::EntryType::Symlink);
            let target = read_target(content)?;
            let target = Path::new(OsStr::from_bytes(&target));
            tar.append_link(&mut header, name, target).map_err(broken)?;
        } else {
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(content.size);
            tar.append_data(&mut header, name, content.content)
                .map_err(broken)?;
        }
    }
    let gzip = tar.into_inner().map_err(broken)?;
    gzip.finish().map_err(broken)
}
