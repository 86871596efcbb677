//! Raw system calls behind safe functions: the only crate of Offshoot that may hold unsafe code.
//!
//! Everything here is thin: one kernel interface per file, `io::Result` as the answer, no policy.
//! What a path may lead to, and which error a caller sees, is decided in `offshoot-fs`. What
//! exists only on Linux (`openat2`, overlay mounts) says so; the rest works on every Unix.

#[cfg(not(unix))]
compile_error!("Offshoot needs a Unix: directories are opened relative to file descriptors");

mod byte_lock;
mod dir;
mod lock;
mod memory;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(target_os = "linux")]
mod namespace;
mod open;
mod rename;
mod session;
mod sparse;
mod stat;
mod system;
mod xattr;

pub use byte_lock::{ByteLock, ByteLockFile};
pub use dir::{DirReader, NameKind};
pub use lock::{FileLock, LockMode};
pub use memory::trim_heap_when_idle;
#[cfg(target_os = "linux")]
pub use mount::{
    Overlay, attach_mount, clone_mount, is_mount_point, is_mount_used, is_on_overlay,
    is_upper_in_use, set_immutable, set_read_only, unique_mount_id, unmount_idle, unmount_lazily,
};
#[cfg(target_os = "linux")]
pub use namespace::{
    bind_onto_itself, enter_namespaces, may_mount, mount_namespace, process_handle, unshare_mounts,
};
#[cfg(target_os = "linux")]
pub use open::open_beneath;
pub use open::{DIR_HANDLE, FollowLinks, has_open_beneath};
pub use rename::{rename_exchange, rename_noreplace};
#[cfg(target_os = "linux")]
pub use session::close_inherited_files;
pub use session::leave_terminal_signals_to_child;
pub use sparse::next_hole;
pub use stat::{FileKind, Special, Stat, fstat, lstat_at};
pub use system::{
    boot_id, clone_file, create_private, effective_user, raise_open_file_limit, syncfs,
    write_private,
};
pub use xattr::{OverlayXattrs, get_xattr, make_whiteout, set_xattr, xattr_names};
