//! Property test: the changes that edits make are the same with and without building trees.

use offshoot_git::MemoryObjects;
use proptest::prelude::*;

use super::*;
use crate::content::objects::PendingObjects;

/// Few names, so that edits overlap; git refuses two of them by name or content.
fn path() -> impl Strategy<Value = RelPath> {
    let name = prop::sample::select(vec!["a", "b", ".gitmodules", ".GIT"]);
    prop::collection::vec(name, 1..4)
        .prop_map(|parts| RelPath::parse(parts.join("/").as_bytes()).unwrap())
}

fn entry() -> impl Strategy<Value = StateEntry> {
    let leaf = |kind, perm, byte: u8| StateEntry {
        kind,
        perm,
        id: Some(ObjectId::from_bytes([byte; 20])),
    };
    prop_oneof![
        prop::sample::select(vec![0o755, 0o700]).prop_map(StateEntry::dir),
        (prop::sample::select(vec![0o644, 0o755, 0o600]), 1..4_u8)
            .prop_map(move |(perm, byte)| leaf(EntryKind::File, perm, byte)),
        (1..4_u8).prop_map(move |byte| leaf(EntryKind::Symlink, 0o777, byte)),
    ]
}

fn edits() -> impl Strategy<Value = StateEdits> {
    let edit = prop_oneof![
        1 => Just(StateEdit::Remove),
        3 => entry().prop_map(StateEdit::Put),
        1 => entry().prop_map(StateEdit::Replace),
    ];
    prop::collection::btree_map(path(), edit, 0..8).prop_map(sensible)
}

/// Nothing can be put below a file or link; merges remove what is below one by name.
fn sensible(mut edits: StateEdits) -> StateEdits {
    let leaf = |edit: &StateEdit| edit.puts().is_some_and(|one| one.kind != EntryKind::Dir);
    let leaves: Vec<RelPath> = edits
        .iter()
        .filter(|(_, edit)| leaf(edit))
        .map(|(path, _)| path.clone())
        .collect();
    edits.retain(|path, edit| {
        edit.puts().is_none()
            || !path
                .prefixes()
                .any(|above| leaves.iter().any(|leaf| leaf.as_bytes() == above))
    });
    edits
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn edits_tell_the_same_as_the_trees_they_make(
        first in edits(),
        second in edits(),
        third in edits(),
    ) {
        let empty = MemoryObjects::new();
        let mut new_objects = PendingObjects::new(&empty);
        let from = State::default().edit(&mut new_objects, &first).unwrap();
        let base = from.edit(&mut new_objects, &second).unwrap();
        let now = base.edit(&mut new_objects, &third).unwrap();
        let told = from.diff_edited(&new_objects, &base, &third).unwrap();
        let built = from.diff(&new_objects, &now, &RelPath::root()).unwrap();
        prop_assert_eq!(told, built);
    }
}
