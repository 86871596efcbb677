//! Writing a merged container: each item with the blanks it was written with.

use std::ops::Range;

use super::merge::{JsonFormat, Merger, Refused, Source, ThreeSides, Value};
use super::parse::{Container, Kind};
use crate::conflict::Side;

/// One item of a merged container.
pub(super) struct Entry<'a> {
    /// The side and item whose key spelling and blanks are used.
    pub(super) written: (Side, usize),
    pub(super) value: Value<'a>,
}

/// A pair of the same item on two sides, by index.
pub(super) type Pair = (usize, usize);

impl<'a> Merger<'a> {
    /// Which side's layout to write in: the one that changed it. Refused if both did, differently.
    ///
    /// A merge that kept ours' blanks would silently undo a reformatting by theirs.
    pub(super) fn layout(
        &self,
        containers: ThreeSides<&'a Container<'a>>,
        ours: &[Pair],
        theirs: &[Pair],
        both: &[Pair],
    ) -> Result<Side, Refused> {
        let from = (self.base, containers.base);
        let by_ours = reformatted(from, (self.ours, containers.ours), ours);
        let by_theirs = reformatted(from, (self.theirs, containers.theirs), theirs);
        let sides = (self.ours, containers.ours);
        if by_ours && by_theirs && reformatted(sides, (self.theirs, containers.theirs), both) {
            return Err(Refused::BothReformatted);
        }
        Ok(if by_theirs && !by_ours {
            Side::Theirs
        } else {
            Side::Ours
        })
    }

    /// Writes a container with its brackets.
    pub(super) fn emit(
        &self,
        containers: ThreeSides<&'a Container<'a>>,
        layout: Side,
        entries: &[Entry<'a>],
        object: bool,
    ) -> Vec<u8> {
        let writer = Writer {
            merger: self,
            containers,
            layout,
        };
        if self.form == JsonFormat::Lines && !object && self.is_root(containers) {
            return writer.lines(entries);
        }
        let mut out = vec![if object { b'{' } else { b'[' }];
        for (position, entry) in entries.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            let (source, container, index) = writer.written(entry);
            let item = &container.items[index];
            out.extend_from_slice(writer.lead(entry, position));
            out.extend_from_slice(source.item_prefix(item));
            out.extend_from_slice(&entry.value);
            if position + 1 < entries.len() {
                out.extend_from_slice(source.text(item.tail.clone()));
            }
        }
        out.extend_from_slice(writer.closing(entries.is_empty()));
        out.push(if object { b'}' } else { b']' });
        out
    }

    /// What to write between items where no line with two of them is at hand: as elsewhere in the
    /// documents, else as wide as the colons are, else nothing.
    fn blanks_between_items(&self) -> &'a [u8] {
        let sources = [self.ours, self.theirs, self.base];
        let elsewhere = sources
            .iter()
            .find_map(|source| source.blanks_between_items());
        let spaced = || sources.iter().find_map(|source| source.spaces_out());
        elsewhere.unwrap_or_else(|| if spaced() == Some(true) { b" " } else { b"" })
    }

    fn is_root(&self, containers: ThreeSides<&'a Container<'a>>) -> bool {
        self.ours.is_root(containers.ours)
    }
}

impl<'a> Source<'a> {
    /// The blanks that this document writes between items of a line, if it has such a line.
    fn blanks_between_items(&self) -> Option<&'a [u8]> {
        let containers = self.nodes().filter_map(|node| match &node.kind {
            Kind::Object(container) | Kind::Array(container) => Some(container),
            Kind::Scalar => None,
        });
        let mut leads = containers.filter_map(|container| {
            let second = container.items.get(1)?;
            Some(self.text(second.lead.clone()))
        });
        leads.find(|lead| !lead.contains(&b'\n'))
    }

    /// Whether a blank stands behind the first colon.
    fn spaces_out(&self) -> Option<bool> {
        let mut objects = self.nodes().filter_map(|node| match &node.kind {
            Kind::Object(container) => container.items.first(),
            _ => None,
        });
        let prefix = self.item_prefix(objects.next()?);
        Some(prefix.ends_with(b" "))
    }

    fn is_root(&self, container: &Container<'_>) -> bool {
        matches!(self.kind(self.root()), Kind::Array(root)
            if std::ptr::eq(root, container))
    }
}

