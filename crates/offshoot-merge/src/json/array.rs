//! Arrays: by an identity that the elements carry, otherwise by aligning the sequences.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::emit::{Entry, Pair};
use super::keyed::Keys;
use super::merge::{Merger, Refused, Source, ThreeSides};
use super::parse::{Container, Kind};
use crate::conflict::{Choice, PartKind, Side};
use crate::diff::{Hunk, diff, is_subsequence};

/// Members that name an element, in the order in which they are tried.
const IDENTITIES: [&[u8]; 3] = [b"id", b"key", b"name"];

/// A range of the base that one or both sides replaced.
struct Cluster {
    base: Range<usize>,
    ours: Range<usize>,
    theirs: Range<usize>,
    by_ours: bool,
    by_theirs: bool,
}

impl<'a> Merger<'a> {
    /// Merges two arrays over their base.
    pub(super) fn array(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
    ) -> Result<Vec<u8>, Refused> {
        for identity in IDENTITIES {
            let keys = (
                identities(self.base, containers.base, identity),
                identities(self.ours, containers.ours, identity),
                identities(self.theirs, containers.theirs, identity),
            );
            if let (Some(base), Some(ours), Some(theirs)) = keys {
                let keys = ThreeSides {
                    base: &base,
                    ours: &ours,
                    theirs: &theirs,
                };
                return self.keyed(containers, keys, false);
            }
        }
        self.sequence(containers)
    }

    fn sequence(&mut self, containers: ThreeSides<&'a Container<'a>>) -> Result<Vec<u8>, Refused> {
        let shapes = |source: &Source<'_>, container: &Container<'_>| -> Vec<u32> {
            container
                .items
                .iter()
                .map(|item| source.shape(item.value))
                .collect()
        };
        let base = shapes(self.base, containers.base);
        let ours = shapes(self.ours, containers.ours);
        let theirs = shapes(self.theirs, containers.theirs);
        let ours_hunks = diff(&base, &ours, self.shapes, &mut self.budget);
        let theirs_hunks = diff(&base, &theirs, self.shapes, &mut self.budget);
        let clusters = clusters(&ours_hunks, &theirs_hunks);
        let in_ours = matched(&ours_hunks, base.len());
        let in_theirs = matched(&theirs_hunks, base.len());
        let in_both = common(&in_ours, &in_theirs);
        let layout = self.layout(containers, &in_ours, &in_theirs, &in_both)?;
        let mut entries = Vec::new();
        let mut done = (0, 0, 0);
        for cluster in &clusters {
            self.unchanged(containers, layout, done, cluster.base.start, &mut entries)?;
            self.cluster(containers, cluster, &ours, &theirs, &mut entries)?;
            done = (cluster.base.end, cluster.ours.end, cluster.theirs.end);
        }
        self.unchanged(containers, layout, done, base.len(), &mut entries)?;
        Ok(self.emit(containers, layout, &entries, false))
    }

    /// Elements that mean the same on all sides; their layout may still differ.
    fn unchanged(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
        layout: Side,
        from: (usize, usize, usize),
        until: usize,
        entries: &mut Vec<Entry<'a>>,
    ) -> Result<(), Refused> {
        for step in 0..until - from.0 {
            let places = ThreeSides {
                base: from.0 + step,
                ours: from.1 + step,
                theirs: from.2 + step,
            };
            self.element(containers, layout, places, entries)?;
        }
        Ok(())
    }

    /// Merges the elements at three places.
    fn element(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
        layout: Side,
        places: ThreeSides<usize>,
        entries: &mut Vec<Entry<'a>>,
    ) -> Result<(), Refused> {
        let node = |side: Side| containers.of(side).items[places.of(side)].value;
        let written = if layout == Side::Theirs {
            layout
        } else {
            Side::Ours
        };
        let value = self.within(places.ours.to_string(), |merger| {
            merger.value(Some(node(Side::Base)), node(Side::Ours), node(Side::Theirs))
        })?;
        entries.extend(value.map(|value| Entry {
            written: (written, places.of(written)),
            value,
        }));
        Ok(())
    }

