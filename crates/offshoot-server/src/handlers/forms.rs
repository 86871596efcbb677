//! Forms with files and, before or after them, fields that say where the files go, which message they
//! belong to and when they were modified.
//!
//! What a form holds is kept in a temporary file until its end: only then is known where it goes, and
//! nothing lands in a workspace that it does not mean. Until then nothing has landed at all, so that
//! a form that breaks off can be sent again.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest as _, Multipart, Request};
use bytes::Bytes;
use http_body::Frame;
use offshoot_core::{Error, ErrorCode, RelPath, Result, WorkspaceId};
use offshoot_engine::{Access, Content, EarlierResult, WriteOptions};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::app::Shared;
use crate::auth::{Caller, check_message_id};
use crate::body::{blocking, stood_still, too_large};
use crate::error::Problem;
use crate::route::{Kind, Param};
use offshoot_wire as wire;

/// The most files in one form.
const MAX_FILES: usize = 1000;
/// The most bytes of a field that is no file.
const MAX_FIELD: usize = 1024;
/// The longest name of a file, as a path of another machine.
const MAX_FILE_NAME: usize = 4096;
/// The most bytes of a form that are not content of files: heads of parts, fields, and what was read
/// ahead. They are in memory.
const MAX_BESIDE_FILES: u64 = 16 << 20;
/// The last moment of the year 9999, in milliseconds.
pub(crate) const MAX_MODIFIED: u64 = 253_402_300_799_999;

const WORKSPACE: &str = "workspaceId";
const MESSAGE: &str = "messageId";
const LAST_MODIFIED: &str = "lastModified";

/// The fields of a form that are no files.
pub(crate) const FIELDS: &[Param] = &[
    Param {
        name: WORKSPACE,
        place: "form",
        kind: Kind::Id,
        about: "The workspace that the files go to; one that the request names otherwise must be the same",
    },
    Param {
        name: MESSAGE,
        place: "form",
        kind: Kind::Message,
        about: "The message that the files belong to; it goes before the header",
    },
    Param {
        name: LAST_MODIFIED,
        place: "form",
        kind: Kind::Millis,
        about: "When the file was modified, as browsers have it; with several files one for each, in their order, or each before its file",
    },
];

/// Counts the bytes of a form that are not content of its files.
#[derive(Clone, Default)]
struct BesideFiles(Arc<AtomicU64>);

impl BesideFiles {
    /// Counts what comes, and breaks the body off where that is too much.
    fn watch(self, request: Request) -> Request {
        request.map(|body| Body::new(Watched { body, beside: self }))
    }

    /// So many bytes were content.
    fn is_content(&self, length: usize) {
        self.0.fetch_sub(length as u64, Ordering::Relaxed);
    }

    fn is_too_much(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_BESIDE_FILES
    }
}

/// A body that ends with an error once too much of it is not content.
struct Watched {
    body: Body,
    beside: BesideFiles,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            let length = frame.data_ref().map_or(0, Bytes::len) as u64;
            self.beside.0.fetch_add(length, Ordering::Relaxed);
        }
        match self.beside.is_too_much() {
            true => Poll::Ready(Some(Err(axum::Error::new(too_much_beside())))),
            false => Poll::Ready(frame),
        }
    }
}

fn too_much_beside() -> Error {
    Error::new(
        ErrorCode::PayloadTooLarge,
        format!("a form has at most {MAX_BESIDE_FILES} bytes beside its files"),
    )
    .with_hint("send fewer files at once, with shorter names and fields")
}

/// A form that was read to its end.
struct Form {
    workspace: Option<String>,
    message: Option<String>,
    /// Times, each with the number of files that came before it.
    modified: Vec<(usize, SystemTime)>,
    files: Vec<FormFile>,
    /// The content of all files, one after the other.
    spool: File,
}

#[derive(Debug)]
struct FormFile {
    name: String,
    mime: Option<String>,
    length: u64,
}

impl Form {
    /// Reads a form, in bounded memory.
    async fn read(app: &Shared, request: Request) -> Result<Form, Problem> {
        let beside = BesideFiles::default();
        let request = beside.clone().watch(request);
        let read = Form::read_parts(app, request, &beside).await;
        match beside.is_too_much() {
            true => Err(too_much_beside().into()),
            false => read,
        }
    }

