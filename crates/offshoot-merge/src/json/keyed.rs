//! Items with a key: the members of an object, and elements that carry an identity.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::emit::{Entry, Pair};
use super::merge::{Merger, Refused, ThreeSides};
use super::parse::{Container, Item};
use crate::conflict::{Choice, PartKind, Side};

/// The keys of a container's items, in their order.
pub(super) type Keys<'k> = Vec<Cow<'k, [u8]>>;

/// Where a key stands on the three sides.
type Places = ThreeSides<Option<usize>>;

impl<'a> Merger<'a> {
    /// Merges the members of an object.
    pub(super) fn object(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
    ) -> Result<Vec<u8>, Refused> {
        let keys = |container: &'a Container<'a>| -> Keys<'a> {
            container
                .items
                .iter()
                .map(|item| Cow::Borrowed(item.key.as_ref()))
                .collect()
        };
        let all = ThreeSides {
            base: &keys(containers.base),
            ours: &keys(containers.ours),
            theirs: &keys(containers.theirs),
        };
        let higher = self.higher_object(containers);
        let outer = std::mem::replace(&mut self.higher, higher);
        let merged = self.keyed(containers, all, true);
        self.higher = outer;
        merged
    }

    /// Merges items by their keys.
    pub(super) fn keyed(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
        keys: ThreeSides<&Keys<'a>>,
        object: bool,
    ) -> Result<Vec<u8>, Refused> {
        let index = |keys: &'_ Keys<'a>| -> HashMap<Vec<u8>, usize> {
            keys.iter()
                .enumerate()
                .map(|(place, key)| (key.to_vec(), place))
                .collect()
        };
        let (base, ours, theirs) = (index(keys.base), index(keys.ours), index(keys.theirs));
        let places = |key: &[u8]| ThreeSides {
            base: base.get(key).copied(),
            ours: ours.get(key).copied(),
            theirs: theirs.get(key).copied(),
        };
        let pairs = |from: &Keys<'a>, to: &HashMap<Vec<u8>, usize>| -> Vec<Pair> {
            let found = from.iter().enumerate();
            found
                .filter_map(|(place, key)| Some((place, *to.get(key.as_ref())?)))
                .collect()
        };
        let (in_ours, in_theirs) = (pairs(keys.base, &ours), pairs(keys.base, &theirs));
        let in_both = pairs(keys.ours, &theirs);
        let layout = self.layout(containers, &in_ours, &in_theirs, &in_both)?;
        let leading_order = leading_order(&in_ours, &in_theirs, &in_both)?;
        let (order, joined) = merged_order(keys, leading_order, object);
        if joined {
            self.join()?;
        }
        let mut entries = Vec::with_capacity(order.len());
        for key in order {
            let places = places(&key);
            let token = if object {
                String::from_utf8_lossy(&key).into_owned()
            } else {
                let place = places.ours.or(places.theirs).or(places.base);
                place.unwrap_or_default().to_string()
            };
            let entry = self.within(token, |merger| {
                merger.keyed_item(containers, places, layout)
            })?;
            entries.extend(entry);
        }
        Ok(self.emit(containers, layout, &entries, object))
    }

    /// Merges one item; none when it is gone.
    fn keyed_item(
        &mut self,
        containers: ThreeSides<&'a Container<'a>>,
        places: Places,
        layout: Side,
    ) -> Result<Option<Entry<'a>>, Refused> {
        let item = |side: Side, place: usize| &containers.of(side).items[place];
        let taken = |merger: &Self, side: Side, place: usize| {
            let value = merger.source(side).value(item(side, place).value);
            Some(Entry {
                written: (side, place),
                value: Cow::Borrowed(value),
            })
        };
        match (places.base, places.ours, places.theirs) {
            (base, Some(ours), Some(theirs)) => {
                let base = base.map(|place| item(Side::Base, place).value);
                let (ours_value, theirs_value) = (
                    item(Side::Ours, ours).value,
                    item(Side::Theirs, theirs).value,
                );
                let value = self.value(base, ours_value, theirs_value)?;
                let written = if layout == Side::Theirs {
                    (layout, theirs)
                } else {
                    (Side::Ours, ours)
                };
                Ok(value.map(|value| Entry { written, value }))
            }
            (None, Some(ours), None) => Ok(taken(self, Side::Ours, ours)),
            (None, None, Some(theirs)) => Ok(taken(self, Side::Theirs, theirs)),
            (Some(base), Some(place), None) | (Some(base), None, Some(place)) => {
                let side = if places.ours.is_some() {
                    Side::Ours
                } else {
                    Side::Theirs
                };
                let (before, after) = (item(Side::Base, base), item(side, place));
                if self.base.shape(before.value) == self.source(side).shape(after.value) {
                    return Ok(None);
                }
                let keep = self.removed_or_changed(side, before, after)?;
                Ok(keep.and_then(|kept| {
                    taken(self, kept, if kept == Side::Base { base } else { place })
                }))
            }
            (_, None, None) => Ok(None),
        }
    }

    /// One side removed the item and `side` changed it: which version stays, if any.
    fn removed_or_changed(
        &mut self,
        side: Side,
        before: &Item<'_>,
        after: &Item<'_>,
    ) -> Result<Option<Side>, Refused> {
        let base = Some(self.base.item_range(before));
        let changed = Some(self.source(side).item_range(after));
        let (kind, ranges) = if side == Side::Ours {
            (
                PartKind::RemovedByTheirs,
                ThreeSides {
                    base,
                    ours: changed,
                    theirs: None,
                },
            )
        } else {
            (
                PartKind::RemovedByOurs,
                ThreeSides {
                    base,
                    ours: None,
                    theirs: changed,
                },
            )
        };
        match (self.conflict(kind, ranges), side) {
            (Choice::Ours, Side::Ours) | (Choice::Theirs, Side::Theirs) => Ok(Some(side)),
            (Choice::Ours | Choice::Theirs, _) => Ok(None),
            (Choice::Base, _) => Ok(Some(Side::Base)),
            (Choice::Union, _) => Err(Refused::ChoiceDoesNotFit),
        }
    }
}

