//! The engine: one data directory, opened, and the rooms over it.

use std::sync::Arc;

use offshoot_core::Result;
use offshoot_fs::Reserve;

use crate::access::AccessControl;
use crate::content::Contents;
use crate::content::objects::HASHER;
use crate::context::data_dir::DataDir;
use crate::context::jobs::LastHandle;
use crate::context::{Context, EngineOptions};
use crate::directory::Directories;
use crate::fork::Forks;
use crate::history::History;
use crate::link::Links;
use crate::merge::Merges;
use crate::project::Projects;
use crate::sync::Synchronizer;
use crate::upkeep::Upkeep;
use crate::workspace::Workspaces;

/// The use cases of Offshoot over one data directory, by room. Cheap to clone, safe to share.
///
/// Any number of engines, in any number of processes, may have the same directory open: what they
/// have to agree on is in the store or guarded by locks on files.
#[derive(Clone)]
pub struct Engine {
    /// The opened data directory: its place, its one server, its background jobs.
    pub context: Arc<Context>,
    /// What workspaces and projects hold, as the store says it.
    pub contents: Arc<Contents>,
    /// The directories of workspaces, and the providers that make those of forks.
    pub directories: Arc<Directories>,
    /// What outside programs changed.
    pub sync: Arc<Synchronizer>,
    /// The past of files, and events.
    pub history: Arc<History>,
    /// Workspaces, their files and their snapshots.
    pub workspaces: Arc<Workspaces>,
    /// Projects.
    pub projects: Arc<Projects>,
    /// Forks of projects.
    pub forks: Arc<Forks>,
    /// Merges and reviews.
    pub merges: Arc<Merges>,
    /// Links to repositories.
    pub links: Arc<Links>,
    /// Check, clean, purge, retention.
    pub upkeep: Arc<Upkeep>,
    /// Tokens, agents, and what each may do.
    pub access: Arc<AccessControl>,
    /// Dropped after the rooms: the last one waits for background jobs.
    _last: Arc<LastHandle>,
}

impl Engine {
    /// Opens a data directory, makes it if need be, and puts right what an unclean stop left.
    pub fn open(options: EngineOptions) -> Result<Engine> {
        let data = DataDir::at(&options.data);
        data.create()?;
        let reserve = Arc::new(Reserve::open(&data.reserve()));
        // SQLite and the markers of processes need a little, and without them nothing can be freed.
        let engine = reserve.release_for(|| {
            let (context, dead) = Context::open(&data, &options, &reserve, HASHER)?;
            let engine = Engine::over(context);
            engine.upkeep.recover(dead)?;
            Ok(engine)
        })?;
        reserve.refill();
        Ok(engine)
    }

    /// The rooms, from the bottom up: each is made from the one below it.
    fn over(context: Arc<Context>) -> Engine {
        let contents = Arc::new(Contents::new(&context));
        let directories = Arc::new(Directories::new(&contents));
        let sync = Arc::new(Synchronizer::new(&directories));
        let history = Arc::new(History::new(&sync));
        let workspaces = Arc::new(Workspaces::new(&history));
        let projects = Arc::new(Projects::new(&workspaces));
        let forks = Arc::new(Forks::new(&projects));
        let merges = Arc::new(Merges::new(&forks));
        let links = Arc::new(Links::new(&merges));
        let upkeep = Arc::new(Upkeep::new(&workspaces));
        let access = Arc::new(AccessControl::new(&links));
        Engine {
            _last: Arc::new(LastHandle(Arc::clone(&context.jobs))),
            context,
            contents,
            directories,
            sync,
            history,
            workspaces,
            projects,
            forks,
            merges,
            links,
            upkeep,
            access,
        }
    }
}
