//! Hunks that are lists of entries on all three sides: merged entry by entry, as sets.
//!
//! Only where the format says that entries are independent of each other and where each line shows
//! what it is: keys of one TOML table, keys of one YAML mapping, items of a YAML or Markdown list,
//! imports of a program with a line for each.
//! There is no parser behind it; anything that is not one of these plain forms (a comment, a blank
//! line, an anchor, a value that goes on) stays a conflict. Entries keep their bytes.

use std::collections::{HashMap, HashSet};

use crate::brackets::is_closed_run;
use crate::imports::names;
use crate::reason::Reason;
use crate::rules::MergeEngine;
use crate::same_line::is_word;
use crate::split::word_length;
use crate::words::Texts;

/// The formats whose entries are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryFormat {
    Toml,
    Yaml,
    Markdown,
    /// Any other text: only imports are known.
    Program,
}

impl EntryFormat {
    /// What an engine for text knows of entries.
    pub(crate) fn of(engine: MergeEngine) -> Self {
        match engine {
            MergeEngine::Toml => EntryFormat::Toml,
            MergeEngine::Yaml => EntryFormat::Yaml,
            MergeEngine::Markdown => EntryFormat::Markdown,
            _ => EntryFormat::Program,
        }
    }
}

/// The lines of a side before and after the hunk.
#[derive(Clone, Copy)]
pub(crate) struct SurroundingLines<'a> {
    pub(crate) before: &'a [u8],
    pub(crate) after: &'a [u8],
}

/// How many lines are searched for the table, mapping or list that a hunk stands in.
const MAX_AROUND: usize = 64 << 10;

/// So many entries show that a list is kept sorted.
const MIN_SORTED: usize = 2;

/// One entry with all its lines.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry<'a> {
    /// The key by which it is found on another side; for an item of a list all of its text.
    key: &'a [u8],
    text: &'a [u8],
}

/// What kind of entries a hunk holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Keys have one value each; their order does not matter.
    Keys,
    /// Items of a list; what both add is kept in the order ours, theirs.
    Items,
    /// Imports: their order does not matter to the program, but it does to people.
    Imports,
}

/// Merges an entry that both sides changed.
pub(crate) type ResolveEntry<'s> = &'s mut dyn FnMut(Texts<'_>) -> Option<(Vec<u8>, Reason)>;

/// The entries of both sides, if the hunk is a plain list of them.
pub(crate) fn merge_entries(
    format: EntryFormat,
    texts: Texts<'_>,
    ours_around: SurroundingLines<'_>,
    theirs_around: SurroundingLines<'_>,
    resolve: ResolveEntry<'_>,
) -> Option<(Vec<u8>, Reason)> {
    let too_far =
        |around: SurroundingLines<'_>| around.before.len() + around.after.len() > MAX_AROUND;
    if too_far(ours_around) || too_far(theirs_around) {
        return None;
    }
    let sides = [texts.base, texts.ours, texts.theirs];
    for kind in [Kind::Keys, Kind::Items, Kind::Imports] {
        let cut = sides.map(|side| entries(format, kind, side));
        let [Some(base), Some(ours), Some(theirs)] = &cut else {
            continue;
        };
        let depths = [base, ours, theirs].map(|side| side.first().and_then(|e| depth(e.text)));
        let mut depths = depths.into_iter().flatten();
        let indent = depths.next();
        if depths.any(|depth| Some(depth) != indent) {
            return None;
        }
        let all = [base.as_slice(), ours, theirs].concat();
        if !is_place_for(format, kind, indent?, &all, ours_around) {
            return None;
        }
        let merged = merge_sets(kind, base, ours, theirs, resolve)?;
        let known = |entries: &[Entry<'_>], around: SurroundingLines<'_>| {
            kind == Kind::Keys && keys_stand_around(format, entries, around)
        };
        if known(theirs, ours_around) || known(ours, theirs_around) {
            return None;
        }
        return Some(merged);
    }
    None
}

type Table<'a> = HashMap<&'a [u8], &'a [u8]>;

/// The entries by key; none if one stands twice.
fn table<'a>(entries: &[Entry<'a>]) -> Option<Table<'a>> {
    let table: Table<'a> = entries
        .iter()
        .map(|entry| (entry.key, entry.text))
        .collect();
    (table.len() == entries.len()).then_some(table)
}

