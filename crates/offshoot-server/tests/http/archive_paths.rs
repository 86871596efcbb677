//! The path table as names and as targets of links of archive entries, into workspaces and projects:
//! nothing outside is read or changed, every entry that is left out is listed with a code, and
//! nothing is our own failure (INV-7).

use std::collections::HashMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::{Client, Reply, Running};
use crate::paths::{SECRET, check, contents, table};
use crate::raw_archives::{Names, TarEntry, ZipEntry, tar_of, zip_of};

const FILE: u32 = 0o100_644;
const DIR: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
/// What every entry of these archives holds, and nothing else on this machine.
const MARK: &str = "content of a hostile archive";

struct Scene {
    client: Client,
    before: Vec<(PathBuf, Vec<u8>)>,
    _running: Running,
    // Last: it goes when nobody uses it any more.
    data: offshoot_testkit::HostDir,
}

fn scene() -> Scene {
    let data = offshoot_testkit::HostDir::new();
    let outside = data.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.txt"), SECRET).unwrap();
    let running = Running::start(&data.path().join("data"));
    let client = running.client();
    for id in ["w", "x", "neighbour"] {
        client.create(id);
    }
    client.post("/api/v1/workspaces", r#"{"id":"s","layout":"session"}"#);
    client.create_project("p", &[("inside/a.txt", "inside")]);
    client.put("/api/v1/workspaces/w/files/inside/a.txt", b"inside");
    client.put(
        "/api/v1/workspaces/neighbour/files/n.txt",
        SECRET.as_bytes(),
    );
    for id in ["x", "s", "neighbour"] {
        client.get(&format!("/api/v1/workspaces/{id}/path"));
    }
    let path = client.get("/api/v1/workspaces/w/path").json();
    let dir = PathBuf::from(path["path"].as_str().unwrap());
    // Links that an outside program left are there before the archive comes.
    for (to, link) in [
        ("../../../outside/secret.txt", "link-out"),
        ("../../../outside", "dir-out"),
        ("/", "root"),
        ("..", "up"),
        ("../neighbour/n.txt", "next-door"),
        ("inside/a.txt", "link-in"),
        ("loop", "loop"),
    ] {
        symlink(to, dir.join(link)).unwrap();
    }
    let before = contents(&outside);
    Scene {
        data,
        client,
        _running: running,
        before,
    }
}

impl Scene {
    /// Imports an archive, and looks at the answer: it says of each entry what became of it.
    fn import(&self, what: &str, place: &str, archive: &[u8], entries: usize) -> Outcome {
        let target = format!("/api/v1/{place}");
        let reply = self.client.send("POST", target.as_bytes(), &[], archive);
        let what = format!("{what} {place}");
        check(&what, b"", &reply);
        assert_eq!(reply.status, 200, "{what} {}", reply.text());
        let outcome = Outcome::of(&reply);
        assert!(
            outcome.taken + outcome.refused.len() <= entries,
            "{what} {}",
            reply.text()
        );
        let own_fault = ["", "internal", "read_failed", "write_failed", "timeout"];
        for (name, code) in &outcome.refused {
            assert!(!own_fault.contains(&code.as_str()), "{what} {name} {code}");
        }
        self.nothing_outside(&what);
        outcome
    }

    fn nothing_outside(&self, what: &str) {
        let outside = self.data.path().join("outside");
        assert_eq!(contents(&outside), self.before, "{what}");
        // Beside the data directory, and beside the workspaces in it.
        let names = |dir: &Path| {
            let mut names: Vec<_> = std::fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(self.data.path()), ["data", "outside"], "{what}");
        let workspaces = self.data.path().join("data/workspaces");
        for name in names(&workspaces) {
            assert!(
                ["neighbour", "s", "w", "x"].contains(&name.as_str()),
                "{name}"
            );
        }
        let neighbour = contents(&workspaces.join("neighbour"));
        assert_eq!(neighbour.len(), 1, "{what}");
        assert_eq!(neighbour[0].1, SECRET.as_bytes(), "{what}");
        for place in ["/outside", "/neighbour", "/offshoot.db", "/through"] {
            assert!(!Path::new(place).exists(), "{what} {place}");
        }
        let passwd = std::fs::read("/etc/passwd").unwrap();
        assert!(!String::from_utf8_lossy(&passwd).contains(MARK), "{what}");
    }

    /// Every link in a workspace that an archive brought leads inside, as the kernel sees it, and
    /// the doors give nothing away through it.
    fn links_stay_inside(&self, id: &str) -> usize {
        let dir = self.data.path().join("data/workspaces").join(id);
        let root = dir.canonicalize().unwrap();
        let mut links = 0;
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap_or_default();
            if !name.starts_with("l-") || !entry.file_type().unwrap().is_symlink() {
                continue;
            }
            links += 1;
            if let Ok(leads_to) = entry.path().canonicalize() {
                assert!(leads_to.starts_with(&root), "{name} {leads_to:?}");
            }
            for (method, rest) in [("GET", ""), ("PUT", ""), ("PUT", "/through")] {
                let target = format!("/api/v1/workspaces/{id}/files/{name}{rest}");
                let reply = self.client.send(method, target.as_bytes(), &[], b"put");
                check(method, name.as_bytes(), &reply);
            }
        }
        self.nothing_outside("through links");
        links
    }
}

