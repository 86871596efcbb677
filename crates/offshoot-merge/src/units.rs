//! Contents cut into units, lines or values of JSON, for attributing parts of a conflict to
//! authors.
//!
//! A line of a text is a unit. Of a JSON document it is each value that holds no other, together
//! with the keys that lead to it, so that a minified document has as many units as a pretty one.
//! Members come in the order of their keys, for their order means nothing.

use std::ops::Range;

use crate::content::is_binary;
use crate::equal_lines::{EqualLines, equal_lines};
use crate::json::{JsonFormat, leaves};
use crate::limits::Limits;

/// What a content is cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// Lines.
    Lines,
    /// The values of one JSON document.
    Json,
    /// The values of JSON documents, one a line.
    JsonLines,
}

/// A content, cut into its units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// The units one after the other, each a line of its own.
    text: Vec<u8>,
    ranges: Vec<Range<usize>>,
    /// For values of JSON: what leads to each, so that a value and the one that took its place can
    /// be told from others.
    leads: Vec<Vec<u8>>,
}

impl Units {
    /// Cuts a content. None if it is binary, too large, or not of that grain.
    pub fn cut(bytes: &[u8], granularity: Granularity, limits: &Limits) -> Option<Units> {
        if bytes.len() as u64 > limits.bytes || is_binary(bytes) {
            return None;
        }
        let form = match granularity {
            Granularity::Lines => return Some(Units::of_lines(bytes)),
            Granularity::Json => JsonFormat::Document,
            Granularity::JsonLines => JsonFormat::Lines,
        };
        let mut units = Units::default();
        for leaf in leaves(bytes, form, limits.depth)? {
            units.text.extend_from_slice(&leaf.lead);
            units.text.push(b'=');
            units.text.extend_from_slice(leaf.spelled);
            units.text.push(b'\n');
            units.ranges.push(leaf.range);
            units.leads.push(leaf.lead);
        }
        Some(units)
    }

    fn of_lines(bytes: &[u8]) -> Units {
        let mut start = 0;
        let lines = bytes.split_inclusive(|&byte| byte == b'\n').map(|line| {
            start += line.len();
            start - line.len()..start
        });
        Units {
            ranges: lines.collect(),
            text: bytes.to_vec(),
            leads: Vec::new(),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a unit has bytes of the content in this range.
    pub fn is_in(&self, unit: usize, range: &Range<usize>) -> bool {
        let own = &self.ranges[unit];
        own.start < range.end && range.start < own.end
    }

    /// Which of these units another content has too.
    pub fn found_in(&self, other: &Units, limits: &Limits) -> Vec<bool> {
        let found = self.places_in(other, limits).into_iter();
        found.map(|place| place.is_some()).collect()
    }

    /// Where another content has each of these units.
    pub fn places_in(&self, other: &Units, limits: &Limits) -> Vec<Option<usize>> {
        let mut places = vec![None; self.len()];
        for EqualLines { before, after, len } in equal_lines(&self.text, &other.text, limits) {
            for step in 0..len {
                places[before + step] = Some(after + step);
            }
        }
        places
    }

    /// The keys that lead to a unit; none for a line.
    pub fn lead(&self, unit: usize) -> Option<&[u8]> {
        self.leads.get(unit).map(Vec::as_slice)
    }

    /// What became of these units in a later content.
    pub fn map_to<'a>(&self, later: &'a Units, limits: &Limits) -> UnitMapping<'a> {
        let same = self.places_in(later, limits);
        let mut became = same.clone();
        let (mut unit, mut free) = (0, 0);
        while unit < same.len() {
            if let Some(place) = same[unit] {
                (unit, free) = (unit + 1, place + 1);
                continue;
            }
            let known = (unit..same.len()).find(|&next| same[next].is_some());
            let end = known.unwrap_or(same.len());
            let later_end = known.and_then(|next| same[next]).unwrap_or(later.len());
            self.pair(&mut became, unit..end, later, free..later_end);
            unit = end;
        }
        UnitMapping {
            same,
            became,
            later,
        }
    }

    /// Pairs units with those that took their places: values by what leads to them, lines in order.
    fn pair(
        &self,
        places: &mut [Option<usize>],
        own: Range<usize>,
        later: &Units,
        mut free: Range<usize>,
    ) {
        for unit in own {
            let found = match self.leads.get(unit) {
                None => free.clone().next(),
                Some(lead) => free
                    .clone()
                    .find(|&place| later.leads.get(place) == Some(lead)),
            };
            if let Some(place) = found {
                places[unit] = Some(place);
                free.start = place + 1;
            }
        }
    }
}

/// What became of the units of a content in a later one.
#[derive(Debug)]
pub struct UnitMapping<'a> {
    same: Vec<Option<usize>>,
    became: Vec<Option<usize>>,
    later: &'a Units,
}

