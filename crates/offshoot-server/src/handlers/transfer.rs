//! Many files at once: uploads from forms, archives out, archives in.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest as _, Multipart, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use offshoot_core::{Error, ErrorCode, Result, WorkspaceId};
use offshoot_engine::{Content, WriteOptions, Written};
use tokio::sync::mpsc;

use super::forms::{LAST_MODIFIED, mime_of, modified_at, no_file, no_form, take_text, too_many};
use crate::app::Shared;
use crate::archive::{Format, IntoWorkspace, UnpackLimits, pack, unpack};
use crate::auth::Caller;
use crate::body::{BodyReader, blocking, stood_still, too_large, written};
use crate::error::{Answer, Problem, ok};
use crate::extract::{Params, Query};
use offshoot_wire as wire;

/// The most files in one form.
pub(super) const MAX_FILES: usize = 1000;

/// `POST …/uploads`
pub(crate) async fn upload(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Answer {
    let files = take_uploads(&app, &caller, params.workspace()?, request).await?;
    ok(&wire::Uploads { files })
}

/// Takes in the files of a form, one after the other, as they arrive.
pub(crate) async fn take_uploads(
    app: &Shared,
    caller: &Caller,
    id: WorkspaceId,
    request: Request,
) -> Result<Vec<wire::Upload>, Problem> {
    // Whoever may not see the workspace shall learn that before sending files.
    let (early, name) = (caller.clone(), id.clone());
    blocking(move || early.workspace(&name)).await?;
    let mut form = Multipart::from_request(request, app)
        .await
        .map_err(no_form)?;
    let limits = &app.options.limits;
    let mut left = limits.max_body_bytes;
    let mut files = Vec::new();
    let mut modified = None;
    while let Some(field) = within(limits.idle_timeout, form.next_field())
        .await
        .map_err(|error| say_what_landed(error, &files))?
    {
        let Some(name) = field.file_name().map(str::to_owned) else {
            if let Some((name, text)) = take_text(field, limits.idle_timeout).await?
                && name == LAST_MODIFIED
            {
                modified = Some(modified_at(&text)?);
            }
            continue;
        };
        if files.len() >= MAX_FILES {
            return Err(too_many().into());
        }
        let options = WriteOptions {
            mime: mime_of(&field),
            // The file is written as it comes, so only what came before it can be about it.
            modified: modified.take(),
            ..WriteOptions::default()
        };
        let (sender, reader) = FieldReader::new();
        let task = tokio::spawn(blocking({
            let (caller, id) = (caller.clone(), id.clone());
            move || {
                let mut reader = reader;
                let content = Content::Stream(&mut reader);
                caller.upload(&id, name.as_bytes(), content, &options)
            }
        }));
        let sent = send_field(field, sender, &mut left, limits.idle_timeout).await;
        let written = task
            .await
            .map_err(|cause| Error::internal("an upload ended in a panic").with_source(cause))?;
        let outcome = upload_outcome(sent, written, limits.max_body_bytes);
        files.push(outcome.map_err(|error| say_what_landed(error, &files))?);
    }
    if files.is_empty() {
        return Err(no_file().into());
    }
    Ok(files)
}

/// A form that stands still may have brought some files before.
fn say_what_landed(error: Error, files: &[wire::Upload]) -> Error {
    match error.code() {
        ErrorCode::Timeout if !files.is_empty() => stood_still(true),
        _ => error,
    }
}

/// The reason that the sending side knows says more than what it led to on the other.
fn upload_outcome(
    sent: std::result::Result<(), SendError>,
    written: Result<Written>,
    limit: u64,
) -> Result<wire::Upload> {
    match sent {
        Ok(()) | Err(SendError::Unwanted) => written.map(|written| wire::Upload::from(&written)),
        Err(SendError::TooLarge) => Err(too_large(limit)),
        Err(SendError::Broken(error)) => Err(error),
    }
}

pub(super) enum SendError {
    /// The engine did not want any more; it says why.
    Unwanted,
    TooLarge,
    Broken(Error),
}

/// Waits for a part of a form, but not forever.
pub(super) async fn within<T>(
    idle: Duration,
    next: impl Future<Output = std::result::Result<T, MultipartError>>,
) -> Result<T> {
    match tokio::time::timeout(idle, next).await {
        Ok(answer) => {
            answer.map_err(|cause| Error::invalid("the form is damaged").with_source(cause))
        }
        Err(_) => Err(stood_still(false)),
    }
}

pub(super) async fn send_field(
    mut field: Field<'_>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    left: &mut u64,
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
pub(super) struct FieldReader {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    chunk: Bytes,
}

impl FieldReader {
    pub(super) fn new() -> (mpsc::Sender<io::Result<Bytes>>, Self) {
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

/// `GET …/archive`
pub(crate) async fn archive(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, below) = (params.workspace()?, query.path_or_root("path")?);
    let format = Format::parse(query.text("format")?)?;
    let name = if below.is_root() {
        id.to_string()
    } else {
        String::from_utf8_lossy(below.name()).into_owned()
    };
    let whole = blocking({
        let below = below.clone();
        move || caller.whole_workspace(&id, &below)
    })
    .await?;
    let body = written(move |out| pack(&whole, &below, format, out).map(drop));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(format.media_type()),
    );
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-._~".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let disposition = format!("attachment; filename=\"{plain}.{}\"", format.extension());
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// `POST …/import`
pub(crate) async fn import(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
    request: Request,
) -> Answer {
    let (id, into) = (params.workspace()?, query.path_or_root("path")?);
    // Whoever may not write there shall not make us read all of it first.
    let (early, name) = (caller.clone(), id.clone());
    blocking(move || early.workspace(&name)).await?;
    let limits = UnpackLimits::of(&app.options.limits);
    let imported = receive_archive(&app, request, move |archive| {
        let target = IntoWorkspace {
            access: &caller,
            import: caller.begin_workspace_import(&id)?,
        };
        let imported = unpack(&target, &into, archive, limits).map_err(nothing_changed)?;
        caller.finish_workspace_import(target.import)?;
        Ok(imported)
    })
    .await?;
    ok(&imported)
}

/// What an import that failed would have brought is nowhere.
pub(crate) fn nothing_changed(error: Error) -> Error {
    match error.hint() {
        None => error.with_hint("nothing was changed"),
        Some(hint) if !hint.contains("nothing was changed") => {
            let hint = format!("nothing was changed; {hint}");
            error.with_hint(hint)
        }
        Some(_) => error,
    }
}

/// Receives an archive whole, for both formats are read from where they say what they hold, and
/// gives it to blocking work.
pub(crate) async fn receive_archive<T: Send + 'static>(
    app: &Shared,
    request: Request,
    work: impl FnOnce(File) -> Result<T> + Send + 'static,
) -> Result<T> {
    let limits = &app.options.limits;
    let body = request.into_body();
    let mut reader = BodyReader::new(body, limits.max_body_bytes, limits.idle_timeout);
    let app = app.clone();
    blocking(move || {
        let mut file = app.engine.temp_file()?;
        let spooled = io::copy(&mut reader, &mut file)
            .and_then(|_| file.seek(SeekFrom::Start(0)))
            .map_err(|cause| {
                Error::new(ErrorCode::WriteFailed, "the archive could not be received")
                    .with_hint("nothing was changed; check the free space")
                    .with_source(cause)
            });
        reader.explain(spooled)?;
        work(file)
    })
    .await
}
