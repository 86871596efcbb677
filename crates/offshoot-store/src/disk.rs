//! Blobs as files on disk.
//!
//! A key `object/4b82…` is the file `data/object/+4b/4b82…`: the last part is fanned out by its
//! first two characters. `+` cannot be in a key, so that fan-out directories and parts of keys
//! cannot be mistaken for each other. Blobs are written in `tmp` and renamed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use offshoot_core::{Error, ErrorCode, Result, Timestamp};

use crate::{BlobInfo, BlobStore};

const WRITE_BUFFER: usize = 256 << 10;

/// A [`BlobStore`] in a directory of its own.
pub struct DiskBlobs {
    data: PathBuf,
    tmp: PathBuf,
    /// Whether the directories themselves are known to survive a power cut.
    is_durable: AtomicBool,
}

impl DiskBlobs {
    /// Opens the directory, which is created if it does not exist; its parent must.
    pub fn open(dir: &Path) -> Result<Self> {
        let blobs = DiskBlobs {
            data: dir.join("data"),
            tmp: dir.join("tmp"),
            is_durable: AtomicBool::new(false),
        };
        for made in [dir, &blobs.data, &blobs.tmp] {
            make_dir_if_missing(made).map_err(cannot_write)?;
        }
        Ok(blobs)
    }

    /// Makes the directories durable before the first blob that this process puts there. A process
    /// that only reads has nothing to wait for.
    fn make_durable(&self) -> io::Result<()> {
        if self.is_durable.load(Ordering::Acquire) {
            return Ok(());
        }
        sync_parent(self.data.parent().unwrap_or(&self.data))?;
        sync_parent(&self.data)?;
        self.is_durable.store(true, Ordering::Release);
        Ok(())
    }

    /// Where a key's file is.
    fn path(&self, key: &str) -> Result<PathBuf> {
        check_key(key)?;
        let (parents, name) = key.rsplit_once('/').unwrap_or(("", key));
        let fan = format!("+{}", &name[..name.len().min(2)]);
        Ok(self.data.join(parents).join(fan).join(name))
    }

    /// Moves a finished file to its place and makes the place durable.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        let directory = to.parent().unwrap_or(&self.data);
        self.make_dirs(directory)?;
        let directory = File::open(directory)?;
        // Held against `delete_older`, which must not take a file that was just renewed.
        directory.lock_shared()?;
        fs::rename(from, to)?;
        directory.sync_all()
    }

    /// Makes a directory below `data` and those above it, each of them durable.
    fn make_dirs(&self, directory: &Path) -> io::Result<()> {
        if directory.is_dir() {
            return Ok(());
        }
        if let Some(parent) = directory.parent().filter(|_| directory != self.data) {
            self.make_dirs(parent)?;
        }
        make_dir(directory)
    }

    /// Lists one level of keys; `prefix` is what all wanted keys begin with.
    fn list_level(
        &self,
        directory: &Path,
        above: &str,
        prefix: &str,
        visit: &mut dyn FnMut(BlobInfo) -> Result<()>,
    ) -> Result<()> {
        let wanted = |start: &str| start.starts_with(prefix) || prefix.starts_with(start);
        // In the order of keys, `a/x` is between `a.x` and `a0`: a directory sorts as `a/`.
        // Groups share their first two characters, so only one fan-out directory is in memory.
        let mut groups: BTreeMap<String, (bool, Vec<String>)> = BTreeMap::new();
        for name in names_in(directory)? {
            if let Some(fan) = name.strip_prefix('+') {
                groups.entry(fan.to_owned()).or_default().0 = true;
            } else {
                let sorted_as = format!("{name}/");
                groups
                    .entry(sorted_as[..2].to_owned())
                    .or_default()
                    .1
                    .push(sorted_as);
            }
        }
        for (start, (has_files, directories)) in groups {
            if !wanted(&format!("{above}{start}")) {
                continue;
            }
            let fan = directory.join(format!("+{start}"));
            let mut names = directories;
            if has_files {
                names.extend(names_in(&fan)?);
            }
            names.sort_unstable();
            for name in names {
                let key = format!("{above}{name}");
                if let Some(part) = name.strip_suffix('/') {
                    if wanted(&key) {
                        self.list_level(&directory.join(part), &key, prefix, visit)?;
                    }
                } else if key.starts_with(prefix)
                    && check_key(&key).is_ok()
                    && let Some(info) = info_of(&fan.join(name), key)?
                {
                    visit(info)?;
                }
            }
        }
        Ok(())
    }
}

