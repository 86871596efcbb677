//! Many files at once: uploads from forms, archives out, archives in.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use offshoot_core::{Error, ErrorCode, Result};

use super::forms;
use crate::app::Shared;
use crate::archive::{Format, IntoWorkspace, UnpackLimits, pack, unpack};
use crate::auth::Caller;
use crate::body::{BodyReader, blocking, written};
use crate::error::{Answer, ok};
use crate::extract::{Params, Query, RequestKey};
use offshoot_wire as wire;

/// `POST …/uploads`: the form may name the same workspace once more.
pub(crate) async fn upload(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
    RequestKey(key): RequestKey,
    request: Request,
) -> Answer {
    let (id, dir) = (params.workspace()?, query.path("path")?);
    let files = forms::take_uploads(&app, caller, Some(id), dir, key, request).await?;
    ok(&wire::Uploads { files })
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
        move || caller.open_archive(&id, &below)
    })
    .await?;
    let left_out = whole.too_large.len();
    let body = written(move |out| pack(&whole, &below, format, out).map(drop));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(format.media_type()),
    );
    if left_out > 0 {
        headers.insert("offshoot-left-out", HeaderValue::from(left_out));
    }
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
    // A caller that may not write there is refused before the archive is read.
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

/// Adds to the error of an import that nothing was changed.
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

/// Receives an archive whole and gives it to blocking work: a zip file has its directory at the
/// end, and a tar is read more than once.
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
        let mut file = app.engine.context.temp_file()?;
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
