//! Reproducible file trees on disk, for tests and benchmarks alike.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::Rng;

/// How large the files of a tree are.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    /// Every file has this many bytes.
    Fixed(usize),
    /// Uniform, both ends included.
    Between(usize, usize),
    /// Like a source repository: half below 2 KiB, most below 16 KiB, one in 200 up to 256 KiB.
    SourceCode,
}

/// The shape of a tree. Rates are per mille of the files.
#[derive(Clone, Debug)]
pub struct TreeSpec {
    /// How many entries that are not directories.
    pub files: usize,
    /// How many of them share a directory.
    pub per_dir: usize,
    /// How many directories a path has at most; 0 puts everything at the top.
    pub depth: usize,
    /// Sizes of the regular files.
    pub sizes: Sizes,
    /// Files without a byte.
    pub empty: u32,
    /// Files with noise instead of lines of text.
    pub binary: u32,
    /// Files with the executable bit.
    pub executable: u32,
    /// Symlinks, which point beside themselves; some dangle.
    pub symlinks: u32,
    /// Names that break careless code: not UTF-8, newline, quotes, leading dash, 255 bytes.
    pub odd_names: u32,
}

impl TreeSpec {
    /// A tree like a source repository with `files` files, 20 to a directory.
    #[must_use]
    pub fn source_code(files: usize) -> Self {
        Self {
            files,
            per_dir: 20,
            depth: 8,
            sizes: Sizes::SourceCode,
            empty: 5,
            binary: 30,
            executable: 20,
            symlinks: 2,
            odd_names: 0,
        }
    }

    /// A small tree of everything that git can hold and careless code cannot.
    #[must_use]
    pub fn nasty(files: usize) -> Self {
        Self {
            files,
            per_dir: 4,
            depth: 12,
            sizes: Sizes::Between(0, 300),
            empty: 100,
            binary: 300,
            executable: 200,
            symlinks: 150,
            odd_names: 300,
        }
    }
}

/// What [`make_tree`] made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSummary {
    /// Regular files.
    pub files: usize,
    /// Directories, without the top one.
    pub dirs: usize,
    /// Symlinks.
    pub symlinks: usize,
    /// Content of the regular files.
    pub bytes: u64,
}

/// Fills the existing directory `dir` with the tree that `spec` and `seed` describe.
///
/// The same arguments give the same names, modes and bytes on every machine. Nothing is synced.
///
/// # Panics
/// If a file cannot be written or `per_dir` is 0.
pub fn make_tree(dir: &Path, spec: &TreeSpec, seed: u64) -> TreeSummary {
    assert!(spec.per_dir > 0, "a directory holds at least one file");
    let mut rng = Rng::new(seed);
    let mut summary = TreeSummary::default();
    let per_dir = if spec.depth == 0 {
        spec.files.max(1)
    } else {
        spec.per_dir
    };
    let dirs = make_dirs(dir, spec.files.div_ceil(per_dir), spec.depth, &mut rng);
    summary.dirs = dirs.len() - 1;
    for (dir_number, parent) in dirs.iter().enumerate() {
        let first = dir_number * per_dir;
        let mut previous: Option<OsString> = None;
        for number in first..spec.files.min(first + per_dir) {
            let name = file_name(number, spec, &mut rng);
            let path = parent.join(&name);
            if rng.chance(spec.symlinks) {
                make_symlink(&path, previous.as_deref());
                summary.symlinks += 1;
            } else {
                summary.files += 1;
                summary.bytes += make_file(&path, spec, &mut rng);
            }
            previous = Some(name);
        }
    }
    summary
}

/// Makes directories until there are `wanted`, counting the top one, each below a random earlier
/// one. Returns them with the top first.
fn make_dirs(top: &Path, wanted: usize, max_depth: usize, rng: &mut Rng) -> Vec<PathBuf> {
    let mut dirs = vec![top.to_owned()];
    let mut below_limit = vec![(0, 0)];
    for number in 1..wanted {
        let (parent, depth) = *rng.pick(&below_limit);
        let path = dirs[parent].join(format!("dir{number:04}"));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("mkdir {}: {error}", path.display()));
        if depth + 1 < max_depth {
            below_limit.push((number, depth + 1));
        }
        dirs.push(path);
    }
    dirs
}

const EXTENSIONS: [&str; 8] = ["rs", "py", "json", "md", "ts", "txt", "toml", "csv"];

/// Prefixes of odd names. The number that follows keeps the names of one directory apart.
const ODD: [&[u8]; 12] = [
    b"-rf",
    b"two words ",
    b" lead",
    b"quote\"'",
    b"new\nline",
    b"esc\x1b[31m",
    b"not-utf8-\xff\xfe",
    b"back\\slash",
    b"glob*?[a]",
    b"#hash!",
    b"a..b",
    "nfd-e\u{301}-".as_bytes(),
];

/// A name that is unique in the whole tree because it holds the file's number.
fn file_name(number: usize, spec: &TreeSpec, rng: &mut Rng) -> OsString {
    if !rng.chance(spec.odd_names) {
        return format!("file{number:05}.{}", rng.pick(&EXTENSIONS)).into();
    }
    let kind = rng.below(ODD.len() + 1);
    let mut name = ODD
        .get(kind)
        .map_or_else(|| vec![b'l'; 240], |prefix| prefix.to_vec());
    name.extend_from_slice(format!("{number:05}").as_bytes());
    if kind == ODD.len() {
        // The longest name that Linux file systems take.
        name.resize(255, b'g');
    }
    OsStr::from_bytes(&name).to_owned()
}

