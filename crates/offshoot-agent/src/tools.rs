//! The tools for files and history: their arguments, and answers in the shapes of `offshoot-wire`.

use std::io::Read as _;

use offshoot_core::{Error, RelPath, Result, WorkspaceId};
use offshoot_engine::{
    Access, Content, Expect, ListOptions, MAX_WINDOW, Point, WriteOptions, history_as_json,
    is_computed, listing_as_text,
};
use offshoot_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{PathRange, Truncated, page_size};
use crate::collaboration;
use crate::registry::{Hints, Tool};
use crate::search::{Search, search};

pub(crate) const READS: Hints = Hints {
    read_only: true,
    destructive: false,
    idempotent: true,
};
pub(crate) const WRITES: Hints = Hints {
    read_only: false,
    destructive: false,
    idempotent: false,
};
pub(crate) const REPLACES: Hints = Hints {
    read_only: false,
    destructive: true,
    idempotent: true,
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// How much to leave out: characters of text, bytes of anything else.
    #[serde(default)]
    offset: u64,
    /// How much to read, at most 5000.
    #[serde(default = "whole_window")]
    length: usize,
}

fn whole_window() -> usize {
    MAX_WINDOW
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WriteFile {
    /// The file, relative to the workspace. Missing directories are made.
    path: String,
    /// All of its new content.
    content: String,
    /// Its MIME type, if content and name do not tell.
    #[serde(default)]
    mime_type: Option<String>,
    /// How `content` is encoded.
    #[serde(default)]
    encoding: wire::Encoding,
}

impl WriteFile {
    fn bytes(self) -> Result<(Vec<u8>, WriteOptions)> {
        let content = match self.encoding {
            wire::Encoding::Utf8 => self.content.into_bytes(),
            wire::Encoding::Base64 => self.encoding.bytes(&self.content)?,
        };
        let options = WriteOptions {
            mime: self.mime_type,
            ..WriteOptions::default()
        };
        Ok((content, options))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditFile {
    /// The file, relative to the workspace.
    path: String,
    /// The text to replace, exactly as it stands there.
    old: String,
    /// What stands there instead.
    new: String,
    /// Replace every occurrence; otherwise `old` must occur once.
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathArgument {
    /// The path, relative to the workspace.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MoveFile {
    /// From where.
    from: String,
    /// To where; nothing may be there.
    to: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListFiles {
    /// The directory, relative to the workspace.
    #[serde(default = "default_dir", alias = "subDir")]
    path: String,
    /// Only entries after this one: `next` of the answer before.
    #[serde(default)]
    after: Option<String>,
    /// At most so many entries, never more than 1000.
    #[serde(default)]
    limit: Option<usize>,
}

fn default_dir() -> String {
    ".".to_owned()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShowFiles {
    /// The files to show to the person, at most 100.
    paths: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TakeSnapshot {
    /// What to call it; with a label it is always a new snapshot.
    #[serde(default)]
    label: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Restore {
    /// The snapshot, or a prefix of its id.
    snapshot: String,
    /// Only this path.
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Diff {
    /// A snapshot; without it the newest.
    #[serde(default)]
    from: Option<String>,
    /// A snapshot; without it the present state.
    #[serde(default)]
    to: Option<String>,
    /// Only what differs at this path and below it.
    #[serde(default)]
    path: Option<String>,
    /// How many characters of the differences to leave out.
    #[serde(default)]
    offset: u64,
    /// Only paths after this one: `next` of the answer before.
    #[serde(default)]
    after: Option<String>,
    /// At most so many paths, never more than 1000.
    #[serde(default)]
    limit: Option<usize>,
}

/// Differences, as much of their text as one answer shows.
#[derive(Serialize, JsonSchema)]
struct Differences {
    #[serde(flatten)]
    difference: wire::Difference,
    /// Where in the text of all differences this answer begins, in characters.
    start: u64,
    /// How many characters there are in the differences of these paths; read on with `offset`.
    total: u64,
    /// How many paths differ in all.
    total_changes: usize,
    /// Where the next paths begin, to be given as `after`; not there with the last ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

fn diff(access: &Access, id: &WorkspaceId, asked: Diff) -> Result<Differences> {
    let from = asked.from.as_deref().map_or(Point::Head, Point::Snapshot);
    let to = asked.to.as_deref().map_or(Point::Now, Point::Snapshot);
    let mut set = access.diff(id, from, to)?;
    let below = path_if_given(access, id, asked.path.as_deref())?.unwrap_or_default();
    set.changes.retain(|change| change.path.starts_with(&below));
    let total_changes = set.changes.len();
    let paths = set.changes.iter().map(|change| &change.path);
    let range = PathRange::of(paths, asked.after.as_deref(), page_size(asked.limit))?;
    set.changes.retain(|change| range.contains(&change.path));
    let mut changes = wire::differences(access, &set.changes, &below, false)?;
    let total = cut_differences(&mut changes, asked.offset);
    Ok(Differences {
        difference: wire::Difference {
            from: asked.from,
            to: asked.to,
            changes,
        },
        start: asked.offset.min(total),
        total,
        total_changes,
        next: range.next(),
    })
}

/// Leaves of the text of all differences the window that begins at `offset`. Returns how many
/// characters there are.
fn cut_differences(changes: &mut [wire::FileDifference], offset: u64) -> u64 {
    let end = offset.saturating_add(MAX_WINDOW as u64);
    let mut total = 0;
    for text in changes.iter_mut().filter_map(|one| one.diff.as_mut()) {
        let length = text.chars().count() as u64;
        let from = offset.saturating_sub(total).min(length) as usize;
        let until = end.saturating_sub(total).min(length) as usize;
        if (from, until) != (0, length as usize) {
            *text = text.chars().take(until).skip(from).collect();
        }
        total += length;
    }
    total
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct History {
    /// Only what happened to this path.
    #[serde(default)]
    path: Option<String>,
    /// At most so many lines; without it 100.
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitArgument {
    /// At most so many.
    #[serde(default)]
    limit: Option<usize>,
}

/// The most lines or snapshots in one answer.
const MOST: usize = 200;
/// The most files that can be shown at once, and lines of history that come with each.
const MOST_SHOWN: usize = 100;
const SHOWN_LINES: usize = 20;

/// A directory for programs, and as lines for models.
#[derive(Serialize, JsonSchema)]
struct Listed {
    #[serde(flatten)]
    listing: wire::Listing,
    /// One line for each entry, and a last one if there are more.
    text: String,
}

fn list_files(access: &Access, id: &WorkspaceId, asked: ListFiles) -> Result<Listed> {
    let dir = path(access, id, &asked.path)?;
    let options = ListOptions {
        after: asked.after,
        limit: page_size(asked.limit),
        ..ListOptions::default()
    };
    let page = access.list_page(id, &dir, &options)?;
    let mut text = listing_as_text(&page.entries);
    if let Some(next) = &page.next {
        text.push_str(&format!(
            "[there are {} entries; go on with `after`: {next}]\n",
            page.total
        ));
    }
    Ok(Listed {
        listing: wire::Listing::from(page),
        text,
    })
}

/// Files that the person is shown.
#[derive(Serialize, JsonSchema)]
struct Shown {
    files: Vec<wire::Metadata>,
    /// What the interface does.
    ui: Highlight,
}

#[derive(Serialize, JsonSchema)]
struct Highlight {
    action: &'static str,
    paths: Vec<String>,
}

fn show_files(access: &Access, id: &WorkspaceId, asked: ShowFiles) -> Result<Shown> {
    if asked.paths.len() > MOST_SHOWN {
        return Err(Error::invalid(format!(
            "`paths` has {} entries, and at most {MOST_SHOWN} files are shown at once",
            asked.paths.len()
        )));
    }
    let (mut files, mut paths) = (Vec::new(), Vec::new());
    for text in &asked.paths {
        let path = path(access, id, text)?;
        let mut metadata = access.metadata(id, &path)?;
        metadata.history.truncate(SHOWN_LINES);
        files.push(wire::Metadata::from(&metadata));
        paths.push(path.to_text());
    }
    let ui = Highlight {
        action: "highlight",
        paths,
    };
    Ok(Shown { files, ui })
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Counts {
    file_count: i64,
    dir_count: i64,
    total_size: i64,
    /// The bytes that it takes on disk.
    disk_usage: i64,
    last_modified: String,
}

pub(crate) fn path(access: &Access, id: &WorkspaceId, text: &str) -> Result<RelPath> {
    access.loose_path(id, text.as_bytes())
}

/// A path that may be left out.
fn path_if_given(access: &Access, id: &WorkspaceId, text: Option<&str>) -> Result<Option<RelPath>> {
    text.map(|text| path(access, id, text)).transpose()
}

pub(crate) fn limit(asked: Option<usize>) -> usize {
    asked.unwrap_or(50).clamp(1, MOST)
}

/// Every tool that this build can really do.
pub(crate) fn all() -> Vec<Tool> {
    let mut tools = file_read_tools();
    tools.extend(file_write_tools());
    tools.extend(history_tools());
    tools.extend(collaboration::tools());
    tools
}

fn file_read_tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "read_file",
            "Read a part of a file: at most 5000 characters of text, or 5000 bytes of anything else as base64. `total` says how much there is; read on with `offset`.",
            READS,
            |access, id, asked: ReadFile| {
                let path = path(access, id, &asked.path)?;
                let window = access.read_window(id, &path, asked.offset, asked.length)?;
                Ok(wire::Window::from(window))
            },
        )
        .with_inline(|access, id, asked: &ReadFile| {
            let path = path(access, id, &asked.path)?;
            if is_computed(&path) {
                return Ok(None);
            }
            let window = access.read_window_if_small(id, &path, asked.offset, asked.length)?;
            Ok(window.map(wire::Window::from))
        }),
        Tool::new(
            "list_files",
            "List a directory: at most 1000 entries a call. `text` has one line for each entry, `total` says how many there are; go on with `after`.",
            READS,
            list_files,
        ),
        Tool::new(
            "search_files",
            "Find a text in the files of the workspace. Answers with path, line number and line. `glob` limits the paths, such as `src/**/*.rs`.",
            READS,
            |access, id, asked: Search| search(access, id, &asked),
        )
        .searches(),
        Tool::new(
            "show_files",
            "Show files to the person you work with: their interface highlights them.",
            READS,
            show_files,
        )
        .shows_files(),
        Tool::new(
            "get_workspace_info",
            "Count the files, directories and bytes of the workspace.",
            READS,
            |access, id, NoArguments {}| {
                let info = access.info(id)?;
                Ok(Counts {
                    file_count: info.file_count,
                    dir_count: info.dir_count,
                    total_size: info.total_size,
                    disk_usage: info.disk_usage,
                    last_modified: info.last_modified.to_string(),
                })
            },
        ),
    ]
}

fn file_write_tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "write_file",
            "Write a file whole; missing directories are made. What was there before stays in the history.",
            REPLACES,
            |access, id, asked: WriteFile| {
                let path = path(access, id, &asked.path)?;
                let (content, options) = asked.bytes()?;
                let written = access.write_file(id, &path, Content::Bytes(&content), &options)?;
                Ok(wire::Written::from(&written))
            },
        ),
        Tool::new(
            "edit_file",
            "Replace text in a file. `old` must stand there exactly once, unless `all` is set.",
            WRITES,
            |access, id, asked: EditFile| {
                let path = path(access, id, &asked.path)?;
                let (count, written) =
                    access.edit_file(id, &path, &asked.old, &asked.new, asked.all)?;
                Ok(wire::Written::edited(&written, count))
            },
        ),
        Tool::new(
            "delete_file",
            "Delete a file, a link or an empty directory. Its content stays in the history.",
            REPLACES,
            |access, id, asked: PathArgument| {
                let path = path(access, id, &asked.path)?;
                let deleted = access.delete_file(id, &path, false, Expect::Anything)?;
                Ok(wire::Deleted::new(&path, &deleted))
            },
        ),
        Tool::new(
            "move_file",
            "Move a file, a link or a directory. Nothing is overwritten.",
            WRITES,
            |access, id, asked: MoveFile| {
                let from = path(access, id, &asked.from)?;
                let moved = access.move_file(id, &from, &path(access, id, &asked.to)?)?;
                Ok(wire::Moved {
                    from: from.to_text(),
                    to: moved.path.to_text(),
                    version: moved.version,
                })
            },
        ),
    ]
}

fn history_tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "snapshot",
            "Take a snapshot of the workspace, to come back to.",
            WRITES,
            |access, id, asked: TakeSnapshot| {
                Ok(wire::Taken::from(&access.snapshot(
                    id,
                    asked.label.as_deref(),
                    false,
                )?))
            },
        ),
        Tool::new(
            "list_snapshots",
            "List the snapshots of the workspace, newest first.",
            READS,
            |access, id, asked: LimitArgument| {
                let found = access.snapshots(id, limit(asked.limit))?;
                Ok(wire::Snapshots::from(found.as_slice()))
            },
        ),
        Tool::new(
            "restore",
            "Bring back a snapshot, whole or one path. The present state is kept as a snapshot first.",
            REPLACES,
            |access, id, asked: Restore| {
                let only = path_if_given(access, id, asked.path.as_deref())?;
                let restored = access.restore(id, &asked.snapshot, only.as_ref())?;
                Truncated::of(&wire::Restored::from(&restored))
            },
        ),
        Tool::new(
            "diff",
            "Show what differs between two snapshots, or between one and now, as unified diffs: at most 1000 paths and 5000 characters a call. `total` says how much there is; read on with `offset`, go on to further paths with `after`, or name a `path`.",
            READS,
            diff,
        ),
        Tool::new(
            "history",
            "Show what happened in the workspace or to one path, newest first: when, what, who, and for which message.",
            READS,
            |access, id, asked: History| {
                let only = path_if_given(access, id, asked.path.as_deref())?;
                let lines = access.history(id, only.as_ref(), limit(asked.limit.or(Some(100))))?;
                Ok(wire::History {
                    history: lines.iter().map(history_as_json).collect(),
                    next: None,
                })
            },
        ),
    ]
}

/// Reads a text file of bounded size; none if it is no text.
pub(crate) fn text_of(file: offshoot_engine::OpenFile, most: u64) -> Option<String> {
    if file.size > most {
        return None;
    }
    let mut bytes = Vec::with_capacity(file.size as usize);
    file.take(most).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}
