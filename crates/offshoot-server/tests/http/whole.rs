//! Archives are whole: what goes out is one state however many write meanwhile, and what comes in comes
//! in as a whole or not at all.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use offshoot_testkit::{HostDir, dir_image};
use zip::write::SimpleFileOptions;

use crate::common::{self, Client, Running};

fn of(id: &str, rest: &str) -> String {
    format!("/api/v1/workspaces/{id}{rest}")
}

fn handed_out(client: &Client, id: &str) -> PathBuf {
    let path = client.get(&of(id, "/path")).json();
    PathBuf::from(path["path"].as_str().unwrap())
}

type Files = BTreeMap<String, Vec<u8>>;

/// Unpacks with the library, which checks every size and checksum.
fn unzip(bytes: &[u8]) -> Files {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut files = Files::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if entry.is_file() {
            files.insert(entry.name().unwrap().into_owned(), content);
        }
    }
    files
}

/// Unpacks with the program that everybody has.
fn untar(bytes: &[u8]) -> Files {
    let dir = HostDir::new();
    let mut tar = Command::new("tar")
        .args(["-xzf", "-"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    tar.stdin.take().unwrap().write_all(bytes).unwrap();
    let done = tar.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && told.is_empty(), "{told}");
    let mut files = Files::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        files.insert(name, std::fs::read(path).unwrap());
    }
    files
}

fn archive(client: &Client, id: &str, format: &str) -> Files {
    let reply = client.get(&of(id, &format!("/archive?format={format}")));
    assert_eq!(reply.status, 200, "{}", reply.text());
    match format {
        "zip" => unzip(&reply.body),
        _ => untar(&reply.body),
    }
}

/// Calls `write` again and again while `read` runs.
fn meanwhile(write: impl Fn(u64) + Sync, read: impl FnOnce()) {
    let over = AtomicBool::new(false);
    /// Also if `read` fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                write(round);
            }
        });
        let _over = Over(&over);
        read();
    });
}

/// Records of one round, numbered from 0: whatever a writer has done so far is a beginning of it.
fn is_a_beginning(bytes: &[u8]) -> bool {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let lines: Vec<(&str, usize)> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(round, number)| (round, number.trim().parse().unwrap()))
        .collect();
    let in_order = lines
        .iter()
        .enumerate()
        .all(|(n, (_, number))| n == *number);
    bytes.len().is_multiple_of(16) && in_order && lines.iter().all(|line| line.0 == lines[0].0)
}

fn record(round: u64, number: usize) -> String {
    format!("{round:08} {number:06}\n")
}

#[test]
fn archives_under_outside_writers_are_never_cut_or_filled_up() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    client.create("w");
    let dir = handed_out(&client, "w");
    std::fs::write(dir.join(".gitignore"), "*.tmp\n").unwrap();
    std::fs::write(dir.join("rest"), vec![7; 300_000]).unwrap();
    std::fs::write(dir.join("log"), "").unwrap();
    client.post(&of("w", "/sync"), "");
    let write = |round: u64| {
        for name in ["log", "busy.tmp"] {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(dir.join(name))
                .unwrap();
            for number in 0..200 {
                file.write_all(record(round, number).as_bytes()).unwrap();
            }
        }
    };
    meanwhile(write, || {
        for format in ["tar.gz", "zip", "tar.gz", "zip", "tar.gz", "zip"] {
            let files = archive(&client, "w", format);
            assert_eq!(files["rest"], vec![7; 300_000]);
            let log = &files["log"];
            assert!(
                is_a_beginning(log),
                "{format}: {}",
                String::from_utf8_lossy(log)
            );
        }
    });
    // An ignored file is in it too, as it is.
    let files = archive(&client, "w", "tar.gz");
    assert!(is_a_beginning(&files["busy.tmp"]) && files["busy.tmp"].len() == 200 * 16);
}

#[test]
fn an_archive_is_one_point_in_time() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    client.create("w");
    for name in ["a", "b", "z"] {
        client.put(&of("w", &format!("/files/{name}")), b"0");
    }
    // Between the two there is much to pack.
    client.put(&of("w", "/files/m"), &vec![3; 2 << 20]);
    let write = |round: u64| {
        for name in ["a", "z"] {
            client.put(
                &of("w", &format!("/files/{name}")),
                round.to_string().as_bytes(),
            );
        }
    };
    let number = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec())
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    meanwhile(write, || {
        for format in ["zip", "tar.gz", "zip", "tar.gz"] {
            let files = archive(&client, "w", format);
            let (a, z) = (number(&files["a"]), number(&files["z"]));
            assert!(a == z || a == z + 1, "{format}: a is {a} and z is {z}");
        }
    });
}

