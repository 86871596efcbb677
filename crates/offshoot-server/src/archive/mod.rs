//! Whole workspaces as archives: packing while it is sent, unpacking with nothing trusted.

mod names;
mod pack;
mod unpack;
mod unpack_tar;
mod unpack_zip;

pub(crate) use pack::{Format, pack};
pub(crate) use unpack::{IntoWorkspace, UnpackLimits, unpack};

/// Unpacks an archive as the route does, with limits that keep one try short.
#[cfg(feature = "fuzzing")]
pub fn unpack_into_workspace(
    access: &offshoot_engine::Access,
    id: &offshoot_core::WorkspaceId,
    archive: std::fs::File,
) -> offshoot_core::Result<()> {
    let target = IntoWorkspace {
        access,
        import: access.begin_workspace_import(id)?,
    };
    let limits = UnpackLimits {
        bytes: 1 << 20,
        entries: 1_000,
    };
    unpack(&target, &offshoot_core::RelPath::root(), archive, limits)?;
    access.finish_workspace_import(target.import).map(drop)
}
