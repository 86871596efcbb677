//! A strict JSON reader that keeps where every byte stands.
//!
//! Nothing is converted: numbers, strings and the blanks between them stay ranges of the source,
//! so that a merge can splice what was written. The reader uses a stack of its own and a depth
//! limit, so that no nesting overflows the thread's.

use std::borrow::Cow;
use std::ops::Range;

use imara_diff::Interner;

use super::spelling::{decode, meaning};

/// Why a document is not merged by structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotJson {
    /// It is not valid by the strict grammar.
    Invalid,
    /// An object has a key twice.
    DuplicateKey,
    /// It is nested deeper than allowed.
    TooDeep,
}

/// The index of a node in its document.
pub(crate) type NodeId = usize;

/// One value.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) range: Range<usize>,
    pub(crate) kind: Kind<'a>,
    /// Equal for values that mean the same, in all documents that share [`Shapes`].
    pub(crate) shape: u32,
}

/// What kind of value it is; containers name the blanks inside when they have no items.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Scalar,
    Object(Container<'a>),
    Array(Container<'a>),
}

/// The items of an object or array.
#[derive(Debug)]
pub(crate) struct Container<'a> {
    pub(crate) items: Vec<Item<'a>>,
    /// The blanks before the closing bracket.
    pub(crate) closing: Range<usize>,
}

/// A member or an element with the blanks around it.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    /// The decoded key of a member; empty for an element.
    pub(crate) key: Cow<'a, [u8]>,
    /// The blanks before it, after the bracket or comma.
    pub(crate) lead: Range<usize>,
    /// Where the key begins, or the value of an element.
    pub(crate) start: usize,
    pub(crate) value: NodeId,
    /// The blanks between its end and the comma; empty for the last one.
    pub(crate) tail: Range<usize>,
}

/// A parsed document.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) root: NodeId,
}

/// Numbers for values by meaning: members in any order, blanks aside, `1.0` as `1`.
///
/// A check of validity alone needs none and leaves them off, which halves its time.
pub(crate) struct Shapes<'a>(Option<Interner<Cow<'a, [u8]>>>);

impl<'a> Shapes<'a> {
    pub(crate) fn new(bytes: usize) -> Self {
        Shapes(Some(Interner::new(bytes / 16 + 16)))
    }

    pub(crate) fn off() -> Self {
        Shapes(None)
    }

    fn number(&mut self, description: Cow<'a, [u8]>) -> u32 {
        self.0
            .as_mut()
            .map_or(0, |interner| interner.intern(description).0)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |interner| interner.num_tokens() as usize)
    }

    fn of_scalar(&mut self, spelled: &'a [u8]) -> u32 {
        if self.0.is_none() {
            return 0;
        }
        self.number(meaning(spelled))
    }

    fn of_items(&mut self, tag: u8, items: &[Item<'_>], nodes: &[Node<'_>]) -> u32 {
        if self.0.is_none() {
            return 0;
        }
        let mut parts: Vec<(&[u8], u32)> = items
            .iter()
            .map(|item| (item.key.as_ref(), nodes[item.value].shape))
            .collect();
        if tag == b'{' {
            parts.sort_unstable();
        }
        let mut description = vec![tag];
        for (key, shape) in parts {
            description.extend_from_slice(&(key.len() as u32).to_le_bytes());
            description.extend_from_slice(key);
            description.extend_from_slice(&shape.to_le_bytes());
        }
        self.number(Cow::Owned(description))
    }
}

/// Reads one document.
pub(crate) fn parse<'a>(
    bytes: &'a [u8],
    depth: usize,
    shapes: &mut Shapes<'a>,
) -> Result<Document<'a>, NotJson> {
    let mut reader = Reader::new(bytes, depth, shapes)?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        reader.at = 3;
    }
    reader.blanks();
    let root = reader.value()?;
    reader.blanks();
    if reader.at != bytes.len() {
        return Err(NotJson::Invalid);
    }
    Ok(Document {
        nodes: reader.nodes,
        root,
    })
}