impl BlobStore for DiskBlobs {
    fn put(&self, key: &str, fill: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<u64> {
        let path = self.path(key)?;
        let temporary = TempFile(self.tmp.join(uuid::Uuid::now_v7().simple().to_string()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary.0)
            .map_err(cannot_write)?;
        let mut writer = CountingWriter {
            inner: BufWriter::with_capacity(WRITE_BUFFER, file),
            bytes: 0,
        };
        fill(&mut writer)?;
        let size = writer.bytes;
        let file = writer
            .inner
            .into_inner()
            .map_err(|error| cannot_write(error.into_error()))?;
        // INV-1: the content is durable before it has a name, and the name before we return.
        file.sync_all().map_err(cannot_write)?;
        self.make_durable().map_err(cannot_write)?;
        self.publish(&temporary.0, &path).map_err(cannot_write)?;
        Ok(size)
    }

    fn read(
        &self,
        key: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Option<Box<dyn Read + Send>>> {
        let Some(mut file) = none_if_missing(File::open(self.path(key)?)).map_err(cannot_read)?
        else {
            return Ok(None);
        };
        if offset > 0 {
            file.seek(SeekFrom::Start(offset)).map_err(cannot_read)?;
        }
        Ok(Some(match length {
            Some(length) => Box::new(file.take(length)),
            None => Box::new(file),
        }))
    }

    fn size(&self, key: &str) -> Result<Option<u64>> {
        let metadata = none_if_missing(fs::metadata(self.path(key)?)).map_err(cannot_read)?;
        Ok(metadata.map(|metadata| metadata.len()))
    }

    fn delete(&self, key: &str) -> Result<()> {
        none_if_missing(fs::remove_file(self.path(key)?)).map_err(cannot_write)?;
        Ok(())
    }

    fn delete_older(&self, key: &str, before: Timestamp) -> Result<bool> {
        let path = self.path(key)?;
        let directory = path.parent().unwrap_or(&self.data);
        let Some(directory) = none_if_missing(File::open(directory)).map_err(cannot_write)? else {
            return Ok(false);
        };
        directory.lock().map_err(cannot_write)?;
        match info_of(&path, String::new())? {
            Some(info) if info.written_at < before => {
                fs::remove_file(&path).map_err(cannot_write)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn list(&self, prefix: &str, visit: &mut dyn FnMut(BlobInfo) -> Result<()>) -> Result<()> {
        self.list_level(&self.data, "", prefix, visit)
    }

    fn sweep_leftovers(&self, before: Timestamp) -> Result<u64> {
        let mut swept = 0;
        for name in names_in(&self.tmp)? {
            let path = self.tmp.join(&name);
            if info_of(&path, name)?.is_some_and(|info| info.written_at < before)
                && none_if_missing(fs::remove_file(&path))
                    .map_err(cannot_write)?
                    .is_some()
            {
                swept += 1;
            }
        }
        Ok(swept)
    }
}

/// Refuses keys that are not one to three parts of `a-z 0-9 . _ -`.
pub(crate) fn check_key(key: &str) -> Result<()> {
    let part_is_good = |part: &str| {
        !part.is_empty()
            && part != "."
            && part != ".."
            && part.len() <= 200
            && part.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)
            })
    };
    if key.split('/').count() <= 3 && key.split('/').all(part_is_good) {
        return Ok(());
    }
    Err(Error::internal(format!(
        "`{}` is no key of a blob",
        key.escape_debug()
    )))
}

/// A file that is removed at the end; after it was renamed there is nothing to remove.
struct TempFile(PathBuf);

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Counts what is written.
struct CountingWriter<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Makes one private directory, durably; it is no error if it exists.
fn make_dir(directory: &Path) -> io::Result<()> {
    make_dir_if_missing(directory)?;
    // Another writer may have made it and not synced it yet, so sync it here as well.
    sync_parent(directory)
}

fn make_dir_if_missing(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes the name of a directory durable.
fn sync_parent(directory: &Path) -> io::Result<()> {
    let parent = directory
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn names_in(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // Gone, or a file of another program.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(cannot_read(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name with other characters is no key.
        let name = entry.map_err(cannot_read)?.file_name().into_string().ok();
        names.extend(name.filter(|name| name.is_ascii()));
    }
    names.sort_unstable();
    Ok(names)
}

fn info_of(path: &Path, key: String) -> Result<Option<BlobInfo>> {
    let Some(metadata) = none_if_missing(fs::metadata(path)).map_err(cannot_read)? else {
        return Ok(None);
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    let written_at = Timestamp::from_system(metadata.modified().map_err(cannot_read)?);
    Ok(Some(BlobInfo {
        key,
        size: metadata.len(),
        written_at,
    }))
}

/// None instead of an error if there is nothing of that name.
fn none_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn cannot_write(error: io::Error) -> Error {
    Error::new(
        ErrorCode::StoreUnavailable,
        "a blob of the store cannot be written",
    )
    .with_hint("the log has the cause")
    .with_source(error)
}

fn cannot_read(error: io::Error) -> Error {
    Error::new(
        ErrorCode::StoreUnavailable,
        "a blob of the store cannot be read",
    )
    .with_hint("the log has the cause")
    .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_neither_listed_nor_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = DiskBlobs::open(&dir.path().join("blobs")).unwrap();
        blobs.put("pack/abc", &mut |_| Ok(())).unwrap();
        for foreign in ["pack/+ab/ABC", "pack/+ab/\u{20ac}", "\u{20ac}", "file"] {
            fs::write(dir.path().join("blobs/data").join(foreign), b"x").unwrap();
        }
        fs::create_dir(dir.path().join("blobs/data/pack/+ab/abd")).unwrap();
        let mut keys = Vec::new();
        let visited = blobs.list("", &mut |info| {
            keys.push(info.key);
            Ok(())
        });
        visited.unwrap();
        assert_eq!(keys, ["pack/abc"]);
    }

    #[test]
    fn files_and_directories_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let blobs = DiskBlobs::open(&dir.path().join("blobs")).unwrap();
        blobs.put("object/abc", &mut |_| Ok(())).unwrap();
        for (path, mode) in [
            ("", 0o700),
            ("data/object/+ab", 0o700),
            ("data/object/+ab/abc", 0o600),
        ] {
            let path = dir.path().join("blobs").join(path);
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                mode
            );
        }
    }
}
