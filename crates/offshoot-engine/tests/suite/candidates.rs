//! Proposed resolutions of a review: each has its own number, and their count is limited.

use std::fs;

use crate::fixture::{TestEngine, user};
use offshoot_core::ErrorCode;
use offshoot_engine::{CompleteOptions, Content};
use offshoot_fs::ProviderName;

#[test]
fn a_review_takes_so_many_candidates_and_no_more() {
    const MOST: usize = 32;
    let test = TestEngine::in_memory(ProviderName::Copy);
    let project = test.project("web");
    let (id, path) = test.fork(&project, "ada");
    fs::write(path.join("README"), "theirs\n").unwrap();
    test.put(&project, "README", "ours\n");
    let options = CompleteOptions::default();
    let done = test.engine.merges.complete(&id, &options, &user()).unwrap();
    let review = done.conflicts[0].review_id.as_deref().unwrap();
    let propose = &|text: &str| {
        let content = Content::Bytes(text.as_bytes());
        test.engine.merges.propose(review, content, None, &user())
    };
    // Concurrent proposals get different numbers, or are refused.
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let each = move |number| propose(&format!("{thread} {number}\n"));
                scope.spawn(move || (0..MOST / 3).map(each).filter(Result::is_ok).count())
            })
            .collect();
        let counts = threads.into_iter().map(|thread| thread.join().unwrap());
        counts.sum()
    });
    assert_eq!(taken, MOST);
    let refused = propose("one more\n").unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    let candidates = test.engine.merges.review(review).unwrap().candidates;
    let numbers: Vec<i64> = candidates.iter().map(|one| one.number).collect();
    assert_eq!(numbers, (1..=MOST as i64).collect::<Vec<_>>());
    test.check();
}