/// Three lists of entries, merged as sets that keep their order.
fn merge_sets(
    kind: Kind,
    base: &[Entry<'_>],
    ours: &[Entry<'_>],
    theirs: &[Entry<'_>],
    resolve: ResolveEntry<'_>,
) -> Option<(Vec<u8>, Reason)> {
    let tables = [table(base)?, table(ours)?, table(theirs)?];
    let [in_base, in_ours, in_theirs] = &tables;
    let in_order = keeps_order(base, ours, in_base) && keeps_order(base, theirs, in_base);
    if !in_order || are_related(kind, [base, ours, theirs], &tables) {
        return None;
    }
    let sorted = |entries: &[Entry<'_>]| entries.is_sorted_by_key(|entry| entry.text);
    let is_sorted = base.len() >= MIN_SORTED && [base, ours, theirs].into_iter().all(sorted);
    let mut reason = match kind {
        Kind::Imports => Reason::Imports,
        _ => Reason::Joined,
    };
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    for at in 0..=base.len() {
        let mut added: Vec<&[u8]> = Vec::new();
        while let Some(entry) = ours.next_if(|entry| !in_base.contains_key(entry.key)) {
            if in_theirs
                .get(entry.key)
                .is_some_and(|text| *text != entry.text)
            {
                return None;
            }
            added.push(entry.text);
        }
        let of_ours = added.len();
        while let Some(entry) = theirs.next_if(|entry| !in_base.contains_key(entry.key)) {
            if !in_ours.contains_key(entry.key) {
                added.push(entry.text);
            } else if !added.contains(&entry.text) {
                // Both brought it in, at different places.
                return None;
            }
        }
        if is_sorted {
            added.sort_unstable();
        } else if kind == Kind::Imports && of_ours > 0 && added.len() > of_ours {
            return None;
        }
        merged.extend(added.iter().map(|text| text.to_vec()));
        let Some(entry) = base.get(at) else { break };
        let left = ours.next_if(|other| other.key == entry.key);
        let right = theirs.next_if(|other| other.key == entry.key);
        match (left, right) {
            (Some(left), Some(right)) if right.text == entry.text || left.text == right.text => {
                merged.push(left.text.to_vec());
            }
            (Some(left), Some(right)) if left.text == entry.text => {
                merged.push(right.text.to_vec());
            }
            (Some(left), Some(right)) => {
                let (text, why) = resolve(Texts {
                    base: entry.text,
                    ours: left.text,
                    theirs: right.text,
                })?;
                reason = reason.max(why);
                merged.push(text);
            }
            // Removed on one side, and on the other it is as it was.
            (Some(kept), None) | (None, Some(kept)) if kept.text == entry.text => {}
            (Some(_), None) | (None, Some(_)) => return None,
            (None, None) => {}
        }
    }
    let whole = merged.iter().all(|text| text.ends_with(b"\n"));
    whole.then(|| (merged.concat(), reason))
}

/// Whether the changes of the two sides may be related.
fn are_related(
    kind: Kind,
    [base, ours, theirs]: [&[Entry<'_>]; 3],
    tables: &[Table<'_>; 3],
) -> bool {
    let [in_base, in_ours, in_theirs] = tables;
    let only_in = |entries: &[Entry<'_>], other: &Table<'_>| {
        let mut entries = entries.iter();
        entries.any(|entry| !in_base.contains_key(entry.key) && !other.contains_key(entry.key))
    };
    let (new_in_ours, new_in_theirs) = (only_in(ours, in_theirs), only_in(theirs, in_ours));
    let gone_from = |side: &Table<'_>| base.iter().any(|entry| !side.contains_key(entry.key));
    let gone_from_both = base
        .iter()
        .any(|entry| !in_ours.contains_key(entry.key) && !in_theirs.contains_key(entry.key));
    // An entry that both took away, each in favour of its own, was replaced in two ways.
    if gone_from_both && (new_in_ours || new_in_theirs) {
        return true;
    }
    match kind {
        Kind::Keys => false,
        // An item in other words is a change of that item, which the other side may have changed.
        Kind::Items => {
            new_in_ours && gone_from(in_ours)
                || new_in_theirs && gone_from(in_theirs)
                || may_be_reworded(tables, ours, theirs)
        }
        Kind::Imports => {
            let new_names = |entries: &[Entry<'_>], other: &Table<'_>| -> HashSet<Vec<u8>> {
                let new = entries.iter().filter(|entry| {
                    !in_base.contains_key(entry.key) && !other.contains_key(entry.key)
                });
                new.flat_map(|entry| import_names(entry.text).unwrap_or_default())
                    .map(<[u8]>::to_vec)
                    .collect()
            };
            !new_names(ours, in_theirs).is_disjoint(&new_names(theirs, in_ours))
        }
    }
}

/// Whether a side has what is left of the base in the base's order.
fn keeps_order(base: &[Entry<'_>], side: &[Entry<'_>], in_base: &Table<'_>) -> bool {
    let mut rest = base.iter();
    side.iter()
        .filter(|entry| in_base.contains_key(entry.key))
        .all(|entry| rest.any(|other| other.key == entry.key))
}

/// Whether a new item of one side and one of the other may be the same item in other words: they
/// share a number of two digits or more, or more than half of the words of the shorter one.
fn may_be_reworded(
    [in_base, in_ours, in_theirs]: &[Table<'_>; 3],
    ours: &[Entry<'_>],
    theirs: &[Entry<'_>],
) -> bool {
    let new = |entries: &[Entry<'_>], other: &Table<'_>| -> Vec<HashSet<Vec<u8>>> {
        let new = entries
            .iter()
            .filter(|entry| !in_base.contains_key(entry.key) && !other.contains_key(entry.key));
        new.map(|entry| words_of(entry.text)).collect()
    };
    let (ours, theirs) = (new(ours, in_theirs), new(theirs, in_ours));
    if ours.len() * theirs.len() > 1000 {
        return true;
    }
    ours.iter().any(|one| {
        theirs.iter().any(|two| {
            let shared: Vec<&Vec<u8>> = one.intersection(two).collect();
            let number = |word: &&&Vec<u8>| word.len() > 1 && word.iter().all(u8::is_ascii_digit);
            shared.len() * 2 > one.len().min(two.len()) || shared.iter().any(|word| number(&word))
        })
    })
}

fn words_of(mut rest: &[u8]) -> HashSet<Vec<u8>> {
    let mut words = HashSet::new();
    while !rest.is_empty() {
        let (word, after) = rest.split_at(word_length(rest));
        if is_word(word) {
            words.insert(word.to_ascii_lowercase());
        }
        rest = after;
    }
    words
}

/// A text cut into entries of one kind; none if any line is something else.
fn entries(format: EntryFormat, kind: Kind, text: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut indent = None;
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let depth = depth(line)?;
        if indent.is_some_and(|indent| depth > indent) && may_continue(format, kind) {
            // A deeper line belongs to the entry above it.
            let entry = entries.last_mut()?;
            entry.text = &text[start..at + line.len()];
            if kind == Kind::Items {
                entry.key = entry.text;
            }
        } else {
            if *indent.get_or_insert(depth) != depth {
                return None;
            }
            start = at;
            let key = key_of(format, kind, line)?;
            entries.push(Entry { key, text: line });
        }
        at += line.len();
    }
    Some(entries)
}

fn may_continue(format: EntryFormat, kind: Kind) -> bool {
    match format {
        EntryFormat::Yaml => true,
        EntryFormat::Markdown => kind == Kind::Items,
        EntryFormat::Toml | EntryFormat::Program => false,
    }
}

/// How far a line is indented; none for blank lines.
fn depth(line: &[u8]) -> Option<usize> {
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    let depth = line.iter().take_while(is_blank).count();
    let first = *line.get(depth)?;
    (!first.is_ascii_whitespace()).then_some(depth)
}

/// The key by which an entry is found on another side; none if the line is not a whole plain entry.
fn key_of(format: EntryFormat, kind: Kind, line: &[u8]) -> Option<&[u8]> {
    let plain = line.trim_ascii();
    match (format, kind) {
        (EntryFormat::Toml, Kind::Keys) => toml_key(plain),
        // An element of an array that has a line for each.
        (EntryFormat::Toml, Kind::Items) => {
            let element = plain.strip_suffix(b",")?;
            let inner = element.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            let simple = !inner.contains(&b'"') && !inner.contains(&b'\\');
            simple.then_some(line)
        }
        (EntryFormat::Yaml, Kind::Keys) => yaml_key(plain),
        (EntryFormat::Yaml, Kind::Items) => {
            let value = plain.strip_prefix(b"- ")?;
            is_plain_yaml(value).then_some(line)
        }
        (EntryFormat::Markdown, Kind::Items) => {
            let item = [b"- ", b"* ", b"+ "]
                .iter()
                .any(|sign| plain.starts_with(*sign));
            item.then_some(line)
        }
        (EntryFormat::Program, Kind::Imports) => import_names(line).map(|_| plain),
        _ => None,
    }
}

/// The names that an import brings in; also of a line in a Go `import ( … )`.
fn import_names(line: &[u8]) -> Option<Vec<&[u8]>> {
    // The order of these can have a meaning.
    let ordered = [&b"#include"[..], b"@import"];
    if ordered
        .iter()
        .any(|word| line.trim_ascii().starts_with(word))
    {
        return None;
    }
    names(line).or_else(|| {
        let (alias, path) = go_import(line)?;
        let last = path.rsplit(|&byte| byte == b'/').next()?;
        Some(vec![if alias.is_empty() { last } else { alias }])
    })
}

/// The alias and the path of a line in a Go `import ( … )`.
fn go_import(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    let at = line.iter().position(|&byte| byte == b'"')?;
    let alias = line[..at].trim_ascii();
    let path = line[at + 1..].strip_suffix(b"\"")?;
    let plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | b' ');
    let named = alias
        .iter()
        .all(|&byte| byte == b'_' || byte.is_ascii_alphanumeric());
    (named && path.iter().all(plain)).then_some((alias, path))
}

/// The key of `key = value` with the value whole in this line.
fn toml_key(line: &[u8]) -> Option<&[u8]> {
    let at = line.iter().position(|&byte| byte == b'=')?;
    let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
    let bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let whole = is_closed_run(value)
        && !value.is_empty()
        && value.iter().filter(|&&byte| byte == b'"').count() % 2 == 0
        && value.iter().filter(|&&byte| byte == b'\'').count() % 2 == 0
        && !value.contains(&b'#')
        && !has_triple_quote(value);
    (whole && !key.is_empty() && key.iter().all(bare)).then_some(key)
}

/// The key of `key: value` or `key:`.
fn yaml_key(line: &[u8]) -> Option<&[u8]> {
    let at = line.iter().position(|&byte| byte == b':')?;
    let (key, value) = (&line[..at], &line[at + 1..]);
    let bare =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    let spaced = value.is_empty() || value.starts_with(b" ");
    let whole = spaced && (value.is_empty() || is_plain_yaml(value.trim_ascii()));
    (whole && !key.is_empty() && !key.starts_with(b"-") && key.iter().all(bare)).then_some(key)
}

/// A scalar that ends in its line and is neither alias, tag, anchor nor comment.
fn is_plain_yaml(value: &[u8]) -> bool {
    let special = |byte: &u8| {
        matches!(
            byte,
            b'&' | b'*' | b'!' | b'|' | b'>' | b'%' | b'@' | b'`' | b'?' | b'<'
        )
    };
    let quotes = |quote: u8| value.iter().filter(|&&byte| byte == quote).count() % 2 == 0;
    !value.first().is_none_or(special)
        && is_closed_run(value)
        && quotes(b'"')
        && quotes(b'\'')
        && !value.contains(&b'#')
        && !value.ends_with(b":")
}

/// Whether the lines above say that such entries can stand here.
fn is_place_for(
    format: EntryFormat,
    kind: Kind,
    indent: usize,
    entries: &[Entry<'_>],
    around: SurroundingLines<'_>,
) -> bool {
    let lines = || around.before.rsplit(|&byte| byte == b'\n').skip(1);
    let is_blank = |line: &[u8]| line.trim_ascii().is_empty();
    match (format, kind) {
        // In a table, with no value that goes on since its header.
        (EntryFormat::Toml, Kind::Keys | Kind::Imports) => {
            let since_header = lines().take_while(|line| !line.trim_ascii().starts_with(b"["));
            let since_header: Vec<&[u8]> = since_header.collect();
            since_header.iter().all(|line| is_closed_run(line))
                && !since_header.iter().any(|line| has_triple_quote(line))
        }
        // In an array that has a line for each element.
        (EntryFormat::Toml, Kind::Items) => lines()
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
            .find(|line| key_of(format, kind, line).is_none())
            .is_some_and(|line| line.ends_with(b"= [")),
        // Not in a text block of any line above.
        (EntryFormat::Yaml, _) => {
            let mut indent = indent;
            lines().all(|line| match depth(line) {
                Some(depth) if depth < indent => {
                    indent = depth;
                    !is_text_block(line)
                }
                _ => true,
            })
        }
        // Lines of Go's form must stand in its block.
        (EntryFormat::Program, _) => {
            entries.iter().all(|entry| names(entry.text).is_some())
                || lines()
                    .find(|line| !is_blank(line) && go_import(line).is_none())
                    .is_some_and(|line| line.trim_ascii() == b"import (")
        }
        // Not in a block of code.
        (EntryFormat::Markdown, _) => {
            let fence = |line: &&[u8]| {
                let line = line.trim_ascii_start();
                line.starts_with(b"```") || line.starts_with(b"~~~")
            };
            lines().filter(fence).count() % 2 == 0
        }
    }
}

/// A text over several lines begins or ends here.
fn has_triple_quote(line: &[u8]) -> bool {
    let mut threes = line.windows(3);
    threes.any(|three| three == b"\"\"\"" || three == b"'''")
}

/// Whether what is indented below a YAML line is a text of its own.
fn is_text_block(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let last = line.rsplit(|&byte| byte == b' ').next().unwrap_or(line);
    matches!(last.first(), Some(b'|' | b'>'))
}

/// Whether one of the keys stands in the same table or mapping outside of the hunk.
fn keys_stand_around(
    format: EntryFormat,
    entries: &[Entry<'_>],
    around: SurroundingLines<'_>,
) -> bool {
    let keys: HashSet<&[u8]> = entries.iter().map(|entry| entry.key).collect();
    let Some(indent) = entries.first().and_then(|entry| depth(entry.text)) else {
        return false;
    };
    let inside = |line: &&[u8]| match format {
        EntryFormat::Toml => !line.trim_ascii().starts_with(b"["),
        _ => depth(line).is_none_or(|depth| depth >= indent),
    };
    let has_key = |line: &[u8]| {
        let name: &[u8] = line.trim_ascii();
        let sign = if format == EntryFormat::Toml {
            b'='
        } else {
            b':'
        };
        let at = name.iter().position(|&byte| byte == sign);
        at.is_some_and(|at| keys.contains(name[..at].trim_ascii()))
            && (format == EntryFormat::Toml || depth(line) == Some(indent))
    };
    let before = around.before.rsplit(|&byte| byte == b'\n');
    let after = around.after.split(|&byte| byte == b'\n');
    before.take_while(inside).any(has_key) || after.take_while(inside).any(has_key)
}
