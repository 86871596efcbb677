//! Text: the line merge against `git merge-file`, then what the word pass may and may not do.

use crate::support::{Chance, git};
use offshoot_merge::{
    Choice, FileMerge, MarkerOptions, MergeFileOptions, Method, Part, merge_file,
};

fn lines_only(markers: Option<MarkerOptions>) -> MergeFileOptions {
    MergeFileOptions {
        lines_only: true,
        markers,
        ..MergeFileOptions::default()
    }
}

fn merged(base: &str, ours: &str, theirs: &str) -> FileMerge {
    let options = MergeFileOptions::default();
    merge_file(
        b"t.txt",
        base.as_bytes(),
        ours.as_bytes(),
        theirs.as_bytes(),
        &options,
    )
}

fn clean(base: &str, ours: &str, theirs: &str) -> Option<String> {
    let text = merged(base, ours, theirs).into_clean()?;
    Some(String::from_utf8(text).unwrap())
}

const VOCABULARY: [&str; 12] = [
    "",
    "}",
    "{",
    "  return x;",
    "a",
    "b",
    "c",
    "d",
    "e",
    "if (x) {",
    "  y();",
    "\t",
];

fn file(chance: &mut Chance, newline: &str) -> Vec<String> {
    let words = 2 + chance.below(VOCABULARY.len() - 1);
    (0..chance.below(30))
        .map(|_| format!("{}{newline}", VOCABULARY[chance.below(words)]))
        .collect()
}

fn edited(chance: &mut Chance, base: &[String], newline: &str) -> Vec<u8> {
    let mut lines = base.to_vec();
    for _ in 0..chance.below(5) {
        let at = chance.below(lines.len() + 1);
        let line = format!("{}{newline}", chance.pick(&VOCABULARY));
        match chance.below(4) {
            0 if at < lines.len() => {
                lines.remove(at);
            }
            1 if at < lines.len() => lines[at] = line,
            2 if at < lines.len() => {
                let end = (at + 1 + chance.below(4)).min(lines.len());
                let block: Vec<String> = lines.drain(at..end).collect();
                let to = chance.below(lines.len() + 1);
                lines.splice(to..to, block);
            }
            _ => lines.insert(at, line),
        }
    }
    let mut bytes = lines.concat().into_bytes();
    if chance.one_in(6) {
        while bytes
            .last()
            .is_some_and(|byte| *byte == b'\n' || *byte == b'\r')
        {
            bytes.pop();
        }
    }
    bytes
}

#[test]
fn generated_files_come_out_as_in_git_merge_file() {
    let directory = tempfile::tempdir().unwrap();
    let count = if crate::support::soak() {
        200_000
    } else {
        2_000
    };
    let (mut clean, mut conflicts, mut marked_alike) = (0, 0, 0);
    for seed in 0..count {
        let mut chance = Chance(seed);
        let newline = if chance.one_in(5) { "\r\n" } else { "\n" };
        let base = file(&mut chance, newline);
        let ours = edited(&mut chance, &base, newline);
        let other = if chance.one_in(9) { "\n" } else { newline };
        let theirs = edited(&mut chance, &base, other);
        let base = base.concat().into_bytes();
        let show_base = chance.one_in(3);
        let (clean_in_git, by_git) =
            git::merge_file(directory.path(), &base, &ours, &theirs, show_base);
        let markers = Some(MarkerOptions {
            show_base,
            ..MarkerOptions::default()
        });
        let here = match merge_file(b"f", &base, &ours, &theirs, &lines_only(markers)) {
            FileMerge::Clean { bytes, .. } => (true, bytes),
            FileMerge::Conflict { marked, .. } => (false, marked.unwrap()),
        };
        assert_eq!(
            here.0,
            clean_in_git,
            "seed {seed}: {}",
            case(&base, &ours, &theirs)
        );
        if clean_in_git {
            clean += 1;
            assert_eq!(
                here.1,
                by_git,
                "seed {seed}: {}",
                case(&base, &ours, &theirs)
            );
        } else {
            conflicts += 1;
            marked_alike += usize::from(here.1 == by_git);
        }
    }
    assert!(
        clean > count as usize / 5 && conflicts > count as usize / 5,
        "{clean} {conflicts}"
    );
    // Markers are for people: in texts of nothing but repeated lines git may draw them wider.
    assert!(
        marked_alike * 100 >= conflicts * 99,
        "{marked_alike} of {conflicts}"
    );
}

