//! Damaged content in the store: every operation that reads gives the right bytes or an error, and
//! no wrong bytes are written anywhere.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fixture::{open, p, user, write};
use offshoot_core::{Error, ErrorCode, ProjectId, Result, WorkspaceId};
use offshoot_engine::{Engine, EngineOptions, Exported, ForkOptions, ImportOptions, OpenFile};
use offshoot_fs::ProviderName;
use offshoot_store::{DiskBlobs, ObjectPlace, SqliteOptions, SqliteStore, Store};
use offshoot_testkit::{HostDir, Rng, dir_image, git, soak};

type Files = BTreeMap<&'static str, Vec<u8>>;

/// A data directory with content in rows, in blobs and in packs, and what it holds.
struct Good {
    host: HostDir,
    /// The workspace `w` at its first snapshot, and now.
    then: Files,
    now: Files,
    first: String,
    /// The project `app`.
    project: Files,
}

fn noise(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    bytes
}

/// Words in random order, which compress, but not to nothing.
fn words(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < length {
        text.extend_from_slice(
            rng.pick(&["tree", "blob", "commit", "layer", "fork"])
                .as_bytes(),
        );
        text.push(*rng.pick(b" \n,."));
    }
    text
}

fn content(rng: &mut Rng) -> Files {
    BTreeMap::from([
        ("small", noise(rng, 40)),
        ("dir/text", words(rng, 6_000)),
        ("dir/blob", noise(rng, 70_000)),
        ("streamed", words(rng, 280_000)),
        ("large", noise(rng, 90_000)),
    ])
}

/// A workspace without a directory.
const STORED: &str = "stored";

impl Good {
    fn new(rng: &mut Rng) -> Good {
        let host = HostDir::new();
        let engine = open(host.path(), ProviderName::Copy);
        let (then, now, mut project) = (content(rng), content(rng), content(rng));
        let ws = create(&engine);
        for (path, bytes) in &then {
            write(&engine, &ws, path, bytes);
        }
        let first = engine
            .workspaces
            .snapshot(&ws, Some("first"), false, &user())
            .unwrap();
        for (path, bytes) in &now {
            write(&engine, &ws, path, bytes);
        }
        engine
            .workspaces
            .snapshot(&ws, Some("second"), false, &user())
            .unwrap();
        engine.workspaces.hand_out_path(&ws).unwrap();
        let stored = Some(STORED.parse().unwrap());
        let stored = engine
            .workspaces
            .create_workspace(stored, Default::default(), Default::default(), &user())
            .unwrap();
        for (path, bytes) in &now {
            write(&engine, &stored.id, path, bytes);
        }
        project.insert("one more", words(rng, 900));
        project.insert("larger", noise(rng, 1_100_000));
        let source = HostDir::new();
        for (path, bytes) in &project {
            let path = source.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let options = ImportOptions::default();
        engine
            .projects
            .import_dir(&app(), source.path(), &options, &mut |_| {}, &user())
            .unwrap();
        engine.context.wait_for_jobs();
        drop(engine);
        let _ = std::fs::remove_dir_all(host.path().join("data/layers"));
        Good {
            host,
            then,
            now,
            first: first.snapshot.id.to_hex(),
            project,
        }
    }

    /// Where bytes of objects are: ranges of files.
    fn places(&self, rng: &mut Rng) -> Vec<(PathBuf, u64, u64)> {
        let data = self.host.path().join("data");
        let mut places = Vec::new();
        let blobs = walk(&data.join("blobs/data"));
        assert!(blobs.len() >= 5, "{blobs:?}");
        for path in blobs {
            let length = path.metadata().unwrap().len();
            places.push((path, 0, length));
        }
        let database = data.join("offshoot.db");
        let mut rows = {
            let meta = SqliteStore::open(&database, SqliteOptions::default()).unwrap();
            let blobs = DiskBlobs::open(&data.join("blobs")).unwrap();
            let store = Store::without_hashing(Arc::new(meta), Arc::new(blobs));
            store
                .read(|tx| tx.objects_after(None, 1_000, true))
                .unwrap()
        };
        // The database is closed, so everything is in its one file, where bytes have no checksum.
        let all = std::fs::read(&database).unwrap();
        let mut in_rows = 0;
        rows.retain(|row| matches!(&row.place, ObjectPlace::Row(bytes) if bytes.len() >= 16));
        while !rows.is_empty() && (in_rows < 8 || soak()) {
            let row = rows.swap_remove(rng.below(rows.len()));
            if let ObjectPlace::Row(bytes) = row.place {
                let head = &bytes[..bytes.len().min(64)];
                for at in (0..all.len() - head.len()).filter(|at| all[*at..].starts_with(head)) {
                    in_rows += 1;
                    places.push((database.clone(), at as u64, head.len() as u64));
                }
            }
        }
        assert!(in_rows >= 8, "{in_rows} rows");
        places
    }

    fn copy(&self) -> HostDir {
        let copy = HostDir::new();
        let from = self.host.path();
        for file in walk(from) {
            let to = copy.path().join(file.strip_prefix(from).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(&file, to).unwrap();
        }
        copy
    }

    /// A copy of the data directory with one bit flipped.
    fn with_flipped(&self, path: &Path, at: u64, bit: u8) -> HostDir {
        let copy = self.copy();
        let path = copy
            .path()
            .join(path.strip_prefix(self.host.path()).unwrap());
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
        copy
    }
}

fn create(engine: &Engine) -> WorkspaceId {
    let id: WorkspaceId = "w".parse().unwrap();
    engine
        .workspaces
        .create_workspace(Some(id), Default::default(), Default::default(), &user())
        .unwrap()
        .id
}

fn app() -> ProjectId {
    "app".parse().unwrap()
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(walk(&path)),
            false => found.push(path),
        }
    }
    found
}

