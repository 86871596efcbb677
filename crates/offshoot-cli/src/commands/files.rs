//! Commands on the files of a workspace.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use offshoot_core::{EntryKind, Error, ErrorCode, ObjectId, RelPath, Result, WorkspaceId};
use offshoot_engine::{Content, DirNode, Expect, ListEntry, MAX_WINDOW, WriteOptions, Written};

use super::Context;
use super::workspace::fields;
use crate::bytes;
use crate::file_args::{Cat, Edit, Put, Upload};
use crate::output::{Align, CommandResult, Exit, count, local, printable, shown, size, when};
use crate::progress::Progress;
use offshoot_wire as wire;

const CHUNK: usize = 128 << 10;

pub(super) fn ls(cx: &mut Context<'_>, id: &WorkspaceId, path: &RelPath) -> CommandResult {
    let entries = cx.engine.workspaces.list(id, path)?;
    if cx.output.json() {
        cx.output
            .document(&wire::Listing::from(entries.as_slice()))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = entries.iter().map(list_row).collect();
    cx.output.table(
        &[
            ("TYPE", Align::Left),
            ("SIZE", Align::Right),
            ("MODIFIED", Align::Left),
            ("OPERATOR", Align::Left),
            ("NAME", Align::Left),
        ],
        &rows,
    )?;
    Ok(Exit::Done)
}

fn list_row(entry: &ListEntry) -> Vec<String> {
    let name = printable(&offshoot_core::escape_bytes(entry.path.name()));
    let (kind, size, name) = match entry.kind {
        EntryKind::Dir => ("dir", "-".to_owned(), format!("{name}/")),
        EntryKind::File => ("file", size(entry.size), name),
        EntryKind::Symlink => ("link", size(entry.size), name),
    };
    let operator = entry.operator.as_deref().unwrap_or("-");
    vec![
        kind.to_owned(),
        size,
        when(entry.modified_at),
        printable(operator),
        name,
    ]
}

pub(super) fn cat(cx: &mut Context<'_>, args: &Cat) -> CommandResult {
    let id = args.workspace.parse()?;
    let path = bytes::path(&args.path)?;
    if cx.output.json() {
        let length = args.length.map_or(MAX_WINDOW, |length| {
            usize::try_from(length).unwrap_or(MAX_WINDOW)
        });
        let window = match &args.at {
            None => wire::Window::from(cx.engine.workspaces.read_window(
                &id,
                &path,
                args.offset,
                length,
            )?),
            Some(at) => wire::Window::of(
                &cx.engine.workspaces.file_at(&id, at, &path)?,
                args.offset,
                length,
            ),
        };
        cx.output.document(&window)?;
        return Ok(Exit::Done);
    }
    let mut content = match &args.at {
        None => cx.engine.workspaces.open_file(&id, &path)?,
        Some(at) => cx.engine.workspaces.open_file_at(&id, at, &path)?,
    };
    // On a terminal the content itself shows how far it is.
    let shows = cx.output.shows_progress() && !cx.output.is_terminal();
    let total = content.size.saturating_sub(args.offset);
    let wanted = args.length.unwrap_or(u64::MAX);
    if args.offset > 0 || wanted < total {
        content.select(args.offset, wanted)?;
    }
    let mut content = Progress::new(content.take(wanted), Some(total.min(wanted)), shows);
    copy_out(cx, &mut content)?;
    Ok(Exit::Done)
}

/// Copies to stdout. Reading and writing fail for different reasons and are told apart.
pub(super) fn copy_out(
    cx: &mut Context<'_>,
    content: &mut dyn Read,
) -> std::result::Result<(), crate::output::Failure> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match content.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => cx.output.stdout().write_all(&chunk[..n])?,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(unreadable(cause).into()),
        }
    }
}

fn unreadable(cause: io::Error) -> Error {
    // A stream of the store says itself what is wrong with it.
    cause.downcast::<Error>().unwrap_or_else(|cause| {
        Error::new(ErrorCode::ReadFailed, "the content could not be read").with_source(cause)
    })
}

pub(super) fn put(cx: &mut Context<'_>, args: &Put) -> CommandResult {
    let id: WorkspaceId = args.workspace.parse()?;
    let path = bytes::path(&args.path)?;
    let expect = match (&args.if_match, args.if_absent) {
        (Some(content), _) => Expect::Content(content.parse()?),
        (None, true) => Expect::Absent,
        (None, false) => Expect::Anything,
    };
    let options = WriteOptions {
        mime: args.mime.clone(),
        executable: args.executable,
        expect,
        ..WriteOptions::default()
    };
    // An unknown workspace is told before anyone types a text for it.
    cx.engine.workspaces.workspace(&id)?;
    let mut content = source(cx, args.file.as_deref().unwrap_or(Path::new("-")))?;
    let written = cx.engine.workspaces.write_file(
        &id,
        &path,
        Content::Stream(&mut content),
        &options,
        &cx.cause,
    )?;
    drop(content);
    show_written(cx, &written)
}

