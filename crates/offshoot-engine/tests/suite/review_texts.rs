//! The texts of a review of large files are streamed, not held in memory.

use std::fs;
use std::io::Read as _;

use crate::fixture::{TestEngine, user};
use offshoot_core::{ErrorCode, ProjectId};
use offshoot_engine::{CompleteOptions, ProviderName, ReviewSide};

/// More bytes than a merge compares.
const LARGE: usize = (64 << 20) + 1;
/// More bytes than are part of the answer.
const LONG: usize = (1 << 20) + 1;

/// The review of a protected file of so many bytes that a fork changed.
fn protected(test: &TestEngine, project: &ProjectId, size: usize) -> String {
    let engine = &test.engine;
    let mut settings = engine.projects.merge_settings(project).unwrap();
    settings.protect = vec!["data".to_owned()];
    engine
        .projects
        .set_merge_settings(project, &settings, &user())
        .unwrap();
    test.put(project, "data", &"a".repeat(size));
    let (id, path) = test.fork(project, "one");
    let mut changed = "a".repeat(size - 1);
    changed.push('b');
    fs::write(path.join("data"), &changed).unwrap();
    let done = engine
        .merges
        .complete(&id, &CompleteOptions::default(), &user());
    done.unwrap().conflicts[0].review_id.clone().unwrap()
}

#[test]
fn what_is_too_large_to_be_merged_is_told_by_its_size_alone() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    let review = protected(&test, &project, LARGE);
    let content = test.engine.merges.review_content(&review).unwrap();
    assert!(content.merged.is_none());
    for side in [&content.base, &content.ours, &content.theirs] {
        let side = side.as_ref().unwrap();
        assert_eq!((side.size, side.bytes.is_none()), (LARGE as u64, true));
    }
    let merged = test
        .engine
        .merges
        .open_review_side(&review, ReviewSide::Merged);
    assert_eq!(merged.err().unwrap().code(), ErrorCode::FileNotFound);
    // Each side can be read in parts.
    let theirs = test
        .engine
        .merges
        .open_review_side(&review, ReviewSide::Theirs);
    let read = std::io::copy(&mut theirs.unwrap().take(1 << 30), &mut std::io::sink());
    assert_eq!(read.unwrap(), LARGE as u64);
}

#[test]
fn what_is_merged_and_long_is_told_by_its_size_and_given_when_asked_for() {
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    let review = protected(&test, &project, LONG);
    let content = test.engine.merges.review_content(&review).unwrap();
    let merged = content.merged.unwrap();
    assert_eq!((merged.size, merged.bytes.is_none()), (LONG as u64, true));
    let mut text = String::new();
    let side = test
        .engine
        .merges
        .open_review_side(&review, ReviewSide::Merged);
    side.unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((text.len(), text.ends_with('b')), (LONG, true));
}
