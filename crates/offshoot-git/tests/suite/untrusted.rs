//! A `.git` that nobody vouches for: what is forged is refused, within limits, and never followed.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use offshoot_core::{ErrorCode, ObjectId, Result};
use offshoot_git::{GitFiles, ObjectReader, UntrustedRepository, check_commit, check_tree};

use crate::common::Git;

/// The files of a directory, and which were opened.
struct Files {
    root: PathBuf,
    opened: RefCell<Vec<String>>,
}

impl Files {
    fn new(root: PathBuf) -> Files {
        Files {
            root,
            opened: RefCell::default(),
        }
    }
}

impl GitFiles for Files {
    fn open(&self, path: &str) -> Result<Option<File>> {
        self.opened.borrow_mut().push(path.to_owned());
        let path = self.root.join(path);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        Ok(is_file.then(|| File::open(path).unwrap()))
    }

    fn names(&self, dir: &str) -> Result<Vec<String>> {
        let entries = fs::read_dir(self.root.join(dir)).into_iter().flatten();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        Ok(entries.flatten().filter_map(name).collect())
    }
}

const OBJECT: u64 = 1 << 20;

fn open(files: &Files, total: u64) -> UntrustedRepository<'_> {
    UntrustedRepository::open(files, &|_| false, OBJECT, total).unwrap()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn id(byte: u8) -> ObjectId {
    ObjectId::from_slice(&[byte; 20]).unwrap()
}

/// The head of an entry: its kind and its size.
fn head(kind: u8, mut size: u64) -> Vec<u8> {
    let mut bytes = vec![kind << 4 | (size & 15) as u8];
    size >>= 4;
    while size > 0 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push((size & 0x7f) as u8);
        size >>= 7;
    }
    bytes
}

/// A pack of these entries and an index that says where each is.
fn forge_pack(root: &std::path::Path, entries: &[(ObjectId, Vec<u8>)]) {
    let dir = root.join("objects/pack");
    fs::create_dir_all(&dir).unwrap();
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend((entries.len() as u32).to_be_bytes());
    let mut places = Vec::new();
    for (id, bytes) in entries {
        places.push((*id, pack.len() as u32));
        pack.extend(bytes);
    }
    places.sort();
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=255u8 {
        let below = places.iter().filter(|(id, _)| id.as_bytes()[0] <= first);
        index.extend((below.count() as u32).to_be_bytes());
    }
    places
        .iter()
        .for_each(|(id, _)| index.extend(id.as_bytes()));
    index.extend(vec![0; places.len() * 4]);
    places
        .iter()
        .for_each(|(_, at)| index.extend(at.to_be_bytes()));
    index.extend([0; 40]);
    fs::write(dir.join("pack-forged.pack"), pack).unwrap();
    fs::write(dir.join("pack-forged.idx"), index).unwrap();
}