    fn cluster(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
        cluster: &Cluster,
        ours: &[u32],
        theirs: &[u32],
        entries: &mut Vec<Entry<'a>>,
    ) -> Result<(), Refused> {
        let (of_ours, of_theirs) = (&ours[cluster.ours.clone()], &theirs[cluster.theirs.clone()]);
        if !cluster.by_theirs || (cluster.by_ours && of_ours == of_theirs) {
            self.take(containers, Side::Ours, cluster.ours.clone(), entries);
        } else if !cluster.by_ours {
            self.take(containers, Side::Theirs, cluster.theirs.clone(), entries);
        } else if cluster.base.is_empty() {
            return self.both_inserted(containers, cluster, of_ours, of_theirs, entries);
        } else if cluster.base.len() == cluster.ours.len()
            && cluster.base.len() == cluster.theirs.len()
        {
            for step in 0..cluster.base.len() {
                let places = ThreeSides {
                    base: cluster.base.start + step,
                    ours: cluster.ours.start + step,
                    theirs: cluster.theirs.start + step,
                };
                self.element(containers, Side::Ours, places, entries)?;
            }
        } else {
            return self.conflicting(containers, cluster, of_ours, entries);
        }
        Ok(())
    }

    /// Merges elements that both put at one place: ours first, then theirs, equal ones once.
    fn both_inserted(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
        cluster: &Cluster,
        ours: &[u32],
        theirs: &[u32],
        entries: &mut Vec<Entry<'a>>,
    ) -> Result<(), Refused> {
        if is_subsequence(theirs, ours) {
            self.take(containers, Side::Ours, cluster.ours.clone(), entries);
            return Ok(());
        }
        if is_subsequence(ours, theirs) {
            self.take(containers, Side::Theirs, cluster.theirs.clone(), entries);
            return Ok(());
        }
        let alike = ours
            .iter()
            .zip(theirs)
            .take_while(|(one, two)| one == two)
            .count();
        let (rest_ours, rest_theirs) = (&ours[alike..], &theirs[alike..]);
        let known: HashSet<u32> = rest_ours.iter().copied().collect();
        if rest_theirs.iter().any(|shape| known.contains(shape)) {
            return self.conflicting(containers, cluster, ours, entries);
        }
        self.join()?;
        let start = entries.len();
        self.take(containers, Side::Ours, cluster.ours.clone(), entries);
        let rest = cluster.theirs.start + alike..cluster.theirs.end;
        self.take(containers, Side::Theirs, rest, entries);
        if self.is_kept_sorted(containers) {
            entries[start..].sort_by(|one, two| text(&one.value).cmp(text(&two.value)));
        }
        Ok(())
    }

    /// Whether all three arrays are texts in their order; one text or none tells nothing.
    fn is_kept_sorted(&self, containers: ThreeSides<&Container<'_>>) -> bool {
        let sorted = |source: &Source<'_>, container: &Container<'_>| {
            let values = container.items.iter().map(|item| source.value(item.value));
            values.clone().all(|value| value.starts_with(b"\"")) && values.map(text).is_sorted()
        };
        containers.base.items.len() > 1
            && sorted(self.base, containers.base)
            && sorted(self.ours, containers.ours)
            && sorted(self.theirs, containers.theirs)
    }

    /// Elements that both replaced in different ways.
    fn conflicting(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
        cluster: &Cluster,
        ours: &[u32],
        entries: &mut Vec<Entry<'a>>,
    ) -> Result<(), Refused> {
        let span = |source: &Source<'_>, container: &Container<'_>, range: &Range<usize>| {
            let items = container.items.get(range.clone())?;
            let end = source.item_range(items.last()?).end;
            Some(items.first()?.start..end)
        };
        let ranges = ThreeSides {
            base: span(self.base, containers.base, &cluster.base),
            ours: span(self.ours, containers.ours, &cluster.ours),
            theirs: span(self.theirs, containers.theirs, &cluster.theirs),
        };
        let kind = match (cluster.base.is_empty(), &ranges.ours, &ranges.theirs) {
            (true, ..) => PartKind::BothAdded,
            (_, None, _) => PartKind::RemovedByOurs,
            (_, _, None) => PartKind::RemovedByTheirs,
            _ => PartKind::BothChanged,
        };
        let token = cluster.ours.start.to_string();
        let choice = self.within(token, |merger| Ok(merger.conflict(kind, ranges)))?;
        match choice {
            Choice::Ours => self.take(containers, Side::Ours, cluster.ours.clone(), entries),
            Choice::Theirs => self.take(containers, Side::Theirs, cluster.theirs.clone(), entries),
            Choice::Base => self.take(containers, Side::Base, cluster.base.clone(), entries),
            Choice::Union => {
                self.take(containers, Side::Ours, cluster.ours.clone(), entries);
                let known: HashSet<u32> = ours.iter().copied().collect();
                for place in cluster.theirs.clone() {
                    let value = containers.theirs.items[place].value;
                    if !known.contains(&self.theirs.shape(value)) {
                        self.take(containers, Side::Theirs, place..place + 1, entries);
                    }
                }
            }
        }
        Ok(())
    }

