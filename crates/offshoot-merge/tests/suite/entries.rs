//! Lists of entries in TOML, YAML, Markdown and imports: merged entry by entry, or left alone.

use offshoot_merge::{FileMerge, MergeFileOptions, Reason, merge_file};

fn merged(path: &str, sides: [&str; 3]) -> FileMerge {
    let options = MergeFileOptions::default();
    let [base, ours, theirs] = sides.map(str::as_bytes);
    merge_file(path.as_bytes(), base, ours, theirs, &options)
}

#[track_caller]
fn assert_merged(path: &str, sides: [&str; 3], reason: Reason, expected: &str) {
    let FileMerge::Clean { bytes, parts, .. } = merged(path, sides) else {
        panic!("a conflict: {sides:?}")
    };
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    let reasons: Vec<Reason> = parts.iter().map(|part| part.reason).collect();
    assert_eq!(reasons, [reason]);
}

#[track_caller]
fn assert_conflict(path: &str, sides: [&str; 3]) {
    let text = merged(path, sides).into_clean().map(String::from_utf8);
    assert_eq!(text, None, "{sides:?}");
}

#[test]
fn keys_of_a_toml_table_are_independent() {
    let head = "[dependencies]\nlru = \"0.5.1\"\n";
    let with = |rest: &str| format!("{head}{rest}\n[features]\n");
    let (base, ours) = (with(""), with("fork = { path = \"../fork\" }\n"));
    let theirs = with("sloggers = \"1.0.0\"\n");
    let both = with("fork = { path = \"../fork\" }\nsloggers = \"1.0.0\"\n");
    assert_merged("Cargo.toml", [&base, &ours, &theirs], Reason::Joined, &both);
    // One removes a key, the other changes the next one and adds a third.
    let outcome = merged(
        "Cargo.toml",
        [
            "[d]\na = \"1\"\nb = \"1\"\n",
            "[d]\nb = \"1\"\n",
            "[d]\na = \"1\"\nb = { path = \"b\" }\nc = 3\n",
        ],
    );
    assert_eq!(
        outcome.into_clean().unwrap(),
        b"[d]\nb = { path = \"b\" }\nc = 3\n"
    );
}

#[test]
fn toml_that_is_not_plain_keys_is_left_alone() {
    let with = |rest: &str| format!("[d]\na = 1\n{rest}\n[e]\nx = 1\n");
    let conflict = |ours: &str, theirs: &str| {
        assert_conflict("a.toml", [&with(""), &with(ours), &with(theirs)]);
    };
    conflict("b = 1\n", "b = 2\n");
    conflict("b = 1\n", "c = [\n  1,\n]\n");
    conflict("b = 1\n", "# c\nc = 1\n");
    conflict("b = 1\n", "c = 1 # why\n");
    conflict("b = 1\n", "[c]\nb = 1\n");
    conflict("b = 1\n", "c = \"\"\"\n");
    // Removed here, changed there.
    assert_conflict(
        "a.toml",
        ["[d]\na = 1\nb = 1\n", "[d]\nb = 1\n", "[d]\na = 2\nb = 1\n"],
    );
    // In a program, the order of such lines has a meaning.
    assert_conflict("a.py", ["x = 0\n", "x = 0\na = 1\n", "x = 0\nb = 2\n"]);
    // The key stands in the table already, elsewhere.
    assert_conflict(
        "a.toml",
        [
            "[d]\na = 1\nm = 1\nn = 1\no = 1\nz = 1\n",
            "[d]\na = 1\nb = 1\nm = 1\nn = 1\no = 1\nz = 1\n",
            "[d]\na = 1\nc = 1\nm = 1\nn = 1\no = 1\nz = 1\nb = 2\n",
        ],
    );
}

#[test]
fn keys_of_a_yaml_mapping_are_independent() {
    assert_merged(
        "a.yml",
        [
            "env:\n  a: 1\nend: 1\n",
            "env:\n  a: 1\n  b: two words\nend: 1\n",
            "env:\n  a: 1\n  c:\n    - deep\nend: 1\n",
        ],
        Reason::Joined,
        "env:\n  a: 1\n  b: two words\n  c:\n    - deep\nend: 1\n",
    );
    assert_merged(
        "a.yaml",
        [
            "on:\n  - a\n",
            "on:\n  - a\n  - first\n",
            "on:\n  - a\n  - second\n",
        ],
        Reason::Joined,
        "on:\n  - a\n  - first\n  - second\n",
    );
}

