//! JSON by structure: what is taken, what conflicts, and that every byte stays as written.

use crate::support::Chance;
use offshoot_merge::{
    Choice, FileMerge, MergeEngine, MergeFileOptions, Method, Part, PartKind, Pattern, Rules,
    merge_file,
};

fn merged(base: &str, ours: &str, theirs: &str) -> FileMerge {
    let options = MergeFileOptions::default();
    merge_file(
        b"x.json",
        base.as_bytes(),
        ours.as_bytes(),
        theirs.as_bytes(),
        &options,
    )
}

#[track_caller]
fn assert_clean(base: &str, ours: &str, theirs: &str, expected: &str) {
    let text = |outcome: FileMerge| match outcome {
        FileMerge::Clean { bytes, .. } => String::from_utf8(bytes).unwrap(),
        FileMerge::Conflict { conflict, .. } => format!("{:?}", conflict.parts),
    };
    assert_eq!(text(merged(base, ours, theirs)), expected);
}

#[track_caller]
fn assert_conflicts(base: &str, ours: &str, theirs: &str, expected: &[(&str, PartKind)]) {
    let outcome = merged(base, ours, theirs);
    let found: Vec<(String, PartKind)> = outcome
        .parts()
        .iter()
        .map(|conflict| match &conflict.part {
            Part::Json { pointer } => (pointer.clone(), conflict.kind),
            other => (format!("{other:?}"), conflict.kind),
        })
        .collect();
    let expected: Vec<(String, PartKind)> = expected
        .iter()
        .map(|(pointer, kind)| ((*pointer).to_owned(), *kind))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn members_are_merged_by_key() {
    assert_clean(
        r#"{"a":1}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"a":1,"c":3}"#,
        r#"{"a":1,"b":2,"c":3}"#,
    );
    assert_clean(
        r#"{"a":1,"b":2}"#,
        r#"{"a":9,"b":2}"#,
        r#"{"a":1,"b":8}"#,
        r#"{"a":9,"b":8}"#,
    );
    assert_clean(
        r#"{"a":1,"b":2}"#,
        r#"{"b":2}"#,
        r#"{"a":1,"b":3}"#,
        r#"{"b":3}"#,
    );
    assert_clean(
        "{\n  \"a\": {\n    \"x\": 1\n  }\n}\n",
        "{\n  \"a\": {\n    \"x\": 1,\n    \"y\": 2\n  }\n}\n",
        "{\n  \"a\": {\n    \"x\": 1,\n    \"z\": 3\n  },\n  \"b\": []\n}\n",
        "{\n  \"a\": {\n    \"x\": 1,\n    \"y\": 2,\n    \"z\": 3\n  },\n  \"b\": []\n}\n",
    );
    assert_clean("{}", r#"{"a": 1}"#, r#"{"b": 2}"#, r#"{"a": 1, "b": 2}"#);
}

#[test]
fn equal_changes_are_no_conflict() {
    assert_clean(
        r#"{"a":1,"b":1}"#,
        r#"{"a":2,"b":1}"#,
        r#"{"a":2,"b":3}"#,
        r#"{"a":2,"b":3}"#,
    );
    assert_clean(
        r#"{"a":1}"#,
        r#"{"n":[1, 2],"a":2}"#,
        r#"{"n":[1,2],"a":1}"#,
        r#"{"n":[1, 2],"a":2}"#,
    );
    assert_clean(
        r#"{"a":1,"b":2}"#,
        r#"{"c":3}"#,
        r#"{"d":4}"#,
        r#"{"c":3,"d":4}"#,
    );
}

#[test]
fn true_conflicts_stay_at_their_pointer() {
    use PartKind::{BothAdded, BothChanged, RemovedByOurs, RemovedByTheirs};
    assert_conflicts(
        r#"{"a":1}"#,
        r#"{"a":2}"#,
        r#"{"a":3}"#,
        &[("/a", BothChanged)],
    );
    assert_conflicts(r#"{}"#, r#"{"a":2}"#, r#"{"a":3}"#, &[("/a", BothAdded)]);
    assert_conflicts(
        r#"{"a":1,"b":1}"#,
        r#"{"b":1}"#,
        r#"{"a":2,"b":1}"#,
        &[("/a", RemovedByOurs)],
    );
    assert_conflicts(
        r#"{"a":{"b":1}}"#,
        r#"{"a":{"b":2}}"#,
        "{}",
        &[("/a", RemovedByTheirs)],
    );
    assert_conflicts(
        r#"{"a":1}"#,
        r#"{"a":[1]}"#,
        r#"{"a":{}}"#,
        &[("/a", BothChanged)],
    );
    assert_conflicts(
        r#"{"a/b":{"~":1}}"#,
        r#"{"a/b":{"~":2}}"#,
        r#"{"a/b":{"~":3}}"#,
        &[("/a~1b/~0", BothChanged)],
    );
}

#[test]
fn bytes_stay_as_written() {
    let base = "\u{feff}{\r\n\t\"big\": 12345678901234567890,\r\n\t\"f\": 1.0, \"e\": 1e3,\r\n\t\"s\": \"\\u00e9\\/\"\r\n}\r\n\r\n";
    let ours = base.replace("1.0,", "1.50,");
    let theirs = base.replace("1e3", "1E+3");
    let expected = base.replace("1.0,", "1.50,").replace("1e3", "1E+3");
    assert_clean(base, &ours, &theirs, &expected);
    assert_clean("[1,2]", "[1,2, 3]", "[0,1,2]", "[0,1,2, 3]");
}

#[test]
fn an_item_takes_the_blanks_of_its_place() {
    assert_clean(
        r#"{"a": 1, "b": 2}"#,
        r#"{"b": 3}"#,
        r#"{"a": 1, "b": 2, "c": 4}"#,
        r#"{"b": 3, "c": 4}"#,
    );
    assert_clean(
        "{ }",
        r#"{ "a": 1 }"#,
        r#"{ "b": 1 }"#,
        r#"{ "a": 1, "b": 1 }"#,
    );
}

#[test]
fn a_reformatting_is_kept_and_two_are_a_conflict() {
    let base = r#"{"a":1,"b":2}"#;
    let pretty = "{\n  \"a\": 1,\n  \"b\": 2\n}";
    assert_clean(
        base,
        pretty,
        r#"{"a":1,"b":3}"#,
        "{\n  \"a\": 1,\n  \"b\": 3\n}",
    );
    assert_clean(
        base,
        r#"{"a":1,"b":3}"#,
        pretty,
        "{\n  \"a\": 1,\n  \"b\": 3\n}",
    );
    assert_clean(
        base,
        r#"{"b":2,"a":1}"#,
        r#"{"a":1,"b":3}"#,
        r#"{"b":3,"a":1}"#,
    );
    assert!(!merged(base, pretty, "{ \"a\" : 1, \"b\" : 3 }").is_clean());
}

#[test]
fn arrays_are_merged_by_element() {
    assert_clean("[1,2]", "[1,2,3]", "[1,2,4]", "[1,2,3,4]");
    assert_clean("[1,2,3]", "[9,2,3]", "[1,2]", "[9,2]");
    assert_clean("[1,2]", "[1,2,3]", "[1,5]", "[1,5,3]");
    assert_clean("[[1],[2]]", "[[1,9],[2]]", "[[1],[2,8]]", "[[1,9],[2,8]]");
    assert_clean("[1]", "[1,2,3]", "[1,3]", "[1,2,3]");
    assert_conflicts(
        "[1,2,3]",
        "[1,5,6,3]",
        "[1,7,3]",
        &[("/1", PartKind::BothChanged)],
    );
}

#[test]
fn elements_are_matched_by_their_identity() {
    assert_clean(
        r#"[{"id":1,"v":0},{"id":2,"v":0}]"#,
        r#"[{"id":2,"v":0},{"id":1,"v":1}]"#,
        r#"[{"id":1,"v":0},{"id":2,"v":2},{"id":3}]"#,
        r#"[{"id":2,"v":2},{"id":3},{"id":1,"v":1}]"#,
    );
    assert_conflicts(
        r#"[{"name":"a","v":0}]"#,
        r#"[{"name":"a","v":1}]"#,
        r#"[{"name":"a","v":2}]"#,
        &[("/0/v", PartKind::BothChanged)],
    );
    assert_conflicts(
        r#"[{"key":"a","v":0},{"key":"b"}]"#,
        r#"[{"key":"b"}]"#,
        r#"[{"key":"a","v":2},{"key":"b"}]"#,
        &[("/0", PartKind::RemovedByOurs)],
    );
}

#[test]
fn what_is_not_strict_json_is_merged_as_text() {
    for bad in [
        "{a:1}",
        "[1,]",
        "{'a':1}",
        "// c\n{}",
        "01",
        "\"\t\"",
        "{\"a\":1,\"a\":2}",
        "[1",
        "nul",
    ] {
        let outcome = merged(bad, &format!("{bad} "), &format!(" {bad}"));
        let parts = outcome.parts().iter().map(|conflict| &conflict.part);
        assert!(
            parts.clone().all(|part| matches!(part, Part::Lines { .. })),
            "{bad}"
        );
    }
    // Where all sides are text that git merges, so is the result, valid or not.
    let (base, ours, theirs) = (
        "{\n'a': 1,\nb\nc\nd\n}\n",
        "{\n'a': 2,\nb\nc\nd\n}\n",
        "{\n'a': 1,\nb\nc\nD\n}\n",
    );
    assert_clean(base, ours, theirs, "{\n'a': 2,\nb\nc\nD\n}\n");
}

#[test]
fn a_line_merge_never_yields_a_duplicate_key() {
    let base = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4\n}\n";
    let ours = base.replace("{\n", "{\n  \"new\": 1,\n");
    let theirs = base.replace("  \"d\"", "  \"new\": 2,\n  \"d\"");
    assert_conflicts(base, &ours, &theirs, &[("/new", PartKind::BothAdded)]);
    let same = base.replace("  \"d\"", "  \"new\": 1,\n  \"d\"");
    let outcome = merged(base, &ours, &same);
    let bytes = outcome.into_clean().unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap().matches("new").count(), 1);
    // Spelled differently it is the same key.
    let escaped = theirs.replace("\"new\"", "\"\\u006eew\"");
    assert_conflicts(base, &ours, &escaped, &[("/new", PartKind::BothAdded)]);
}

#[test]
fn each_pointer_is_resolved_on_its_own() {
    let outcome = merged(
        r#"{"a":1,"b":1,"l":[1,2,3],"x":0}"#,
        r#"{"a":2,"l":[1,4,5,3],"x":0}"#,
        r#"{"a":3,"b":2,"l":[1,6,3],"x":1}"#,
    );
    let FileMerge::Conflict { conflict, .. } = outcome else {
        panic!("a conflict was expected")
    };
    assert_eq!(conflict.parts.len(), 3);
    let text = |choices: [Choice; 3]| {
        conflict
            .resolve(&choices)
            .map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let (o, t, b, u) = (Choice::Ours, Choice::Theirs, Choice::Base, Choice::Union);
    assert_eq!(text([o, o, o]).unwrap(), r#"{"a":2,"l":[1,4,5,3],"x":1}"#);
    assert_eq!(
        text([t, t, t]).unwrap(),
        r#"{"a":3,"b":2,"l":[1,6,3],"x":1}"#
    );
    assert_eq!(
        text([b, b, u]).unwrap(),
        r#"{"a":1,"b":1,"l":[1,4,5,6,3],"x":1}"#
    );
    assert_eq!(text([u, o, o]), None, "two numbers have no union");
}

#[test]
fn json_lines_are_merged_by_record() {
    let options = MergeFileOptions::default();
    let base = b"{\"id\":1,\"v\":0}\n{\"id\":2,\"v\":0}\n";
    let ours = b"{\"id\":1,\"v\":1}\n{\"id\":2,\"v\":0}\n{\"id\":3}\n";
    let theirs = b"{\"id\":1,\"v\":0,\"w\":2}\n{\"id\":2,\"v\":0}\n{\"id\":4}";
    let outcome = merge_file(b"log.jsonl", base, ours, theirs, &options);
    let expected = "{\"id\":1,\"v\":1,\"w\":2}\n{\"id\":2,\"v\":0}\n{\"id\":3}\n{\"id\":4}";
    assert_eq!(
        String::from_utf8(outcome.into_clean().unwrap()).unwrap(),
        expected
    );
}

#[test]
fn rules_choose_the_engine() {
    let engine = |pattern: &str, engine| Rules {
        engines: vec![(Pattern::new(pattern), engine)],
        ..Rules::default()
    };
    let (base, ours, theirs) = (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1,"c":3}"#);
    let run = |path: &str, rules: Rules| {
        let options = MergeFileOptions {
            rules,
            ..MergeFileOptions::default()
        };
        let bytes = [base, ours, theirs].map(str::as_bytes);
        merge_file(path.as_bytes(), bytes[0], bytes[1], bytes[2], &options)
    };
    assert!(!run("x/y.webmanifest", Rules::default()).is_clean());
    assert!(
        run(
            "x/y.webmanifest",
            engine("*.webmanifest", MergeEngine::Json)
        )
        .is_clean()
    );
    assert!(run("x/y.data", engine("x/**", MergeEngine::Json)).is_clean());
    assert!(!run("x/y.json", engine("*.json", MergeEngine::Binary)).is_clean());
    for (pattern, path, expected) in [
        ("*.json", "a/b.json", true),
        ("/*.json", "a/b.json", false),
        ("a/*.json", "a/b/c.json", false),
        ("a/**/c.json", "a/c.json", true),
        ("a/**/c.json", "a/b/b/c.json", true),
        ("**/c.json", "c.json", true),
        ("a?c", "abc", true),
        ("a?c", "a/c", false),
        ("********a", "b", false),
    ] {
        assert_eq!(
            Pattern::new(pattern).matches(path.as_bytes()),
            expected,
            "{pattern} {path}"
        );
    }
}

#[test]
fn deep_nesting_never_crashes() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [100, 129, 10_000, 50_000] {
            let nested =
                |leaf: &str| format!("{}{leaf}{}", open.repeat(depth), close.repeat(depth));
            let (base, ours, theirs) = (nested("1"), nested("2"), nested("3"));
            assert!(!merged(&base, &ours, &theirs).is_clean());
            assert!(!merged(&base[..depth], &ours, &theirs[1..]).is_clean());
            let deeper = format!("[{base}]");
            let _ = merged(&base, &deeper, &theirs);
        }
    }
}

/// A random value as text, at most a few levels deep.
fn value(chance: &mut Chance, depth: usize) -> String {
    let kinds = if depth == 0 { 4 } else { 6 };
    let blank = chance.pick(&["", " ", "\n  "]);
    match chance.below(kinds) {
        0 => chance.below(5).to_string(),
        1 => format!("\"s{}\"", chance.below(4)),
        2 => "1.0".to_owned(),
        3 => chance.pick(&["true", "null", "-2e3"]).to_owned(),
        4 => {
            let items: Vec<String> = (0..chance.below(4))
                .map(|_| blank.to_owned() + &value(chance, depth - 1))
                .collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let mut keys: Vec<usize> = (0..6).filter(|_| chance.one_in(2)).collect();
            if chance.one_in(2) {
                keys.reverse();
            }
            let members: Vec<String> = keys
                .iter()
                .map(|key| format!("{blank}\"k{key}\": {}", value(chance, depth - 1)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// A document with several values, so that there is something to merge.
fn document(chance: &mut Chance) -> String {
    let values: Vec<String> = (0..4)
        .map(|key| format!("\"m{key}\": {}", value(chance, 2)))
        .collect();
    format!("{{{}}}", values.join(", "))
}

/// Replaces a random scalar, which keeps the document valid.
fn changed(chance: &mut Chance, text: &str) -> String {
    let numbers: Vec<usize> = text
        .char_indices()
        .filter(|(at, c)| {
            c.is_ascii_digit() && !text[..*at].ends_with(['k', 's', 'm', '.', 'e', '-'])
        })
        .filter(|(at, _)| !text[at + 1..].starts_with('.'))
        .map(|(at, _)| at)
        .collect();
    if numbers.is_empty() {
        return text.to_owned();
    }
    let at = chance.pick(&numbers);
    format!("{}{}{}", &text[..at], chance.below(10), &text[at + 1..])
}

#[test]
fn generated_documents_stay_sound_and_mirror() {
    let count = if crate::support::soak() {
        300_000
    } else {
        5_000
    };
    let (mut clean, mut by_structure) = (0, 0);
    for seed in 0..count {
        let mut chance = Chance(seed);
        let base = document(&mut chance);
        let mut side = |base: &str| match chance.below(4) {
            0 => document(&mut chance),
            1 => base.to_owned(),
            _ => (0..1 + chance.below(3))
                .fold(base.to_owned(), |text, _| changed(&mut chance, &text)),
        };
        let (ours, theirs) = (side(&base), side(&base));
        let outcome = merged(&base, &ours, &theirs);
        let mirror = merged(&base, &theirs, &ours);
        let case = format!("seed {seed}\n{base}\n{ours}\n{theirs}");
        assert_eq!(outcome.is_clean(), mirror.is_clean(), "{case}");
        let kinds = |outcome: &FileMerge| -> Vec<PartKind> {
            outcome
                .parts()
                .iter()
                .map(|conflict| conflict.kind)
                .collect()
        };
        let mirrored: Vec<PartKind> = kinds(&mirror).into_iter().map(PartKind::mirrored).collect();
        assert_eq!(kinds(&outcome).len(), mirrored.len(), "{case}");
        if let FileMerge::Clean { method, .. } = &outcome {
            by_structure += usize::from(*method == Method::Json);
        }
        for choice in [Choice::Ours, Choice::Theirs, Choice::Base] {
            let resolved = outcome
                .resolve_all(choice)
                .unwrap_or_else(|| panic!("{case}"));
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&resolved);
            assert!(
                parsed.is_ok(),
                "{case}\n{}",
                String::from_utf8_lossy(&resolved)
            );
        }
        clean += usize::from(outcome.is_clean());
    }
    assert!(clean > 500 && by_structure > 100, "{clean} {by_structure}");
}