/// The outcomes of all operations for one flipped bit.
#[derive(Default)]
struct Outcomes {
    right: usize,
    failed: usize,
}

impl Outcomes {
    /// Counts an outcome that is right, or an error that says what is wrong.
    fn judge(&mut self, what: &str, answer: Result<Vec<u8>>, expected: &[u8]) {
        match answer {
            Ok(bytes) => {
                assert!(bytes == expected, "{what}: wrong bytes with success");
                self.right += 1;
            }
            Err(error) => self.fail(what, &error),
        }
    }

    fn fail(&mut self, what: &str, error: &Error) {
        let expected = [ErrorCode::ReadFailed, ErrorCode::Internal];
        assert!(expected.contains(&error.code()), "{what}: {error:?}");
        self.failed += 1;
    }
}

fn whole(file: Result<OpenFile>, part: Option<(u64, u64)>) -> Result<Vec<u8>> {
    let mut file = file?;
    if let Some((from, length)) = part {
        file.select(from, length)?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| error.downcast::<Error>().unwrap())?;
    Ok(bytes)
}

fn image_of(files: &Files) -> BTreeMap<String, Vec<u8>> {
    let owned = files.iter();
    owned
        .map(|(path, bytes)| ((*path).to_owned(), bytes.clone()))
        .collect()
}

fn on_disk(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = walk(dir).into_iter();
    let name = |path: &Path| path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
    files
        .map(|path| (name(&path), std::fs::read(&path).unwrap()))
        .collect()
}

/// An export that git finds intact, or an error and no objects.
fn export(host: &Path, name: &str, seen: &mut Outcomes, run: impl Fn(&Path) -> Result<Exported>) {
    let target = host.join(name);
    match run(&target) {
        Ok(_) => {
            git(&target, &["fsck", "--full"]);
            seen.right += 1;
        }
        Err(error) => {
            seen.fail("export", &error);
            let packs = target.join("objects");
            let left = if packs.exists() {
                walk(&packs)
            } else {
                Vec::new()
            };
            assert!(left.is_empty(), "a failed export left {left:?}");
        }
    }
}

