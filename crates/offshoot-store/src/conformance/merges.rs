//! What a store must do with rows of merges and reviews.

use offshoot_core::{Cause, Operator, Timestamp};

use super::fixtures::{add_workspace, close, id, path, read, try_write, write};
use crate::{
    CandidateRow, CompletionRow, MergeRow, MetaStore, ReviewRow, ReviewState, WorkspaceKey,
};

fn cause(name: &str) -> Cause {
    Cause {
        operator: Operator::new(name),
        claim: Some("claim".to_owned()),
        message_id: Some("m1".to_owned()),
    }
}

fn completion(name: &str, project: WorkspaceKey, workspace: WorkspaceKey) -> CompletionRow {
    CompletionRow {
        id: name.to_owned(),
        project,
        workspace,
        options: "{}".to_owned(),
        cause: cause("asker"),
        at: Timestamp(4),
        landed: false,
    }
}

fn merge(name: &str, project: WorkspaceKey, workspace: WorkspaceKey) -> MergeRow {
    MergeRow {
        id: name.to_owned(),
        project,
        workspace,
        base: id(1, 1),
        ours: None,
        theirs: id(1, 2),
        snapshot: None,
        at: Timestamp(5),
        cause: cause("asker"),
        priority: 3,
        outcome: "{}".to_owned(),
        undone_by: None,
    }
}

fn review(name: &str, project: WorkspaceKey, workspace: WorkspaceKey) -> ReviewRow {
    ReviewRow {
        id: name.to_owned(),
        project,
        workspace,
        merge: "m".to_owned(),
        path: path(b"a/\xff"),
        state: ReviewState::Open,
        base: None,
        ours: Some(id(2, 1)),
        theirs: Some(id(2, 2)),
        opened_at: Timestamp(6),
        details: "{}".to_owned(),
        snapshot: None,
    }
}

pub(super) fn what_was_asked_for_waits_in_order(meta: &dyn MetaStore) {
    let (one, other) = (add_workspace(meta, "one"), add_workspace(meta, "other"));
    let rows: Vec<CompletionRow> = [("z", one), ("a", other), ("m", one)]
        .map(|(name, project)| completion(name, project, other))
        .into();
    for row in &rows {
        write(meta, |tx| tx.put_completion(row));
    }
    assert_eq!(read(meta, |tx| tx.completions(None)), rows);
    let of_one = read(meta, |tx| tx.completions(Some(one)));
    assert_eq!(of_one, [rows[0].clone(), rows[2].clone()]);
    let mut landed = rows[0].clone();
    landed.landed = true;
    write(meta, |tx| tx.put_completion(&landed));
    assert_eq!(read(meta, |tx| tx.completions(Some(one)))[0], landed);
    write(meta, |tx| tx.remove_completion("z"));
    assert_eq!(
        read(meta, |tx| tx.completions(Some(one))),
        [rows[2].clone()]
    );
    write(meta, |tx| tx.erase_workspace(one));
    assert_eq!(read(meta, |tx| tx.completions(None)), [rows[1].clone()]);
}

