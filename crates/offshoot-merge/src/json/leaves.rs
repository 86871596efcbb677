//! The values of a document that hold no others, each with the keys that lead to it.

use std::ops::Range;

use super::JsonFormat;
use super::parse::{Document, Item, Kind, NodeId, Shapes, parse, parse_lines};

/// One such value.
pub(crate) struct Leaf<'a> {
    /// The keys that lead to it. Which element of a list it is does not show, so that one that
    /// moved up because another went away is the same.
    pub(crate) lead: Vec<u8>,
    /// A scalar as it is written; an empty container without the blanks in it.
    pub(crate) spelled: &'a [u8],
    pub(crate) range: Range<usize>,
}

/// All leaves of a document: members in the order of their keys, elements in their own. None if the
/// bytes are no such document.
pub(crate) fn leaves(bytes: &[u8], form: JsonFormat, depth: usize) -> Option<Vec<Leaf<'_>>> {
    let mut shapes = Shapes::off();
    let document = match form {
        JsonFormat::Document => parse(bytes, depth, &mut shapes),
        JsonFormat::Lines => parse_lines(bytes, depth, &mut shapes),
    };
    let document = document.ok()?;
    let mut found = Vec::new();
    // A stack of our own, as in the reader: no nesting overflows the thread's.
    let mut open: Vec<(NodeId, Vec<u8>)> = vec![(document.root, Vec::new())];
    while let Some((node, lead)) = open.pop() {
        let below = items_below(&document, node, &lead);
        if below.is_empty() {
            found.push(Leaf {
                lead,
                spelled: spelled(&document, node, bytes),
                range: document.nodes[node].range.clone(),
            });
        }
        open.extend(below.into_iter().rev());
    }
    Some(found)
}

fn items_below(document: &Document<'_>, node: NodeId, lead: &[u8]) -> Vec<(NodeId, Vec<u8>)> {
    let with = |name: &[u8]| {
        let mut longer = lead.to_vec();
        longer.push(b'/');
        // A key may hold anything; a line holds no newline.
        longer.extend(
            name.iter()
                .flat_map(|&byte| std::ascii::escape_default(byte)),
        );
        longer
    };
    match &document.nodes[node].kind {
        Kind::Scalar => Vec::new(),
        Kind::Array(container) => {
            let items = container.items.iter();
            items.map(|item| (item.value, with(b"[]"))).collect()
        }
        Kind::Object(container) => {
            let mut items: Vec<&Item<'_>> = container.items.iter().collect();
            items.sort_by(|one, two| one.key.cmp(&two.key));
            let below = items.into_iter();
            below.map(|item| (item.value, with(&item.key))).collect()
        }
    }
}

fn spelled<'a>(document: &Document<'_>, node: NodeId, bytes: &'a [u8]) -> &'a [u8] {
    match &document.nodes[node].kind {
        Kind::Scalar => &bytes[document.nodes[node].range.clone()],
        Kind::Object(_) => b"{}",
        Kind::Array(_) => b"[]",
    }
}
