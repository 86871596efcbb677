//! A table of JSON merges, black-box: three texts and the expected outcome.

use offshoot_merge::{FileMerge, MergeFileOptions, Part, PartKind, merge_file};

/// A case: what it shows, base, ours, theirs, and the outcome. Conflicts are written `! pointer`,
/// one per line, with `-ours` or `-theirs` behind it where that side removed the value, and `+`
/// where both added it.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

fn outcome(path: &str, base: &str, ours: &str, theirs: &str) -> String {
    let bytes = [base, ours, theirs].map(str::as_bytes);
    let options = MergeFileOptions::default();
    match merge_file(path.as_bytes(), bytes[0], bytes[1], bytes[2], &options) {
        FileMerge::Clean { bytes, .. } => String::from_utf8(bytes).unwrap(),
        FileMerge::Conflict { conflict, .. } => {
            let line = |(part, kind): (&Part, PartKind)| {
                let place = match part {
                    Part::Json { pointer } => pointer.clone(),
                    Part::Lines { ours, .. } => format!("line {}", ours.start + 1),
                    Part::Whole => "whole".to_owned(),
                };
                let what = match kind {
                    PartKind::BothChanged => "",
                    PartKind::BothAdded => "+",
                    PartKind::RemovedByOurs => "-ours",
                    PartKind::RemovedByTheirs => "-theirs",
                };
                format!("! {place}{what}")
            };
            let parts = conflict.parts.iter().map(|one| (&one.part, one.kind));
            parts.map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

fn check(path: &str, cases: &[Case]) {
    let mut wrong = String::new();
    for (name, base, ours, theirs, expected) in cases {
        let found = outcome(path, base, ours, theirs);
        if found != *expected {
            wrong += &format!("{name}\n  expected {expected:?}\n  found    {found:?}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
#[rustfmt::skip]
fn members() {
    check("x.json", &[
        ("both add a key at the end", r#"{"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1,"c":3}"#, r#"{"a":1,"b":2,"c":3}"#),
        ("both add a key at the front", r#"{"z":1}"#, r#"{"b":2,"z":1}"#, r#"{"a":3,"z":1}"#, r#"{"a":3,"b":2,"z":1}"#),
        ("both add keys to an unsorted object", r#"{"z":1,"a":1}"#, r#"{"z":1,"a":1,"y":2}"#, r#"{"z":1,"a":1,"b":3}"#, r#"{"z":1,"a":1,"y":2,"b":3}"#),
        ("both add the same key with the same value", r#"{"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2,"c":3}"#, r#"{"a":1,"b":2,"c":3}"#),
        ("both add the same key with different values", r#"{"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1,"b":3}"#, "! /b+"),
        ("both add the same key with objects", r#"{"a":1}"#, r#"{"a":1,"o":{"x":1}}"#, r#"{"a":1,"o":{"y":2}}"#, r#"{"a":1,"o":{"x":1,"y":2}}"#),
        ("both add the same key with arrays", r#"{"a":1}"#, r#"{"a":1,"l":[1]}"#, r#"{"a":1,"l":[2]}"#, "! /l+"),
        ("different keys change", r#"{"a":1,"b":1}"#, r#"{"a":2,"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":2,"b":2}"#),
        ("the same key changes alike", r#"{"a":1,"b":1}"#, r#"{"a":2,"b":1}"#, r#"{"a":2,"b":2}"#, r#"{"a":2,"b":2}"#),
        ("the same key changes differently", r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#, "! /a"),
        ("one of two keys conflicts", r#"{"a":1,"b":1}"#, r#"{"a":2,"b":2}"#, r#"{"a":3,"b":1}"#, "! /a"),
        ("ours removes, theirs leaves", r#"{"a":1,"b":1}"#, r#"{"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"b":2}"#),
        ("both remove different keys", r#"{"a":1,"b":1,"c":1}"#, r#"{"b":1,"c":1}"#, r#"{"a":1,"b":1}"#, r#"{"b":1}"#),
        ("both remove the same key", r#"{"a":1,"b":1}"#, r#"{"b":1}"#, r#"{"b":2}"#, r#"{"b":2}"#),
        ("both empty the object and add", r#"{"a":1}"#, r#"{"b":1}"#, r#"{"c":1}"#, r#"{"b":1,"c":1}"#),
        ("ours removes, theirs changes", r#"{"a":1,"b":1}"#, r#"{"b":1}"#, r#"{"a":2,"b":1}"#, "! /a-ours"),
        ("theirs removes, ours changes", r#"{"a":1,"b":1}"#, r#"{"a":2,"b":1}"#, r#"{"b":1}"#, "! /a-theirs"),
        ("a key is renamed here, its value changes there", r#"{"old":1,"b":1}"#, r#"{"new":1,"b":1}"#, r#"{"old":2,"b":1}"#, "! /old-ours"),
        ("nested changes in different places", r#"{"o":{"x":1,"y":1},"p":1}"#, r#"{"o":{"x":2,"y":1},"p":1}"#, r#"{"o":{"x":1,"y":2},"p":2}"#, r#"{"o":{"x":2,"y":2},"p":2}"#),
        ("nested conflict", r#"{"o":{"p":{"q":1}}}"#, r#"{"o":{"p":{"q":2}}}"#, r#"{"o":{"p":{"q":3}}}"#, "! /o/p/q"),
        ("nested object removed here, changed inside there", r#"{"o":{"p":1},"z":1}"#, r#"{"z":1}"#, r#"{"o":{"p":2},"z":1}"#, "! /o-ours"),
        ("nested object removed here, reformatted there", r#"{"o":{"p":1},"z":1}"#, r#"{"z":1}"#, r#"{"o":{ "p": 1 },"z":1}"#, r#"{"z":1}"#),
        ("object becomes a number here, changes there", r#"{"o":{"p":1}}"#, r#"{"o":7}"#, r#"{"o":{"p":2}}"#, "! /o"),
        ("object becomes an array on both sides", r#"{"o":{}}"#, r#"{"o":[1]}"#, r#"{"o":[2]}"#, "! /o"),
        ("null is a value", r#"{"a":null}"#, r#"{"a":null,"b":null}"#, r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
        ("the empty key", r#"{"":1}"#, r#"{"":2}"#, r#"{"":3}"#, "! /"),
        ("pointer escapes", r#"{"a/b":{"m~n":1}}"#, r#"{"a/b":{"m~n":2}}"#, r#"{"a/b":{"m~n":3}}"#, "! /a~1b/m~0n"),
        ("keys are moved here, changed there", r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"a":9,"b":2}"#, r#"{"b":2,"a":9}"#),
        ("both move keys alike", r#"{"a":1,"b":2,"c":3}"#, r#"{"c":3,"a":1,"b":2}"#, r#"{"c":3,"a":1,"b":4}"#, r#"{"c":3,"a":1,"b":4}"#),
        ("a new key here, the keys sorted there", r#"{"b":1,"a":1}"#, r#"{"b":1,"a":1,"c":1}"#, r#"{"a":1,"b":1}"#, r#"{"a":1,"c":1,"b":1}"#),
        ("the same new key at two places", r#"{"a":1,"m":1,"z":1}"#, r#"{"n":1,"a":1,"m":1,"z":1}"#, r#"{"a":1,"m":1,"n":1,"z":2}"#, r#"{"n":1,"a":1,"m":1,"z":2}"#),
        ("a member moves to another object here, changes there", r#"{"a":{"x":1},"b":{}}"#, r#"{"a":{},"b":{"x":1}}"#, r#"{"a":{"x":2},"b":{}}"#, "! /a/x-ours"),
        ("both wrap a value alike", r#"{"a":1}"#, r#"{"a":{"v":1}}"#, r#"{"a":{"v":1},"b":1}"#, r#"{"a":{"v":1},"b":1}"#),
        ("false to true on both sides", r#"{"a":false,"b":0}"#, r#"{"a":true,"b":0}"#, r#"{"a":true,"b":1}"#, r#"{"a":true,"b":1}"#),
        ("text changes here, is removed with its parent there", r#"{"p":{"t":"x","u":1},"q":1}"#, r#"{"p":{"t":"y","u":1},"q":1}"#, r#"{"q":1}"#, "! /p-theirs"),
        ("different words of one text", r#"{"t":"the quick brown fox jumps"}"#, r#"{"t":"the slow brown fox jumps"}"#, r#"{"t":"the quick brown fox sleeps"}"#, "! /t"),
        ("the whole document is a number", "1", "2", "3", "! "),
        ("the whole document changes kind", "{}", r#"{"a":1}"#, "[]", "! "),
    ]);
}

#[test]
#[rustfmt::skip]
fn arrays() {
    check("x.json", &[
        ("both append", "[1]", "[1,2]", "[1,3]", "[1,2,3]"),
        ("both append the same", "[1]", "[1,2]", "[1,2]", "[1,2]"),
        ("both append, one more", "[1]", "[1,2]", "[1,2,3]", "[1,2,3]"),
        ("both append to nothing", "[]", "[1]", "[2]", "[1,2]"),
        ("both put in front", "[9]", "[1,9]", "[2,9]", "[1,2,9]"),
        ("one appends, one puts in front", "[5]", "[5,6]", "[4,5]", "[4,5,6]"),
        ("sorted texts stay sorted", r#"["a","d"]"#, r#"["a","c","d"]"#, r#"["a","b","d"]"#, r#"["a","b","c","d"]"#),
        ("sorted texts at the end", r#"["a","b"]"#, r#"["a","b","d"]"#, r#"["a","b","c"]"#, r#"["a","b","c","d"]"#),
        ("unsorted texts are not sorted", r#"["d","a"]"#, r#"["d","a","c"]"#, r#"["d","a","b"]"#, r#"["d","a","c","b"]"#),
        ("one text tells nothing of an order", r#"["a"]"#, r#"["a","c"]"#, r#"["a","b"]"#, r#"["a","c","b"]"#),
        ("numbers are not sorted", "[1,2]", "[1,2,9]", "[1,2,4]", "[1,2,9,4]"),
        ("one removes, one appends", "[1,2,3]", "[1,3]", "[1,2,3,4]", "[1,3,4]"),
        ("both remove different", "[1,2,3]", "[2,3]", "[1,2]", "[2]"),
        ("both remove the same", "[1,2,3]", "[1,3]", "[1,3,4]", "[1,3,4]"),
        ("the same element changes differently", "[1,2,3]", "[1,8,3]", "[1,9,3]", "! /1"),
        ("removed here, changed there", "[1,2,3]", "[1,3]", "[1,9,3]", "! /1-ours"),
        ("neighbours change", "[1,2]", "[8,2]", "[1,9]", "[8,9]"),
        ("elements are merged inside", r#"[{"x":1},{"y":1}]"#, r#"[{"x":2},{"y":1}]"#, r#"[{"x":1},{"y":2}]"#, r#"[{"x":2},{"y":2}]"#),
        ("nested arrays", "[[1],[2]]", "[[1,5],[2]]", "[[1],[2,6]]", "[[1,5],[2,6]]"),
        ("by id: both change fields of one element", r#"[{"id":1,"a":1,"b":1}]"#, r#"[{"id":1,"a":2,"b":1}]"#, r#"[{"id":1,"a":1,"b":2}]"#, r#"[{"id":1,"a":2,"b":2}]"#),
        ("by id: both add elements", r#"[{"id":1}]"#, r#"[{"id":1},{"id":2}]"#, r#"[{"id":1},{"id":3}]"#, r#"[{"id":1},{"id":2},{"id":3}]"#),
        ("by id: both add the same id", r#"[{"id":1}]"#, r#"[{"id":1},{"id":2,"a":1}]"#, r#"[{"id":1},{"id":2,"b":1}]"#, r#"[{"id":1},{"id":2,"a":1,"b":1}]"#),
        ("by id: moved here, changed there", r#"[{"id":1,"v":0},{"id":2,"v":0}]"#, r#"[{"id":2,"v":0},{"id":1,"v":0}]"#, r#"[{"id":1,"v":5},{"id":2,"v":0}]"#, r#"[{"id":2,"v":0},{"id":1,"v":5}]"#),
        ("by id: removed here, changed there", r#"[{"id":1,"v":0},{"id":2}]"#, r#"[{"id":2}]"#, r#"[{"id":1,"v":5},{"id":2}]"#, "! /0-ours"),
        ("by id: the same field", r#"[{"id":1,"v":0}]"#, r#"[{"id":1,"v":1}]"#, r#"[{"id":1,"v":2}]"#, "! /0/v"),
        ("by name", r#"[{"name":"a","v":0},{"name":"b","v":0}]"#, r#"[{"name":"a","v":1},{"name":"b","v":0}]"#, r#"[{"name":"c","v":0},{"name":"a","v":0},{"name":"b","v":2}]"#, r#"[{"name":"c","v":0},{"name":"a","v":1},{"name":"b","v":2}]"#),
        ("by key", r#"[{"key":"a","v":0}]"#, r#"[{"key":"a","v":1}]"#, r#"[{"key":"a","v":0,"w":1}]"#, r#"[{"key":"a","v":1,"w":1}]"#),
        ("an id that is not unique is none", r#"[{"id":1},{"id":1}]"#, r#"[{"id":1},{"id":1},{"id":2}]"#, r#"[{"id":0},{"id":1},{"id":1}]"#, r#"[{"id":0},{"id":1},{"id":1},{"id":2}]"#),
        ("by id: both move differently", r#"[{"id":1},{"id":2},{"id":3}]"#, r#"[{"id":3},{"id":1},{"id":2}]"#, r#"[{"id":2},{"id":1},{"id":3}]"#, "! line 1"),
        ("by id: moved and changed here, another changed there", r#"[{"id":1,"v":0},{"id":2,"v":0},{"id":3,"v":0}]"#, r#"[{"id":3,"v":1},{"id":1,"v":0},{"id":2,"v":0}]"#, r#"[{"id":1,"v":0},{"id":2,"v":2},{"id":3,"v":0}]"#, r#"[{"id":3,"v":1},{"id":1,"v":0},{"id":2,"v":2}]"#),
        ("moved here, appended there", "[1,2,3]", "[3,1,2]", "[1,2,3,4]", "[3,1,2,4]"),
        ("both replace all", "[1,2]", "[3,4]", "[5,6]", "! /0\n! /1"),
        ("one empties, one appends", "[1,2]", "[]", "[1,2,3]", "[3]"),
        ("equal elements", "[0,0]", "[0,0,0]", "[0,0,1]", "[0,0,0,1]"),
    ]);
}

#[test]
#[rustfmt::skip]
fn spelling() {
    check("x.json", &[
        ("number spelling stays", r#"{"a":1.0,"b":1e3,"c":1}"#, r#"{"a":1.0,"b":1e3,"c":2}"#, r#"{"a":1.0,"b":1e3,"c":1,"d":0.10}"#, r#"{"a":1.0,"b":1e3,"c":2,"d":0.10}"#),
        ("large integers stay", r#"{"a":12345678901234567890,"b":1}"#, r#"{"a":12345678901234567890,"b":2}"#, r#"{"a":12345678901234567891,"b":1}"#, r#"{"a":12345678901234567891,"b":2}"#),
        ("a number spelled anew here, changed there", r#"{"a":1.0}"#, r#"{"a":1.00}"#, r#"{"a":2}"#, r#"{"a":2}"#),
        ("a number spelled anew by one side alone", r#"{"a":1,"b":1}"#, r#"{"a":1.0,"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1.0,"b":2}"#),
        ("both change to the same number", r#"{"a":5}"#, r#"{"a":100}"#, r#"{"a":1e2}"#, r#"{"a":100}"#),
        ("both change to the same fraction", r#"{"a":5}"#, r#"{"a":-0.0250}"#, r#"{"a":-25E-3}"#, r#"{"a":-0.0250}"#),
        ("both change to another fraction", r#"{"a":5}"#, r#"{"a":0.10}"#, r#"{"a":1E-2}"#, "! /a"),
        ("minus nought is not nought", r#"{"a":5}"#, r#"{"a":-0.0}"#, r#"{"a":0.0}"#, "! /a"),
        ("a huge exponent", r#"{"a":5}"#, r#"{"a":1e999999999}"#, r#"{"a":1E999999999}"#, "! /a"),
        ("escapes stay", r#"{"a":"\u00e9\/","b":1}"#, r#"{"a":"\u00e9\/","b":2}"#, r#"{"a":"\u00e9\/","b":1,"c":"\ud83d\ude00"}"#, r#"{"a":"\u00e9\/","b":2,"c":"\ud83d\ude00"}"#),
        ("a key spelled with escapes is the same key", r#"{"a":1,"b":1}"#, r#"{"\u0061":1,"b":2}"#, r#"{"a":5,"b":1}"#, r#"{"\u0061":5,"b":2}"#),
        ("the same text spelled in two ways", r#"{"s":"x"}"#, r#"{"s":"\u00e9"}"#, r#"{"s":"é"}"#, r#"{"s":"\u00e9"}"#),
        ("half a surrogate is not its spelling", r#"{"a":5}"#, r#"{"a":"\\ud800"}"#, r#"{"a":"\ud800"}"#, "! /a"),
        ("a BOM stays", "\u{feff}{\"a\":1}", "\u{feff}{\"a\":1,\"b\":2}", "\u{feff}{\"a\":1,\"c\":3}", "\u{feff}{\"a\":1,\"b\":2,\"c\":3}"),
        ("a BOM that one side drops", "\u{feff}{\"a\":1}", "{\"a\":1}", "\u{feff}{\"a\":2}", "{\"a\":2}"),
        ("CRLF stays", "{\r\n  \"a\": 1\r\n}\r\n", "{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n", "{\r\n  \"a\": 1,\r\n  \"c\": 3\r\n}\r\n", "{\r\n  \"a\": 1,\r\n  \"b\": 2,\r\n  \"c\": 3\r\n}\r\n"),
        ("tabs stay", "{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"b\": 2\n}\n", "{\n\t\"a\": 1,\n\t\"c\": 3\n}\n", "{\n\t\"a\": 1,\n\t\"b\": 2,\n\t\"c\": 3\n}\n"),
        ("no final newline stays so", "{\n  \"a\": 1\n}", "{\n  \"a\": 2\n}", "{\n  \"a\": 1,\n  \"b\": 1\n}", "{\n  \"a\": 2,\n  \"b\": 1\n}"),
        ("a final newline added by one side", "{\"a\":1}", "{\"a\":1}\n", "{\"a\":2}", "{\"a\":2}\n"),
        ("a final newline removed by one side", "{\"a\":1}\n", "{\"a\":1}", "{\"a\":2}\n", "{\"a\":2}"),
        ("minified stays minified", r#"{"a":[1,2],"b":{"c":1}}"#, r#"{"a":[1,2,3],"b":{"c":1}}"#, r#"{"a":[1,2],"b":{"c":1,"d":2}}"#, r#"{"a":[1,2,3],"b":{"c":1,"d":2}}"#),
        ("a lone member of a minified object", r#"{"o":{},"p":1}"#, r#"{"o":{"a":1},"p":1}"#, r#"{"o":{"b":2},"p":1}"#, r#"{"o":{"a":1,"b":2},"p":1}"#),
        ("a lone member of a spaced object", r#"{"o": {}}"#, r#"{"o": {"a": 1}}"#, r#"{"o": {"b": 2}}"#, r#"{"o": {"a": 1, "b": 2}}"#),
        ("ours is pretty-printed, theirs changes", r#"{"a":1,"b":[1]}"#, "{\n  \"a\": 1,\n  \"b\": [\n    1\n  ]\n}", r#"{"a":2,"b":[1]}"#, "{\n  \"a\": 2,\n  \"b\": [\n    1\n  ]\n}"),
        ("theirs is pretty-printed, ours changes", r#"{"a":1,"b":2}"#, r#"{"a":5,"b":2}"#, "{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"a\": 5,\n  \"b\": 2\n}"),
        ("an empty object gets members", "{\n  \"o\": {}\n}\n", "{\n  \"o\": {\n    \"a\": 1\n  }\n}\n", "{\n  \"o\": {\n    \"b\": 2\n  }\n}\n", "{\n  \"o\": {\n    \"a\": 1,\n    \"b\": 2\n  }\n}\n"),
        ("a duplicate key is not strict", r#"{"a":1,"a":2}"#, r#"{"a":1,"a":3}"#, r#"{"a":1,"a":4}"#, "! line 1"),
        ("comments are not strict", "// c\n{\"a\":1}\n", "// c\n{\"a\":2}\n", "// c\n{\"a\":3}\n", "! line 2"),
        ("a trailing comma is not strict", "{\"a\":1,}", "{\"a\":2,}", "{\"a\":3,}", "! line 1"),
        ("one side is broken", r#"{"a":1}"#, r#"{"a":2"#, r#"{"a":3}"#, "! line 1"),
        ("one side is empty", r#"{"a":1}"#, "", r#"{"a":3}"#, "! line 1-ours"),
    ]);
}

#[test]
#[rustfmt::skip]
fn versions() {
    check("package.json", &[
        ("both raise the version", r#"{"version":"1.0.0"}"#, r#"{"version":"1.1.0"}"#, r#"{"version":"1.0.1"}"#, r#"{"version":"1.1.0"}"#),
        ("ten is more than nine", r#"{"version":"1.8.0"}"#, r#"{"version":"1.9.0"}"#, r#"{"version":"1.10.0"}"#, r#"{"version":"1.10.0"}"#),
        ("a release is more than its candidate", r#"{"version":"1.0.0"}"#, r#"{"version":"2.0.0"}"#, r#"{"version":"2.0.0-rc.1"}"#, r#"{"version":"2.0.0"}"#),
        ("candidates are counted", r#"{"version":"2.0.0-rc.1"}"#, r#"{"version":"2.0.0-rc.9"}"#, r#"{"version":"2.0.0-rc.10"}"#, r#"{"version":"2.0.0-rc.10"}"#),
        ("one side lowers it", r#"{"version":"1.1.0"}"#, r#"{"version":"1.0.0"}"#, r#"{"version":"1.2.0"}"#, "! /version"),
        ("both raise a dependency", r#"{"dependencies":{"x":"^1.0"}}"#, r#"{"dependencies":{"x":"^1.1"}}"#, r#"{"dependencies":{"x":"^1.2"}}"#, r#"{"dependencies":{"x":"^1.2"}}"#),
        ("both add a dependency", r#"{"dependencies":{}}"#, r#"{"dependencies":{"x":"^1.1.0"}}"#, r#"{"dependencies":{"x":"^1.2.0"}}"#, r#"{"dependencies":{"x":"^1.2.0"}}"#),
        ("the same number with another sign", r#"{"dependencies":{"x":"1.0.0"}}"#, r#"{"dependencies":{"x":"^1.1.0"}}"#, r#"{"dependencies":{"x":"~1.1.0"}}"#, "! /dependencies/x"),
        ("only the sign changes here, the number there", r#"{"dependencies":{"x":"1.0.0"}}"#, r#"{"dependencies":{"x":"^1.0.0"}}"#, r#"{"dependencies":{"x":"1.1.0"}}"#, "! /dependencies/x"),
        ("a dependency removed here, raised there", r#"{"dependencies":{"x":"1.0.0"}}"#, r#"{"dependencies":{}}"#, r#"{"dependencies":{"x":"1.1.0"}}"#, "! /dependencies/x-ours"),
        ("an address is no version", r#"{"dependencies":{"x":"1.0.0"}}"#, r#"{"dependencies":{"x":"1.1.0"}}"#, r#"{"dependencies":{"x":"git:y#main"}}"#, "! /dependencies/x"),
        ("a range with alternatives is no version", r#"{"require":{"x":"^1.0"}}"#, r#"{"require":{"x":"^1.1|^2.0"}}"#, r#"{"require":{"x":"^1.2"}}"#, "! /require/x"),
        ("a measure is no version", r#"{"timeout":"1.5"}"#, r#"{"timeout":"2.5"}"#, r#"{"timeout":"3.5"}"#, "! /timeout"),
        ("a network address is no version", r#"{"host":"10.0.0.1"}"#, r#"{"host":"10.0.0.2"}"#, r#"{"host":"10.0.0.3"}"#, "! /host"),
        ("a number is no version", r#"{"version":1}"#, r#"{"version":2}"#, r#"{"version":3}"#, "! /version"),
        ("a build label is not ordered", r#"{"version":"1.0.0+1"}"#, r#"{"version":"1.0.0+2"}"#, r#"{"version":"1.0.0+3"}"#, "! /version"),
        ("what a lock file says of a version goes with it",
            r#"{"x":{"version":"1.0.0","resolved":"u/1.0.0","integrity":"aa"}}"#,
            r#"{"x":{"version":"1.2.0","resolved":"u/1.2.0","integrity":"cc"}}"#,
            r#"{"x":{"version":"1.1.0","resolved":"u/1.1.0","integrity":"bb"}}"#,
            r#"{"x":{"version":"1.2.0","resolved":"u/1.2.0","integrity":"cc"}}"#),
    ]);
}

#[test]
#[rustfmt::skip]
fn lines_of_json() {
    check("x.jsonl", &[
        ("both append", "{\"a\":1}\n", "{\"a\":1}\n{\"b\":1}\n", "{\"a\":1}\n{\"c\":1}\n", "{\"a\":1}\n{\"b\":1}\n{\"c\":1}\n"),
        ("both append the same", "{\"a\":1}\n", "{\"a\":1}\n{\"b\":1}\n", "{\"a\":1}\n{\"b\":1}\n{\"c\":1}\n", "{\"a\":1}\n{\"b\":1}\n{\"c\":1}\n"),
        ("records by id", "{\"id\":1,\"v\":0}\n{\"id\":2,\"v\":0}\n", "{\"id\":1,\"v\":1}\n{\"id\":2,\"v\":0}\n", "{\"id\":1,\"v\":0}\n{\"id\":2,\"v\":2}\n", "{\"id\":1,\"v\":1}\n{\"id\":2,\"v\":2}\n"),
        ("two fields of one record", "{\"id\":1,\"v\":0,\"w\":0}\n", "{\"id\":1,\"v\":1,\"w\":0}\n", "{\"id\":1,\"v\":0,\"w\":1}\n", "{\"id\":1,\"v\":1,\"w\":1}\n"),
        ("one field of one record", "{\"id\":1,\"v\":0}\n", "{\"id\":1,\"v\":1}\n", "{\"id\":1,\"v\":2}\n", "! /0/v"),
        ("a record removed here, changed there", "{\"id\":1,\"v\":0}\n{\"id\":2}\n", "{\"id\":2}\n", "{\"id\":1,\"v\":2}\n{\"id\":2}\n", "! /0-ours"),
        ("neighbours without an id", "[1]\n[2]\n", "[1,1]\n[2]\n", "[1]\n[2,2]\n", "[1,1]\n[2,2]\n"),
        ("no final newline", "1\n2", "1\n2\n3", "0\n1\n2", "0\n1\n2\n3"),
        ("append to nothing", "", "{\"a\":1}\n", "{\"b\":1}\n", "{\"a\":1}\n{\"b\":1}\n"),
        ("CRLF", "{\"a\":1}\r\n", "{\"a\":1}\r\n{\"b\":1}\r\n", "{\"a\":1}\r\n{\"c\":1}\r\n", "{\"a\":1}\r\n{\"b\":1}\r\n{\"c\":1}\r\n"),
        ("empty lines stay", "1\n\n2\n", "1\n\n2\n3\n", "1\n\n9\n", "1\n\n9\n3\n"),
    ]);
}