pub(super) fn upload(cx: &mut Context<'_>, args: &Upload) -> CommandResult {
    let id: WorkspaceId = args.workspace.parse()?;
    let name = match (&args.name, args.file.file_name()) {
        (Some(name), _) => bytes::unescape(name)?,
        (None, Some(name)) if args.file != Path::new("-") => name.as_bytes().to_vec(),
        _ => {
            return Err(Error::invalid("an upload needs a file name")
                .with_hint("give it one with `--name NAME`")
                .into());
        }
    };
    cx.engine.workspaces.workspace(&id)?;
    let mut content = source(cx, &args.file)?;
    let metadata = std::fs::metadata(&args.file).ok();
    let is_file = |found: &std::fs::Metadata| found.is_file() && args.file != Path::new("-");
    let options = WriteOptions {
        mime: args.mime.clone(),
        modified: metadata
            .filter(is_file)
            .and_then(|found| found.modified().ok()),
        ..WriteOptions::default()
    };
    let written = cx.engine.workspaces.upload(
        &id,
        &name,
        Content::Stream(&mut content),
        &options,
        &cx.cause,
    )?;
    drop(content);
    if cx.output.json() {
        cx.output.document(&wire::UploadedFile::from(&written))?;
        return Ok(Exit::Done);
    }
    show_written(cx, &written)
}

/// Opens what the user named on this machine; `-` is stdin.
pub(super) fn source(cx: &mut Context<'_>, file: &Path) -> Result<Progress<Box<dyn Read>>> {
    let shows = cx.output.shows_progress();
    if file.as_os_str() == OsStr::new("-") {
        if io::stdin().is_terminal() {
            cx.output.note("reading from the terminal; end with Ctrl-D");
            return Ok(Progress::new(Box::new(io::stdin()), None, false));
        }
        return Ok(Progress::new(Box::new(io::stdin()), None, shows));
    }
    let unusable = |cause: io::Error| {
        let name = printable(&file.to_string_lossy());
        match cause.kind() {
            io::ErrorKind::NotFound => Error::new(
                ErrorCode::FileNotFound,
                format!("there is no file `{name}` on this machine"),
            ),
            _ => Error::invalid(format!("the file `{name}` cannot be read")).with_source(cause),
        }
    };
    let opened = File::open(file).map_err(unusable)?;
    let metadata = opened.metadata().map_err(unusable)?;
    if metadata.is_dir() {
        return Err(unusable(io::ErrorKind::IsADirectory.into()).with_hint("put files one by one"));
    }
    let total = metadata.is_file().then_some(metadata.len());
    Ok(Progress::new(Box::new(opened), total, shows))
}

fn show_written(cx: &mut Context<'_>, written: &Written) -> CommandResult {
    if cx.output.json() {
        cx.output.document(&wire::Written::from(written))?;
    } else {
        let did = if written.created { "created" } else { "wrote" };
        cx.output.line(format_args!(
            "{did} {} ({}, version {})",
            shown(&written.path),
            size(written.size),
            written.version
        ))?;
    }
    Ok(Exit::Done)
}

pub(super) fn edit(cx: &mut Context<'_>, args: &Edit) -> CommandResult {
    let id = args.workspace.parse()?;
    let path = bytes::path(&args.path)?;
    let (replaced, written) = cx
        .engine
        .workspaces
        .edit_file(&id, &path, &args.old, &args.new, args.all, &cx.cause)?;
    if cx.output.json() {
        cx.output
            .document(&wire::Written::edited(&written, replaced))?;
    } else {
        cx.output.line(format_args!(
            "replaced {} in {} (version {})",
            count(replaced as i64, "place", "places"),
            shown(&written.path),
            written.version
        ))?;
    }
    Ok(Exit::Done)
}

pub(super) fn rm(
    cx: &mut Context<'_>,
    id: &WorkspaceId,
    path: &RelPath,
    recursive: bool,
) -> CommandResult {
    let deleted = cx
        .engine
        .workspaces
        .delete_file(id, path, recursive, &cx.cause)
        .map_err(|error| {
            // The engine does not know how its callers spell it.
            if error.code() == ErrorCode::IsADirectory && !recursive && !path.is_root() {
                error.with_hint("`offshoot rm -r` deletes a directory with all that it holds")
            } else {
                error
            }
        })?;
    if cx.output.json() {
        cx.output.document(&wire::Deleted::new(path, &deleted))?;
    } else {
        cx.output.line(format_args!(
            "deleted {} ({})",
            shown(path),
            count(deleted.files as i64, "file", "files")
        ))?;
    }
    Ok(Exit::Done)
}