fn case(base: &[u8], ours: &[u8], theirs: &[u8]) -> String {
    let [base, ours, theirs] = [base, ours, theirs].map(String::from_utf8_lossy);
    format!("base {base:?}\nours {ours:?}\ntheirs {theirs:?}")
}

#[test]
fn different_words_of_one_line_are_both_kept() {
    let base = "the quick brown fox jumps over the lazy dog\n";
    let ours = "the slow brown fox jumps over the lazy dog\n";
    let theirs = "the quick brown fox jumps over the busy dog\n";
    let outcome = merged(base, ours, theirs);
    assert!(matches!(
        &outcome,
        FileMerge::Clean {
            method: Method::Words,
            ..
        }
    ));
    let bytes = outcome.into_clean().unwrap();
    assert_eq!(bytes, b"the slow brown fox jumps over the busy dog\n");
}

#[test]
fn words_that_touch_are_refused() {
    for (base, ours, theirs) in [
        ("one two three\n", "one 2 three\n", "one two 3\n"),
        ("f(a, b)\n", "f(x, b)\n", "f(a, y)\n"),
        ("one\n", "one ours\n", "one theirs\n"),
        ("a\nb\n", "a\nours\nb\n", "a\ntheirs\nb\n"),
        ("x = 1\n", "x = 2\n", "x = 3\n"),
    ] {
        let outcome = merged(base, ours, theirs);
        assert_eq!(outcome.parts().len(), 1, "{base:?} {ours:?} {theirs:?}");
    }
}

#[test]
fn the_same_words_twice_are_refused() {
    let base = "call one argument and go on with it\n";
    let ours = "call one argument timeout and go on with it\n";
    let theirs = "call one argument and go on with it timeout\n";
    assert!(!merged(base, ours, theirs).is_clean());
}

#[test]
fn a_side_that_did_more_of_the_same_is_taken() {
    let (base, less, more) = ("a\nz\n", "a\nnew\nz\n", "a\nnew\nnewer\nz\n");
    assert_eq!(clean(base, more, less).as_deref(), Some(more));
    assert_eq!(clean(base, less, more).as_deref(), Some(more));
    // A line that the other side removed is not brought back by it.
    assert!(!merged("old\n", "old\nx\n", "x\n").is_clean());
}

#[test]
fn bytes_outside_the_hunks_stay_as_they_are() {
    let bom = "\u{feff}one\r\ntwo\nthree\r\n\u{1}\nfive";
    let ours = bom.replace("one", "1");
    let theirs = bom.replace("five", "5");
    assert_eq!(
        clean(bom, &ours, &theirs).unwrap(),
        "\u{feff}1\r\ntwo\nthree\r\n\u{1}\n5"
    );
    let base = b"caf\xe9\nx\n\xff\xfe\ny\n".to_vec();
    let ours = b"caf\xe9\nX\n\xff\xfe\ny\n".to_vec();
    let theirs = b"caf\xe9\nx\n\xff\xfe\nY\n".to_vec();
    let outcome = merge_file(
        b"latin1",
        &base,
        &ours,
        &theirs,
        &MergeFileOptions::default(),
    );
    assert_eq!(outcome.into_clean().unwrap(), b"caf\xe9\nX\n\xff\xfe\nY\n");
}