    async fn read_parts(
        app: &Shared,
        request: Request,
        beside: &BesideFiles,
    ) -> Result<Form, Problem> {
        let mut parts = Multipart::from_request(request, app)
            .await
            .map_err(no_form)?;
        let limits = &app.options.limits;
        let engine = app.engine.clone();
        let mut form = Form {
            workspace: None,
            message: None,
            modified: Vec::new(),
            files: Vec::new(),
            spool: blocking(move || engine.context.temp_file()).await?,
        };
        let mut left = limits.max_body_bytes;
        while let Some(field) = within(limits.idle_timeout, parts.next_field()).await? {
            let Some(name) = field.file_name().map(str::to_owned) else {
                let text = take_text(field, limits.idle_timeout).await?;
                form.take_field(text)?;
                continue;
            };
            if form.files.len() >= MAX_FILES {
                return Err(too_many().into());
            }
            if name.len() > MAX_FILE_NAME {
                return Err(Error::invalid("the name of a file in the form is too long").into());
            }
            let mime = mime_of(&field);
            let (sender, mut reader) = FieldReader::new();
            let mut spool = form.spool;
            let task = tokio::spawn(blocking(move || {
                let length = io::copy(&mut reader, &mut spool).map_err(cannot_receive)?;
                Ok((spool, length))
            }));
            let sent = send_field(field, sender, &mut left, beside, limits.idle_timeout).await;
            let spooled = task.await.map_err(|cause| {
                Error::internal("an upload ended in a panic").with_source(cause)
            })?;
            match sent {
                Ok(()) | Err(SendError::Unwanted) => {}
                Err(SendError::TooLarge) => return Err(too_large(limits.max_body_bytes).into()),
                Err(SendError::Broken(error)) => return Err(error.into()),
            }
            let (spool, length) = spooled?;
            form.spool = spool;
            form.files.push(FormFile { name, mime, length });
        }
        if form.files.is_empty() {
            return Err(no_file().into());
        }
        form.times()?;
        Ok(form)
    }

    /// Takes a field that is no file. Unknown fields are ignored.
    fn take_field(&mut self, field: Option<(String, String)>) -> Result<()> {
        let Some((name, text)) = field else {
            return Ok(());
        };
        let place = match name.as_str() {
            WORKSPACE => &mut self.workspace,
            MESSAGE => {
                check_message_id(&text, "the field `messageId`")?;
                &mut self.message
            }
            LAST_MODIFIED => {
                self.modified.push((self.files.len(), modified_at(&text)?));
                return Ok(());
            }
            _ => return Ok(()),
        };
        match place.replace(text) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("the field `{name}` is given twice"))),
        }
    }

    /// When each file was modified, as far as the form tells: there is a time for each file, or each
    /// time stands before its file.
    fn times(&self) -> Result<Vec<Option<SystemTime>>> {
        let (files, given) = (self.files.len(), self.modified.len());
        if given == files {
            return Ok(self.modified.iter().map(|(_, time)| Some(*time)).collect());
        }
        let mut times = vec![None; files];
        for (before, time) in &self.modified {
            match times.get_mut(*before) {
                Some(place @ None) => *place = Some(*time),
                _ => {
                    return Err(Error::invalid(format!(
                        "the form has {files} files and {given} times `{LAST_MODIFIED}`"
                    ))
                    .with_hint("send one for each file, in their order, or each before its file"));
                }
            }
        }
        Ok(times)
    }

    /// The workspace that the form names.
    fn workspace(&self) -> Result<Option<WorkspaceId>> {
        self.workspace.as_deref().map(str::parse).transpose()
    }

    /// Puts the files into a workspace, one after the other. The answers are kept under the key, if
    /// there is one, and given again if the request is repeated. It blocks.
    fn upload_once(
        self,
        access: &Access,
        id: &WorkspaceId,
        dir: Option<&RelPath>,
        key: Option<&[u8]>,
    ) -> Result<Vec<wire::Upload>> {
        let access = match &self.message {
            Some(message) => &access.clone().for_message(message.clone()),
            None => access,
        };
        let content = match key {
            Some(_) => Some(self.content_hash()?),
            None => None,
        };
        let (times, files) = (self.times()?, &self.files);
        let request = UploadRequest {
            workspace: id.as_str(),
            dir: dir.map(RelPath::to_text),
            message: self.message.as_deref(),
            files: files.iter().zip(&times).map(FileRequest::new).collect(),
            content,
        };
        let find = |made: &EarlierResult| made.file().map(wire::Upload::from);
        let make = |access: &Access, made: &[wire::Upload]| {
            let number = made.len();
            let modified = times.get(number).copied().flatten();
            self.upload(access, id, dir, number, modified)
        };
        let (uploads, _) = access.once("upload", key, &request, files.len(), find, make)?;
        Ok(uploads)
    }

    /// Puts one of the files into a workspace.
    fn upload(
        &self,
        access: &Access,
        id: &WorkspaceId,
        dir: Option<&RelPath>,
        number: usize,
        modified: Option<SystemTime>,
    ) -> Result<wire::Upload> {
        let (before, rest) = self.files.split_at(number);
        let file = rest.first().ok_or_else(no_file)?;
        let options = WriteOptions {
            mime: file.mime.clone(),
            modified,
            ..WriteOptions::default()
        };
        // A writer that wanted no more of the file before has not read to its end.
        let start = before.iter().map(|file| file.length).sum();
        (&self.spool)
            .seek(SeekFrom::Start(start))
            .map_err(cannot_read)?;
        let mut part = (&self.spool).take(file.length);
        let content = Content::Stream(&mut part);
        let written = access.upload(id, dir, file.name.as_bytes(), content, &options)?;
        Ok(wire::Upload::from(&written))
    }

    /// The hash of all that the files hold, so that a key is not taken for another form.
    fn content_hash(&self) -> Result<[u8; 32]> {
        let mut hasher = Sha256::new();
        (&self.spool)
            .seek(SeekFrom::Start(0))
            .map_err(cannot_read)?;
        io::copy(&mut &self.spool, &mut hasher).map_err(cannot_read)?;
        Ok(hasher.finalize().into())
    }
}