/// Runs every operation that reads content.
fn use_all(good: &Good, host: &Path, rng: &mut Rng) -> Option<Outcomes> {
    let mut options = EngineOptions::new(host.join("data"));
    options.provider = Some(ProviderName::Copy);
    let engine = Engine::open(options).ok()?;
    let ws: WorkspaceId = "w".parse().unwrap();
    let mut seen = Outcomes::default();
    for (path, expected) in &good.then {
        let open = || engine.workspaces.open_file_at(&ws, &good.first, &p(path));
        seen.judge("whole at a snapshot", whole(open(), None), expected);
        let from = rng.below(expected.len());
        let to = from + rng.below(expected.len() - from) + 1;
        let part = Some((from as u64, (to - from) as u64));
        seen.judge(
            "part at a snapshot",
            whole(open(), part),
            &expected[from..to],
        );
    }
    for (path, expected) in &good.project {
        let open = || engine.projects.open_project_file(&app(), None, &p(path));
        seen.judge("project file", whole(open(), None), expected);
        let part = Some((0, 10));
        seen.judge(
            "start of a project file",
            whole(open(), part),
            &expected[..10],
        );
    }
    let stored: WorkspaceId = STORED.parse().unwrap();
    for (path, expected) in &good.now {
        let open = || engine.workspaces.open_file(&stored, &p(path));
        seen.judge("whole without a directory", whole(open(), None), expected);
        let from = rng.below(expected.len());
        let part = Some((from as u64, 1));
        seen.judge(
            "part without a directory",
            whole(open(), part),
            &expected[from..=from],
        );
    }
    // The directory is intact, also if the store is damaged.
    for (path, expected) in &good.now {
        let read = engine.workspaces.read_whole(&ws, &p(path)).unwrap();
        assert!(read.0 == *expected, "{path} of the directory");
    }
    export(host, "workspace.git", &mut seen, |target| {
        engine.workspaces.export_git(&ws, target, &mut |_| {})
    });
    export(host, "project.git", &mut seen, |target| {
        engine
            .workspaces
            .export_project_git(&app(), target, None, &mut |_| {})
    });
    let options = ForkOptions {
        agent: Some("agent".parse().unwrap()),
        ..ForkOptions::default()
    };
    match engine.forks.fork_out(&app(), &options, &user()) {
        Ok((_, path)) => {
            assert!(on_disk(&path) == image_of(&good.project), "a wrong fork");
            seen.right += 1;
        }
        Err(error) => {
            seen.fail("fork", &error);
            let layers = std::fs::read_dir(host.join("data/layers")).unwrap();
            assert_eq!(layers.count(), 0, "a failed fork left a layer");
        }
    }
    let before = engine.workspaces.workspace(&ws).unwrap();
    let dir = host.join("data/workspaces/w");
    match engine.workspaces.restore(&ws, &good.first, None, &user()) {
        Ok(_) => {
            assert!(on_disk(&dir) == image_of(&good.then), "a wrong restore");
            seen.right += 1;
        }
        Err(error) => {
            seen.fail("restore", &error);
            assert!(on_disk(&dir) == image_of(&good.now), "a half restore");
            let after = engine.workspaces.workspace(&ws).unwrap();
            assert_eq!((before.files, before.bytes), (after.files, after.bytes));
        }
    }
    let stages = dir_image(&dir);
    assert_eq!(stages.len(), good.now.len() + 1, "stage files are left");
    let problems = engine.upkeep.check().unwrap().problems;
    if seen.failed > 0 {
        assert!(
            problems.iter().any(|one| one.what == "object"),
            "{problems:?}"
        );
    }
    Some(seen)
}

#[test]
fn no_use_case_takes_damaged_content_for_good() {
    let mut rng = Rng::new(7);
    let good = Good::new(&mut rng);
    // The test itself: without damage everything is right.
    let untouched = good.copy();
    let seen = use_all(&good, untouched.path(), &mut rng).unwrap();
    assert!(seen.failed == 0 && seen.right > 20);
    let places = good.places(&mut rng);
    let (mut failed, mut flips) = (0, 0);
    let rounds = if soak() { 40 } else { 1 };
    for _ in 0..rounds {
        for (path, from, length) in &places {
            if !soak() && rng.chance(600) {
                continue;
            }
            let at = from + rng.below(*length as usize) as u64;
            let copy = good.with_flipped(path, at, rng.below(8) as u8);
            flips += 1;
            match use_all(&good, copy.path(), &mut rng) {
                None => failed += 1,
                Some(seen) => failed += usize::from(seen.failed > 0),
            }
        }
    }
    println!("soak: {flips} flipped bytes, {failed} seen by a use case, none served");
    assert!(failed * 2 > flips, "{failed} of {flips} were noticed");
}