/// All that an import could leave behind.
fn everything(data: &Path, client: &Client, id: &str) -> (String, String, String, Vec<String>) {
    let info = client.get(&of(id, "/info")).json();
    let counted = format!(
        "{} {} {}",
        info["file_count"], info["dir_count"], info["total_size"]
    );
    let history = client.get(&of(id, "/history?limit=1000")).text();
    let dir = data.join("workspaces").join(id);
    let files = match dir.exists() {
        true => format!("{:?}", dir_image(&dir)),
        false => String::new(),
    };
    let tmp = std::fs::read_dir(data.join("tmp")).unwrap();
    let left = tmp.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (counted, history, files, left.collect())
}

fn contents() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = (0..30)
        .map(|n| {
            (
                format!("d/{n:02}"),
                format!("file {n}\n").repeat(40).into_bytes(),
            )
        })
        .collect();
    // Large enough to be streamed.
    let noise: Vec<u8> = (0..600_000u64)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    all.push(("kept".to_owned(), b"new".to_vec()));
    all.push(("large".to_owned(), noise));
    all.push(("z".to_owned(), b"last".to_vec()));
    all
}

fn tar() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in contents() {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, &content[..]).unwrap();
    }
    tar.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn zip(stored: bool) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let method = match stored {
        true => zip::CompressionMethod::Stored,
        false => zip::CompressionMethod::Deflated,
    };
    for (name, content) in contents() {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(name, options).unwrap();
        zip.write_all(&content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Archives that are not whole, each with what is wrong with it.
fn broken() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |what: &str, bytes: Vec<u8>| all.push((what.to_owned(), bytes));
    let plain = tar();
    // Between two entries, within one, and within the large one.
    for cut in [1024, 1500, 512 * 20, 512 * 61, plain.len() / 2] {
        add(&format!("tar cut at {cut}"), plain[..cut].to_vec());
        add(
            &format!("tar.gz of a tar cut at {cut}"),
            gzip(&plain[..cut]),
        );
    }
    let packed = gzip(&plain);
    for cut in [packed.len() / 2, packed.len() - 9, packed.len() - 1] {
        add(&format!("tar.gz cut at {cut}"), packed[..cut].to_vec());
    }
    for at in [packed.len() - 6, packed.len() - 2] {
        let mut wrong = packed.clone();
        wrong[at] ^= 1;
        add(&format!("tar.gz with a wrong checksum at {at}"), wrong);
    }
    let zipped = zip(true);
    let find = |text: &[u8]| {
        zipped
            .windows(text.len())
            .position(|part| part == text)
            .unwrap()
    };
    let noise = contents()[31].1.clone();
    for at in [
        find(b"file 7\n"),
        find(&noise[..64]) + 500_000,
        find(b"last"),
    ] {
        let mut wrong = zipped.clone();
        wrong[at] ^= 1;
        add(&format!("zip with wrong content at {at}"), wrong);
    }
    add("zip cut", zipped[..zipped.len() / 2].to_vec());
    let mut shorter = zip(false);
    let at = shorter.len() / 2;
    shorter[at] ^= 0x55;
    add("zip with wrong compressed content", shorter);
    all
}

#[test]
fn an_import_that_fails_leaves_a_workspace_as_it_was() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    let import =
        |id: &str, archive: &[u8]| client.send("POST", of(id, "/import").as_bytes(), &[], archive);
    // Without a directory, with one, and with one that others know.
    for id in ["fresh", "used", "shown"] {
        client.create(id);
        if id != "fresh" {
            client.put(&of(id, "/files/kept"), b"old");
        }
    }
    let dir = handed_out(&client, "shown");
    std::fs::write(dir.join("theirs"), b"outside").unwrap();
    client.post(&of("shown", "/sync"), "");
    for (what, archive) in broken() {
        for id in ["fresh", "used", "shown"] {
            let before = everything(data.path(), &client, id);
            let reply = import(id, &archive);
            assert_eq!(reply.code(), "invalid_request", "{what}: {}", reply.text());
            assert_eq!(
                everything(data.path(), &client, id),
                before,
                "{what} into {id}"
            );
        }
    }
    // A body that breaks off.
    for archive in [tar(), zip(false)] {
        let before = everything(data.path(), &client, "used");
        let mut stream = client.connect();
        let mut request = client.head("POST", of("used", "/import").as_bytes(), &[]);
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", archive.len()).as_bytes());
        request.extend_from_slice(&archive[..archive.len() / 2]);
        stream.write_all(&request).unwrap();
        drop(stream);
        assert_eq!(everything(data.path(), &client, "used"), before);
    }
    // More than the quota allows, in bytes and in files.
    for quota in [r#"{"bytes":300000}"#, r#"{"inodes":20}"#] {
        let set = client.send(
            "PUT",
            of("used", "/quota").as_bytes(),
            &[],
            quota.as_bytes(),
        );
        assert_eq!(set.status, 200, "{}", set.text());
        let before = everything(data.path(), &client, "used");
        for archive in [tar(), gzip(&tar()), zip(true)] {
            let reply = import("used", &archive);
            assert_eq!(reply.code(), "quota_exceeded", "{}", reply.text());
            assert_eq!(everything(data.path(), &client, "used"), before, "{quota}");
        }
    }
    // The same archives, whole, come in whole.
    for (id, archive) in [
        ("fresh", tar()),
        ("shown", gzip(&tar())),
        ("shown", zip(false)),
    ] {
        let reply = import(id, &archive);
        assert_eq!(
            reply.json()["file_count"],
            contents().len(),
            "{}",
            reply.text()
        );
        for (name, content) in contents() {
            let file = client.get(&of(id, &format!("/files/{name}")));
            assert!(file.body == content, "{id} {name}");
        }
    }
    let problems = running.engine.upkeep.check().unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn work_for_a_client_that_is_gone_ends_soon() {
    let data = HostDir::new();
    let running = Running::start_with(data.path(), common::options());
    let client = running.client();
    client.create("w");
    let dir = handed_out(&client, "w");
    // Small enough to be read, and so large that it would take minutes.
    let sparse = std::fs::File::create(dir.join("sparse")).unwrap();
    sparse.set_len(12 << 30).unwrap();
    let mut stream = client.connect();
    let mut request = client.head("POST", of("w", "/sync").as_bytes(), &[]);
    request.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    stream.write_all(&request).unwrap();
    let waiting = Instant::now();
    // This request is counted as well.
    while !client
        .get("/metrics")
        .text()
        .contains("requests_in_flight 2\n")
    {
        assert!(
            waiting.elapsed() < Duration::from_secs(30),
            "the sync did not begin"
        );
    }
    drop(stream);
    std::fs::remove_file(dir.join("sparse")).unwrap();
    std::fs::write(dir.join("other"), "text").unwrap();
    let synced = client.post(&of("w", "/sync"), "");
    assert_eq!(synced.status, 200, "{}", synced.text());
    // The first one may have come to it before it ended.
    let history = client.get(&of("w", "/history?path=other")).json();
    assert_eq!(history["history"][0]["via"], "sync", "{history}");
}

/// A file that is too large to be read is in no archive, and the answer says so before it begins.
#[test]
fn an_archive_says_what_it_leaves_out() {
    let data = HostDir::new();
    let running = Running::start(data.path());
    let client = running.client();
    client.create("w");
    let at = "/api/v1/workspaces/w";
    client.put(&format!("{at}/files/dir/small"), b"small");
    client.put(&format!("{at}/files/other/small"), b"small");
    let quota = client.put(&format!("{at}/quota"), br#"{"bytes":100000}"#);
    assert_eq!(quota.status, 200, "{}", quota.text());
    let place = client.get(&format!("{at}/path")).json();
    let dir = std::path::PathBuf::from(place["path"].as_str().unwrap());
    let left_out = |below: &str| {
        let reply = client.get(&format!("{at}/archive?format=zip&path={below}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.header("offshoot-left-out").map(str::to_owned)
    };
    assert_eq!(left_out("."), None);
    std::fs::write(dir.join("dir/large"), vec![7; 200_000]).unwrap();
    std::fs::write(dir.join("dir/larger"), vec![7; 300_000]).unwrap();
    assert_eq!(left_out("."), Some("2".to_owned()));
    assert_eq!(left_out("dir"), Some("2".to_owned()));
    assert_eq!(left_out("other"), None);
}
