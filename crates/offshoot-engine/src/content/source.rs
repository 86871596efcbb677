//! Reading the bytes of a file from disk, store or memory, and reading them as characters.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use offshoot_core::{ObjectId, ObjectKind, RelPath, Result, Timestamp};
use offshoot_sys::Stat;

use crate::content::Contents;
use crate::content::incoming::unreadable;
use crate::content::objects::missing_content;

/// A readable and rewindable file, object or byte buffer.
pub(crate) struct Source {
    reader: Reader,
    pub(crate) size: u64,
    pub(crate) modified_at: Option<Timestamp>,
    /// The MIME type of computed content, which its name does not decide.
    fixed_mime: Option<&'static str>,
}

enum Reader {
    File {
        contents: Contents,
        file: File,
        stat: Stat,
    },
    Object {
        contents: Contents,
        id: ObjectId,
        open: Box<dyn Read + Send>,
        /// How many bytes of the selected part are left; see `select`.
        left: u64,
    },
    /// Computed text, or a small object with its id.
    Bytes(std::io::Cursor<Vec<u8>>, Option<ObjectId>),
    /// A small file whose bytes were read into memory.
    SmallFile {
        contents: Contents,
        stat: Stat,
        bytes: std::io::Cursor<Vec<u8>>,
    },
}

/// The most bytes of files and objects that are read into memory at once.
pub(crate) const SMALL: u64 = 64 << 10;

impl Source {
    pub(crate) fn of_file(contents: &Contents, file: File, stat: Stat) -> Self {
        Source {
            size: stat.size,
            modified_at: Some(stat.modified()),
            fixed_mime: None,
            reader: Reader::File {
                contents: contents.clone(),
                file,
                stat,
            },
        }
    }

    /// Reads a small file into memory: detecting its type, hashing it and sending it would each read it
    /// again.
    pub(crate) fn load_if_small(mut self) -> Result<Self> {
        let Reader::File {
            contents,
            file,
            stat,
        } = &mut self.reader
        else {
            return Ok(self);
        };
        if stat.size > SMALL {
            return Ok(self);
        }
        let mut bytes = vec![0; stat.size as usize];
        match file.read_exact(&mut bytes) {
            Ok(()) => {
                self.reader = Reader::SmallFile {
                    contents: contents.clone(),
                    stat: *stat,
                    bytes: std::io::Cursor::new(bytes),
                };
            }
            // The file became shorter since `stat`. Reads of the open file show that.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => self.rewind()?,
            Err(error) => return Err(unreadable(error)),
        }
        Ok(self)
    }

    /// All bytes, if they are in memory.
    pub(crate) fn bytes_in_memory(&self) -> Option<&[u8]> {
        match &self.reader {
            Reader::SmallFile { bytes, .. } | Reader::Bytes(bytes, _) => Some(bytes.get_ref()),
            Reader::File { .. } | Reader::Object { .. } => None,
        }
    }

    /// Takes all bytes out as text, if they are UTF-8 and in memory.
    pub(crate) fn take_text(&mut self) -> Option<String> {
        let (Reader::SmallFile { bytes, .. } | Reader::Bytes(bytes, _)) = &mut self.reader else {
            return None;
        };
        match String::from_utf8(std::mem::take(bytes.get_mut())) {
            Ok(text) => Some(text),
            Err(error) => {
                *bytes.get_mut() = error.into_bytes();
                None
            }
        }
    }

    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Self {
        Source::of_object_bytes(bytes, None)
    }

    /// Bytes in memory, with their id if they are those of an object.
    pub(crate) fn of_object_bytes(bytes: Vec<u8>, id: Option<ObjectId>) -> Self {
        let size = bytes.len() as u64;
        Source {
            reader: Reader::Bytes(std::io::Cursor::new(bytes), id),
            size,
            modified_at: None,
            fixed_mime: None,
        }
    }

    /// Computed JSON.
    pub(crate) fn of_json(value: &serde_json::Value) -> Self {
        Source {
            fixed_mime: Some("application/json"),
            ..Source::of_bytes(format!("{value:#}\n").into_bytes())
        }
    }

    pub(crate) fn of_object(contents: &Contents, id: ObjectId) -> Result<Self> {
        let (_, size, open) = contents
            .store()
            .open_object(&id)?
            .ok_or_else(missing_content)?;
        Ok(Source {
            reader: Reader::Object {
                contents: contents.clone(),
                id,
                open,
                left: size,
            },
            size,
            modified_at: None,
            fixed_mime: None,
        })
    }

