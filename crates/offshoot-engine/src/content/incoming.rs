//! Receiving content: it is hashed, compressed and durable before any row refers to it (INV-1).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;

use offshoot_core::{Error, ErrorCode, ObjectId, ObjectKind, RelPath, Result};
use offshoot_git::ObjectHasher;
use offshoot_store::NewObject;

use crate::content::Contents;

/// The most bytes of content that is received in memory.
const IN_MEMORY: usize = 1 << 20;
const CHUNK: usize = 128 << 10;

/// Content that a caller gives.
pub enum Content<'a> {
    /// All of it.
    Bytes(&'a [u8]),
    /// A stream of unknown length, which is received in bounded memory.
    Stream(&'a mut dyn Read),
}

/// Received content, which a transaction can refer to and which can be written to a directory.
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
    /// All of the content, if git checks the content of files with this name.
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
    /// Receives content. When this returns, large content is durable as a blob and small content is
    /// ready to go into its row.
    pub(crate) fn receive(&self, content: Content<'_>) -> Result<Incoming> {
        self.context.require_space()?;
        self.receive_on_full_disk(content)
    }

    /// Receives content even on a full disk, for what must be stored before space can be freed.
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

    /// The hash of a blob starts with its length, so a stream of unknown length needs two passes.
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
                return Err(file_too_large(limit));
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

/// Reads a file from its start. Holes are not read from disk, and reading ends when the request is
/// cancelled.
pub(crate) struct FileReader<'a> {
    file: &'a File,
    at: u64,
    /// The file has data up to `hole`, and a hole from there to `data`.
    hole: u64,
    data: u64,
}

impl<'a> FileReader<'a> {
    pub(crate) fn new(file: &'a File, size: u64) -> Self {
        // Looking for holes does not pay for small files.
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

fn file_too_large(limit: u64) -> Error {
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

/// The error of a failed read. Streams of the store put their own error into it.
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
