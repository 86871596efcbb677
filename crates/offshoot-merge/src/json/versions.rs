//! Versions in package manifests and lock files: where both sides raised one, the higher stays.

use super::merge::{Merger, ThreeSides};
use super::parse::{Container, NodeId};
use crate::conflict::Side;
use crate::reason::Reason;
use crate::version::{Certainty, second_is_higher};

/// The member that holds the version of what the object describes.
const VERSION: &[u8] = b"version";

/// Members of a lock file's entry that belong to its version and are taken from the same side.
const LOCKED: [&str; 2] = ["resolved", "integrity"];

/// Objects of package manifests whose values are versions, besides `…dependencies`.
const DEPENDENCY_MAPS: [&[u8]; 5] = [
    b"require",
    b"require-dev",
    b"engines",
    b"resolutions",
    b"overrides",
];

impl<'a> Merger<'a> {
    /// The side with the higher version, where both raised one.
    pub(super) fn higher_version(
        &self,
        base: Option<NodeId>,
        ours: NodeId,
        theirs: NodeId,
        certainty: Certainty,
    ) -> Option<Side> {
        if !self.allowed.contains(Reason::HigherVersion) {
            return None;
        }
        let text = |value: &'a [u8]| value.strip_prefix(b"\"")?.strip_suffix(b"\"");
        let (ours, theirs) = (self.ours.value(ours), self.theirs.value(theirs));
        let base = match base {
            Some(node) => Some(text(self.base.value(node))?),
            None => None,
        };
        let second = second_is_higher(base, text(ours)?, text(theirs)?, certainty)?;
        Some(if second { Side::Theirs } else { Side::Ours })
    }

    /// The side with the higher version of a whole object.
    pub(super) fn higher_object(&self, containers: ThreeSides<&Container<'_>>) -> Option<Side> {
        let version = |container: &Container<'_>| {
            let mut items = container.items.iter();
            items
                .find(|item| item.key.as_ref() == VERSION)
                .map(|item| item.value)
        };
        let (ours, theirs) = (version(containers.ours)?, version(containers.theirs)?);
        let base = version(containers.base);
        self.higher_version(base, ours, theirs, Certainty::Named)
    }

    /// The side that a member which belongs to a version is taken from.
    pub(super) fn locked_with_version(&self) -> Option<Side> {
        let key = self.pointer.last()?;
        self.higher.filter(|_| LOCKED.contains(&key.as_str()))
    }

    /// Whether the present pointer names a version.
    pub(super) fn certainty(&self) -> Certainty {
        let mut tokens = self.pointer.iter().rev().map(String::as_bytes);
        let key = tokens.next().unwrap_or_default();
        let map = tokens.next().unwrap_or_default().to_ascii_lowercase();
        let dependencies = map.ends_with(b"dependencies") || DEPENDENCY_MAPS.contains(&&*map);
        if dependencies {
            Certainty::Named
        } else {
            Certainty::of_text(key)
        }
    }
}