/// A form as it is compared with the one that came with the same key.
#[derive(Serialize)]
struct UploadRequest<'a> {
    workspace: &'a str,
    /// Left out where none was named, so that keys from before there was one still fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<String>,
    message: Option<&'a str>,
    files: Vec<FileRequest<'a>>,
    content: Option<[u8; 32]>,
}

#[derive(Serialize)]
struct FileRequest<'a> {
    name: &'a str,
    mime: Option<&'a str>,
    length: u64,
    modified_ms: Option<u64>,
}

impl<'a> FileRequest<'a> {
    fn new((file, modified): (&'a FormFile, &Option<SystemTime>)) -> Self {
        let since_1970 = |time: &SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
        FileRequest {
            name: &file.name,
            mime: file.mime.as_deref(),
            length: file.length,
            modified_ms: modified
                .as_ref()
                .and_then(since_1970)
                .and_then(|time| u64::try_from(time.as_millis()).ok()),
        }
    }
}

/// Takes a form in. Its files go to the workspace that the form or else the request names, or else to
/// the one that the credential stands for; there into a directory, or else to where uploads go.
pub(crate) async fn take_uploads(
    app: &Shared,
    caller: Caller,
    named: Option<WorkspaceId>,
    dir: Option<RelPath>,
    key: Option<Vec<u8>>,
    request: Request,
) -> Result<Vec<wire::Upload>, Problem> {
    if let Some(id) = &named {
        // A caller that may not see the workspace learns that before it sends files.
        check_reached(&caller, id).await?;
    }
    let form = Form::read(app, request).await?;
    let id = match (form.workspace()?, named) {
        (Some(id), named) => {
            check_reached(&caller, &id).await?;
            if named.is_some_and(|named| named != id) {
                return Err(Error::invalid(
                    "the field `workspaceId` names another workspace than the request",
                )
                .into());
            }
            id
        }
        (None, Some(named)) => named,
        (None, None) => {
            let caller = caller.clone();
            blocking(move || caller.own_workspace()).await?
        }
    };
    let taken = blocking(move || form.upload_once(&caller, &id, dir.as_ref(), key.as_deref()));
    Ok(taken.await?)
}

async fn check_reached(caller: &Caller, id: &WorkspaceId) -> Result<()> {
    let (caller, id) = (caller.clone(), id.clone());
    blocking(move || caller.workspace(&id).map(drop)).await
}

/// What the browser says that a file is; nothing if it says nothing.
fn mime_of(field: &Field<'_>) -> Option<String> {
    let given = field.content_type().map(str::to_owned);
    given.filter(|mime| mime != "application/octet-stream")
}

/// The name and the text of a field that is no file; none if it has no name.
async fn take_text(mut field: Field<'_>, idle: Duration) -> Result<Option<(String, String)>> {
    let Some(name) = field.name().map(str::to_owned) else {
        return Ok(None);
    };
    let is_ours = [WORKSPACE, MESSAGE, LAST_MODIFIED].contains(&name.as_str());
    let mut bytes = Vec::new();
    while let Some(chunk) = within(idle, field.chunk()).await? {
        if !is_ours {
            continue;
        }
        if bytes.len() + chunk.len() > MAX_FIELD {
            return Err(Error::invalid(format!("the field `{name}` is too long")));
        }
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::invalid(format!("the field `{name}` is not UTF-8")))?;
    Ok(Some((name, text)))
}

/// When a file was modified, by its field.
fn modified_at(text: &str) -> Result<SystemTime> {
    let millis: Option<u64> = text.trim().parse().ok();
    let millis = millis.filter(|millis| *millis <= MAX_MODIFIED);
    let millis = millis.ok_or_else(|| {
        Error::invalid(format!("the field `{LAST_MODIFIED}` is no time"))
            .with_hint("give milliseconds since 1970")
    })?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
}

fn no_form(cause: axum::extract::multipart::MultipartRejection) -> Error {
    Error::invalid("the body is no form of the type `multipart/form-data`").with_source(cause)
}

fn too_many() -> Error {
    Error::invalid(format!("a form holds at most {MAX_FILES} files"))
}

fn no_file() -> Error {
    Error::invalid("the form holds no file").with_hint("send each file as a part with a `filename`")
}

fn cannot_receive(cause: io::Error) -> Error {
    Error::new(ErrorCode::WriteFailed, "the form could not be received")
        .with_hint("nothing was changed; check the free space")
        .with_source(cause)
}

fn cannot_read(cause: io::Error) -> Error {
    Error::new(ErrorCode::ReadFailed, "the form could not be read again").with_source(cause)
}

enum SendError {
    /// The receiving side did not want any more; it says why.
    Unwanted,
    TooLarge,
    Broken(Error),
}

/// Waits for a part of a form, but not forever.
async fn within<T>(
    idle: Duration,
    next: impl Future<Output = std::result::Result<T, MultipartError>>,
) -> Result<T> {
    match tokio::time::timeout(idle, next).await {
        Ok(answer) => {
            answer.map_err(|cause| Error::invalid("the form is damaged").with_source(cause))
        }
        Err(_) => Err(stood_still()),
    }
}

/// Sends a file of a form on as it arrives.
async fn send_field(
    mut field: Field<'_>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    left: &mut u64,
    beside: &BesideFiles,
    idle: Duration,
) -> std::result::Result<(), SendError> {
    let broken = || Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    loop {
        let chunk = match within(idle, field.chunk()).await {
            Ok(None) => return Ok(()),
            Ok(Some(chunk)) => chunk,
            Err(error) => {
                let _ = sender.send(broken()).await;
                return Err(SendError::Broken(error));
            }
        };
        beside.is_content(chunk.len());
        match left.checked_sub(chunk.len() as u64) {
            Some(rest) => *left = rest,
            None => {
                let _ = sender.send(broken()).await;
                return Err(SendError::TooLarge);
            }
        }
        if sender.send(Ok(chunk)).await.is_err() {
            return Err(SendError::Unwanted);
        }
    }
}

/// A part of a form as a blocking reader.
struct FieldReader {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    chunk: Bytes,
}

impl FieldReader {
    fn new() -> (mpsc::Sender<io::Result<Bytes>>, Self) {
        let (sender, receiver) = mpsc::channel(8);
        let chunk = Bytes::new();
        (sender, FieldReader { receiver, chunk })
    }
}

impl Read for FieldReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.receiver.blocking_recv() {
                None => return Ok(0),
                Some(chunk) => self.chunk = chunk?,
            }
        }
        let n = self.chunk.len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.chunk.split_to(n));
        Ok(n)
    }
}