    fn take(
        &self,
        containers: ThreeSides<&'a Container<'a>>,
        side: Side,
        range: Range<usize>,
        entries: &mut Vec<Entry<'a>>,
    ) {
        let source = self.source(side);
        entries.extend(range.map(|place| Entry {
            written: (side, place),
            value: Cow::Borrowed(source.value(containers.of(side).items[place].value)),
        }));
    }
}

/// What stands between the quotes.
fn text(value: &[u8]) -> &[u8] {
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    value.strip_suffix(b"\"").unwrap_or(value)
}

/// The identity of every element, if each has one of its own.
fn identities<'a>(
    source: &'a Source<'a>,
    container: &'a Container<'a>,
    identity: &[u8],
) -> Option<Keys<'a>> {
    let mut seen = HashSet::new();
    container
        .items
        .iter()
        .map(|item| {
            let Kind::Object(members) = source.kind(item.value) else {
                return None;
            };
            let member = members
                .items
                .iter()
                .find(|member| member.key.as_ref() == identity)?;
            let value = source.value(member.value);
            let scalar = matches!(source.kind(member.value), Kind::Scalar);
            let names = matches!(value.first(), Some(b'"' | b'-' | b'0'..=b'9'));
            (scalar && names && seen.insert(value)).then_some(Cow::Borrowed(value))
        })
        .collect()
}

/// Hunks of both sides that overlap, together. Unlike lines, elements that merely touch do not
/// conflict: where one ends is certain.
fn clusters(ours: &[Hunk], theirs: &[Hunk]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    let (mut next_ours, mut next_theirs) = (0, 0);
    let (mut shift_ours, mut shift_theirs) = (0isize, 0isize);
    loop {
        let order = |hunk: &Hunk| (hunk.before.start, hunk.before.end);
        let ours_first = match (ours.get(next_ours), theirs.get(next_theirs)) {
            (Some(one), Some(two)) => order(one) <= order(two),
            (one, two) => match (one, two) {
                (Some(_), None) => true,
                (None, Some(_)) => false,
                _ => return clusters,
            },
        };
        let hunk = if ours_first {
            &ours[next_ours]
        } else {
            &theirs[next_theirs]
        };
        let joins = clusters.last().is_some_and(|last| {
            hunk.before.start < last.base.end
                || (hunk.before.is_empty()
                    && last.base.is_empty()
                    && hunk.before.start == last.base.end)
        });
        if !joins {
            let start = hunk.before.start;
            let at = |shift: isize| (start as isize + shift) as usize;
            let (ours_at, theirs_at) = (at(shift_ours), at(shift_theirs));
            clusters.push(Cluster {
                base: start..start,
                ours: ours_at..ours_at,
                theirs: theirs_at..theirs_at,
                by_ours: false,
                by_theirs: false,
            });
        }
        let grown = hunk.after.len() as isize - hunk.before.len() as isize;
        if ours_first {
            shift_ours += grown;
            next_ours += 1;
        } else {
            shift_theirs += grown;
            next_theirs += 1;
        }
        if let Some(last) = clusters.last_mut() {
            last.base.end = last.base.end.max(hunk.before.end);
            last.by_ours |= ours_first;
            last.by_theirs |= !ours_first;
            last.ours.end = (last.base.end as isize + shift_ours) as usize;
            last.theirs.end = (last.base.end as isize + shift_theirs) as usize;
        }
    }
}

/// The places of unchanged elements: base and side.
fn matched(hunks: &[Hunk], base: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let (mut before, mut after) = (0, 0);
    for hunk in hunks {
        pairs.extend((before..hunk.before.start).zip(after..hunk.after.start));
        (before, after) = (hunk.before.end, hunk.after.end);
    }
    pairs.extend((before..base).zip(after..));
    pairs
}

/// Elements that both sides kept, as pairs of ours and theirs.
fn common(ours: &[Pair], theirs: &[Pair]) -> Vec<Pair> {
    let mut rest = theirs.iter().peekable();
    ours.iter()
        .filter_map(|&(base, place)| {
            while rest.peek().is_some_and(|pair| pair.0 < base) {
                rest.next();
            }
            rest.peek()
                .filter(|pair| pair.0 == base)
                .map(|pair| (place, pair.1))
        })
        .collect()
}