pub(super) fn receipts(meta: &dyn MetaStore) {
    let (project, fork) = (add_workspace(meta, "p"), add_workspace(meta, "f"));
    let mut first = merge("first", project, fork);
    let second = merge("second", project, fork);
    write(meta, |tx| tx.put_merge(&first));
    write(meta, |tx| tx.put_merge(&second));
    first.ours = Some(id(3, 1));
    first.snapshot = Some(id(3, 2));
    first.undone_by = Some(id(3, 3));
    first.outcome = "[]".to_owned();
    write(meta, |tx| tx.put_merge(&first));
    assert_eq!(read(meta, |tx| tx.merge("first")), Some(first.clone()));
    assert_eq!(read(meta, |tx| tx.merge("none")), None);
    assert_eq!(read(meta, |tx| tx.merge_ids("fir")), ["first"]);
    assert_eq!(read(meta, |tx| tx.merge_ids("")), ["first", "second"]);
    assert!(read(meta, |tx| tx.merge_ids("first~")).is_empty());
    assert!(read(meta, |tx| tx.merge_ids("g")).is_empty());
    let before =
        |merge: &'static str, limit| read(meta, |tx| tx.merges(Some(project), Some(merge), limit));
    assert_eq!(before("second", 0), [first.clone()]);
    assert_eq!(before("second", 1), [first.clone()]);
    assert!(before("first", 0).is_empty() && before("none", 0).is_empty());
    assert!(read(meta, |tx| tx.merges(Some(fork), Some("second"), 0)).is_empty());
    assert_eq!(
        read(meta, |tx| tx.merges(Some(project), None, 0)),
        [second.clone(), first]
    );
    assert_eq!(
        read(meta, |tx| tx.merges(Some(project), None, 1))[0],
        second
    );
    assert_eq!(read(meta, |tx| tx.last_merge(fork)), Some(second));
    assert_eq!(read(meta, |tx| tx.last_merge(project)), None);
    receipts_of_all_projects(meta, fork);
    landed_and_undone(meta, project, fork);
    let landed = |project, snapshot| read(meta, |tx| tx.merges_landed_as(project, &snapshot));
    assert_eq!(landed(project, id(3, 2))[0].id, "first");
    assert!(landed(project, id(3, 1)).is_empty() && landed(fork, id(3, 2)).is_empty());
}

/// Two merges are there; those of a project that is closed are passed over, as places they still count.
fn receipts_of_all_projects(meta: &dyn MetaStore, fork: WorkspaceKey) {
    let other = add_workspace(meta, "other");
    for name in ["third", "fourth"] {
        write(meta, |tx| tx.put_merge(&merge(name, other, fork)));
    }
    let ids = |before: Option<&'static str>, limit| -> Vec<String> {
        let rows = read(meta, |tx| tx.merges(None, before, limit));
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(ids(None, 0), ["fourth", "third", "second", "first"]);
    assert_eq!(ids(None, 3), ["fourth", "third", "second"]);
    assert_eq!(ids(Some("third"), 1), ["second"]);
    assert!(ids(Some("none"), 0).is_empty());
    close(meta, other);
    assert_eq!(ids(None, 1), ["second"]);
    assert_eq!(ids(Some("third"), 0), ["second", "first"]);
    write(meta, |tx| tx.erase_workspace(other));
    assert_eq!(ids(None, 0), ["second", "first"]);
}

/// Some that landed, one that was undone, one that landed nothing, and one from another base.
fn landed_and_undone(meta: &dyn MetaStore, project: WorkspaceKey, fork: WorkspaceKey) {
    let base = id(4, 0);
    let names = ["landed", "undone", "again", "nothing", "elsewhere"];
    for (n, name) in names.into_iter().enumerate() {
        let mut row = merge(name, project, fork);
        row.base = if name == "elsewhere" { id(4, 1) } else { base };
        row.snapshot = (name != "nothing").then(|| id(5, n as u8));
        row.undone_by = (name == "undone").then(|| id(6, 0));
        write(meta, |tx| tx.put_merge(&row));
    }
    let last = |of, before: Option<&'static str>| {
        let row = read(meta, |tx| tx.last_landed(of, &base, before));
        row.map(|row| row.id)
    };
    assert_eq!(last(fork, None).as_deref(), Some("again"));
    assert_eq!(last(fork, Some("again")).as_deref(), Some("landed"));
    assert_eq!(last(fork, Some("landed")), None);
    assert_eq!(last(project, None), None);
    let undone = read(meta, |tx| tx.undone_merges(fork));
    let undone: Vec<&str> = undone.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(undone, ["first", "undone"]);
    assert!(read(meta, |tx| tx.undone_merges(project)).is_empty());
}

