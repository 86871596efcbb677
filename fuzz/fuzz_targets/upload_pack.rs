//! Requests of somebody else's git client, in each version of the protocol, to a small repository:
//! each is answered or refused.
#![no_main]

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use offshoot_core::{EMPTY_TREE, ObjectId, ObjectKind, Result};
use offshoot_git::{GitProtocol, ObjectReader, UploadPack, hash};

/// Objects in memory.
struct Objects(HashMap<ObjectId, (ObjectKind, Arc<[u8]>)>);

impl ObjectReader for Objects {
    fn read(&self, id: &ObjectId) -> Result<Option<(ObjectKind, Arc<[u8]>)>> {
        Ok(self.0.get(id).cloned())
    }
}

fuzz_target!(|bytes: &[u8]| {
    static OBJECTS: OnceLock<(Objects, ObjectId)> = OnceLock::new();
    let (objects, head) = OBJECTS.get_or_init(history);
    let Some((first, request)) = bytes.split_first() else {
        return;
    };
    let version = match first % 3 {
        0 => GitProtocol::V0,
        1 => GitProtocol::V1,
        _ => GitProtocol::V2,
    };
    // An id that a mutation cannot guess: `@0` to `@9` stand for the commits, the newest first.
    let request = with_ids(request, objects, *head);
    let upload = UploadPack {
        reader: objects,
        head: Some(*head),
        branch: "refs/heads/main",
    };
    let _ = upload.answer(version, &request, &mut std::io::sink());
});

/// Ten commits, one after the other.
fn history() -> (Objects, ObjectId) {
    let mut objects = HashMap::new();
    let mut put = |kind, bytes: Vec<u8>| {
        let id = hash(kind, &bytes).expect("small objects hash");
        objects.insert(id, (kind, Arc::from(bytes)));
        id
    };
    put(ObjectKind::Tree, Vec::new());
    let mut parent = String::new();
    let mut head = EMPTY_TREE;
    for number in 0..10 {
        let who = format!("a <a@b> {} +0000", 1_000_000_000 + number);
        let text =
            format!("tree {EMPTY_TREE}\n{parent}author {who}\ncommitter {who}\n\n{number}\n");
        head = put(ObjectKind::Commit, text.into_bytes());
        parent = format!("parent {head}\n");
    }
    (Objects(objects), head)
}

fn with_ids(request: &[u8], objects: &Objects, head: ObjectId) -> Vec<u8> {
    let mut chain = vec![head];
    while let Some((_, text)) = objects
        .0
        .get(chain.last().expect("it begins with the head"))
    {
        let text = String::from_utf8_lossy(text);
        let Some(parent) = text.lines().find_map(|line| line.strip_prefix("parent ")) else {
            break;
        };
        chain.push(parent.parse().expect("an id"));
    }
    let mut plain = Vec::new();
    let mut rest = request;
    while let Some((&byte, after)) = rest.split_first() {
        match after.first() {
            Some(digit @ b'0'..=b'9') if byte == b'@' => {
                plain.extend_from_slice(chain[usize::from(digit - b'0')].to_hex().as_bytes());
                rest = &after[1..];
            }
            _ => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}
