//! The command that prepares the forks of a project.

use serde::{Deserialize, Serialize};

use super::StoredFormat;

/// The command that prepares the forks of a project, and what its results depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Patterns of the files whose content decides whether it has to run again.
    pub on: Vec<String>,
}

impl StoredFormat for Setup {
    const NAME: &'static str = "the setup of a project";
    const VERSION: u32 = 1;
}