pub(super) fn mv(
    cx: &mut Context<'_>,
    id: &WorkspaceId,
    from: &RelPath,
    to: &RelPath,
) -> CommandResult {
    let moved = cx.engine.workspaces.move_file(id, from, to, &cx.cause)?;
    if cx.output.json() {
        cx.output.document(&wire::Moved {
            from: from.to_text(),
            to: moved.path.to_text(),
            version: moved.version,
        })?;
    } else {
        cx.output.line(format_args!(
            "moved {} to {}",
            shown(from),
            shown(&moved.path)
        ))?;
    }
    Ok(Exit::Done)
}

pub(super) fn mkdir(cx: &mut Context<'_>, id: &WorkspaceId, path: &RelPath) -> CommandResult {
    let made = cx.engine.workspaces.make_dir_in(id, path, &cx.cause)?;
    if cx.output.json() {
        let path = made.to_text();
        cx.output.document(&wire::Made { path })?;
    } else {
        cx.output.line(format_args!("{}/", shown(&made)))?;
    }
    Ok(Exit::Done)
}

pub(super) fn tree(cx: &mut Context<'_>, id: &WorkspaceId, path: &RelPath) -> CommandResult {
    let root = cx.engine.workspaces.tree(id, &RelPath::root(), None)?;
    let Some(node) = find(&root, path) else {
        return Err(Error::new(
            ErrorCode::FileNotFound,
            format!("there is no directory `{path}`"),
        )
        .into());
    };
    if cx.output.json() {
        cx.output.document(&wire::DirNode::from(node))?;
        return Ok(Exit::Done);
    }
    let mut lines = vec![format!("{}/", shown(&node.path))];
    draw(node, &mut String::new(), &mut lines);
    for line in lines {
        cx.output.line(line)?;
    }
    Ok(Exit::Done)
}

fn find<'a>(node: &'a DirNode, path: &RelPath) -> Option<&'a DirNode> {
    if node.path == *path {
        return Some(node);
    }
    let next = node
        .children
        .iter()
        .find(|child| path.starts_with(&child.path))?;
    find(next, path)
}

fn draw(node: &DirNode, indent: &mut String, lines: &mut Vec<String>) {
    for (index, child) in node.children.iter().enumerate() {
        let last = index + 1 == node.children.len();
        let name = printable(&offshoot_core::escape_bytes(child.path.name()));
        lines.push(format!(
            "{indent}{} {name}/",
            if last { "└──" } else { "├──" }
        ));
        let before = indent.len();
        indent.push_str(if last { "    " } else { "│   " });
        draw(child, indent, lines);
        indent.truncate(before);
    }
}

pub(super) fn info(cx: &mut Context<'_>, id: &WorkspaceId, path: &RelPath) -> CommandResult {
    if !path.is_root() {
        return metadata(cx, id, path);
    }
    let info = cx.engine.workspaces.info(id)?;
    if cx.output.json() {
        cx.output.document(&wire::Info::from(&info))?;
        return Ok(Exit::Done);
    }
    let materialized = if info.materialized { "yes" } else { "no" };
    fields(
        cx,
        &[
            ("files", info.file_count.to_string()),
            ("directories", info.dir_count.to_string()),
            ("size", size(info.total_size)),
            ("disk usage", size(info.disk_usage)),
            ("last change", local(info.last_modified)),
            ("created", local(info.created_at)),
            ("materialized", materialized.to_owned()),
        ],
    )
}

fn metadata(cx: &mut Context<'_>, id: &WorkspaceId, path: &RelPath) -> CommandResult {
    let metadata = cx.engine.history.metadata(id, path)?;
    if cx.output.json() {
        cx.output.document(&wire::Metadata::from(&metadata))?;
        return Ok(Exit::Done);
    }
    let kind = match metadata.kind {
        EntryKind::File => "file",
        EntryKind::Dir => "dir",
        EntryKind::Symlink => "link",
    };
    let unknown = || "-".to_owned();
    fields(
        cx,
        &[
            ("path", shown(&metadata.path)),
            ("type", kind.to_owned()),
            ("size", size(metadata.size)),
            ("mode", format!("{:04o}", metadata.perm)),
            (
                "content id",
                metadata.id.map_or_else(unknown, ObjectId::to_hex),
            ),
            (
                "MIME type",
                metadata.mime.as_deref().map_or_else(unknown, printable),
            ),
            ("created", metadata.created_at.map_or_else(unknown, local)),
            ("modified", metadata.modified_at.map_or_else(unknown, local)),
            (
                "operator",
                metadata.operator.as_deref().map_or_else(unknown, printable),
            ),
            ("changes", metadata.history.len().to_string()),
        ],
    )
}
