//! Packs of git and packs of enemies: what is received, what is refused, and git's own verdict.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use offshoot_core::{ErrorCode, ObjectId, Result};
use offshoot_git::{
    GitRepository, Kind, MemoryObjects, ObjectReader, PackFiles, PackLimits, ReceivedPack,
    VisibleHistory, connected_objects, hash,
};

use crate::common::Git;
use crate::fetch::{Dice, history};

const LIMITS: PackLimits = PackLimits {
    pack_bytes: 64 << 20,
    object_bytes: 32 << 20,
    unpacked_bytes: 128 << 20,
    objects: 10_000,
};

pub(crate) fn receive(
    bytes: &[u8],
    known: &dyn ObjectReader,
    tips: &[ObjectId],
) -> Result<ReceivedPack> {
    let files = PackFiles {
        pack: tempfile::tempfile().unwrap(),
        built: tempfile::tempfile().unwrap(),
    };
    let mut visible = VisibleHistory::new(known, tips.to_vec());
    ReceivedPack::receive(&mut &bytes[..], files, &LIMITS, &mut visible)
}

fn refusal(bytes: &[u8]) -> String {
    let refused = receive(bytes, &MemoryObjects::new(), &[]).err();
    refused.expect("it is refused").message().to_owned()
}

/// One entry of a pack: its kind in git's numbers, what stands before its stream, and the content.
pub(crate) fn entry(kind: u8, before: &[u8], content: &[u8]) -> Vec<u8> {
    sized_entry(kind, content.len() as u64, before, content)
}