    /// Whether the bytes are those of an object in the store.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(
            self.reader,
            Reader::Object { .. } | Reader::Bytes(_, Some(_))
        )
    }

    /// The id of the content if it is known without reading it.
    pub(crate) fn known_content_id(&self) -> Option<ObjectId> {
        match &self.reader {
            Reader::Object { id, .. } => Some(*id),
            Reader::File { contents, stat, .. } | Reader::SmallFile { contents, stat, .. } => {
                contents.content_ids.get(stat)
            }
            Reader::Bytes(_, id) => *id,
        }
    }

    /// The id of the content. A file on disk is read for it unless its id is cached; the caller rewinds
    /// the source.
    pub(crate) fn content_id(&mut self) -> Result<ObjectId> {
        match &mut self.reader {
            Reader::Object { id, .. } => Ok(*id),
            Reader::Bytes(bytes, id) => match id {
                Some(id) => Ok(*id),
                None => offshoot_git::hash(ObjectKind::Blob, bytes.get_ref()),
            },
            Reader::SmallFile {
                contents,
                stat,
                bytes,
            } => {
                let known = &contents.content_ids;
                if let Some(id) = known.get(stat) {
                    return Ok(id);
                }
                let id = offshoot_git::hash(ObjectKind::Blob, bytes.get_ref())?;
                known.put(stat, id);
                Ok(id)
            }
            Reader::File {
                contents,
                file,
                stat,
            } => {
                let known = &contents.content_ids;
                if let Some(id) = known.get(stat) {
                    return Ok(id);
                }
                let id = crate::content::incoming::hash_file(file, stat.size)?;
                known.put(stat, id);
                Ok(id)
            }
        }
    }

    pub(crate) fn rewind(&mut self) -> Result<()> {
        match &mut self.reader {
            Reader::File { file, .. } => {
                file.seek(SeekFrom::Start(0)).map(drop).map_err(unreadable)
            }
            Reader::Bytes(bytes, _) | Reader::SmallFile { bytes, .. } => {
                bytes.set_position(0);
                Ok(())
            }
            Reader::Object {
                contents,
                id,
                open,
                left,
            } => {
                let (_, size, again) = contents
                    .store()
                    .open_object(id)?
                    .ok_or_else(missing_content)?;
                (*open, *left) = (again, size);
                Ok(())
            }
        }
    }

    /// Limits reading to `length` bytes from `offset`.
    ///
    /// This is a seek on disk. An object of the store is always read whole, because only its whole
    /// content can be checked against its id: the bytes before the part are read now, and those after
    /// it before the last bytes of the part are returned.
    pub(crate) fn select(&mut self, offset: u64, length: u64) -> Result<()> {
        if let Reader::File { file, .. } = &mut self.reader {
            return file
                .seek(SeekFrom::Start(offset))
                .map(drop)
                .map_err(unreadable);
        }
        if let Reader::SmallFile { bytes, .. } | Reader::Bytes(bytes, _) = &mut self.reader {
            let end = usize::try_from(offset.saturating_add(length)).unwrap_or(usize::MAX);
            bytes.get_mut().truncate(end);
            bytes.set_position(offset);
            return Ok(());
        }
        self.rewind()?;
        std::io::copy(&mut self.by_ref().take(offset), &mut std::io::sink()).map_err(unreadable)?;
        if let Reader::Object { left, .. } = &mut self.reader {
            *left = length.min(*left);
        }
        Ok(())
    }

    pub(crate) fn mime(&mut self, path: &RelPath) -> Result<String> {
        if let Some(known) = self.fixed_mime {
            return Ok(known.to_owned());
        }
        if let Some(bytes) = self.bytes_in_memory() {
            let head = &bytes[..bytes.len().min(crate::content::mime::HEAD)];
            return Ok(crate::content::mime::of(None, path.name(), head));
        }
        let mut head = Vec::new();
        self.by_ref()
            .take(crate::content::mime::HEAD as u64)
            .read_to_end(&mut head)
            .map_err(unreadable)?;
        self.rewind()?;
        Ok(crate::content::mime::of(None, path.name(), &head))
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match &mut self.reader {
            Reader::File { file, .. } => file.read(buffer),
            Reader::Object { open, left, .. } => read_part(open, left, buffer),
            Reader::Bytes(bytes, _) | Reader::SmallFile { bytes, .. } => bytes.read(buffer),
        }
    }
}

