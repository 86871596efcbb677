//! The merge of JSON by structure: members by key, elements by identity or order, bytes spliced.

mod array;
mod emit;
mod keyed;
mod leaves;
mod merge;
mod parse;
mod spelling;
mod versions;

pub(crate) use leaves::leaves;
pub(crate) use merge::{JsonFormat, merge_json};

use parse::{NotJson, Shapes};

/// Whether these bytes are a document of that form without duplicate keys.
pub(crate) fn is_sound(bytes: &[u8], form: JsonFormat, depth: usize) -> bool {
    check(bytes, form, depth).is_ok()
}

fn check(bytes: &[u8], form: JsonFormat, depth: usize) -> Result<(), NotJson> {
    let mut shapes = Shapes::off();
    match form {
        JsonFormat::Document => parse::parse(bytes, depth, &mut shapes).map(drop),
        JsonFormat::Lines => parse::parse_lines(bytes, depth, &mut shapes).map(drop),
    }
}