/// An entry that says another size than it has.
fn sized_entry(kind: u8, size: u64, before: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = size >> 4;
    let more = |rest: u64| if rest > 0 { 0x80 } else { 0 };
    bytes.push(kind << 4 | (size & 15) as u8 | more(rest));
    while rest > 0 {
        let next = rest >> 7;
        bytes.push((rest & 0x7f) as u8 | more(next));
        rest = next;
    }
    bytes.extend_from_slice(before);
    let mut encoder = ZlibEncoder::new(bytes, Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn pack(entries: &[Vec<u8>]) -> Vec<u8> {
    counted_pack(entries.len() as u32, &entries.concat())
}

fn counted_pack(count: u32, entries: &[u8]) -> Vec<u8> {
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes.extend_from_slice(entries);
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(&bytes);
    let sum = hasher.try_finalize().unwrap();
    bytes.extend_from_slice(sum.as_slice());
    bytes
}

pub(crate) const COMMIT: u8 = 1;
pub(crate) const TREE: u8 = 2;
pub(crate) const BLOB: u8 = 3;
pub(crate) const TAG: u8 = 4;
const OFFSET: u8 = 6;
const REFERENCE: u8 = 7;

/// A delta of a base with so many bytes that copies all of it and adds one byte.
fn longer(base: u8) -> Vec<u8> {
    vec![base, base + 1, 0x90, base, 1, b'!']
}

#[test]
fn packs_of_git_in_every_form() {
    for round in 0..3 {
        let git = Git::init();
        let mut dice = Dice(90 + round);
        let commits = history(&git, &mut dice, round % 2 == 1);
        let tip = *commits.last().unwrap();
        // Larger than what is handled in memory, and sent as a delta.
        let size = if round == 0 { 9u32 << 20 } else { 9_000 };
        let mut large: Vec<u8> = (0..size).map(|n| (n.wrapping_mul(n) >> 9) as u8).collect();
        let first = git.text(&["hash-object", "-w", "--stdin"], &large);
        large[5_000] ^= 1;
        large.extend_from_slice(b"more");
        let second = git.text(&["hash-object", "-w", "--stdin"], &large);
        let old = commits[dice.below(commits.len() - 1)];
        let wants = format!("{tip}\n{first}\n{second}\n");
        let since = format!("{tip}\n^{old}\n{first}\n{second}\n");
        let repository = GitRepository::open(git.path()).unwrap();
        let nothing = MemoryObjects::new();
        for (options, revs, is_thin) in [
            (&["--delta-base-offset"][..], &wants, false),
            (&[], &wants, false),
            (&["--window=0"], &wants, false),
            (&["--depth=3"], &since, false),
            (&["--thin", "--delta-base-offset"], &since, true),
            (&["--thin"], &since, true),
        ] {
            let mut args = vec!["pack-objects", "-q", "--revs", "--stdout"];
            args.extend_from_slice(options);
            let bytes = git.run(&args, revs.as_bytes());
            let received = match is_thin {
                true => receive(&bytes, &repository, &[old]).unwrap(),
                false => receive(&bytes, &nothing, &[]).unwrap(),
            };
            let mut list = vec!["rev-list", "--objects", "--no-object-names"];
            let ids: Vec<&str> = revs.lines().collect();
            list.extend(ids);
            let expected = git.text(&list, b"");
            // Where it ends at what we have, git sends a little more than is needed.
            let count = expected.lines().count();
            assert!(received.len() >= count, "{options:?}");
            assert!(*revs == since || received.len() == count, "{options:?}");
            for id in expected.lines() {
                let id: ObjectId = id.parse().unwrap();
                let (kind, content) = received.read(&id).unwrap().unwrap();
                assert_eq!(hash(kind, &content).unwrap(), id);
                let mut streamed = Vec::new();
                let mut open = received.open(&id).unwrap().unwrap();
                std::io::copy(&mut open.content, &mut streamed).unwrap();
                assert_eq!(
                    (open.size, &streamed[..]),
                    (content.len() as u64, &content[..])
                );
            }
            // What git sends is whole on top of what it was told that we have.
            let tips = [old];
            let known = if *revs == since { &tips[..] } else { &[] };
            let mut visible = VisibleHistory::new(&repository, known.to_vec());
            let reached = connected_objects(&received, &mut visible, tip).unwrap();
            let named = received.len() - 2;
            assert!(reached.len() <= named, "all but the two large files");
            assert!(*revs == since || reached.len() == named);
        }
    }
}

#[test]
fn hostile_packs_are_refused_with_a_reason() {
    let good = pack(&[entry(BLOB, b"", b"content")]);
    assert_eq!(receive(&good, &MemoryObjects::new(), &[]).unwrap().len(), 1);
    // Cut anywhere, or with anything after it.
    for end in 0..good.len() {
        refusal(&good[..end]);
    }
    for at in 0..good.len() {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        refusal(&flipped);
    }
    refusal(&[&good[..], b"x"].concat());
    let id = *hash(Kind::Blob, b"content").unwrap().as_bytes();
    let built = *hash(Kind::Blob, b"content!").unwrap().as_bytes();
    let zeros = vec![0; 40 << 20];
    // What `content!!` comes to, so that two deltas can name each other.
    let next = *hash(Kind::Blob, b"content!!").unwrap().as_bytes();
    for (case, bytes, reason) in [
        (
            "no pack",
            b"PICK\0\0\0\x02\0\0\0\0aaaaaaaaaaaaaaaaaaaa".to_vec(),
            "no pack",
        ),
        (
            "huge count",
            counted_pack(u32::MAX, b""),
            "more than 10000 objects",
        ),
        (
            "count too large",
            counted_pack(2, &entry(BLOB, b"", b"x")),
            "cut short",
        ),
        (
            "count too small",
            counted_pack(0, &entry(BLOB, b"", b"x")),
            "more in it",
        ),
        (
            "garbage between",
            counted_pack(1, &[entry(BLOB, b"", b"x"), b"y".to_vec()].concat()),
            "more in it",
        ),
        (
            "bomb",
            pack(&[sized_entry(BLOB, 100, b"", &zeros)]),
            "another size",
        ),
        (
            "bomb that says so",
            pack(&[entry(BLOB, b"", &zeros)]),
            "more than 33554432 bytes",
        ),
        (
            "many bombs",
            pack(&vec![entry(BLOB, b"", &zeros[..30 << 20]); 5]),
            "unpacks to more",
        ),
        (
            "size beyond all",
            pack(&[sized_entry(BLOB, u64::MAX >> 4, b"", b"x")]),
            "more than",
        ),
        (
            "short object",
            pack(&[sized_entry(BLOB, 9, b"", b"content")]),
            "another size",
        ),
        ("no stream", counted_pack(1, b"\x37notzlib"), "inflated"),
        ("unknown kind", pack(&[entry(5, b"", b"x")]), "unknown kind"),
        ("kind zero", pack(&[entry(0, b"", b"x")]), "unknown kind"),
        (
            "twice",
            pack(&[entry(BLOB, b"", b"x"), entry(BLOB, b"", b"x")]),
            "twice",
        ),
        (
            "on nothing",
            pack(&[entry(OFFSET, b"\x7f", &longer(7))]),
            "nothing",
        ),
        (
            "on itself",
            pack(&[entry(OFFSET, b"\0", &longer(7))]),
            "nothing",
        ),
        (
            "into the header",
            pack(&[entry(OFFSET, b"\x0b", &longer(7))]),
            "neither in it",
        ),
        (
            "base missing",
            pack(&[entry(REFERENCE, &id, &longer(7))]),
            "neither in it",
        ),
        (
            "cycle",
            pack(&[
                entry(REFERENCE, &next, &longer(7)),
                entry(REFERENCE, &built, &longer(8)),
            ]),
            "neither in it",
        ),
        (
            "delta bomb",
            pack(&[
                entry(BLOB, b"", b"content"),
                entry(REFERENCE, &id, &[7, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x90, 7]),
            ]),
            "more than",
        ),
        (
            "delta shorter than it says",
            pack(&[
                entry(BLOB, b"", b"content"),
                entry(REFERENCE, &id, &[7, 9, 0x90, 7]),
            ]),
            "does not fit",
        ),
        (
            "delta longer than it says",
            pack(&[
                entry(BLOB, b"", b"content"),
                entry(REFERENCE, &id, &[7, 6, 0x90, 7]),
            ]),
            "does not fit",
        ),
        (
            "copy from outside the base",
            pack(&[
                entry(BLOB, b"", b"content"),
                entry(REFERENCE, &id, &[7, 7, 0x91, 1, 7]),
            ]),
            "does not fit",
        ),
        (
            "delta of another base",
            pack(&[
                entry(BLOB, b"", b"content"),
                entry(REFERENCE, &id, &longer(8)),
            ]),
            "does not fit",
        ),
        (
            "delta with a command of git's future",
            pack(&[
                entry(BLOB, b"", b"content"),
                entry(REFERENCE, &id, &[7, 7, 0]),
            ]),
            "does not fit",
        ),
        (
            "empty delta",
            pack(&[entry(BLOB, b"", b"content"), entry(REFERENCE, &id, b"")]),
            "cut short",
        ),
    ] {
        let refused = refusal(&bytes);
        assert!(refused.contains(reason), "{case}: {refused}");
    }
    // A good chain for comparison, the base last.
    let chain = pack(&[
        entry(REFERENCE, &built, &longer(8)),
        entry(REFERENCE, &id, &longer(7)),
        entry(BLOB, b"", b"content"),
    ]);
    let received = receive(&chain, &MemoryObjects::new(), &[]).unwrap();
    let end = ObjectId::from_bytes(next);
    assert_eq!(&received.read(&end).unwrap().unwrap().1[..], b"content!!");
}

/// A pack may build on what the sender sees, and on nothing else that the store has.
#[test]
fn a_thin_pack_does_not_give_away_what_is_somebody_elses() {
    let store = MemoryObjects::new();
    let secret = store.add(Kind::Blob, b"content").unwrap();
    let tree = |name: &str, id: &ObjectId| {
        let mut bytes = format!("100644 {name}\0").into_bytes();
        bytes.extend_from_slice(id.as_bytes());
        bytes
    };
    let theirs = store.add(Kind::Tree, &tree("secret", &secret)).unwrap();
    let own = store.add(Kind::Blob, b"mine").unwrap();
    let mine = store.add(Kind::Tree, &tree("a", &own)).unwrap();
    let commit = |tree: &ObjectId, parents: &[ObjectId]| {
        let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
        let who = "A <a@b> 1700000000 +0000";
        format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nx\n").into_bytes()
    };
    let foreign = store.add(Kind::Commit, &commit(&theirs, &[])).unwrap();
    let head = store.add(Kind::Commit, &commit(&mine, &[])).unwrap();
    let copy_all = [7, 7, 0x90, 7];
    let thin = pack(&[entry(REFERENCE, secret.as_bytes(), &copy_all)]);
    assert!(receive(&thin, &store, &[foreign]).is_ok());
    let refused = receive(&thin, &store, &[head]).err().unwrap();
    assert!(refused.message().contains("neither in it"), "{refused}");

    let check = |entries: &[(u8, Vec<u8>)], tip: &[u8]| {
        let entries: Vec<Vec<u8>> = entries
            .iter()
            .map(|(kind, one)| entry(*kind, b"", one))
            .collect();
        let received = receive(&pack(&entries), &store, &[head])?;
        let mut visible = VisibleHistory::new(&store, vec![head]);
        connected_objects(&received, &mut visible, hash(Kind::Commit, tip)?)
    };
    let named = tree("stolen", &secret);
    let named_id = hash(Kind::Tree, &named).unwrap();
    let moved = tree("b", &own);
    let moved_id = hash(Kind::Tree, &moved).unwrap();
    let dir = [&b"40000 d\0"[..], theirs.as_bytes()].concat();
    let dir_id = hash(Kind::Tree, &dir).unwrap();
    let as_dir = [&b"40000 d\0"[..], own.as_bytes()].concat();
    let as_dir_id = hash(Kind::Tree, &as_dir).unwrap();
    for (case, more, top, reason) in [
        (
            "somebody's file",
            vec![(TREE, named)],
            commit(&named_id, &[head]),
            "neither in it",
        ),
        (
            "somebody's directory",
            vec![(TREE, dir)],
            commit(&dir_id, &[head]),
            "neither in it",
        ),
        (
            "somebody's whole tree",
            vec![],
            commit(&theirs, &[head]),
            "neither in it",
        ),
        (
            "somebody's commit",
            vec![],
            commit(&mine, &[head, foreign]),
            "neither in it",
        ),
        (
            "a file as a directory",
            vec![(TREE, as_dir)],
            commit(&as_dir_id, &[head]),
            "is a blob",
        ),
        (
            "a commit as a tree",
            vec![],
            commit(&head, &[head]),
            "neither in it",
        ),
        (
            "a tree as a parent",
            vec![],
            commit(&mine, &[mine]),
            "neither in it",
        ),
    ] {
        let mut entries = vec![(COMMIT, top.clone())];
        entries.extend(more);
        let refused = check(&entries, &top)
            .err()
            .unwrap_or_else(|| panic!("{case}"));
        assert!(refused.message().contains(reason), "{case}: {refused}");
    }
    // Nor does a later commit of the same pack vouch for what an earlier one names.
    let named = tree("stolen", &secret);
    let dir = [&b"40000 d\0"[..], theirs.as_bytes()].concat();
    for (case, first_tree) in [
        ("a file", Some(named)),
        ("a directory", Some(dir)),
        ("a whole tree", None),
    ] {
        let first_id = (first_tree.as_ref()).map_or(theirs, |one| hash(Kind::Tree, one).unwrap());
        let first = commit(&first_id, &[head]);
        let top = commit(&moved_id, &[hash(Kind::Commit, &first).unwrap()]);
        let mut entries = vec![
            (COMMIT, first),
            (COMMIT, top.clone()),
            (TREE, moved.clone()),
        ];
        entries.extend(first_tree.map(|one| (TREE, one)));
        let refused = check(&entries, &top)
            .err()
            .unwrap_or_else(|| panic!("{case} of two commits"));
        assert!(
            refused.message().contains("neither in it"),
            "{case}: {refused}"
        );
    }
    // A file that was moved is not sent again.
    let top = commit(&moved_id, &[head]);
    let found = check(&[(COMMIT, top.clone()), (TREE, moved)], &top).unwrap();
    assert_eq!(found.len(), 2);
    // Nor is what stood in an older commit.
    let top = commit(&mine, &[head]);
    assert_eq!(check(&[(COMMIT, top.clone())], &top).unwrap().len(), 1);
    // An amended snapshot names what only the snapshot has.
    let text = String::from_utf8(commit(&mine, &[head])).unwrap();
    let amended = text
        .replace("\n\nx", &format!("\noffshoot-sidecar {theirs}\n\nx"))
        .into_bytes();
    let refused = check(&[(COMMIT, amended.clone())], &amended).unwrap_err();
    assert!(refused.message().contains("--amend"), "{refused}");
}

#[test]
fn a_pack_that_is_larger_than_allowed_is_not_kept() {
    let mut large = vec![0; 70 << 20];
    large[..8].copy_from_slice(b"PACK\0\0\0\x02");
    let refused = receive(&large, &MemoryObjects::new(), &[]).err().unwrap();
    assert_eq!(refused.code(), ErrorCode::PayloadTooLarge);
}