impl UnitMapping<'_> {
    /// Where a unit is, or what stands in its place; none if it was taken away.
    pub fn unit(&self, unit: usize) -> Option<usize> {
        self.became[unit]
    }

    /// Where the gap is that a unit left, or that was before it: before the unit of this number.
    pub fn gap(&self, before: usize) -> usize {
        let left = self.same[..before].iter().rev().find_map(|place| *place);
        left.map_or(0, |left| left + 1)
    }

    /// What was put into a gap. `lead` is what led to the unit that left it.
    pub fn filled(&self, gap: usize, lead: Option<&[u8]>) -> Option<usize> {
        if let Some(lead) = lead {
            // All elements of a list have equal keys.
            let is_element = lead.split(|&byte| byte == b'/').any(|part| part == b"[]");
            let mut leads = self.later.leads.iter();
            return leads.position(|other| !is_element && other == lead);
        }
        let is_known = |unit: usize| self.same.get(unit).is_none_or(Option::is_some);
        let is_alone = is_known(gap) && (gap == 0 || is_known(gap - 1));
        let right = self.same[gap..].iter().find_map(|place| *place);
        let end = right.unwrap_or(self.later.len());
        Some(self.gap(gap)).filter(|&start| is_alone && start < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, granularity: Granularity) -> Units {
        Units::cut(text.as_bytes(), granularity, &Limits::default()).unwrap()
    }

    #[test]
    fn lines_are_units() {
        let units = cut("a\nb\nc", Granularity::Lines);
        assert_eq!((units.len(), units.is_in(1, &(2..4))), (3, true));
        assert!(!units.is_in(0, &(2..4)) && !units.is_in(1, &(2..2)));
        let found = units.found_in(&cut("a\nX\nc", Granularity::Lines), &Limits::default());
        assert_eq!(found, [true, false, true]);
        assert!(Units::cut(b"a\0", Granularity::Lines, &Limits::default()).is_none());
    }

    #[test]
    fn values_of_json_are_units_in_any_order_and_layout() {
        let one = cut(
            r#"{"b":{"y":1,"x":[1,{"k":"v"}]},"a":"\n","e":{}}"#,
            Granularity::Json,
        );
        let other = cut(
            "{\n \"a\": \"\\n\", \"e\": { },\n \"b\": {\"x\": [1, {\"k\": 0}], \"y\": 1}}",
            Granularity::Json,
        );
        assert_eq!((one.len(), other.len()), (5, 5));
        let found = one.found_in(&other, &Limits::default());
        assert_eq!(found, [true, true, false, true, true]);
        let place = r#"{"b":{"y":1,"x":[1,{"k":"#.len();
        let hit: Vec<usize> = (0..5)
            .filter(|&unit| one.is_in(unit, &(place..place + 3)))
            .collect();
        assert_eq!(hit, [2]);
        assert!(Units::cut(b"{", Granularity::Json, &Limits::default()).is_none());
    }

    #[test]
    fn what_took_the_place_of_a_unit_is_told_from_what_is_gone() {
        let became = |before: &str, after: &str, granularity| -> Vec<Option<usize>> {
            let (before, after) = (cut(before, granularity), cut(after, granularity));
            let followed = before.map_to(&after, &Limits::default());
            (0..before.len()).map(|unit| followed.unit(unit)).collect()
        };
        let of_lines = became("a\nb\nc\nd\n", "a\nX\nd\n", Granularity::Lines);
        assert_eq!(of_lines, [Some(0), Some(1), None, Some(2)]);
        let of_json = became(
            r#"{"a":1,"b":1,"c":1}"#,
            r#"{"b":2,"c":1}"#,
            Granularity::Json,
        );
        assert_eq!(of_json, [None, Some(0), Some(1)]);
        assert_eq!(became("a\n", "", Granularity::Lines), [None]);
    }

    #[test]
    fn what_fills_a_gap_is_found() {
        let limits = Limits::default();
        let (one, other) = (
            cut("a\nc\n", Granularity::Lines),
            cut("z\na\nb\nc\n", Granularity::Lines),
        );
        let followed = one.map_to(&other, &limits);
        assert_eq!((followed.gap(1), followed.filled(1, None)), (2, Some(2)));
        assert_eq!((followed.gap(2), followed.filled(2, None)), (4, None));
        let back = other.map_to(&one, &limits);
        assert_eq!(
            (back.unit(2), back.gap(2), back.filled(0, None)),
            (None, 1, None)
        );
        let (one, other) = (
            cut(r#"{"a":1}"#, Granularity::Json),
            cut(r#"{"a":2,"b":3}"#, Granularity::Json),
        );
        let followed = one.map_to(&other, &limits);
        assert_eq!(followed.filled(1, Some(b"/b")), Some(1));
        assert_eq!(followed.filled(1, Some(b"/c")), None);
    }

    #[test]
    fn a_line_of_json_lines_is_an_element() {
        let units = cut("{\"a\":1}\n{\"a\":2}\n", Granularity::JsonLines);
        let found = units.found_in(
            &cut("{\"a\":2}\n", Granularity::JsonLines),
            &Limits::default(),
        );
        assert_eq!(found, [false, true]);
    }
}