/// The side whose order of items is followed: the one that reordered them.
fn leading_order(ours: &[Pair], theirs: &[Pair], both: &[Pair]) -> Result<Side, Refused> {
    let reordered = |pairs: &[Pair]| pairs.windows(2).any(|pair| pair[0].1 > pair[1].1);
    match (reordered(ours), reordered(theirs)) {
        (true, true) if reordered(both) => Err(Refused::BothReformatted),
        (false, true) => Ok(Side::Theirs),
        _ => Ok(Side::Ours),
    }
}

/// All keys in merged order, and whether both sides added something at the same place.
fn merged_order<'a>(
    keys: ThreeSides<&Keys<'a>>,
    leading_order: Side,
    object: bool,
) -> (Vec<Cow<'a, [u8]>>, bool) {
    let (spine_keys, other_keys) = if leading_order == Side::Ours {
        (keys.ours, keys.theirs)
    } else {
        (keys.theirs, keys.ours)
    };
    let in_base: HashSet<&[u8]> = keys.base.iter().map(AsRef::as_ref).collect();
    let in_spine: HashSet<&[u8]> = spine_keys.iter().map(AsRef::as_ref).collect();
    let in_other: HashSet<&[u8]> = other_keys.iter().map(AsRef::as_ref).collect();
    // An object that is sorted on all sides stays sorted.
    let sorted = object
        && [keys.base, keys.ours, keys.theirs]
            .iter()
            .all(|keys| keys.is_sorted());
    // Keys that the spine lacks follow the key that they follow on their own side.
    let mut runs: HashMap<Option<&[u8]>, Keys<'a>> = HashMap::new();
    let mut anchor = None;
    for key in other_keys {
        if in_spine.contains(key.as_ref()) {
            anchor = Some(key.as_ref());
        } else {
            runs.entry(anchor).or_default().push(key.clone());
        }
    }
    let mut order = Vec::with_capacity(spine_keys.len() + other_keys.len());
    let mut joined = false;
    let mut place = 0;
    let mut anchor = None;
    loop {
        let start = place;
        while place < spine_keys.len()
            && !in_base.contains(spine_keys[place].as_ref())
            && !in_other.contains(spine_keys[place].as_ref())
        {
            place += 1;
        }
        let of_spine = spine_keys[start..place].to_vec();
        let of_other = runs.remove(&anchor).unwrap_or_default();
        joined |=
            !of_spine.is_empty() && of_other.iter().any(|key| !in_base.contains(key.as_ref()));
        let (ours, theirs) = if leading_order == Side::Ours {
            (of_spine, of_other)
        } else {
            (of_other, of_spine)
        };
        order.extend(ours);
        order.extend(theirs);
        let Some(next) = spine_keys.get(place) else {
            break;
        };
        order.push(next.clone());
        anchor = Some(next.as_ref());
        place += 1;
    }
    if sorted {
        order.sort_unstable();
    }
    (order, joined)
}