#[test]
fn forged_packs_are_refused_within_limits() {
    let dir = tempfile::tempdir().unwrap();
    let delta = |base: &ObjectId, bytes: &[u8]| {
        [
            head(7, bytes.len() as u64),
            base.as_bytes().to_vec(),
            deflated(bytes),
        ]
        .concat()
    };
    // A copy of all of a base of one byte.
    let copy = [1, 1, 0b1001_0000, 1];
    let entries = [
        // Two that build on each other, and one on itself.
        (id(1), delta(&id(2), &copy)),
        (id(2), delta(&id(1), &copy)),
        (id(3), delta(&id(3), &copy)),
        // A size that is not true, and one that is too large.
        (id(4), [head(3, 100), deflated(b"short")].concat()),
        (id(5), [head(3, 1 << 40), deflated(b"short")].concat()),
        (
            id(6),
            [head(3, 2 << 20), deflated(&vec![0; 2 << 20])].concat(),
        ),
        // The content of another object, a base that is missing, and a kind that is none.
        (id(7), [head(3, 5), deflated(b"other")].concat()),
        (id(8), delta(&id(0x77), &copy)),
        (id(9), vec![5 << 4 | 1, 1, 2, 3]),
        // A delta that builds more than is taken.
        (
            id(10),
            delta(&id(7), &[5, 0x80, 0x80, 0x80, 0x02, 0b1001_0000, 5]),
        ),
    ];
    forge_pack(dir.path(), &entries);
    let files = Files::new(dir.path().to_owned());
    let repository = open(&files, 1 << 30);
    for (id, _) in &entries {
        let refused = repository.read(id).unwrap_err();
        let code = refused.code();
        let known = [ErrorCode::InvalidRequest, ErrorCode::PayloadTooLarge];
        assert!(known.contains(&code), "{id}: {refused}");
    }
    assert_eq!(repository.read(&id(0x55)).unwrap(), None);
    // An index that lies about where things are, and one that is cut short.
    let place = dir.path().join("objects/pack/pack-forged.idx");
    let mut index = fs::read(&place).unwrap();
    let offsets = 8 + 1024 + entries.len() * 24;
    index[offsets..offsets + entries.len() * 4].fill(0x7f);
    fs::write(&place, &index).unwrap();
    assert!(open(&files, 1 << 30).read(&id(1)).is_err());
    index[8..8 + 1024].fill(0xff);
    fs::write(&place, &index).unwrap();
    assert_eq!(open(&files, 1 << 30).read(&id(1)).unwrap(), None);
    fs::write(&place, &index[..500]).unwrap();
    assert_eq!(open(&files, 1 << 30).read(&id(1)).unwrap(), None);
}

#[test]
fn all_that_is_read_counts() {
    let dir = Git::init();
    let mut ids = Vec::new();
    for number in 0..10u8 {
        let args = ["hash-object", "-w", "--stdin"];
        let made = dir.text(&args, &vec![number; 100_000]);
        ids.push(made.trim().parse().unwrap());
    }
    let files = Files::new(dir.path().join(".git"));
    let repository = open(&files, 450_000);
    let read = |id: &ObjectId| repository.read(id).is_ok();
    assert_eq!(ids.iter().filter(|id| read(id)).count(), 4);
    dir.run(&["repack", "-adq", "--keep-unreachable"], b"");
    let repository = open(&files, 450_000);
    let read = |id: &ObjectId| repository.read(id).is_ok();
    assert_eq!(ids.iter().filter(|id| read(id)).count(), 4);
}

#[test]
fn only_head_refs_and_objects_are_opened() {
    let dir = Git::init();
    dir.run(&["commit", "-q", "--allow-empty", "-m", "one"], b"");
    dir.run(&["branch", "before-update-1"], b"");
    let newest = dir.text(&["rev-parse", "HEAD"], b"");
    let root = dir.path().join(".git");
    fs::create_dir_all(root.join("objects/info")).unwrap();
    fs::write(root.join("objects/info/alternates"), "/\n").unwrap();
    fs::write(root.join("commondir"), "/\n").unwrap();
    fs::write(root.join("info/grafts"), "x\n").unwrap();
    let files = Files::new(root.clone());
    let repository = open(&files, 1 << 20);
    let head = repository.head().unwrap().unwrap();
    assert_eq!(head.to_hex(), newest);
    assert_eq!(repository.branches("before-", 9).unwrap(), [head]);
    assert!(repository.read(&head).unwrap().is_some());
    assert_eq!(repository.read(&id(1)).unwrap(), None);
    for path in files.opened.borrow().iter() {
        let expected =
            path == "HEAD" || path.starts_with("refs/heads/") || path.starts_with("objects/");
        assert!(expected && !path.contains("info"), "{path}");
    }
    for text in [
        "ref: HEAD",
        "ref: refs/heads/../../x",
        "ref: refs/heads/x.lock",
        "ref: /etc/passwd",
        "no id",
        "",
    ] {
        fs::write(root.join("HEAD"), text).unwrap();
        assert_eq!(open(&files, 1 << 20).head().unwrap(), None, "{text}");
    }
    // A link from ref to ref that does not end.
    fs::write(root.join("HEAD"), "ref: refs/heads/a\n").unwrap();
    fs::write(root.join("refs/heads/a"), "ref: refs/heads/b\n").unwrap();
    fs::write(root.join("refs/heads/b"), "ref: refs/heads/a\n").unwrap();
    assert_eq!(open(&files, 1 << 20).head().unwrap(), None);
}

