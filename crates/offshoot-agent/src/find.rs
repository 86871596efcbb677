//! Finding files by name and by content. One call does a bounded amount of work and returns a
//! cursor for the next.

use std::borrow::Cow;

use offshoot_core::{Error, ProjectId, RelPath, Result, WorkspaceId};
use offshoot_engine::{Access, OpenFile, Pattern};
use offshoot_wire::{FileMatch, FileMatches};

use crate::tools::text_of;

/// Larger files are left out.
const LARGEST: u64 = 4 << 20;
/// A longer line is cut.
const LINE: usize = 500;
/// One call reads no more bytes than this, and a file.
const MOST_BYTES: u64 = 64 << 20;
/// One call reads no more files than this.
const MOST_FILES: usize = 10_000;
/// One call compares no more names than this.
const MOST_NAMES: usize = 200_000;
/// So many names are asked for first. To ask for more costs the directory again, so each time more
/// are asked for, up to the last number.
const FIRST_BATCH: usize = 1000;
const LARGEST_BATCH: usize = 64_000;

/// Where to search.
#[derive(Clone, Debug)]
pub enum SearchScope {
    /// In a workspace.
    Workspace(WorkspaceId),
    /// In a project as it is now.
    Project(ProjectId),
}

/// What to search for.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// A part of the path, or with `*` or `?` a pattern for all of it. Case does not matter.
    pub name: Option<String>,
    /// A text, as it stands in a line.
    pub text: Option<String>,
    /// Only paths like this.
    pub glob: Option<Pattern>,
    /// Whether case does not matter in `text`.
    pub ignore_case: bool,
    /// Where the call before ended.
    pub after: Option<String>,
    /// At most so many matches.
    pub limit: usize,
}

/// Where a search goes on: behind a file, or behind a line of it.
struct Cursor {
    path: RelPath,
    line: Option<usize>,
}

impl Cursor {
    fn parse(text: &str) -> Result<Cursor> {
        let refuse = || {
            Error::invalid(format!("`after` is no place in a search: `{text}`"))
                .with_hint("give `next` of the answer before")
        };
        let (line, path) = text.split_once(':').ok_or_else(refuse)?;
        Ok(Cursor {
            path: RelPath::parse_text(path).map_err(|_| refuse())?,
            line: match line {
                "" => None,
                line => Some(line.parse().map_err(|_| refuse())?),
            },
        })
    }

    fn to_text(&self) -> String {
        let line = self.line.map(|line| line.to_string()).unwrap_or_default();
        format!("{line}:{}", self.path.to_text())
    }
}

/// Searches the files that may be read, in one order for all calls. `stop` is polled; once it
/// returns true the client has gone.
pub fn find(
    access: &Access,
    place: &SearchScope,
    wanted: &SearchQuery,
    stop: &dyn Fn() -> bool,
) -> Result<FileMatches> {
    let after = wanted.after.as_deref().map(Cursor::parse).transpose()?;
    let mut search = Search {
        access,
        place,
        name: wanted.name.as_deref().map(NameLike::of).transpose()?,
        text: wanted
            .text
            .as_deref()
            .map(|text| fold(text, wanted.ignore_case).into_owned()),
        wanted,
        bytes: 0,
        files: 0,
        names: 0,
        found: FileMatches::default(),
    };
    if wanted.name.as_deref().is_none_or(str::is_empty)
        && wanted.text.as_deref().is_none_or(str::is_empty)
    {
        return Err(Error::invalid("there is nothing to look for")
            .with_hint("give a part of a `name`, or a `text`"));
    }
    let mut behind = None;
    if let Some(Cursor { path, line }) = after {
        if line.is_some() && !search.search_file(&path, line)? {
            return Ok(search.found);
        }
        behind = Some(path);
    }
    let mut size = FIRST_BATCH;
    loop {
        let batch = search.batch(behind.as_ref(), size)?;
        for path in &batch {
            if stop() || !search.search_file(path, None)? {
                return Ok(search.found);
            }
        }
        match batch.last() {
            Some(last) if batch.len() == size => behind = Some(last.clone()),
            _ => return Ok(search.found),
        }
        size = (size * 4).min(LARGEST_BATCH);
    }
}