struct Writer<'m, 'a> {
    merger: &'m Merger<'a>,
    containers: ThreeSides<&'a Container<'a>>,
    layout: Side,
}

impl<'a> Writer<'_, 'a> {
    fn written(&self, entry: &Entry<'_>) -> (&'a Source<'a>, &'a Container<'a>, usize) {
        let (side, index) = entry.written;
        (self.merger.source(side), self.containers.of(side), index)
    }

    /// The sides in the order in which their layout is asked for.
    fn sides(&self) -> [Side; 3] {
        match self.layout {
            Side::Theirs => [Side::Theirs, Side::Ours, Side::Base],
            _ => [Side::Ours, Side::Theirs, Side::Base],
        }
    }

    /// The blanks before an item. They differ between the first and the others, as in `[1, 2]`, so
    /// an item that moves to or from the front takes over those of its new place.
    fn lead(&self, entry: &Entry<'_>, position: usize) -> &'a [u8] {
        let (source, container, index) = self.written(entry);
        let own = source.text(container.items[index].lead.clone());
        if (position == 0) == (index == 0) {
            return own;
        }
        let wanted = usize::from(position > 0);
        let sibling = self.sides().into_iter().find_map(|side| {
            let item = self.containers.of(side).items.get(wanted)?;
            Some(self.merger.source(side).text(item.lead.clone()))
        });
        match sibling {
            Some(lead) => lead,
            // The only item of a line: `{"a": 1}` becomes `{"a": 1, "b": 2}`.
            None if own.is_empty() => self.merger.blanks_between_items(),
            None => own,
        }
    }

    fn closing(&self, empty: bool) -> &'a [u8] {
        let fitting = self
            .sides()
            .into_iter()
            .find(|&side| self.containers.of(side).items.is_empty() == empty);
        fitting.map_or(&[], |side| {
            self.merger
                .source(side)
                .text(self.containers.of(side).closing.clone())
        })
    }

    /// Writes one value per line.
    fn lines(&self, entries: &[Entry<'a>]) -> Vec<u8> {
        let mut out = Vec::new();
        if self
            .merger
            .source(self.layout)
            .bytes
            .starts_with(b"\xef\xbb\xbf")
        {
            out.extend_from_slice(b"\xef\xbb\xbf");
        }
        for entry in entries {
            if out.last().is_some_and(|&byte| byte != b'\n') && out.len() > 3 {
                out.push(b'\n');
            }
            let (source, container, index) = self.written(entry);
            let item = &container.items[index];
            out.extend_from_slice(source.text(item.lead.clone()));
            out.extend_from_slice(&entry.value);
            out.extend_from_slice(source.text(item.tail.clone()));
        }
        out.extend_from_slice(self.closing(entries.is_empty()));
        out
    }
}

/// Whether items that both versions have are laid out differently.
fn reformatted(
    (from, before): (&Source<'_>, &Container<'_>),
    (to, after): (&Source<'_>, &Container<'_>),
    pairs: &[Pair],
) -> bool {
    let differs =
        |old: &Range<usize>, new: &Range<usize>| from.text(old.clone()) != to.text(new.clone());
    let both_have_items = !before.items.is_empty() && !after.items.is_empty();
    if both_have_items && differs(&before.closing, &after.closing) {
        return true;
    }
    pairs.iter().any(|&(old_index, new_index)| {
        let (old, new) = (&before.items[old_index], &after.items[new_index]);
        let same_place = (old_index == 0) == (new_index == 0);
        let inner = old_index + 1 < before.items.len() && new_index + 1 < after.items.len();
        (same_place && differs(&old.lead, &new.lead))
            || from.item_prefix(old) != to.item_prefix(new)
            || (inner && differs(&old.tail, &new.tail))
    })
}
