//! Serde modules that write paths and ids as JSON text.

use offshoot_core::{ObjectId, RelPath};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// A value with one text form.
pub(crate) trait Text: Sized {
    fn text(&self) -> String;
    fn from_text(text: &str) -> Option<Self>;
}

impl Text for RelPath {
    fn text(&self) -> String {
        self.to_text()
    }

    fn from_text(text: &str) -> Option<RelPath> {
        RelPath::parse_text(text).ok()
    }
}

impl Text for ObjectId {
    fn text(&self) -> String {
        self.to_hex()
    }

    fn from_text(text: &str) -> Option<ObjectId> {
        text.parse().ok()
    }
}

fn parse<T: Text, E: Error>(text: &str) -> Result<T, E> {
    T::from_text(text).ok_or_else(|| E::custom("a text cannot be read"))
}

pub(crate) fn serialize<T: Text, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.text().serialize(to)
}

pub(crate) fn deserialize<'de, T: Text, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    parse(&String::deserialize(from)?)
}

/// For `Option` fields.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn serialize<T: Text, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Text::text).serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Text, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| parse(&text)).transpose()
    }
}

/// For `Vec` fields.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<T: Text, S: Serializer>(
        values: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(Text::text))
    }

    pub(crate) fn deserialize<'de, T: Text, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| parse(text)).collect()
    }
}