/// What an import says.
struct Outcome {
    taken: usize,
    refused: HashMap<String, String>,
}

impl Outcome {
    fn of(reply: &Reply) -> Outcome {
        let json = reply.json();
        let count = |name: &str| json[name].as_u64().unwrap() as usize;
        assert_eq!(count("refused_more"), 0);
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let refused = json["refused"].as_array().unwrap().iter();
        Outcome {
            taken: count("file_count") + count("dir_count") + count("link_count"),
            refused: refused
                .map(|entry| (text(&entry["name"]), text(&entry["code"])))
                .collect(),
        }
    }

    fn refusal(&self, name: &[u8]) -> Option<&str> {
        self.refused
            .get(&offshoot_core::escape_bytes(name))
            .map(String::as_str)
    }
}

/// Whether a name leads out, or is none, by rules of its own: not those that are tested.
fn leads_out(name: &[u8]) -> bool {
    let separates = |byte: &u8| *byte == b'/' || *byte == b'\\';
    name.is_empty()
        || name.contains(&0)
        || name.first().is_some_and(separates)
        || name.split(separates).any(|part| part == b"..")
        || (name.get(1) == Some(&b':') && name.contains(&b'\\'))
}

/// The table without what an archive cannot tell apart: names once.
fn names() -> Vec<Vec<u8>> {
    let mut names = table();
    names.sort();
    names.dedup();
    names
}

/// Where imports go. The workspace `w`, in which an outside program left links, looks at its
/// directory for each change, so that it gets what concerns those links and some of the rest.
const PLACES: [&str; 4] = [
    "workspaces/w/import",
    "workspaces/x/import",
    "workspaces/s/import?path=uploads",
    "projects/p/import",
];

fn goes_to(place: &str, index: usize, name: &[u8]) -> bool {
    let parts = ["link-", "dir-out", "root", "up", "next-door", "loop"];
    let text = String::from_utf8_lossy(name);
    place != PLACES[0] || index.is_multiple_of(16) || parts.iter().any(|part| text.contains(part))
}

fn shown(bytes: &[u8]) -> String {
    offshoot_core::escape_bytes(bytes)
}

/// Imports archives whose entries are called as in the table.
fn check_names(what: &str, names: &[&[u8]], pack: &dyn Fn(&[&[u8]]) -> Vec<u8>) {
    let scene = scene();
    for place in PLACES {
        let there = names.iter().enumerate();
        let names: Vec<&[u8]> = there
            .filter(|(index, name)| goes_to(place, *index, name))
            .map(|(_, name)| *name)
            .collect();
        let outcome = scene.import(what, place, &pack(&names), names.len());
        for name in names.iter().filter(|name| leads_out(name)) {
            let refusal = outcome.refusal(name);
            assert_eq!(
                refusal,
                Some("path_traversal_blocked"),
                "{what} {place} {}",
                shown(name)
            );
        }
        assert!(outcome.taken > 0, "{what} {place} took nothing");
    }
}