/// A link to the entry before it, or one that dangles if there is none.
fn make_symlink(path: &Path, target: Option<&OsStr>) {
    let target = target.unwrap_or(OsStr::new("nothing-here"));
    symlink(target, path).unwrap_or_else(|error| panic!("symlink {}: {error}", path.display()));
}

/// Writes one regular file and returns its size.
fn make_file(path: &Path, spec: &TreeSpec, rng: &mut Rng) -> u64 {
    let size = if rng.chance(spec.empty) {
        0
    } else {
        size(spec.sizes, rng)
    };
    let content = if rng.chance(spec.binary) {
        noise(size, rng)
    } else {
        lines(size, rng)
    };
    fs::write(path, &content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    // Set explicitly, so that the umask of the machine does not show in the tree.
    let mode = if rng.chance(spec.executable) {
        0o755
    } else {
        0o644
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .unwrap_or_else(|error| panic!("chmod {}: {error}", path.display()));
    content.len() as u64
}

fn size(sizes: Sizes, rng: &mut Rng) -> usize {
    match sizes {
        Sizes::Fixed(size) => size,
        Sizes::Between(low, high) => rng.between(low, high),
        Sizes::SourceCode => match rng.below(200) {
            0 => rng.between(16 << 10, 256 << 10),
            1..100 => rng.between(2 << 10, 16 << 10),
            _ => rng.between(40, 2 << 10),
        },
    }
}

fn noise(size: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; size];
    rng.fill(&mut bytes);
    bytes
}

const WORDS: [&str; 16] = [
    "let", "value", "return", "if", "self", "the", "error", "path", "0", "name", "(", ")", "=",
    "write", "read", "state",
];

/// Lines of words: compresses about as well as source code does.
fn lines(size: usize, rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 16);
    while text.len() < size {
        let bits = rng.next_u64();
        for word in 0..12 {
            text.extend_from_slice(WORDS[(bits >> (4 * word)) as usize % 16].as_bytes());
            text.push(b' ');
        }
        // A number makes lines differ, so that files do not deduplicate by accident.
        text.extend_from_slice(format!("{:04x}\n", bits >> 48).as_bytes());
    }
    text.truncate(size);
    if let Some(last) = text.last_mut() {
        *last = b'\n';
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git;

    fn tree_id(dir: &Path) -> String {
        git(dir, &["init", "--quiet"]);
        git(dir, &["add", "-A"]);
        git(dir, &["write-tree"])
    }

    fn nasty_tree(seed: u64) -> (tempfile::TempDir, TreeSummary) {
        let dir = tempfile::tempdir().expect("temp dir");
        let summary = make_tree(dir.path(), &TreeSpec::nasty(300), seed);
        (dir, summary)
    }

    #[test]
    fn the_same_seed_gives_the_same_tree() {
        let (one, summary) = nasty_tree(1);
        let (again, summary_again) = nasty_tree(1);
        let (other, _) = nasty_tree(2);
        assert_eq!(summary, summary_again);
        let id = tree_id(one.path());
        assert_eq!(id, tree_id(again.path()));
        assert_ne!(id, tree_id(other.path()));
    }

    #[test]
    fn the_summary_is_what_is_on_disk() {
        let (dir, summary) = nasty_tree(3);
        let mut found = TreeSummary::default();
        let mut executables = 0;
        let mut deepest = 0;
        let mut pending = vec![(dir.path().to_owned(), 0)];
        while let Some((path, depth)) = pending.pop() {
            for entry in fs::read_dir(path).expect("list") {
                let entry = entry.expect("entry");
                let metadata = entry.metadata().expect("stat");
                if metadata.is_dir() {
                    found.dirs += 1;
                    deepest = deepest.max(depth + 1);
                    pending.push((entry.path(), depth + 1));
                } else if metadata.is_symlink() {
                    found.symlinks += 1;
                } else {
                    found.files += 1;
                    found.bytes += metadata.len();
                    executables += usize::from(metadata.permissions().mode() & 0o111 != 0);
                }
            }
        }
        assert_eq!(found, summary);
        assert_eq!(found.files + found.symlinks, 300);
        assert!(
            found.symlinks > 10 && executables > 10,
            "{found:?}, {executables} executables"
        );
        assert!((3..=12).contains(&deepest), "{deepest} directories deep");
    }

    #[test]
    fn names_are_odd_where_asked() {
        let (dir, _) = nasty_tree(4);
        let listed = {
            tree_id(dir.path());
            crate::git_bytes(dir.path(), &["ls-files", "-z"])
        };
        for odd in ODD {
            let found = listed.windows(odd.len()).any(|window| window == odd);
            assert!(found, "no name with {:?}", String::from_utf8_lossy(odd));
        }
    }

    #[test]
    fn sizes_follow_the_specification() {
        let dir = tempfile::tempdir().expect("temp dir");
        let mut spec = TreeSpec::source_code(50);
        (spec.sizes, spec.empty, spec.symlinks, spec.depth) = (Sizes::Fixed(4096), 0, 0, 0);
        let summary = make_tree(dir.path(), &spec, 9);
        let expected = TreeSummary {
            files: 50,
            dirs: 0,
            symlinks: 0,
            bytes: 50 * 4096,
        };
        assert_eq!(summary, expected);
    }
}
