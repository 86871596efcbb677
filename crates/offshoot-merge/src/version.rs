//! Version numbers as people write them, and which of two is the higher one.

use std::cmp::Ordering;

/// A version or a simple range: a sign or none, numbers with dots, and a label such as `-rc.1`.
struct Version<'a> {
    numbers: Vec<u64>,
    /// Whether an `x` or a `*` stands for the last number.
    open: bool,
    /// What stands behind a `-`.
    label: Option<&'a [u8]>,
}

/// How certain it is that a number with dots is a version and not a measure such as `1.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The place says so: a member named `version`, an entry among dependencies.
    Named,
    /// Only its own look: three numbers are a version, two or four may be anything.
    Looks,
}

impl Certainty {
    /// What the text around a number tells.
    pub(crate) fn of_text(text: &[u8]) -> Self {
        let named = text
            .windows(VERSION.len())
            .any(|word| word.eq_ignore_ascii_case(VERSION));
        if named {
            Certainty::Named
        } else {
            Certainty::Looks
        }
    }
}

const VERSION: &[u8] = b"version";

/// More bytes than this are not the lines that name one version.
const MAX_BLOCK: usize = 4096;

/// The higher of two versions that are both above `base`, if it is certain: true for the second.
///
/// Without a base both are new. A range counts by the version that it starts at, so `^2.0.0` is
/// higher than `1.9.0`; equal numbers with different signs are not decided, and neither are ranges
/// with alternatives.
pub(crate) fn second_is_higher(
    base: Option<&[u8]>,
    first: &[u8],
    second: &[u8],
    certainty: Certainty,
) -> Option<bool> {
    let parse = |text| parse(text).filter(|version| version.is_version(certainty));
    let (first, second) = (parse(first)?, parse(second)?);
    if let Some(base) = base {
        let base = parse(base)?;
        let raised = |to: &Version<'_>| compare(&base, to) == Ordering::Less;
        if !raised(&first) || !raised(&second) {
            return None;
        }
    }
    match compare(&first, &second) {
        Ordering::Less if first.open == second.open => Some(true),
        Ordering::Greater if first.open == second.open => Some(false),
        _ => None,
    }
}

/// Lines that name a version in several ways, raised by both sides: whether the second is higher.
///
/// The three must have the same words around their numbers. The first number that both changed
/// decides for the others, so that the parts of one version stay together.
pub(crate) fn second_block_is_higher(base: &[u8], first: &[u8], second: &[u8]) -> Option<bool> {
    if [base, first, second]
        .iter()
        .any(|side| side.len() > MAX_BLOCK)
    {
        return None;
    }
    let (base, first, second) = (numbers(base), numbers(first), numbers(second));
    if first.len() != base.len() || second.len() != base.len() {
        return None;
    }
    let mut decided = None;
    for ((base, first), second) in base.iter().zip(&first).zip(&second) {
        if first.text == second.text {
            continue;
        }
        if !base.is_number || !first.is_number || !second.is_number {
            return None;
        }
        if first.text != base.text && second.text != base.text {
            let certainty = Certainty::of_text(base.line);
            if decided.is_none() {
                let (base, first, second) = (base.text, first.text, second.text);
                decided = Some(second_is_higher(Some(base), first, second, certainty)?);
            } else if certainty != Certainty::Named {
                return None;
            }
        }
    }
    let second_is_higher = decided?;
    // A part that only the lower one changed would be lost.
    let (higher, lower) = if second_is_higher {
        (&second, &first)
    } else {
        (&first, &second)
    };
    let mut parts = base.iter().zip(higher).zip(lower);
    parts
        .all(|((base, higher), lower)| higher.text != base.text || lower.text == base.text)
        .then_some(second_is_higher)
}

/// A number with its dots and label, or what stands between two of them.
struct Token<'a> {
    text: &'a [u8],
    /// The line that it begins in.
    line: &'a [u8],
    is_number: bool,
}

/// A text cut into its numbers and the single bytes between them.
fn numbers(text: &[u8]) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let mut rest = line;
        let mut in_word = false;
        while let Some(&first) = rest.first() {
            let is_number = first.is_ascii_digit() && !in_word;
            let part_of_it =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
            let length = if is_number {
                rest.iter().take_while(|&&byte| part_of_it(byte)).count()
            } else {
                1
            };
            in_word = !is_number && (first.is_ascii_alphanumeric() || first == b'_');
            let (text, after) = rest.split_at(length);
            tokens.push(Token {
                text,
                line,
                is_number,
            });
            rest = after;
        }
    }
    tokens
}

impl Version<'_> {
    fn is_version(&self, certainty: Certainty) -> bool {
        match certainty {
            Certainty::Named => true,
            Certainty::Looks => self.numbers.len() == 3,
        }
    }
}

fn parse(text: &[u8]) -> Option<Version<'_>> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    let (sign, rest) = text.split_at(start);
    if !matches!(
        sign,
        b"" | b"^" | b"~" | b">=" | b">= " | b"=" | b"==" | b"~=" | b"~>" | b"~> " | b"v"
    ) {
        return None;
    }
    // What a build carries behind `+` does not take part in the order.
    if rest.contains(&b'+') {
        return None;
    }
    let (numbers, label) = match rest.iter().position(|&byte| byte == b'-') {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let mut version = Version {
        numbers: Vec::new(),
        open: false,
        label,
    };
    for part in numbers.split(|&byte| byte == b'.') {
        if version.open {
            return None;
        }
        match part {
            b"x" | b"*" => version.open = true,
            digits => version.numbers.push(number(digits)?),
        }
    }
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    label
        .is_none_or(|label| !label.is_empty() && label.iter().all(word))
        .then_some(version)
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| text.parse().ok()).flatten()
}

/// The order of two versions.
fn compare(one: &Version<'_>, two: &Version<'_>) -> Ordering {
    let length = one.numbers.len().max(two.numbers.len());
    let filled = |version: &Version<'_>| -> Vec<u64> {
        let zeros = std::iter::repeat(0);
        version
            .numbers
            .iter()
            .copied()
            .chain(zeros)
            .take(length)
            .collect()
    };
    match filled(one).cmp(&filled(two)) {
        Ordering::Equal => {}
        decided => return decided,
    }
    match (one.label, two.label) {
        (None, None) => Ordering::Equal,
        // A label comes before the version that it leads to.
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(one), Some(two)) => compare_labels(one, two),
    }
}

/// Labels part by part, numbers below words, as semantic versioning has it.
fn compare_labels(one: &[u8], two: &[u8]) -> Ordering {
    let parts = |label: &[u8]| -> Vec<Vec<u8>> {
        let split = label.split(|&byte| byte == b'.');
        split.map(<[u8]>::to_vec).collect()
    };
    let (one, two) = (parts(one), parts(two));
    for (one, two) in one.iter().zip(&two) {
        let order = match (number(one), number(two)) {
            (Some(one), Some(two)) => one.cmp(&two),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => one.cmp(two),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    one.len().cmp(&two.len())
}
