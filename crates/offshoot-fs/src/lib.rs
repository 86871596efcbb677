//! Files of a workspace: directories that nothing escapes from, scans of what changed, locks.
//!
//! [`SafeDir`] is the one way to a workspace's files: every path is resolved by it and no path,
//! link or race leads out of it (INV-7). [`scan()`] finds what outside programs changed at the cost
//! of one walk. [`WorkspaceLocks`] exclude operations on one workspace from each other, across
//! threads and processes. [`provider`] makes forks of frozen layers ([`LayerWriter`]) and finds
//! what changed in them. [`UserNamespace`] is where an ordinary user can mount them. [`Reserve`] keeps disk space for freeing more of it on a full disk.
//! Everything is synchronous.

#[cfg(target_os = "linux")]
#[cfg(feature = "conformance")]
pub mod conformance;
mod difference;
mod errors;
mod layer;
mod locks;
#[cfg(target_os = "linux")]
mod namespace;
mod path_resolver;
mod process_usage;
pub mod provider;
mod reserve;
mod safe_dir;
mod scan;
mod stack;
mod tree_writer;
#[cfg(target_os = "linux")]
mod upper;

pub use difference::{BaseEntry, Difference, DifferenceKind};
pub use errors::{read_error, write_error};
pub use layer::{LayerCounts, LayerState, LayerWriter, freeze_layer, layer_state, remove_layer};
pub use locks::{NameLock, WorkspaceLock, WorkspaceLocks};
#[cfg(target_os = "linux")]
pub use namespace::{Entered, UserNamespace, forbidding_setting, try_user_namespace};
pub use offshoot_sys::{FileKind, OverlayXattrs, Special, Stat};
pub use path_resolver::PathResolver;
pub use process_usage::{ProcessUsage, UseKind, find_process_using, mounts_below};
pub use provider::{
    Capabilities, Choice, CopyProvider, CopyUp, CreateCost, Created, Ensured, ForkChanges,
    ForkDirs, Probe, Provider, ProviderName, ReflinkProvider, choose, is_fork_mounted, probe,
    provider_named, sweep_probes,
};
#[cfg(target_os = "linux")]
pub use provider::{OverlayProvider, copy_changes};
pub use reserve::Reserve;
pub use safe_dir::{DirEntry, STAGE_PREFIX, SafeDir, Staged, Sync, Walk};
pub use scan::{
    ChangedFile, DirNames, DirState, Memo, MemoEntry, NoFilter, RACY_WINDOW, Refusal, Scan,
    ScanCounts, ScanEntry, ScanFilter, ScannedDir, scan,
};
pub use stack::{Flatten, LayerEntry, LayerStack, MAX_LAYERS, OWN_LAYER, SETUP_LAYER};
pub use tree_writer::Owner;
