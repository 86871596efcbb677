//! Trees of files that look a little like source code, the same in every run.

use std::path::{Path, PathBuf};

use offshoot_core::Result;

use super::image::failed;

const PER_DIR: usize = 100;
/// C files in a tree.
const UNITS: usize = 20;

/// The path of the n-th file, relative to the root of the tree.
pub(crate) fn file_path(n: usize) -> PathBuf {
    let dir = n / PER_DIR;
    PathBuf::from(format!("pkg{}/mod{dir}/file{n}.rs", dir / 10))
}

/// The content of the n-th file in its `edition`.
pub(crate) fn content(n: usize, edition: usize) -> Vec<u8> {
    let mut state = (n as u64) << 32 | edition as u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let lines = 5 + next() % 40;
    let mut text = format!("// file {n}, edition {edition}\n");
    for line in 0..lines {
        text.push_str(&format!("fn function_{line}() -> u64 {{ {} }}\n", next()));
    }
    text.into_bytes()
}

/// Writes a tree of `files` files below `root`.
pub(crate) fn write(root: &Path, files: usize) -> Result<()> {
    for n in 0..files {
        let path = root.join(file_path(n));
        if n % PER_DIR == 0
            && let Some(parent) = path.parent()
        {
            std::fs::create_dir_all(parent).map_err(|cause| failed("make a directory", cause))?;
        }
        write_file(root, n, 0)?;
    }
    Ok(())
}

/// Writes a few C files below `root/c`, for something to build.
pub(crate) fn write_units(root: &Path) -> Result<()> {
    let dir = root.join("c");
    std::fs::create_dir_all(&dir).map_err(|cause| failed("make a directory", cause))?;
    for n in 0..UNITS {
        let mut text = format!("#include <stdio.h>\n#include \"unit.h\"\n/* unit {n} */\n");
        for f in 0..20 {
            text.push_str(&format!(
                "int unit_{n}_{f}(int x) {{ return x * {f} + {n}; }}\n"
            ));
        }
        std::fs::write(dir.join(format!("unit{n}.c")), text)
            .map_err(|cause| failed("write a file", cause))?;
    }
    std::fs::write(dir.join("unit.h"), "#define UNITS 1\n")
        .map_err(|cause| failed("write a file", cause))
}

/// Writes one file in an edition.
pub(crate) fn write_file(root: &Path, n: usize, edition: usize) -> Result<()> {
    std::fs::write(root.join(file_path(n)), content(n, edition))
        .map_err(|cause| failed("write a file", cause))
}

/// Ten files spread over a tree.
pub(crate) fn ten_files(files: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..10).map(move |i| (i * files / 10 + round * 7) % files)
}
