//! Projects as a whole: what there is, what they hold, how merges into them are decided.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use offshoot_core::{Error, ObjectId, ProjectId, Result, unescape_bytes};
use offshoot_engine::{Access, EarlierResult, ImportOptions, ProjectSource};

use super::transfer::{nothing_changed, receive_archive};
use super::workspaces::only;
use crate::app::Shared;
use crate::archive::{UnpackLimits, unpack};
use crate::auth::Caller;
use crate::body::blocking;
use crate::error::{Answer, Problem, json, ok};
use crate::extract::{Json, Params, Query, RequestKey};
use offshoot_wire as wire;

/// The usual number of items on a page.
const PAGE: usize = 100;

/// `POST /projects`
pub(crate) async fn create(
    caller: Caller,
    RequestKey(key): RequestKey,
    Json(asked): Json<wire::NewProject>,
) -> Answer {
    let id: ProjectId = asked.name.parse()?;
    if asked.from.is_none() && (asked.files || asked.ignore_rules || asked.label.is_some()) {
        let message = "`files`, `ignore_rules` and `label` need `from`";
        return Err(Error::invalid(message).into());
    }
    let (shape, created) = blocking(move || {
        let empty = |project| wire::NewlyMade::Empty(wire::Project::from(&project));
        let find = |made: &EarlierResult| caller.project(made.project()?).map(empty);
        let make = |caller: &Access, _: &[wire::NewlyMade]| match &asked.from {
            None => caller.create_project(&id).map(empty),
            Some(from) => {
                let source = ProjectSource {
                    path: &host_dir(from)?,
                    files: asked.files,
                    options: ImportOptions {
                        ignore_rules: asked.ignore_rules,
                        label: asked.label.clone(),
                    },
                };
                let report = caller.import_project(&id, &source)?;
                let report = wire::ImportedProject::from(&report);
                Ok(wire::NewlyMade::Imported(Box::new(report)))
            }
        };
        let (made, created) = caller.once("project", key.as_deref(), &asked, 1, find, make)?;
        let shape = only(made)?;
        Ok((shape, created))
    })
    .await?;
    json(status_of(created), &shape)
}

/// A directory of the server's machine. A relative path is refused: the client does not know what
/// it is relative to.
fn host_dir(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(unescape_bytes(text)?));
    if !path.is_absolute() {
        return Err(Error::invalid("`from` is no absolute path"));
    }
    Ok(path)
}

/// 201 for what is new, 200 for what a request before had made.
pub(crate) fn status_of(created: bool) -> StatusCode {
    match created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    }
}

/// `GET /projects`
pub(crate) async fn list(State(app): State<Shared>, caller: Caller, query: Query) -> Answer {
    let after: Option<ProjectId> = query.parsed("after")?;
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.projects(after.as_ref(), limit)).await?;
    ok(&wire::Projects::from(found.as_slice()))
}

/// `GET /projects/{project}`
pub(crate) async fn show(caller: Caller, params: Params) -> Answer {
    let id = params.project()?;
    let found = blocking(move || Ok((caller.project(&id)?, caller.project_setup(&id)?))).await?;
    ok(&wire::ProjectDetails::new(&found.0, found.1.as_ref()))
}

/// `DELETE /projects/{project}`
pub(crate) async fn delete(State(app): State<Shared>, caller: Caller, params: Params) -> Answer {
    let id = params.project()?;
    let name = id.to_string();
    let kept = blocking(move || caller.delete_project(&id)).await?;
    // Its tokens reach nothing from now on, also not the next project of that name.
    app.tokens.clear();
    ok(&wire::DeletedProject {
        name,
        kept_snapshot: kept.map(ObjectId::to_hex),
    })
}

/// `GET /projects/{project}/snapshots`
pub(crate) async fn snapshots(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
) -> Answer {
    let (id, after) = (params.project()?, query.snapshot("after")?);
    let limit = query.limit(PAGE, app.options.limits.max_page)?;
    let found = blocking(move || caller.project_snapshots(&id, after.as_deref(), limit)).await?;
    ok(&wire::Snapshots::from(found.as_slice()))
}

/// `GET /projects/{project}/tree`
pub(crate) async fn tree(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, at) = (params.project()?, query.owned("at")?);
    let found = blocking(move || caller.project_tree(&id, at.as_deref())).await;
    ok(&wire::DirNode::from(&found.map_err(Problem::in_url)?))
}

/// `GET /projects/{project}/list`
pub(crate) async fn entries(caller: Caller, params: Params, query: Query) -> Answer {
    let (id, at) = (params.project()?, query.owned("at")?);
    let (dir, deep) = (query.path_or_root("path")?, query.flag("deep")?);
    let found = blocking(move || caller.project_entries(&id, at.as_deref(), &dir, deep)).await;
    let found = found.map_err(Problem::in_url)?;
    ok(&wire::ProjectEntries::from(found.as_slice()))
}

/// `GET /projects/{project}/policy`
pub(crate) async fn policy(caller: Caller, params: Params) -> Answer {
    let id = params.project()?;
    let shape = blocking(move || {
        let settings = caller.merge_settings(&id)?;
        Ok(wire::MergeSettings::new(&id, &settings))
    })
    .await?;
    ok(&shape)
}

/// `PUT /projects/{project}/policy`
pub(crate) async fn set_policy(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::PolicyRequest>,
) -> Answer {
    let id = params.project()?;
    let shape = blocking(move || {
        let before = caller.merge_settings(&id)?;
        let mut settings = before.clone();
        asked.apply(&mut settings);
        // A caller that may not is refused, also if nothing would change.
        caller.set_merge_settings(&id, &settings)?;
        Ok(wire::MergeSettings::new(&id, &settings))
    })
    .await?;
    ok(&shape)
}

/// `POST /projects/{project}/sync`
pub(crate) async fn sync(
    caller: Caller,
    params: Params,
    Json(asked): Json<wire::SyncRequest>,
) -> Answer {
    let id = params.project()?;
    let synced = blocking(move || {
        let options = ImportOptions {
            ignore_rules: asked.ignore_rules,
            label: asked.label,
        };
        let from = asked.from.as_deref().map(host_dir).transpose()?;
        caller.sync_project(&id, from.as_deref(), &options)
    })
    .await?;
    ok(&wire::ProjectSynced::from(&synced))
}

/// `POST /projects/{project}/import`
pub(crate) async fn import(
    State(app): State<Shared>,
    caller: Caller,
    params: Params,
    query: Query,
    request: Request,
) -> Answer {
    let (id, into) = (params.project()?, query.path_or_root("path")?);
    let limits = UnpackLimits::of(&app.options.limits);
    let early = caller.clone();
    let begun = blocking(move || early.begin_import(&id)).await?;
    let shape = receive_archive(&app, request, move |archive| {
        let imported = unpack(&begun, &into, archive, limits).map_err(nothing_changed)?;
        let snapshot = begun.finish(caller.cause())?;
        Ok(wire::ProjectImported {
            created: snapshot.as_ref().is_some_and(|(_, created)| *created),
            snapshot: snapshot.map(|(snapshot, _)| snapshot.id.to_hex()),
            imported,
        })
    })
    .await?;
    ok(&shape)
}

/// `GET /overview`
pub(crate) async fn overview(caller: Caller, query: Query) -> Answer {
    let project = query.parsed("project")?;
    let found = blocking(move || caller.overview(project.as_ref())).await?;
    ok(&wire::Overview::from(&found))
}
