//! Values against values: what is taken over, what is descended into, what conflicts.

use std::borrow::Cow;
use std::ops::Range;

use super::parse::{Container, Document, Item, Kind, Node, NodeId, Shapes, parse, parse_lines};
use crate::conflict::{Choice, Part, PartConflict, PartKind, Side};
use crate::limits::{Budget, Limits};
use crate::reason::{Reason, Reasons, ResolvedPart};

/// How a file holds its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonFormat {
    /// One value.
    Document,
    /// One value per line.
    Lines,
}

/// Why the structure is not used, and the text is merged instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A side is not strict JSON, has a duplicate key or is nested too deep.
    NotJson,
    /// Both sides laid the same values out in different ways; one layout would be lost.
    BothReformatted,
    /// A choice does not fit the conflict, such as a union of two numbers.
    ChoiceDoesNotFit,
    /// Both added something at one place, and the rules make that a conflict.
    NotAllowed,
}

/// The merged bytes, and what conflicts in them.
#[derive(Debug)]
pub(crate) struct JsonMerge {
    /// The merged document; each conflict is resolved by its choice, or holds ours.
    pub(crate) bytes: Vec<u8>,
    pub(crate) conflicts: Vec<PartConflict>,
    /// What both sides changed and was put together nevertheless.
    pub(crate) resolved: Vec<ResolvedPart>,
}

/// Merges three documents. `choices` resolves conflicts by their order; the rest take ours.
pub(crate) fn merge_json(
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    form: JsonFormat,
    choices: &[Choice],
    allowed: Reasons,
    limits: &Limits,
) -> Result<JsonMerge, Refused> {
    let mut shapes = Shapes::new(base.len() + ours.len());
    let mut read = |bytes| {
        let document = match form {
            JsonFormat::Document => parse(bytes, limits.depth, &mut shapes),
            JsonFormat::Lines => parse_lines(bytes, limits.depth, &mut shapes),
        };
        document
            .map(|document| Source { bytes, document })
            .map_err(|_| Refused::NotJson)
    };
    let (base, ours, theirs) = (read(base)?, read(ours)?, read(theirs)?);
    let mut merger = Merger {
        base: &base,
        ours: &ours,
        theirs: &theirs,
        shapes: shapes.len(),
        form,
        choices,
        pointer: Vec::new(),
        conflicts: Vec::new(),
        resolved: Vec::new(),
        allowed,
        higher: None,
        budget: Budget::new(limits),
    };
    let bytes = merger.document()?;
    Ok(JsonMerge {
        bytes,
        conflicts: merger.conflicts,
        resolved: merger.resolved,
    })
}

/// A side's bytes with their structure.
pub(super) struct Source<'a> {
    pub(super) bytes: &'a [u8],
    document: Document<'a>,
}

impl<'a> Source<'a> {
    pub(super) fn root(&self) -> NodeId {
        self.document.root
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node<'a>> {
        self.document.nodes.iter()
    }

    pub(super) fn text(&self, range: Range<usize>) -> &'a [u8] {
        &self.bytes[range]
    }

    pub(super) fn range(&self, node: NodeId) -> Range<usize> {
        self.document.nodes[node].range.clone()
    }

    pub(super) fn value(&self, node: NodeId) -> &'a [u8] {
        &self.bytes[self.range(node)]
    }

    pub(super) fn shape(&self, node: NodeId) -> u32 {
        self.document.nodes[node].shape
    }

    pub(super) fn kind(&self, node: NodeId) -> &Kind<'a> {
        &self.document.nodes[node].kind
    }

    /// The bytes of an item without the blanks around it.
    pub(super) fn item_range(&self, item: &Item<'_>) -> Range<usize> {
        item.start..self.range(item.value).end
    }

    /// What stands before the value of an item: the key and the colon with their blanks.
    pub(super) fn item_prefix(&self, item: &Item<'_>) -> &'a [u8] {
        &self.bytes[item.start..self.range(item.value).start]
    }
}

