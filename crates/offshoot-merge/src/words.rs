//! The second pass: a hunk that conflicts by line, merged word by word.

use crate::diff3::Who;
use crate::limits::Budget;
use crate::split::{ThreeWay, word_length};

/// The merged bytes of one conflicting hunk, or none where the sides' words touch.
pub(crate) fn merge_words(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    budget: &mut Budget,
) -> Option<Vec<u8>> {
    let words = ThreeWay::cut(base, ours, theirs, word_length);
    let regions = words.regions(budget);
    let mut merged = Vec::with_capacity(ours.len().max(theirs.len()));
    let mut done = 0;
    for region in regions {
        let ours_bytes = words.ours.bytes(&region.ours);
        match region.who {
            Who::Ours | Who::Both => continue,
            Who::Theirs => {
                merged.extend_from_slice(&ours[done..ours_bytes.start]);
                merged.extend_from_slice(&theirs[words.theirs.bytes(&region.theirs)]);
            }
            Who::Conflict => return None,
        }
        done = ours_bytes.end;
    }
    merged.extend_from_slice(&ours[done..]);
    Some(merged)
}