#[test]
fn each_part_is_resolved_on_its_own() {
    let base = "1\n2\n3\n4\n5\n6\n7\n";
    let ours = "one\n2\n3\n4\n5\n6\nseven\n";
    let theirs = "eins\n2\n3\nvier\n5\n6\nsieben";
    let FileMerge::Conflict { conflict, marked } = merged(base, ours, theirs) else {
        panic!("a conflict was expected");
    };
    assert_eq!(marked, None, "markers were not asked for");
    assert_eq!(conflict.parts.len(), 2);
    let part = Part::Lines {
        base: 0..1,
        ours: 0..1,
        theirs: 0..1,
    };
    assert_eq!(conflict.parts[0].part, part);
    assert_eq!(conflict.parts[1].theirs, Some(18..24));
    let text = |choices: &[Choice]| String::from_utf8(conflict.resolve(choices).unwrap()).unwrap();
    let (o, t, b, u) = (Choice::Ours, Choice::Theirs, Choice::Base, Choice::Union);
    assert_eq!(text(&[o, t]), "one\n2\n3\nvier\n5\n6\nsieben");
    assert_eq!(text(&[t, o]), "eins\n2\n3\nvier\n5\n6\nseven\n");
    assert_eq!(text(&[b, u]), "1\n2\n3\nvier\n5\n6\nseven\nsieben");
    assert_eq!(conflict.resolve(&[o]), None, "a choice is missing");
}

#[test]
fn binary_content_is_never_cut() {
    let options = MergeFileOptions::default();
    let outcome = merge_file(b"x.png", b"\0a\n", b"\0b\n", b"\0c\n", &options);
    assert_eq!(outcome.parts().len(), 1);
    assert_eq!(outcome.parts()[0].part, Part::Whole);
    assert_eq!(outcome.resolve_all(Choice::Theirs).unwrap(), b"\0c\n");
    assert_eq!(outcome.resolve_all(Choice::Union), None);
    let taken = merge_file(b"x.png", b"\0a\n", b"\0a\n", b"\0c\n", &options);
    assert_eq!(taken.into_clean().unwrap(), b"\0c\n");
}

#[test]
fn huge_and_hostile_inputs_end() {
    // One line of 4 MiB, and 200,000 lines of which each occurs a thousand times.
    let long = "word ".repeat(800_000);
    let ours = long.replacen("word", "ours", 1);
    let theirs = format!("{long}theirs");
    assert!(clean(&long, &ours, &theirs).unwrap().ends_with("theirs"));
    let mut chance = Chance(1);
    let repetitive = |chance: &mut Chance| -> String {
        (0..60_000)
            .map(|_| format!("{}\n", chance.below(60)))
            .collect()
    };
    let (base, ours, theirs) = (
        repetitive(&mut chance),
        repetitive(&mut chance),
        repetitive(&mut chance),
    );
    let start = std::time::Instant::now();
    let _ = merged(&base, &ours, &theirs);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn limits_make_the_merge_coarser_and_never_wrong() {
    use offshoot_merge::Limits;
    let base: String = (0..200).map(|line| format!("line {line}\n")).collect();
    let ours = base.replace("line 3\n", "ours\n");
    let theirs = base.replace("line 190\n", "theirs\n");
    let with = |limits: Limits| {
        let options = MergeFileOptions {
            limits,
            ..MergeFileOptions::default()
        };
        merge_file(
            b"t",
            base.as_bytes(),
            ours.as_bytes(),
            theirs.as_bytes(),
            &options,
        )
    };
    let few_steps = with(Limits {
        steps: 10,
        ..Limits::default()
    });
    let text = String::from_utf8(few_steps.into_clean().unwrap()).unwrap();
    assert!(text.contains("ours\n") && text.contains("theirs\n"));
    let small = with(Limits {
        bytes: 100,
        ..Limits::default()
    });
    assert_eq!(small.parts()[0].part, Part::Whole);
}
