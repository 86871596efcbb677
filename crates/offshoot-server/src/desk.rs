//! Calls of tools, whichever door they come through, and writes of small files by few threads.
//!
//! To let each of many writers wait on a thread of its own costs more in waking threads than the
//! writes themselves. So those who write to one workspace stand in a line, and a clerk writes what
//! all of them brought while they wait without a thread. There are two clerks for a line: one takes
//! the next ones in while what the other has waits for the disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use offshoot_agent::{Answer, Arguments, Registry, Tool};
use offshoot_core::{Error, Result, WorkspaceId};
use offshoot_engine::{Access, FileToWrite, ReadyFile, Written};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::body::blocking;
use crate::hold::Hold;
use crate::shows::Shows;

const MOST_CLERKS: usize = 2;
/// So many writes a clerk takes at a time.
const MOST_AT_ONCE: usize = 64;

/// The arguments of a call, owned.
pub(crate) enum Asked {
    /// As text; it begins like an object.
    Json(Bytes),
    /// As a value; null means none.
    Value(Value),
}

impl Asked {
    fn about(&self) -> About {
        match self {
            Asked::Json(text) => About::Json(text.clone()),
            Asked::Value(value) => About::Path(path_in(value)),
        }
    }

    fn arguments(&self) -> Arguments<'_> {
        match self {
            Asked::Json(text) => Arguments::Json(text),
            Asked::Value(value) => Arguments::Value(value),
        }
    }
}

/// What tells the path that a call was about, without a copy of the rest.
enum About {
    Json(Bytes),
    Path(Option<String>),
}

impl About {
    fn path(&self) -> Option<String> {
        match self {
            About::Json(text) => path_in(&serde_json::from_slice(text).unwrap_or_default()),
            About::Path(path) => path.clone(),
        }
    }
}

fn path_in(arguments: &Value) -> Option<String> {
    let named = ["path", "from"].iter().find_map(|name| arguments.get(name));
    named.and_then(Value::as_str).map(str::to_owned)
}

/// Where tools are called.
#[derive(Default)]
pub(crate) struct Desk {
    lines: Mutex<HashMap<WorkspaceId, Line>>,
    /// For the streams of events; over stdio nobody listens.
    pub(crate) shows: Arc<Shows>,
}

/// Those who write to one workspace.
#[derive(Default)]
struct Line {
    waiting: Vec<Waiting>,
    clerks: usize,
}

struct Waiting {
    access: Access,
    file: ReadyFile,
    tell: oneshot::Sender<Result<Written>>,
    /// What the request holds; none over stdio.
    hold: Option<Arc<Hold>>,
}

impl Waiting {
    /// Whether it may be written: not if its request was given up before.
    fn begin(&self) -> bool {
        self.hold.as_ref().is_none_or(|hold| hold.begin().is_ok())
    }
}

impl Desk {
    /// Calls a tool on the workspace that the credential stands for. What is refused is in the log.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tools: &Arc<Registry>,
        name: &str,
        access: Access,
        asked: Asked,
    ) -> Result<Box<dyn Answer>> {
        let about = asked.about();
        let answer = self.serve(tools, name, access, asked).await;
        if let Err(error) = &answer {
            let (code, path) = (error.code().as_str(), about.path());
            tracing::warn!(code, tool = name, ?path, "refused");
        }
        answer
    }

    async fn serve(
        self: &Arc<Self>,
        tools: &Arc<Registry>,
        name: &str,
        access: Access,
        asked: Asked,
    ) -> Result<Box<dyn Answer>> {
        let tool = tools.get(name)?;
        let arguments = asked.arguments();
        if let Some(answer) = tool.call_if_quick(&access, &arguments) {
            return answer;
        }
        if let Some(file) = tool.as_write(&arguments) {
            let id = access.own_workspace()?;
            let written = self.write(id, access, file).await?;
            return Ok(Tool::answer_to_write(&written));
        }
        let (tools, name) = (Arc::clone(tools), name.to_owned());
        let shows = Arc::clone(&self.shows);
        blocking(move || {
            let tool = tools.get(&name)?;
            let answer = tool.call(&access, asked.arguments())?;
            if tool.shows_files && shows.is_listened_to() {
                shows.tell(&access, Tool::shown_by(&*answer)?)?;
            }
            Ok(answer)
        })
        .await
    }

    async fn write(
        self: &Arc<Self>,
        id: WorkspaceId,
        access: Access,
        file: FileToWrite,
    ) -> Result<Written> {
        let file = access.make_ready(file)?;
        let (tell, told) = oneshot::channel();
        let hold = Hold::present();
        let wants_clerk = {
            let mut lines = self.lines();
            let line = lines.entry(id.clone()).or_default();
            line.waiting.push(Waiting {
                access,
                file,
                tell,
                hold,
            });
            let wants_clerk = line.clerks < MOST_CLERKS;
            line.clerks += usize::from(wants_clerk);
            wants_clerk
        };
        if wants_clerk {
            let clerk = Clerk {
                desk: Arc::clone(self),
                id,
                has_left: false,
            };
            drop(tokio::task::spawn_blocking(move || clerk.work()));
        }
        told.await
            .unwrap_or_else(|_| Err(Error::internal("the request ended in a panic")))
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes for those who wait, until nobody does.
struct Clerk {
    desk: Arc<Desk>,
    id: WorkspaceId,
    has_left: bool,
}

impl Clerk {
    fn work(mut self) {
        while let Some(waiting) = self.next() {
            let (asked, tells): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .filter(Waiting::begin)
                .map(|waiting| ((waiting.access, waiting.file), (waiting.tell, waiting.hold)))
                .unzip();
            let written = Access::write_files(&self.id, asked);
            for ((tell, _hold), written) in tells.into_iter().zip(written) {
                // Whoever has gone since does not hear that it is written.
                let _ = tell.send(written);
            }
        }
    }

    /// The next writes. None if there are none, and then the clerk is no more.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut lines = self.desk.lines();
        let line = lines.get_mut(&self.id)?;
        if line.waiting.is_empty() {
            self.has_left = true;
            line.clerks -= 1;
            if line.clerks == 0 {
                lines.remove(&self.id);
            }
            return None;
        }
        let count = line.waiting.len().min(MOST_AT_ONCE);
        Some(line.waiting.drain(..count).collect())
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        // A panic. If nobody else is there, those who wait have to hear of it.
        let mut lines = self.desk.lines();
        if let Some(line) = lines.get_mut(&self.id) {
            line.clerks -= 1;
            if line.clerks == 0 {
                lines.remove(&self.id);
            }
        }
    }
}
