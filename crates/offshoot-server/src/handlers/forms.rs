//! Forms as older programs send them: files and, before or after them, fields that say where the
//! files go and which message they belong to.
//!
//! What a form holds is kept in a temporary file until its end: only then is known where it goes, and
//! nothing lands in a workspace that it does not mean.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::{Duration, SystemTime};

use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Request};
use offshoot_core::{Error, ErrorCode, Result, WorkspaceId};
use offshoot_engine::{Access, Content, WriteOptions};

use super::transfer::{FieldReader, MAX_FILES, SendError, send_field, within};
use crate::app::Shared;
use crate::auth::check_message_id;
use crate::body::{blocking, too_large};
use crate::error::Problem;
use offshoot_wire as wire;

/// The most bytes of a field that is no file.
const MAX_FIELD: usize = 1024;
/// The last moment of the year 9999, in milliseconds.
const MAX_MODIFIED: u64 = 253_402_300_799_999;

/// When a file of the form was modified, in milliseconds as browsers have it (`File.lastModified`).
/// With several files the first is for the first file, and so on.
pub(super) const LAST_MODIFIED: &str = "lastModified";
const WORKSPACE: &str = "workspaceId";
const MESSAGE: &str = "messageId";

/// A form that was read to its end.
pub(crate) struct Form {
    workspace: Option<String>,
    message: Option<String>,
    modified: Vec<SystemTime>,
    files: Vec<FormFile>,
    /// The content of all files, one after the other.
    spool: File,
}

struct FormFile {
    name: String,
    mime: Option<String>,
    length: u64,
}

impl Form {
    /// Reads a form, in bounded memory.
    pub(crate) async fn read(app: &Shared, request: Request) -> Result<Form, Problem> {
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
            spool: blocking(move || engine.temp_file()).await?,
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
            let mime = mime_of(&field);
            let (sender, mut reader) = FieldReader::new();
            let mut spool = form.spool;
            let task = tokio::spawn(blocking(move || {
                let length = std::io::copy(&mut reader, &mut spool).map_err(cannot_receive)?;
                Ok((spool, length))
            }));
            let sent = send_field(field, sender, &mut left, limits.idle_timeout).await;
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
        form.check_times()?;
        Ok(form)
    }

    /// Takes a field that is no file. Others than ours are for somebody else.
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
                self.modified.push(modified_at(&text)?);
                return Ok(());
            }
            _ => return Ok(()),
        };
        match place.replace(text) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("the field `{name}` is given twice"))),
        }
    }

    fn check_times(&self) -> Result<()> {
        if self.modified.is_empty() || self.modified.len() == self.files.len() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the form has {} files and {} times `{LAST_MODIFIED}`",
            self.files.len(),
            self.modified.len()
        ))
        .with_hint("send one for each file, in their order, or none"))
    }

    /// The workspace that the form names.
    pub(crate) fn workspace(&self) -> Result<Option<WorkspaceId>> {
        self.workspace.as_deref().map(str::parse).transpose()
    }

    /// Puts the files into a workspace, one after the other.
    pub(crate) async fn upload(
        mut self,
        access: Access,
        id: WorkspaceId,
    ) -> Result<Vec<wire::Upload>> {
        let access = match self.message.take() {
            Some(message) => access.for_message(message),
            None => access,
        };
        blocking(move || {
            let mut uploads = Vec::with_capacity(self.files.len());
            self.spool.seek(SeekFrom::Start(0)).map_err(cannot_read)?;
            let mut times = self.modified.into_iter();
            let mut end = 0;
            for file in self.files {
                let options = WriteOptions {
                    mime: file.mime,
                    modified: times.next(),
                    ..WriteOptions::default()
                };
                let mut part = (&self.spool).take(file.length);
                let content = Content::Stream(&mut part);
                let written = access.upload(&id, file.name.as_bytes(), content, &options)?;
                uploads.push(wire::Upload::from(&written));
                end += file.length;
                self.spool.seek(SeekFrom::Start(end)).map_err(cannot_read)?;
            }
            Ok(uploads)
        })
        .await
    }
}

/// What the browser says that a file is; nothing if it says nothing.
pub(super) fn mime_of(field: &Field<'_>) -> Option<String> {
    let given = field.content_type().map(str::to_owned);
    given.filter(|mime| mime != "application/octet-stream")
}

/// The name and the text of a field that is no file; none if it has no name.
pub(super) async fn take_text(
    mut field: Field<'_>,
    idle: Duration,
) -> Result<Option<(String, String)>> {
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
pub(super) fn modified_at(text: &str) -> Result<SystemTime> {
    let millis: Option<u64> = text.trim().parse().ok();
    let millis = millis.filter(|millis| *millis <= MAX_MODIFIED);
    let millis = millis.ok_or_else(|| {
        Error::invalid(format!("the field `{LAST_MODIFIED}` is no time"))
            .with_hint("give milliseconds since 1970")
    })?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
}

pub(super) fn no_form(cause: axum::extract::multipart::MultipartRejection) -> Error {
    Error::invalid("the body is no form of the type `multipart/form-data`").with_source(cause)
}

pub(super) fn too_many() -> Error {
    Error::invalid(format!("a form holds at most {MAX_FILES} files"))
}

pub(super) fn no_file() -> Error {
    Error::invalid("the form holds no file").with_hint("send each file as a part with a `filename`")
}

fn cannot_receive(cause: std::io::Error) -> Error {
    Error::new(ErrorCode::WriteFailed, "the form could not be received")
        .with_hint("nothing was changed; check the free space")
        .with_source(cause)
}

fn cannot_read(cause: std::io::Error) -> Error {
    Error::new(ErrorCode::ReadFailed, "the form could not be read again").with_source(cause)
}
