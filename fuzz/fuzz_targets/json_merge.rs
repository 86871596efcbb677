//! Three versions of a JSON file, with a zero byte between them: the merge never panics, its result
//! does not depend on who is ours where nothing conflicts, and three documents that are JSON do not
//! become a text that is none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offshoot_merge::{MergeFileOptions, merge_file};

fuzz_target!(|bytes: &[u8]| {
    let sides: Vec<&[u8]> = bytes.splitn(3, |byte| *byte == 0).collect();
    let [base, ours, theirs] = sides[..] else {
        return;
    };
    let options = MergeFileOptions::default();
    let merge = |ours, theirs| merge_file(b"a.json", base, ours, theirs, &options).into_clean();
    let merged = merge(ours, theirs);
    let is_json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).is_ok();
    if let Some(merged) = &merged
        && [base, ours, theirs].into_iter().all(is_json)
    {
        assert!(
            is_json(merged),
            "{:?} + {:?} over {:?} became {:?}",
            String::from_utf8_lossy(ours),
            String::from_utf8_lossy(theirs),
            String::from_utf8_lossy(base),
            String::from_utf8_lossy(merged)
        );
    }
    assert_eq!(merged.is_some(), merge(theirs, ours).is_some());
    if ours == theirs || base == theirs {
        assert_eq!(merged.as_deref(), Some(ours));
    }
});
