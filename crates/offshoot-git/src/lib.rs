//! Git's objects and rules without a git binary: ids, trees, commits, ignore rules, packs.
//!
//! Everything here is synchronous and knows neither a database nor a directory layout: objects
//! come through an [`ObjectReader`] and go to an [`ObjectSink`]. git itself is the oracle of the
//! tests: every id, difference and verdict must be the one that git gives.

mod commit;
mod disk_names;
mod divergence;
mod dotgit;
mod export;
mod export_branch;
mod fetch;
mod fork_git;
mod fsck;
mod gitmodules;
mod history;
mod ignore;
mod import;
mod index_file;
mod inflate;
mod new_commits;
mod object;
mod pack;
mod pack_build;
mod pack_read;
mod pack_receive;
mod pkt_line;
mod push_check;
mod receive_pack;
mod tree;
mod tree_build;
mod tree_diff;
mod tree_edit;
mod tree_walk;
mod untrusted;
mod upload_pack;

pub use commit::{Commit, SIDECAR_HEADER, Signature};
pub use disk_names::{folded, may_be_short_name};
pub use divergence::Divergence;
pub use dotgit::{has_rules_for_content, is_dot_git, refuses_content, refuses_name, refuses_path};
pub use export::{
    BRANCHES, ExportProgress, ExportReport, check_ref_name, export_bare, export_shallow,
    full_branch_name, short_branch_name,
};
pub use export_branch::export_branch;
pub use fetch::{CommitGraph, FetchPlan, FetchRequest, Filter, HistoryLimit};
pub use fork_git::{BASE_BRANCH, fork_config, write_fork_git};
pub use fsck::{check_commit, check_tree};
pub use history::{
    MAX_TAG_DEPTH, parents_first, peel_to_commit, reachable_objects, reachable_objects_shallow,
    read_commit, tag_target,
};
pub use ignore::{IgnoreRules, RuleFiles};
pub use import::{GitRepository, Head};
pub use index_file::{IndexStat, write_index};
pub use new_commits::{NewCommits, TakenCommits};
pub use object::{
    Kind, MemoryObjects, ObjectHasher, ObjectReader, ObjectSink, ObjectStream, hash, read_object,
    write_object,
};
pub use pack::{PackEntry, PackSummary, pack_objects, write_pack_index};
pub use pack_receive::{PackFiles, PackLimits, ReceivedPack};
pub use push_check::{VisibleHistory, connected_objects};
pub use receive_pack::{PushReport, PushRequest, RefCommand, advertise_refs};
pub use tree::{
    EntryRef, Tree, TreeEntry, encode_tree, find_in, git_mode, is_dir_mode, lookup, read_tree,
    tree_bytes, walk_to,
};
pub use tree_build::TreeBuilder;
pub use tree_diff::{diff, diff_below};
pub use tree_edit::{Edit, EmptyDirs, edit};
pub use tree_walk::{walk, walk_objects};
pub use untrusted::{GitFiles, UntrustedRepository};
pub use upload_pack::{AdvertisedRef, GitProtocol, UploadPack};
