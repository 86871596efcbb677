//! What lies beside the directory of a fork, for recovery: `fork.json`.

use offshoot_store::LayerRow;
use serde::{Deserialize, Serialize};

use super::Stored;

/// What makes the rows of a fork.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ForkNote {
    pub(crate) id: String,
    pub(crate) project: String,
    pub(crate) base: String,
    pub(crate) agent: Option<String>,
    pub(crate) priority: i64,
    pub(crate) provider: String,
    pub(crate) created_at: i64,
    pub(crate) handed_out: bool,
    /// Whether it has a `.git` at its base.
    #[serde(default)]
    pub(crate) git: bool,
    /// The snapshot that the layers show.
    pub(crate) origin: Option<String>,
    pub(crate) layers: Vec<LayerNote>,
    /// The start of the machine in which it was made.
    pub(crate) boot: Option<String>,
    /// Whether its rows wait for the disk. Then a fork without rows was never made.
    #[serde(default)]
    pub(crate) rows_on_disk: bool,
}

/// A layer in such a note, the newest first.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LayerNote {
    pub(crate) name: String,
    pub(crate) tree: String,
    pub(crate) sidecar: String,
    pub(crate) level: i64,
    pub(crate) entries: i64,
    pub(crate) bytes: i64,
}

impl Stored for ForkNote {
    const NAME: &'static str = "the note of a fork";
    const VERSION: u32 = 2;
}

impl From<&LayerRow> for LayerNote {
    fn from(row: &LayerRow) -> LayerNote {
        LayerNote {
            name: row.name.clone(),
            tree: row.tree.to_hex(),
            sidecar: row.sidecar.to_hex(),
            level: row.level,
            entries: row.entries,
            bytes: row.bytes,
        }
    }
}