/// One value or item on each of the three sides.
#[derive(Clone, Copy)]
pub(super) struct ThreeSides<T> {
    pub(super) base: T,
    pub(super) ours: T,
    pub(super) theirs: T,
}

impl<T: Copy> ThreeSides<T> {
    pub(super) fn of(&self, side: Side) -> T {
        match side {
            Side::Base => self.base,
            Side::Ours => self.ours,
            Side::Theirs => self.theirs,
        }
    }
}

/// The work on one document.
pub(super) struct Merger<'a> {
    pub(super) base: &'a Source<'a>,
    pub(super) ours: &'a Source<'a>,
    pub(super) theirs: &'a Source<'a>,
    /// How many different values the three documents hold.
    pub(super) shapes: usize,
    pub(super) form: JsonFormat,
    choices: &'a [Choice],
    pub(super) pointer: Vec<String>,
    conflicts: Vec<PartConflict>,
    resolved: Vec<ResolvedPart>,
    pub(super) allowed: Reasons,
    /// The side whose version was kept in the present object, if both sides raised it.
    pub(super) higher: Option<Side>,
    pub(super) budget: Budget,
}

/// A merged value: taken as it stands on a side, or put together.
pub(super) type Value<'a> = Cow<'a, [u8]>;

static NOTHING: Container<'static> = Container {
    items: Vec::new(),
    closing: 0..0,
};

impl<'a> Merger<'a> {
    fn document(&mut self) -> Result<Vec<u8>, Refused> {
        let (base, ours, theirs) = (self.base, self.ours, self.theirs);
        let root = |source: &Source<'_>| source.root();
        let before = |source: &Source<'a>| source.text(0..source.range(root(source)).start);
        let after =
            |source: &Source<'a>| source.text(source.range(root(source)).end..source.bytes.len());
        let mut bytes = three_way(before(base), before(ours), before(theirs))?.to_vec();
        let value = self.value(Some(root(base)), root(ours), root(theirs))?;
        bytes.extend_from_slice(&value.ok_or(Refused::ChoiceDoesNotFit)?);
        bytes.extend_from_slice(three_way(after(base), after(ours), after(theirs))?);
        Ok(bytes)
    }

    pub(super) fn source(&self, side: Side) -> &'a Source<'a> {
        match side {
            Side::Base => self.base,
            Side::Ours => self.ours,
            Side::Theirs => self.theirs,
        }
    }

