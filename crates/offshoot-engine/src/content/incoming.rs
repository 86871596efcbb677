//! Content on its way in: hashed, compressed and durable before any row names it (INV-1).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;

use offshoot_core::{Error, ErrorCode, ObjectId, ObjectKind, RelPath, Result};
use offshoot_git::ObjectHasher;
use offshoot_store::NewObject;

use crate::content::Contents;

/// Up to here content is kept in memory.
const IN_MEMORY: usize = 1 << 20;
const CHUNK: usize = 128 << 10;

/// Content that a caller gives.
pub enum Content<'a> {
    /// All of it.
    Bytes(&'a [u8]),
    /// A stream of unknown length. Memory stays bounded whatever its length.
    Stream(&'a mut dyn Read),
}

/// Content that can be named by a transaction and written to a directory.
pub(crate) struct Incoming {
    pub(crate) id: ObjectId,
    pub(crate) size: i64,
    pub(crate) object: NewObject,
    /// The first bytes, for the MIME type.
    pub(crate) head: Vec<u8>,
    spool: Spool,
}

enum Spool {
    Memory(Vec<u8>),
    File(File),
}

impl Incoming {
    /// All of the content, for names whose content has rules.
    pub(crate) fn bytes_if_git_checks_content(
        &mut self,
        path: &RelPath,
    ) -> Result<Option<Vec<u8>>> {
        if !offshoot_git::has_rules_for_content(path.name()) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.copy_to(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes the content somewhere.
    pub(crate) fn copy_to(&mut self, target: &mut dyn Write) -> Result<()> {
        let copied = match &mut self.spool {
            Spool::Memory(bytes) => target.write_all(bytes),
            Spool::File(file) => file
                .seek(SeekFrom::Start(0))
                .and_then(|_| copy(file, target)),
        };
        copied.map_err(|cause| {
            Error::new(ErrorCode::WriteFailed, "the content could not be written")
                .with_hint("the previous content is intact")
                .with_source(cause)
        })
    }
}

fn copy(from: &mut File, to: &mut dyn Write) -> std::io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(()),
            n => to.write_all(&chunk[..n])?,
        }
    }
}

impl Contents {
    /// Takes content in. When this returns, large content is durable as a blob and small content
    /// is ready to go into its row.
    pub(crate) fn receive(&self, content: Content<'_>) -> Result<Incoming> {
        self.context.require_space()?;
        self.receive_on_full_disk(content)
    }

    /// The same for what must be stored before space can be freed.
    pub(crate) fn receive_on_full_disk(&self, content: Content<'_>) -> Result<Incoming> {
        match content {
            Content::Bytes(bytes) => self.receive_bytes(bytes.to_vec()),
            Content::Stream(stream) => {
                let mut bytes = Vec::new();
                stream
                    .take(IN_MEMORY as u64 + 1)
                    .read_to_end(&mut bytes)
                    .map_err(broken_stream)?;
                if bytes.len() <= IN_MEMORY {
                    return self.receive_bytes(bytes);
                }
                self.receive_large(bytes, stream)
            }
        }
    }

    pub(crate) fn receive_bytes(&self, bytes: Vec<u8>) -> Result<Incoming> {
        let id = offshoot_git::hash(ObjectKind::Blob, &bytes)?;
        Ok(Incoming {
            id,
            size: bytes.len() as i64,
            object: self.store().prepare(ObjectKind::Blob, id, &bytes)?,
            head: bytes[..bytes.len().min(crate::content::mime::HEAD)].to_vec(),
            spool: Spool::Memory(bytes),
        })
    }

    /// The id of a blob begins with its length, so an unknown length needs two passes.
    fn receive_large(&self, first: Vec<u8>, rest: &mut dyn Read) -> Result<Incoming> {
        let mut file = tempfile::tempfile_in(self.context.data.tmp()).map_err(cannot_receive)?;
        file.write_all(&first).map_err(cannot_receive)?;
        let mut chunk = vec![0; CHUNK];
        let mut size = first.len() as u64;
        loop {
            let n = rest.read(&mut chunk).map_err(broken_stream)?;
            if n == 0 {
                break;
            }
            file.write_all(&chunk[..n]).map_err(cannot_receive)?;
            size += n as u64;
            let limit = self.context.options.max_file_bytes;
            if size > limit {
                return Err(beyond(limit));
            }
        }
        let id = hash_file(&file, size)?;
        file.seek(SeekFrom::Start(0)).map_err(cannot_receive)?;
        let object = self
            .store()
            .prepare_stream(ObjectKind::Blob, id, size, &mut file)?;
        let head = first[..first.len().min(crate::content::mime::HEAD)].to_vec();
        Ok(Incoming {
            id,
            size: size as i64,
            object,
            head,
            spool: Spool::File(file),
        })
    }
}

/// The blob id of an open file of known size, read from its start.
pub(crate) fn hash_file(file: &File, size: u64) -> Result<ObjectId> {
    let mut reader = FileReader::new(file, size);
    let mut hasher = ObjectHasher::new(ObjectKind::Blob, size);
    let mut chunk = vec![0; CHUNK];
    loop {
        match reader.read(&mut chunk).map_err(unreadable)? {
            0 => return hasher.finish(),
            n => hasher.update(&chunk[..n]),
        }
    }
}

/// A file from its start, however large it is: holes are not read from disk, and reading ends when
/// whoever waits for it has gone.
pub(crate) struct FileReader<'a> {
    file: &'a File,
    at: u64,
    /// Up to here there is data; from here to `data` there is a hole.
    hole: u64,
    data: u64,
}

impl<'a> FileReader<'a> {
    pub(crate) fn new(file: &'a File, size: u64) -> Self {
        // Small files have no holes that are worth a look.
        let hole = if size > IN_MEMORY as u64 { 0 } else { u64::MAX };
        FileReader {
            file,
            at: 0,
            hole,
            data: 0,
        }
    }
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        offshoot_core::cancel::check().map_err(std::io::Error::other)?;
        if self.at >= self.hole && self.at >= self.data {
            (self.hole, self.data) = offshoot_sys::next_hole(self.file, self.at)?;
        }
        if self.at >= self.hole {
            let zeros = (self.data - self.at).min(buffer.len() as u64) as usize;
            buffer[..zeros].fill(0);
            self.at += zeros as u64;
            return Ok(zeros);
        }
        let most = (self.hole - self.at).min(buffer.len() as u64) as usize;
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

fn beyond(limit: u64) -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("the content has more than {limit} bytes, which no file may have"),
    )
    .with_hint("the previous content is intact; raise `max_file_bytes` (OFFSHOOT_MAX_FILE_BYTES)")
    .with_details(serde_json::json!({ "limit": limit }))
}

fn broken_stream(cause: std::io::Error) -> Error {
    Error::invalid("the content ended before it was complete").with_source(cause)
}

/// A stream of the store says itself what is wrong with it.
pub(crate) fn unreadable(cause: std::io::Error) -> Error {
    cause.downcast::<Error>().unwrap_or_else(|cause| {
        Error::new(ErrorCode::ReadFailed, "a file could not be read").with_source(cause)
    })
}

fn cannot_receive(cause: std::io::Error) -> Error {
    Error::new(ErrorCode::WriteFailed, "the content could not be received")
        .with_hint("the previous content is intact")
        .with_source(cause)
}