pub(super) fn reviews_and_candidates(meta: &dyn MetaStore) {
    let (project, fork) = (add_workspace(meta, "p"), add_workspace(meta, "f"));
    let first = review("z", project, fork);
    let mut second = review("a", project, fork);
    write(meta, |tx| tx.put_review(&first));
    write(meta, |tx| tx.put_review(&second));
    let all = |unresolved| read(meta, |tx| tx.reviews(Some(project), unresolved));
    assert_eq!(all(true), [first.clone(), second.clone()]);
    second.state = ReviewState::Decided;
    write(meta, |tx| tx.put_review(&second));
    assert_eq!(all(true).len(), 2);
    second.state = ReviewState::Resolved;
    second.snapshot = Some(id(4, 4));
    second.details = "x".to_owned();
    write(meta, |tx| tx.put_review(&second));
    assert_eq!((all(true).len(), &all(true)[0]), (1, &first));
    assert_eq!(all(false), [first.clone(), second.clone()]);
    assert_eq!(read(meta, |tx| tx.reviews(None, false)).len(), 2);
    let page = |unresolved, after: Option<&'static str>, limit| {
        read(meta, |tx| {
            tx.reviews_after(Some(project), unresolved, after, limit)
        })
    };
    assert_eq!(page(false, None, 1), std::slice::from_ref(&first));
    assert_eq!(page(false, Some("z"), 0), [second.clone()]);
    assert!(page(true, Some("z"), 0).is_empty(), "it is resolved");
    assert!(page(false, Some("a"), 0).is_empty() && page(false, Some("none"), 0).is_empty());
    let of_all = |after: Option<&'static str>, limit| {
        read(meta, |tx| tx.reviews_after(None, false, after, limit))
    };
    assert_eq!(of_all(None, 1), std::slice::from_ref(&first));
    assert_eq!(of_all(Some("z"), 0), [second.clone()]);
    assert!(of_all(Some("none"), 0).is_empty());
    assert_eq!(read(meta, |tx| tx.review("a")), Some(second.clone()));
    let landed = |snapshot| read(meta, |tx| tx.reviews_landed_as(project, &snapshot));
    assert_eq!(landed(id(4, 4)), [second.clone()]);
    assert!(landed(id(2, 1)).is_empty());
    assert_eq!(read(meta, |tx| tx.reviews_of(fork)), [first, second]);
    assert!(read(meta, |tx| tx.reviews_of(project)).is_empty());
    assert_eq!(read(meta, |tx| tx.review_ids("a")), ["a"]);
    assert!(read(meta, |tx| tx.review_ids("ab")).is_empty());
    let candidate = |number| CandidateRow {
        review: "z".to_owned(),
        number,
        content: id(5, number as u8),
        cause: cause("proposer"),
        at: Timestamp(7),
        note: Some("why".to_owned()),
    };
    write(meta, |tx| tx.add_candidate(&candidate(1)));
    assert!(try_write(meta, |tx| tx.add_candidate(&candidate(1))).is_err());
    write(meta, |tx| tx.add_candidate(&candidate(2)));
    let candidates = read(meta, |tx| tx.candidates("z"));
    assert_eq!(candidates, [candidate(1), candidate(2)]);
    let roots = read(meta, |tx| {
        let mut roots = Vec::new();
        tx.visit_roots(&mut |id| roots.push(id))?;
        Ok(roots)
    });
    let named = [id(2, 1), id(2, 2), id(5, 1), id(5, 2)];
    assert!(named.iter().all(|id| roots.contains(id)));
    let mut named = merge("named", project, fork);
    named.theirs = id(5, 1);
    write(meta, |tx| tx.put_merge(&named));
    write(meta, |tx| tx.replace_object_id(&id(5, 1), &id(6, 1)));
    let renamed = read(meta, |tx| tx.merge("named")).unwrap();
    assert_eq!(renamed.theirs, id(6, 1));
    assert_eq!(read(meta, |tx| tx.candidates("z"))[0].content, id(6, 1));
    write(meta, |tx| tx.erase_workspace(fork));
    assert!(all(false).is_empty());
}