    /// Merges one value that both sides have; none if a choice removes it.
    pub(super) fn value(
        &mut self,
        base: Option<NodeId>,
        ours: NodeId,
        theirs: NodeId,
    ) -> Result<Option<Value<'a>>, Refused> {
        let (ours_bytes, theirs_bytes) = (self.ours.value(ours), self.theirs.value(theirs));
        let base_bytes = base.map(|node| self.base.value(node));
        if ours_bytes == theirs_bytes || base_bytes == Some(theirs_bytes) {
            return Ok(Some(Cow::Borrowed(ours_bytes)));
        }
        if base_bytes == Some(ours_bytes) {
            return Ok(Some(Cow::Borrowed(theirs_bytes)));
        }
        let base_kind = base.map(|node| self.base.kind(node));
        match (base_kind, self.ours.kind(ours), self.theirs.kind(theirs)) {
            (Some(Kind::Object(base)), Kind::Object(ours), Kind::Object(theirs)) => self
                .object(ThreeSides { base, ours, theirs })
                .map(|bytes| Some(Cow::Owned(bytes))),
            (None, Kind::Object(ours), Kind::Object(theirs)) => {
                let containers = ThreeSides {
                    base: &NOTHING,
                    ours,
                    theirs,
                };
                self.object(containers).map(|bytes| Some(Cow::Owned(bytes)))
            }
            (Some(Kind::Array(base)), Kind::Array(ours), Kind::Array(theirs)) => self
                .array(ThreeSides { base, ours, theirs })
                .map(|bytes| Some(Cow::Owned(bytes))),
            _ => self.whole_value(base, ours, theirs),
        }
    }

    /// A value that cannot be descended into.
    fn whole_value(
        &mut self,
        base: Option<NodeId>,
        ours: NodeId,
        theirs: NodeId,
    ) -> Result<Option<Value<'a>>, Refused> {
        let base_shape = base.map(|node| self.base.shape(node));
        let (ours_shape, theirs_shape) = (self.ours.shape(ours), self.theirs.shape(theirs));
        let (ours_bytes, theirs_bytes) = (self.ours.value(ours), self.theirs.value(theirs));
        if ours_shape == theirs_shape || base_shape == Some(theirs_shape) {
            return Ok(Some(Cow::Borrowed(ours_bytes)));
        }
        if base_shape == Some(ours_shape) {
            return Ok(Some(Cow::Borrowed(theirs_bytes)));
        }
        let certainty = self.certainty();
        let higher = self.higher_version(base, ours, theirs, certainty);
        if let Some(side) = higher.or_else(|| self.locked_with_version()) {
            self.resolved(Reason::HigherVersion);
            let theirs_is_higher = side == Side::Theirs;
            let bytes = if theirs_is_higher {
                theirs_bytes
            } else {
                ours_bytes
            };
            return Ok(Some(Cow::Borrowed(bytes)));
        }
        let kind = if base.is_some() {
            PartKind::BothChanged
        } else {
            PartKind::BothAdded
        };
        let ranges = ThreeSides {
            base: base.map(|node| self.base.range(node)),
            ours: Some(self.ours.range(ours)),
            theirs: Some(self.theirs.range(theirs)),
        };
        match self.conflict(kind, ranges) {
            Choice::Ours => Ok(Some(Cow::Borrowed(ours_bytes))),
            Choice::Theirs => Ok(Some(Cow::Borrowed(theirs_bytes))),
            Choice::Base => Ok(base.map(|node| Cow::Borrowed(self.base.value(node)))),
            Choice::Union => Err(Refused::ChoiceDoesNotFit),
        }
    }

    /// Records a conflict at the present pointer and returns how it is resolved.
    pub(super) fn conflict(
        &mut self,
        kind: PartKind,
        ranges: ThreeSides<Option<Range<usize>>>,
    ) -> Choice {
        let choice = self
            .choices
            .get(self.conflicts.len())
            .copied()
            .unwrap_or(Choice::Ours);
        let pointer = self.pointer_text();
        let ThreeSides { base, ours, theirs } = ranges;
        let part = Part::Json { pointer };
        self.conflicts.push(PartConflict {
            part,
            kind,
            base,
            ours,
            theirs,
        });
        choice
    }

    /// Records that both sides added something at one place of the present container.
    pub(super) fn join(&mut self) -> Result<(), Refused> {
        if !self.allowed.contains(Reason::Joined) {
            return Err(Refused::NotAllowed);
        }
        self.resolved(Reason::Joined);
        Ok(())
    }

    /// Records that the present value was put together, and why.
    pub(super) fn resolved(&mut self, reason: Reason) {
        let pointer = self.pointer_text();
        let part = Part::Json { pointer };
        self.resolved.push(ResolvedPart { part, reason });
    }

    /// Runs `work` one level deeper.
    pub(super) fn within<T>(
        &mut self,
        token: String,
        work: impl FnOnce(&mut Self) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        self.pointer.push(token);
        let result = work(self);
        self.pointer.pop();
        result
    }

    fn pointer_text(&self) -> String {
        let escaped = |token: &String| token.replace('~', "~0").replace('/', "~1");
        self.pointer
            .iter()
            .map(|token| format!("/{}", escaped(token)))
            .collect()
    }
}

/// Merges bytes that have no structure, such as the blanks around a document.
fn three_way<'a>(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Result<&'a [u8], Refused> {
    if ours == base || ours == theirs {
        Ok(theirs)
    } else if theirs == base {
        Ok(ours)
    } else {
        Err(Refused::BothReformatted)
    }
}
