//! The first rule of every resolution, as a property: what a side removed is gone from the result,
//! or it is a conflict. Generated texts whose sides work on the same few lines.

use std::collections::BTreeMap;

use crate::support::Chance;
use offshoot_merge::{FileMerge, MergeFileOptions, merge_file};

/// A format with lines of it; `#` becomes a number, so that lines differ.
struct Kind {
    path: &'static str,
    lines: &'static [&'static str],
}

const KINDS: [Kind; 7] = [
    Kind {
        path: "a.c",
        lines: &[
            "call(first, second, #);",
            "    value = other(#) + third;",
            "if (ready && wanted(#)) {",
            "}",
            "    return value_#;",
            "start(); stop(#);",
        ],
    },
    Kind {
        path: "a.txt",
        lines: &[
            "the first word of a line that is short #",
            "another sentence with number # in the middle",
            "and # more of it",
            "short #",
        ],
    },
    Kind {
        path: "a.yml",
        lines: &[
            "key#: value",
            "other#: 1.2.#",
            "  - item #",
            "  nested#: [one, two]",
        ],
    },
    Kind {
        path: "a.toml",
        lines: &[
            "key# = \"value\"",
            "dep# = \"1.#.0\"",
            "[table#]",
            "list# = [1, 2]",
        ],
    },
    Kind {
        path: "a.md",
        lines: &[
            "- item #",
            "- another item # of it",
            "A sentence with # words.",
            "## Part #",
        ],
    },
    Kind {
        path: "a.py",
        lines: &[
            "import module_#",
            "from package import name_#",
            "x_# = make(#, 2)",
            "    go(#)",
        ],
    },
    Kind {
        path: "a.rs",
        lines: &[
            "use crate::part_#;",
            "mod part_#;",
            "let x_# = part(#);",
            "pub fn f_#() {",
            "}",
        ],
    },
];

impl Kind {
    fn line(&self, chance: &mut Chance) -> String {
        let number = chance.below(40).to_string();
        let line = chance.pick(self.lines);
        line.replace('#', &number)
    }

    fn base(&self, chance: &mut Chance) -> Vec<String> {
        (0..2 + chance.below(9))
            .map(|_| self.line(chance))
            .collect()
    }

    /// One change around a line that both sides work at.
    fn edit(&self, chance: &mut Chance, lines: &mut Vec<String>, around: usize) {
        let at = (around + chance.below(3)).min(lines.len().saturating_sub(1));
        if lines.is_empty() {
            lines.push(self.line(chance));
            return;
        }
        match chance.below(10) {
            0 | 1 => drop(lines.remove(at)),
            2 => lines.insert(at, self.line(chance)),
            3 => lines.insert(at + 1, self.line(chance)),
            4 => lines[at] = self.line(chance),
            5 => lines[at] = format!("    {}", lines[at]),
            6 => lines[at] = format!("{}{}", chance.pick(&["// ", "# ", "-- ", "; "]), lines[at]),
            7 => {
                let words: Vec<&str> = lines[at].split(' ').collect();
                let gone = chance.below(words.len());
                let kept = words.iter().enumerate().filter(|(word, _)| *word != gone);
                lines[at] = kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ");
            }
            8 => {
                let mut words: Vec<&str> = lines[at].split(' ').collect();
                let place = chance.below(words.len() + 1);
                words.insert(
                    place,
                    chance.pick(&["new", "extra", "3.4.5", "{", "more words"]),
                );
                lines[at] = words.join(" ");
            }
            _ => {
                let end = (at + 1 + chance.below(3)).min(lines.len());
                lines.drain(at..end);
                lines.insert(at, self.line(chance));
            }
        }
    }
}

/// A side, which may begin with what the other did.
fn side(kind: &Kind, chance: &mut Chance, from: &[String], around: usize) -> Vec<String> {
    let mut lines = from.to_vec();
    for _ in 0..1 + chance.below(3) {
        kind.edit(chance, &mut lines, around);
    }
    lines
}

/// How often each line that says something is in a text.
fn counts(lines: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        if line.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            *counts.entry(line.as_str()).or_default() += 1;
        }
    }
    counts
}

/// The lines that are in the result more often than the sides allow: one that a side removed may be
/// there only as often as the other side brought it in.
fn too_often(
    base: &[String],
    ours: &[String],
    theirs: &[String],
    merged: &[String],
) -> Vec<String> {
    let [base, ours, theirs, merged] = [base, ours, theirs, merged].map(counts);
    let of = |counts: &BTreeMap<&str, usize>, line| counts.get(line).copied().unwrap_or(0);
    let mut wrong = Vec::new();
    for (line, before) in base {
        let (ours, theirs) = (of(&ours, line), of(&theirs, line));
        let fewer = ours.min(theirs);
        let brought_in = ours.max(theirs).saturating_sub(before);
        if fewer < before && of(&merged, line) > fewer + brought_in {
            wrong.push(line.to_owned());
        }
    }
    wrong
}

fn text(lines: &[String]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|line| format!("{line}\n").into_bytes())
        .collect()
}

#[test]
fn what_a_side_removed_is_gone_or_it_is_a_conflict() {
    let count = if crate::support::soak() {
        2_000_000
    } else {
        12_000
    };
    let by_line = MergeFileOptions {
        lines_only: true,
        ..MergeFileOptions::default()
    };
    let (mut conflicts, mut resolved) = (0, 0);
    let mut wrong = Vec::new();
    for seed in 0..count {
        let mut chance = Chance(seed);
        let kind = &KINDS[chance.below(KINDS.len())];
        let base = kind.base(&mut chance);
        let around = chance.below(base.len());
        let ours = side(kind, &mut chance, &base, around);
        let from = if chance.one_in(2) { &ours } else { &base };
        let theirs = side(kind, &mut chance, from, around);
        let [before, one, two] = [&base, &ours, &theirs].map(|lines| text(lines));
        let path = kind.path.as_bytes();
        // What is clean by line is what git gives, byte for byte: `text.rs` shows it.
        if merge_file(path, &before, &one, &two, &by_line).is_clean() {
            continue;
        }
        conflicts += 1;
        let options = MergeFileOptions::default();
        let FileMerge::Clean { bytes, parts, .. } = merge_file(path, &before, &one, &two, &options)
        else {
            continue;
        };
        resolved += 1;
        let merged = String::from_utf8(bytes).unwrap();
        let merged: Vec<String> = merged.lines().map(str::to_owned).collect();
        for line in too_often(&base, &ours, &theirs, &merged) {
            let reasons: Vec<_> = parts.iter().map(|part| part.reason).collect();
            wrong.push(format!(
                "seed {seed} {reasons:?} {}: `{line}`\nbase {base:#?}\nours {ours:#?}\ntheirs {theirs:#?}\nmerged {merged:#?}",
                kind.path
            ));
        }
    }
    println!(
        "soak: removed lines: {count} texts, {conflicts} conflicts by line, {resolved} resolved"
    );
    assert!(
        resolved * 50 > conflicts,
        "{resolved} of {conflicts}: hardly any is resolved"
    );
    let shown = wrong
        .iter()
        .take(5)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n\n");
    assert!(wrong.is_empty(), "{} of {resolved}:\n{shown}", wrong.len());
}