/// Reads a document with one value per line, as an array of them.
pub(crate) fn parse_lines<'a>(
    bytes: &'a [u8],
    depth: usize,
    shapes: &mut Shapes<'a>,
) -> Result<Document<'a>, NotJson> {
    let mut reader = Reader::new(bytes, depth, shapes)?;
    let mut items = Vec::new();
    if bytes.starts_with(b"\xef\xbb\xbf") {
        reader.at = 3;
    }
    loop {
        let lead = reader.blanks();
        if reader.at == bytes.len() {
            let closing = lead;
            let shape = reader.shapes.of_items(b'[', &items, &reader.nodes);
            let kind = Kind::Array(Container { items, closing });
            reader.nodes.push(Node {
                range: 0..bytes.len(),
                kind,
                shape,
            });
            let root = reader.nodes.len() - 1;
            return Ok(Document {
                nodes: reader.nodes,
                root,
            });
        }
        let start = reader.at;
        let value = reader.value()?;
        let end = reader.at;
        while matches!(bytes.get(reader.at), Some(b' ' | b'\t' | b'\r')) {
            reader.at += 1;
        }
        match bytes.get(reader.at) {
            Some(b'\n') => reader.at += 1,
            None => {}
            Some(_) => return Err(NotJson::Invalid),
        }
        items.push(Item {
            key: Cow::Borrowed(b""),
            lead,
            start,
            value,
            tail: end..reader.at,
        });
    }
}

struct Reader<'a, 's> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    nodes: Vec<Node<'a>>,
    shapes: &'s mut Shapes<'a>,
}

/// A container whose end has not been read yet.
struct Open<'a> {
    start: usize,
    object: bool,
    items: Vec<Item<'a>>,
    /// The item whose value is being read: key, blanks before, start.
    pending: (Cow<'a, [u8]>, Range<usize>, usize),
}

impl<'a, 's> Reader<'a, 's> {
    fn new(bytes: &'a [u8], depth: usize, shapes: &'s mut Shapes<'a>) -> Result<Self, NotJson> {
        if std::str::from_utf8(bytes).is_err() {
            return Err(NotJson::Invalid);
        }
        Ok(Reader {
            bytes,
            at: 0,
            depth,
            nodes: Vec::new(),
            shapes,
        })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) -> Range<usize> {
        let start = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        start..self.at
    }