/// Whether `git fsck --strict` takes a loose object.
fn git_takes(kind: &str, bytes: &[u8]) -> bool {
    let dir = Git::init();
    let args = ["hash-object", "-w", "-t", kind, "--literally", "--stdin"];
    dir.run(&args, bytes);
    // What an object names is missing here, which is no matter of the object itself.
    let (_, _, said) = dir.try_run(&["fsck", "--strict"], b"");
    let refuses = |line: &str| line.starts_with("error") || line.starts_with("warning in");
    !said.lines().any(refuses)
}

#[test]
fn commits_are_refused_as_git_refuses_them() {
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let parent = "1".repeat(40);
    let person = "a <a@b> 1 +0000";
    let with = |author: &str, committer: &str| {
        format!("tree {tree}\nauthor {author}\ncommitter {committer}\n\nx\n")
    };
    let mut cases = vec![
        with(person, person),
        format!("tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n\nx\n"),
        format!("tree {tree}\nauthor {person}\ncommitter {person}\nencoding latin1\n\nx\n"),
        format!("tree {tree}\nauthor {person}\nauthor {person}\ncommitter {person}\n\nx\n"),
        format!("tree {tree}\nauthor {person}\n\nx\n"),
        format!("tree {tree}\nauthor {person}\ncommitter {person}\n\nx\0y\n"),
        format!(
            "tree {}\nauthor {person}\ncommitter {person}\n\nx\n",
            &tree[1..]
        ),
    ];
    for odd in [
        "a <a@b> 01 +0000",
        "a <a@b> 0 +0000",
        "a <a@b> 99999999999999999999 +0000",
        "a <a@b> 1 +00",
        "a <a@b> 1 0000",
        "a <a@b> 1",
        "a <a@b>",
        "a a@b 1 +0000",
        "a<a@b> 1 +0000",
        "<a@b> 1 +0000",
        " <a@b> 1 +0000",
        "a > <a@b> 1 +0000",
        "a <a<b> 1 +0000",
        "a <a@b>1 +0000",
        "a <> 1 +0000",
    ] {
        cases.push(with(odd, person));
        cases.push(with(person, odd));
    }
    for case in &cases {
        let ours = check_commit(case.as_bytes());
        assert_eq!(
            ours.is_ok(),
            git_takes("commit", case.as_bytes()),
            "{case}: {ours:?}"
        );
    }
}

#[test]
fn trees_are_refused_as_git_refuses_them() {
    // Each kind of entry names another object, which is missing.
    let entry = |mode: &str, name: &str| {
        let id = [(u32::from_str_radix(mode, 8).unwrap() >> 12) as u8; 20];
        [format!("{mode} {name}\0").as_bytes(), &id].concat()
    };
    let cases: Vec<Vec<Vec<u8>>> = vec![
        vec![
            entry("100644", "a"),
            entry("40000", "b"),
            entry("120000", "c"),
        ],
        vec![entry("100644", "b"), entry("100644", "a")],
        vec![entry("100644", "a"), entry("100644", "a")],
        vec![
            entry("100644", "a"),
            entry("100644", "a.b"),
            entry("40000", "a"),
        ],
        vec![entry("040000", "a")],
        vec![entry("100600", "a")],
        vec![entry("40000", ".git")],
        vec![entry("100644", ".GIT")],
        vec![entry("40000", "git~1")],
        vec![entry("120000", ".gitmodules")],
        vec![entry("100644", ".")],
        vec![entry("100644", "..")],
        vec![entry("160000", "sub")],
        vec![[b"100644 zero\0".as_slice(), &[0; 20]].concat()],
    ];
    for case in cases {
        let bytes = case.concat();
        let ours = check_tree(&bytes.clone().into());
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(ours.is_ok(), git_takes("tree", &bytes), "{shown}: {ours:?}");
    }
}