/// Reads from the selected part of an object, of which `left` bytes are left.
fn read_part(object: &mut dyn Read, left: &mut u64, buffer: &mut [u8]) -> std::io::Result<usize> {
    let wanted = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(buffer.len());
    if wanted == 0 && !buffer.is_empty() {
        // An empty part is also checked against the id.
        return std::io::copy(object, &mut std::io::sink()).map(|_| 0);
    }
    let count = object.read(&mut buffer[..wanted])?;
    *left -= count as u64;
    if *left == 0 && count > 0 {
        std::io::copy(object, &mut std::io::sink())?;
    }
    Ok(count)
}

/// Reads UTF-8 chunk by chunk. `visit` gets whole characters and returns whether to continue. Returns
/// false if the content is not UTF-8. A NUL is a character like any other, so that text that was
/// written with one comes back as text.
fn for_each_text(source: &mut dyn Read, visit: &mut dyn FnMut(&str) -> bool) -> Result<bool> {
    let mut chunk = vec![0; 64 << 10];
    let mut kept = 0;
    loop {
        let n = source.read(&mut chunk[kept..]).map_err(unreadable)?;
        if n == 0 {
            return Ok(kept == 0);
        }
        let filled = kept + n;
        let valid = match std::str::from_utf8(&chunk[..filled]) {
            Ok(_) => filled,
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Ok(false),
        };
        let text = std::str::from_utf8(&chunk[..valid]).unwrap_or_default();
        if !visit(text) {
            return Ok(true);
        }
        chunk.copy_within(valid..filled, 0);
        kept = filled - valid;
    }
}

/// How many characters the content has; none if it is no text.
pub(crate) fn count_characters(source: &mut Source) -> Result<Option<u64>> {
    if let Some(bytes) = source.bytes_in_memory() {
        let text = std::str::from_utf8(bytes).ok();
        return Ok(text.map(|text| text.chars().count() as u64));
    }
    source.rewind()?;
    let mut count = 0u64;
    let is_text = for_each_text(source, &mut |text| {
        count += text.chars().count() as u64;
        true
    })?;
    Ok(is_text.then_some(count))
}

/// `length` characters from the `offset`-th on.
pub(crate) fn characters(source: &mut Source, offset: u64, length: usize) -> Result<String> {
    let mut skip = offset;
    let mut window = String::new();
    let mut wanted = length;
    for_each_text(source, &mut |text| {
        if wanted == 0 {
            return false;
        }
        for character in text.chars() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            if wanted == 0 {
                return false;
            }
            window.push(character);
            wanted -= 1;
        }
        true
    })?;
    Ok(window)
}

/// A file opened for reading, from a directory or the store. Its bytes are read by [`Read`].
pub struct OpenFile {
    source: Source,
    /// How many bytes there are.
    pub size: u64,
    /// The MIME type.
    pub mime: String,
    /// When it last changed; none if only the history says it.
    pub modified_at: Option<Timestamp>,
}

impl OpenFile {
    pub(crate) fn of(mut source: Source, path: &RelPath) -> Result<Self> {
        let mime = source.mime(path)?;
        Ok(OpenFile {
            size: source.size,
            modified_at: source.modified_at,
            mime,
            source,
        })
    }

    /// Whether the bytes are those of an object in the store.
    pub fn is_stored(&self) -> bool {
        self.source.is_stored()
    }

    /// The id of the bytes if it is known without reading them.
    pub fn known_content_id(&self) -> Option<ObjectId> {
        self.source.known_content_id()
    }

    /// The id of exactly the bytes that this file reads. Costs one pass over a file on disk whose id is
    /// not cached. Reading starts again at the beginning.
    pub fn content_id(&mut self) -> Result<ObjectId> {
        let id = self.source.content_id()?;
        self.source.rewind()?;
        Ok(id)
    }

    /// Limits reading to `length` bytes from `offset`. This is a seek on disk; an object of the store is
    /// read whole, because only then damage shows.
    pub fn select(&mut self, offset: u64, length: u64) -> Result<()> {
        self.source.select(offset, length)
    }
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.source.read(buffer)
    }
}