#[test]
fn yaml_that_is_not_plain_is_left_alone() {
    let conflict = |base: &str, ours: &str, theirs: &str| {
        assert_conflict("a.yml", [base, ours, theirs]);
    };
    // A text block that only looks like a mapping.
    conflict(
        "run: |\n  a: 1\n",
        "run: |\n  a: 1\n  b: 1\n",
        "run: |\n  a: 1\n  c: 1\n",
    );
    conflict(
        "run: >-\n  if x\n    a: 1\n",
        "run: >-\n  if x\n    a: 1\n    b: 1\n",
        "run: >-\n  if x\n    a: 1\n    c: 1\n",
    );
    conflict(
        "m:\n  a: 1\n",
        "m:\n  a: 1\n  b: &x 1\n",
        "m:\n  a: 1\n  c: 1\n",
    );
    conflict(
        "m:\n  a: 1\n",
        "m:\n  a: 1\n  b: 1\n",
        "m:\n  a: 1\n  b: 2\n",
    );
    conflict(
        "m:\n  a: 1\n",
        "m:\n  a: 1\n  b: 1\n",
        "m:\n  a: 1\n n: 2\n",
    );
    // The key also stands elsewhere in the mapping.
    conflict(
        "m:\n  a: 1\n  x: 1\n  y: 1\n  z: 1\n",
        "m:\n  a: 1\n  b: 1\n  x: 1\n  y: 1\n  z: 1\n",
        "m:\n  a: 1\n  c: 1\n  x: 1\n  y: 1\n  z: 1\n  b: 2\n",
    );
}

#[test]
fn items_of_a_markdown_list_are_kept_from_both() {
    assert_merged(
        "CHANGELOG.md",
        [
            "# Changes\n\n- old thing\n",
            "# Changes\n\n- old thing\n- faster start (#12)\n",
            "# Changes\n\n- old thing\n- a new command\n  that takes names\n",
        ],
        Reason::Joined,
        "# Changes\n\n- old thing\n- faster start (#12)\n- a new command\n  that takes names\n",
    );
}

#[test]
fn items_that_may_be_the_same_or_are_none_are_left_alone() {
    let with = |rest: &str| format!("# Changes\n\n- old thing\n{rest}");
    let conflict = |ours: &str, theirs: &str| {
        assert_conflict("a.md", [&with(""), &with(ours), &with(theirs)]);
    };
    conflict("- start is faster (#1234)\n", "- quick start, see 1234\n");
    conflict("- the start is faster now\n", "- now the start is faster\n");
    conflict("- one\n", "## Heading\n- two\n");
    conflict("- one\n", "\n- two\n");
    // In a block of code.
    assert_conflict(
        "a.md",
        [
            "```\n- a\n```\n",
            "```\n- a\n- b c\n```\n",
            "```\n- a\n- d e\n```\n",
        ],
    );
    // Both sides reword one item.
    assert_conflict("a.md", ["- a b c\n", "- d e f\n", "- g h i\n"]);
}

#[test]
fn imports_are_a_set() {
    let go = |rest: &str| format!("package x\n\nimport (\n\t\"fmt\"\n{rest})\n");
    assert_merged(
        "a.go",
        [
            &go("\t\"p/pkg/exemplar\"\n\t\"p/pkg/labels\"\n"),
            &go("\t\"p/model/histogram\"\n\t\"p/pkg/exemplar\"\n\t\"p/pkg/labels\"\n"),
            &go("\t\"p/model/exemplar\"\n\t\"p/model/labels\"\n"),
        ],
        Reason::Imports,
        &go("\t\"p/model/exemplar\"\n\t\"p/model/histogram\"\n\t\"p/model/labels\"\n"),
    );
    // One name imported from two places, and a line that both replaced.
    assert_conflict(
        "a.rs",
        [
            "use a::Name;\nuse b;\n",
            "use c::Name;\nuse b;\n",
            "use d::Name;\nuse b;\n",
        ],
    );
    // Strings that stand next to each other in C are one text.
    assert_conflict(
        "a.c",
        [
            "f(\n\"a\"\n\"b\"\n",
            "f(\n\"a\"\n\"c\"\n\"b\"\n",
            "f(\n\"a\"\n",
        ],
    );
}