#[test]
fn no_name_of_a_tar_entry_leads_outside() {
    let table = names();
    let try_names = |names: Names, kind: u8| {
        let fits = |name: &&Vec<u8>| match names {
            // A header ends a name at the first NUL, and holds so much.
            Names::Header => name.len() <= 100 && !name.contains(&0) && !name.is_empty(),
            // An empty prefix is none: the slash after it would be lost.
            Names::Prefix => {
                let slash = name.iter().rposition(|&byte| byte == b'/');
                slash.is_some_and(|at| at > 0) && name.len() <= 150 && !name.contains(&0)
            }
            Names::Pax | Names::Gnu => true,
        };
        let fitting: Vec<&[u8]> = table.iter().filter(fits).map(|name| &name[..]).collect();
        let what = format!("tar {names:?} {}", char::from(kind));
        check_names(&what, &fitting, &|fitting| {
            let entries = fitting.iter().map(|name| TarEntry {
                name,
                kind,
                link: b"",
                content: if kind == b'0' { MARK.as_bytes() } else { b"" },
            });
            tar_of(names, &entries.collect::<Vec<_>>())
        });
    };
    // Several servers at once, because each change waits for the disk.
    std::thread::scope(|scope| {
        for names in [Names::Gnu, Names::Pax, Names::Prefix, Names::Header] {
            scope.spawn(move || try_names(names, b'0'));
        }
        scope.spawn(|| try_names(Names::Gnu, b'5'));
    });
}

#[test]
fn no_name_of_a_zip_entry_leads_outside() {
    let table = names();
    let evil: Vec<&[u8]> = table.iter().map(|name| &name[..]).collect();
    let try_names = |mode: u32, local: Option<&[u8]>| {
        let content = if mode == FILE { MARK.as_bytes() } else { b"" };
        check_names(&format!("zip {mode:o} {local:?}"), &evil, &|evil| {
            let entries = evil.iter().map(|name| ZipEntry {
                name,
                local_name: local.unwrap_or(name),
                mode,
                content,
            });
            zip_of(&entries.collect::<Vec<_>>())
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(|| try_names(FILE, None));
        scope.spawn(|| try_names(DIR, None));
        // The entry itself says something harmless: what the directory says holds.
        scope.spawn(|| try_names(FILE, Some(b"harmless")));
    });
    // The other way round: what the entry says is not looked at.
    let scene = scene();
    let plain: Vec<Vec<u8>> = (0..evil.len()).map(|n| format!("z-{n}").into()).collect();
    let entries = plain.iter().zip(&evil).map(|(name, local_name)| ZipEntry {
        name,
        local_name,
        mode: FILE,
        content: MARK.as_bytes(),
    });
    let archive = zip_of(&entries.collect::<Vec<_>>());
    for place in &PLACES[1..] {
        let outcome = scene.import("hostile in the entry", place, &archive, plain.len());
        assert_eq!(outcome.taken, plain.len(), "{:?}", outcome.refused);
    }
    let read = scene.client.get("/api/v1/workspaces/x/files/z-7");
    assert_eq!(read.text(), MARK);
}

#[test]
fn no_link_of_an_archive_leads_outside() {
    let table = names();
    let tar = |names: Names, kind: u8, links: &[(Vec<u8>, &[u8])]| {
        let entries = links.iter().map(|(name, link)| TarEntry {
            name,
            kind,
            link,
            content: b"",
        });
        tar_of(names, &entries.collect::<Vec<_>>())
    };
    let zip = |links: &[(Vec<u8>, &[u8])]| {
        let entries = links.iter().map(|(name, target)| ZipEntry {
            name,
            local_name: name,
            mode: LINK,
            content: target,
        });
        zip_of(&entries.collect::<Vec<_>>())
    };
    let try_links = |what: &str, symbolic: bool, pack: &dyn Fn(&[(Vec<u8>, &[u8])]) -> Vec<u8>| {
        let scene = scene();
        for place in PLACES {
            let links: Vec<(Vec<u8>, &[u8])> = table
                .iter()
                .enumerate()
                .filter(|(index, target)| goes_to(place, *index, target))
                .map(|(index, target)| (format!("l-{index}").into(), &target[..]))
                .collect();
            let outcome = scene.import(what, place, &pack(&links), links.len());
            for (name, target) in links {
                // No file is before them, so no hard link is to one.
                assert!(
                    outcome.refusal(&name).is_some() || (symbolic && !leads_out(target)),
                    "{what} {place} took a link to {}",
                    shown(target)
                );
            }
        }
        for id in ["w", "x"] {
            let found = scene.links_stay_inside(id);
            assert_eq!(found > 0, symbolic, "{what} {id} {found}");
            archive_gives_nothing_away(&scene, id);
        }
    };
    std::thread::scope(|scope| {
        for names in [Names::Gnu, Names::Pax] {
            let (tar, try_links) = (&tar, &try_links);
            scope.spawn(move || {
                try_links("symbolic", true, &|links| tar(names, b'2', links));
            });
            scope.spawn(move || {
                try_links("hard", false, &|links| tar(names, b'1', links));
            });
        }
        scope.spawn(|| try_links("zip", true, &zip));
    });
}

/// A file whose name goes through a link of the same archive, for every target.
#[test]
fn no_file_goes_through_a_link_of_its_archive() {
    let table = names();
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..table.len())
        .map(|n| (format!("l-{n}").into(), format!("l-{n}/through").into()))
        .collect();
    let mut tar = Vec::new();
    let mut zip = Vec::new();
    for ((name, below), target) in pairs.iter().zip(&table) {
        tar.push(TarEntry {
            name,
            kind: b'2',
            link: target,
            content: b"",
        });
        tar.push(TarEntry {
            name: below,
            kind: b'0',
            link: b"",
            content: MARK.as_bytes(),
        });
        for (name, mode, content) in [(name, LINK, &target[..]), (below, FILE, MARK.as_bytes())] {
            zip.push(ZipEntry {
                name,
                local_name: name,
                mode,
                content,
            });
        }
    }
    let scene = scene();
    for archive in [tar_of(Names::Gnu, &tar), zip_of(&zip)] {
        for place in ["workspaces/s/import?path=outputs", "projects/p/import"] {
            let outcome = scene.import("through", place, &archive, 2 * table.len());
            for (name, below) in &pairs {
                let taken = [name, below].map(|name| outcome.refusal(name).is_none());
                assert_ne!(taken, [true, true], "{place} {name:?}");
            }
        }
    }
}