struct Search<'a> {
    access: &'a Access,
    place: &'a SearchScope,
    name: Option<NameLike>,
    text: Option<String>,
    wanted: &'a SearchQuery,
    bytes: u64,
    files: usize,
    names: usize,
    found: FileMatches,
}

impl Search<'_> {
    /// The next files, in order.
    fn batch(&self, behind: Option<&RelPath>, size: usize) -> Result<Vec<RelPath>> {
        match self.place {
            SearchScope::Workspace(id) => {
                let files = self.access.walk_files(id, behind, size)?;
                Ok(files.into_iter().map(|file| file.path).collect())
            }
            SearchScope::Project(id) => self.access.walk_project_files(id, behind, size),
        }
    }

    fn open(&self, path: &RelPath) -> Result<OpenFile> {
        match self.place {
            SearchScope::Workspace(id) => self.access.open_entry(id, path),
            SearchScope::Project(id) => self.access.open_project_file(id, None, path),
        }
    }

    /// Searches one file, from behind a line on. Returns whether to go on.
    fn search_file(&mut self, path: &RelPath, behind: Option<usize>) -> Result<bool> {
        self.names += 1;
        let goes_on = self.matches_in(path, behind)?;
        let enough =
            self.bytes > MOST_BYTES || self.files >= MOST_FILES || self.names >= MOST_NAMES;
        if goes_on && enough {
            let path = path.clone();
            self.found.next = Some(Cursor { path, line: None }.to_text());
            return Ok(false);
        }
        Ok(goes_on)
    }

    /// Takes the matches of one file. Returns whether more are wanted.
    fn matches_in(&mut self, path: &RelPath, behind: Option<usize>) -> Result<bool> {
        let globbed = self
            .wanted
            .glob
            .as_ref()
            .is_none_or(|glob| glob.matches(path));
        if !globbed || self.name.as_ref().is_some_and(|name| !name.fits(path)) {
            return Ok(true);
        }
        let Some(text) = self.text.clone() else {
            return Ok(self.add(path, None, None));
        };
        // It may have gone away meanwhile, or be something that may not be read.
        let Ok(file) = self.open(path) else {
            return Ok(true);
        };
        if file.size > LARGEST {
            return Ok(true);
        }
        self.files += 1;
        self.bytes += file.size;
        let content = text_of(file, LARGEST).unwrap_or_default();
        let skipped = behind.unwrap_or(0);
        for (number, line) in content.lines().enumerate().skip(skipped) {
            if !fold(line, self.wanted.ignore_case).contains(text.as_str()) {
                continue;
            }
            if !self.add(
                path,
                Some(number + 1),
                Some(line.chars().take(LINE).collect()),
            ) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes a match, or says where to go on if there are enough of them.
    fn add(&mut self, path: &RelPath, line: Option<usize>, text: Option<String>) -> bool {
        if self.found.matches.len() < self.wanted.limit {
            self.found.matches.push(FileMatch {
                path: path.to_text(),
                line,
                text,
            });
            return true;
        }
        if let Some(last) = self.found.matches.last() {
            let line = last.line.map(|line| line.to_string()).unwrap_or_default();
            self.found.next = Some(format!("{line}:{}", last.path));
        }
        false
    }
}

/// A part of a path, or a pattern for all of it.
enum NameLike {
    Part(String),
    Pattern(Pattern),
}

impl NameLike {
    fn of(text: &str) -> Result<NameLike> {
        let text = text.to_lowercase();
        if !text.contains(['*', '?']) {
            return Ok(NameLike::Part(text));
        }
        // A pattern without a directory is meant for names anywhere.
        let text = match text.contains('/') {
            true => text,
            false => format!("**/{text}"),
        };
        Pattern::parse(&text).map(NameLike::Pattern)
    }

    fn fits(&self, path: &RelPath) -> bool {
        let lower = path.to_text().to_lowercase();
        match self {
            NameLike::Part(part) => lower.contains(part),
            NameLike::Pattern(pattern) => {
                RelPath::parse_text(&lower).is_ok_and(|lower| pattern.matches(&lower))
            }
        }
    }
}

fn fold(text: &str, ignore_case: bool) -> Cow<'_, str> {
    match ignore_case {
        true => Cow::Owned(text.to_lowercase()),
        false => Cow::Borrowed(text),
    }
}
