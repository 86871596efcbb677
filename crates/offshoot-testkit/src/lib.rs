//! What the tests and benchmarks of every crate share: real file systems, stock git, child
//! processes that cannot outlive their test, and reproducible file trees.
//!
//! Only a dev-dependency: nothing here may reach the product, which is why a fixture that cannot be
//! set up panics with its reason instead of returning an error. A test whose environment is missing
//! says so and is counted:
//!
//! ```
//! use offshoot_testkit::{FileSystem, LoopImage, skip};
//!
//! fn test_body() {
//!     if let Some(reason) = LoopImage::unavailable(FileSystem::Ext4) {
//!         return skip(&reason);
//!     }
//!     // From here on the file system is real; a failure is a failure.
//! }
//! ```

pub mod git;
pub mod host;
pub mod image;
pub mod loop_image;
pub mod process;
pub mod rng;
pub mod skip;
pub mod tree;
pub mod wait;

pub use git::{git, git_bytes, git_command, git_with_input};
pub use host::HostDir;
pub use image::{DirImage, Node, NodePath, dir_image, scratch};
pub use loop_image::{FileSystem, ImageCopy, LoopImage};
pub use process::Process;
pub use rng::Rng;
pub use skip::{is_root, skip, soak};
pub use tree::{Sizes, TreeSpec, TreeSummary, make_tree};
pub use wait::wait_until;
