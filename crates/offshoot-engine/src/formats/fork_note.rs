//! `fork.json` beside the directory of a fork, from which recovery restores lost rows.

use offshoot_store::LayerRow;
use serde::{Deserialize, Serialize};

use super::StoredFormat;

/// Everything that the rows of a fork are made of.
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
    /// Whether the fork has a `.git`.
    #[serde(default)]
    pub(crate) git: bool,
    /// The snapshot that the layers show.
    pub(crate) origin: Option<String>,
    pub(crate) layers: Vec<LayerNote>,
    /// The name of the layer with what the setup of the project made.
    #[serde(default)]
    pub(crate) setup: Option<String>,
    /// The boot id of the machine when the fork was made.
    pub(crate) boot: Option<String>,
    /// Whether its rows were committed durably. If so, a fork without rows was never made.
    #[serde(default)]
    pub(crate) rows_on_disk: bool,
}

/// A layer of the fork, the topmost first.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LayerNote {
    pub(crate) name: String,
    pub(crate) tree: String,
    pub(crate) sidecar: String,
    pub(crate) level: i64,
    pub(crate) entries: i64,
    pub(crate) bytes: i64,
}

impl StoredFormat for ForkNote {
    const NAME: &'static str = "the note of a fork";
    const VERSION: u32 = 3;
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