#[test]
fn links_that_leave_only_together_do_not_get_in() {
    let scene = scene();
    let link = |name: &'static [u8], link: &'static [u8]| TarEntry {
        name,
        kind: b'2',
        link,
        content: b"",
    };
    let file = |name: &'static [u8]| TarEntry {
        name,
        kind: b'0',
        link: b"",
        content: MARK.as_bytes(),
    };
    // Each stays inside by its text; `l-a` would leave as soon as `d/e/f/up` is there.
    let first = [link(b"l-a", b"d/e/f/up/../../outside")];
    let archive = tar_of(Names::Header, &first);
    let outcome = scene.import("alone", "workspaces/w/import", &archive, 1);
    assert_eq!(outcome.refusal(b"l-a"), Some("path_traversal_blocked"));
    let archive = tar_of(
        Names::Header,
        &[
            link(b"d/e/f/up", b"../.."),
            link(b"l-b", b"d/e/f/up"),
            link(b"l-c", b"l-b"),
            file(b"l-b/through"),
            // Through links that were there before.
            link(b"l-d", b"dir-out/secret.txt"),
            link(b"l-e", b"up"),
            link(b"l-f", b"root/etc/passwd"),
            link(b"dir-out/l-g", b"secret.txt"),
            file(b"dir-out/through"),
            file(b"up/through"),
            file(b"root/through"),
        ],
    );
    let outcome = scene.import("together", "workspaces/w/import", &archive, 11);
    for name in [
        "l-d",
        "l-e",
        "l-f",
        "dir-out/l-g",
        "dir-out/through",
        "up/through",
        "root/through",
    ] {
        assert_eq!(
            outcome.refusal(name.as_bytes()),
            Some("path_traversal_blocked"),
            "{name} {:?}",
            outcome.refused
        );
    }
    assert_eq!(outcome.refusal(b"l-b/through"), Some("not_a_directory"));
    assert_eq!(scene.links_stay_inside("w"), 2);
}

/// What a download packs are the links, not what they lead to.
fn archive_gives_nothing_away(scene: &Scene, id: &str) {
    use std::io::Read as _;
    let target = format!("/api/v1/workspaces/{id}/archive?format=tar.gz");
    let reply = scene.client.get(&target);
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(&reply.body[..])
        .read_to_end(&mut tar)
        .unwrap();
    let holds = |text: &str| tar.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(!tar.is_empty() && !holds(SECRET) && !holds("root:x:"));
}
