//! What is merged automatically, for which reason, and that each reason can be switched off.

use offshoot_merge::{FileMerge, MergeFileOptions, Reason, Reasons, Rules, merge_file};

fn merged(path: &str, sides: [&str; 3], allowed: Reasons) -> FileMerge {
    let options = MergeFileOptions {
        rules: Rules {
            allowed,
            ..Rules::default()
        },
        ..MergeFileOptions::default()
    };
    let [base, ours, theirs] = sides.map(str::as_bytes);
    merge_file(path.as_bytes(), base, ours, theirs, &options)
}

/// The outcome is as expected for that reason alone, and a conflict without it.
#[track_caller]
fn assert_reason(path: &str, sides: [&str; 3], reason: Reason, expected: &str) {
    let FileMerge::Clean { bytes, parts, .. } = merged(path, sides, Reasons::all()) else {
        panic!("a conflict: {sides:?}")
    };
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    let reasons: Vec<Reason> = parts.iter().map(|part| part.reason).collect();
    assert_eq!(reasons, [reason]);
    let without = merged(path, sides, Reasons::all().without(reason));
    assert!(!without.is_clean(), "{reason:?} is not needed: {sides:?}");
    assert!(!merged(path, sides, Reasons::none()).is_clean());
}

#[track_caller]
fn assert_conflict(sides: [&str; 3]) {
    let outcome = merged("x.txt", sides, Reasons::all());
    assert!(!outcome.is_clean(), "{sides:?}");
}

#[test]
fn each_reason_is_told_and_can_be_switched_off() {
    assert_reason(
        "x.txt",
        [
            "one two three four five\n",
            "1 two three four five\n",
            "one two three four 5\n",
        ],
        Reason::Words,
        "1 two three four 5\n",
    );
    assert_reason(
        "x.txt",
        ["a\n", "a\nnew b\n", "a\nnew b\nnew c\n"],
        Reason::MoreOfTheSame,
        "a\nnew b\nnew c\n",
    );
    assert_reason(
        "x.json",
        [r#"{"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1,"c":3}"#],
        Reason::Joined,
        r#"{"a":1,"b":2,"c":3}"#,
    );
    assert_reason(
        "x.txt",
        ["f(a,b)\n", "f(a, c)\n", "f(a,  c)\n"],
        Reason::Blanks,
        "f(a, c)\n",
    );
    assert_reason(
        "x.rs",
        [
            "use a;\nuse z;\n",
            "use a;\nuse d;\nuse z;\n",
            "use a;\nuse c;\nuse z;\n",
        ],
        Reason::Imports,
        "use a;\nuse c;\nuse d;\nuse z;\n",
    );
    assert_reason(
        "x.toml",
        ["x = \"1.2.3\"\n", "x = \"1.10.0\"\n", "x = \"1.9.0\"\n"],
        Reason::HigherVersion,
        "x = \"1.10.0\"\n",
    );
}

#[test]
fn words_that_the_other_side_took_away_are_refused() {
    // Ours renames `count`, theirs uses it once more.
    assert_conflict([
        "if count(a) and next then stop\n",
        "if size(a) and next then stop\n",
        "if count(a) and next then stop count\n",
    ]);
}

#[test]
fn a_version_is_never_put_together_from_two() {
    assert_conflict(["x 1.2.3\n", "x 2.2.3\n", "x 1.1.9\n"]);
    let sides = ["x 1.2.3 y\n", "x 2.2.3 y\n", "x 1.2.4 y\n"];
    let outcome = merged("x.txt", sides, Reasons::all());
    assert_eq!(outcome.into_clean().unwrap(), b"x 2.2.3 y\n");
    // A measure is no version, unless the line says so.
    assert_conflict(["limit = 0.5\n", "limit = 0.7\n", "limit = 0.9\n"]);
    let sides = ["version = 0.5\n", "version = 0.7\n", "version = 0.10\n"];
    let outcome = merged("x.txt", sides, Reasons::all());
    assert_eq!(outcome.into_clean().unwrap(), b"version = 0.10\n");
}

#[test]
fn imports_are_joined_only_where_there_is_one_place_for_each() {
    // Not sorted.
    assert_conflict([
        "use z;\nuse a;\n",
        "use z;\nuse d;\nuse a;\n",
        "use z;\nuse c;\nuse a;\n",
    ]);
    // One name imported from two places.
    assert_conflict([
        "use a;\nuse z;\n",
        "use a;\nuse b::Name;\nuse z;\n",
        "use a;\nuse c::Name;\nuse z;\n",
    ]);
    // Nothing around shows an order.
    assert_conflict(["x\n", "x\nimport b\n", "x\nimport a\n"]);
    // Not an import.
    assert_conflict([
        "use a;\nuse z;\n",
        "use a;\nuse c;\nuse z;\n",
        "use a;\nbuild();\nuse z;\n",
    ]);
}

#[test]
fn a_change_of_blanks_by_one_side_alone_is_kept() {
    let sides = [
        "call(a, b) then  go on to the end\n",
        "call(a,c) then go on to the end\n",
        "call(a, c) then  go on to the end\n",
    ];
    let outcome = merged("x.txt", sides, Reasons::all());
    assert_eq!(
        outcome.into_clean().unwrap(),
        b"call(a,c) then go on to the end\n"
    );
}

#[test]
fn lines_that_name_one_version_go_together() {
    let of = |version: &str, minor: u8, release: u8| {
        format!("VERSION = '{version}'\nMINOR_VERSION = {minor}\nRELEASE_VERSION = {release}\n")
    };
    let (base, lower) = (of("2.8.13", 8, 13), of("2.8.14", 8, 14));
    let higher = of("3.1.7", 1, 7);
    let sides = [base.as_str(), &higher, &lower];
    assert_reason("x.txt", sides, Reason::HigherVersion, &higher);
    let sides = [base.as_str(), &lower, &higher];
    assert_reason("x.txt", sides, Reason::HigherVersion, &higher);
    // What only the lower one changed would be lost.
    let more = lower.replace("MINOR_VERSION = 8", "MINOR_VERSION = 9");
    let higher = higher.replace("MINOR_VERSION = 1", "MINOR_VERSION = 8");
    assert_conflict([&base, &higher, &more]);
}

#[test]
fn the_larger_of_two_removals_is_taken() {
    let base = "/** Gets it.\n * @return int\n */\nfn get()\n";
    let sides = [base, "fn get()\n", "/** Gets it.\n */\nfn get()\n"];
    assert_reason("x.txt", sides, Reason::MoreOfTheSame, "fn get()\n");
}

#[test]
fn lines_removed_next_to_an_edit_stay_removed() {
    let sides = [
        "the number of it.\n\nold: see above\n",
        "the number of it.\n",
        "the number of it\n\nold: see above\n",
    ];
    assert_reason("x.txt", sides, Reason::Words, "the number of it\n");
}

#[test]
fn words_that_were_moved_or_laid_out_anew_conflict() {
    // Theirs repeats two words of the hunk.
    assert_conflict([
        "call(first, second, third, fourth)\n",
        "call(first, 2, third, fourth)\n",
        "call(first, second, third, fourth, first, third)\n",
    ]);
    // Theirs only indents.
    assert_conflict([
        "one two three\nfour five six\n",
        "one two three\nfour 5 six\n",
        "    one two three\n    four five six\n",
    ]);
}