    /// Reads one value, containers by an explicit stack.
    fn value(&mut self) -> Result<NodeId, NotJson> {
        let mut open: Vec<Open<'a>> = Vec::new();
        loop {
            // A value begins here: a container is opened, a scalar is finished at once.
            let mut done = match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    if open.len() >= self.depth {
                        return Err(NotJson::TooDeep);
                    }
                    let start = self.at;
                    self.at += 1;
                    open.push(Open {
                        start,
                        object: bracket == b'{',
                        items: Vec::new(),
                        pending: Default::default(),
                    });
                    None
                }
                _ => Some(self.scalar()?),
            };
            // Finished values go into their containers until another value has to be read.
            loop {
                let Some(top) = open.last_mut() else {
                    return done.ok_or(NotJson::Invalid);
                };
                let first = done.is_none();
                if let Some(value) = done.take() {
                    let (key, lead, start) = std::mem::take(&mut top.pending);
                    let end = self.at;
                    let blanks = self.blanks();
                    top.items.push(Item {
                        key,
                        lead,
                        start,
                        value,
                        tail: end..blanks.end,
                    });
                }
                let lead = if first {
                    self.blanks()
                } else {
                    self.at..self.at
                };
                match self.peek() {
                    Some(b',') if !first => {
                        self.at += 1;
                        let lead = self.blanks();
                        self.begin_item(&mut open, lead)?;
                        break;
                    }
                    Some(b'}' | b']') if first || !top.items.is_empty() => {
                        done = Some(self.close(&mut open, lead, first)?);
                    }
                    _ if first => {
                        self.begin_item(&mut open, lead)?;
                        break;
                    }
                    _ => return Err(NotJson::Invalid),
                }
            }
        }
    }

    /// Reads the key of a member, if it is one, up to the value.
    fn begin_item(&mut self, open: &mut [Open<'a>], lead: Range<usize>) -> Result<(), NotJson> {
        let start = self.at;
        let Some(top) = open.last_mut() else {
            return Err(NotJson::Invalid);
        };
        let mut key = Cow::Borrowed(&b""[..]);
        if top.object {
            let range = self.string()?;
            key = decode(&self.bytes[range.start + 1..range.end - 1]);
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(NotJson::Invalid);
            }
            self.at += 1;
            self.blanks();
        }
        top.pending = (key, lead, start);
        Ok(())
    }

    fn close(
        &mut self,
        open: &mut Vec<Open<'a>>,
        inner: Range<usize>,
        empty: bool,
    ) -> Result<NodeId, NotJson> {
        let mut top = open.pop().ok_or(NotJson::Invalid)?;
        if self.peek() != Some(if top.object { b'}' } else { b']' }) {
            return Err(NotJson::Invalid);
        }
        self.at += 1;
        if top.object && has_duplicates(&top.items) {
            return Err(NotJson::DuplicateKey);
        }
        let closing = match top.items.last_mut() {
            Some(last) if !empty => {
                // The blanks after the last item belong to the bracket.
                let blanks = last.tail.clone();
                last.tail = blanks.start..blanks.start;
                blanks
            }
            _ => inner,
        };
        let tag = if top.object { b'{' } else { b'[' };
        let shape = self.shapes.of_items(tag, &top.items, &self.nodes);
        let container = Container {
            items: top.items,
            closing,
        };
        let kind = if top.object {
            Kind::Object(container)
        } else {
            Kind::Array(container)
        };
        self.nodes.push(Node {
            range: top.start..self.at,
            kind,
            shape,
        });
        Ok(self.nodes.len() - 1)
    }

    fn scalar(&mut self) -> Result<NodeId, NotJson> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => {
                self.string()?;
            }
            Some(b't') => self.literal(b"true")?,
            Some(b'f') => self.literal(b"false")?,
            Some(b'n') => self.literal(b"null")?,
            _ => self.number()?,
        }
        let range = start..self.at;
        let shape = self.shapes.of_scalar(&self.bytes[range.clone()]);
        self.nodes.push(Node {
            range,
            kind: Kind::Scalar,
            shape,
        });
        Ok(self.nodes.len() - 1)
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), NotJson> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(NotJson::Invalid);
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(NotJson::Invalid)
        }
    }

    fn number(&mut self) -> Result<(), NotJson> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<Range<usize>, NotJson> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(NotJson::Invalid);
        }
        self.at += 1;
        loop {
            match self.peek() {
                None | Some(0..=0x1f) => return Err(NotJson::Invalid),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(start..self.at);
                }
                Some(b'\\') => {
                    let escaped = self.bytes.get(self.at + 1).copied();
                    let hex = self.bytes.get(self.at + 2..self.at + 6);
                    self.at += match (escaped, hex) {
                        (Some(b'u'), Some(hex)) if hex.iter().all(u8::is_ascii_hexdigit) => 6,
                        (Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'), _) => 2,
                        _ => return Err(NotJson::Invalid),
                    };
                }
                Some(_) => self.at += 1,
            }
        }
    }
}

/// Whether a key occurs twice. Keys often come sorted already, and then one pass is enough.
fn has_duplicates(items: &[Item<'_>]) -> bool {
    if items.is_sorted_by(|one, two| one.key < two.key) {
        return false;
    }
    let mut keys: Vec<&[u8]> = items.iter().map(|item| item.key.as_ref()).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}
