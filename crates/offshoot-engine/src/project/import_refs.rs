//! Branches and tags of a repository beside the branch that a project is made of.
//!
//! They are kept as they are: annotated and signed tags are objects, stored byte for byte. A ref that
//! cannot be read is left out with a reason; the project does not depend on it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use offshoot_core::{ErrorCode, ObjectId, Result};
use offshoot_git::{GitRepository, check_ref_name};
use offshoot_store::{RefRow, WorkspaceKey};

use crate::project::import_git::RepositoryReader;
use crate::workspace::export::SHOWN_REFS;

/// What is imported of a repository.
pub(crate) struct GitSource<'a> {
    pub(crate) repository: &'a GitRepository,
    /// Where it is, if the project is to remember that.
    pub(crate) place: Option<&'a Path>,
    /// The newest commit.
    pub(crate) head: ObjectId,
    /// The whole name of the branch that it is on.
    pub(crate) branch: Option<String>,
    /// The whole name of a branch that is left alone.
    pub(crate) without: Option<String>,
}

/// Refs that were read.
#[derive(Default)]
pub(crate) struct ImportedRefs {
    /// Their project is not known yet.
    pub(crate) rows: Vec<RefRow>,
    pub(crate) left_out: Vec<(String, String)>,
}

/// The branches and tags of a repository, without those of two names.
pub(crate) fn other_refs(
    repository: &GitRepository,
    without: [Option<&str>; 2],
) -> Result<BTreeMap<String, ObjectId>> {
    let mut refs = repository.refs()?;
    refs.retain(|name, _| {
        SHOWN_REFS.iter().any(|prefix| name.starts_with(prefix))
            && !without.contains(&Some(name.as_str()))
            // A name that is no text was read with this in the place of what is none.
            && !name.contains('\u{fffd}')
            && check_ref_name(name).is_ok()
    });
    Ok(refs)
}

/// Reads what the other branches and the tags of a repository reach.
pub(crate) fn read_refs(
    reading: &mut RepositoryReader<'_>,
    from: &GitSource<'_>,
    cut: &HashSet<ObjectId>,
) -> Result<ImportedRefs> {
    let mut refs = ImportedRefs::default();
    let without = [from.branch.as_deref(), from.without.as_deref()];
    for (name, target) in other_refs(from.repository, without)? {
        match reading.target(target, cut) {
            Ok(peeled) => refs.rows.push(RefRow {
                project: WorkspaceKey(0),
                name,
                target,
                peeled,
            }),
            Err(error) if error.code() == ErrorCode::InvalidRequest => {
                refs.left_out.push((name, error.message().to_owned()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refs)
}
