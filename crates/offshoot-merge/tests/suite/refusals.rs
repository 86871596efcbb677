//! Hunks that seem mergeable and must stay conflicts: each kind was found in real merges.

use offshoot_merge::{FileMerge, MergeFileOptions, merge_file};

fn merged(path: &str, [base, ours, theirs]: [&str; 3]) -> FileMerge {
    let options = MergeFileOptions::default();
    let [base, ours, theirs] = [base, ours, theirs].map(str::as_bytes);
    merge_file(path.as_bytes(), base, ours, theirs, &options)
}

#[track_caller]
fn assert_conflict(path: &str, sides: [&str; 3]) {
    let [base, ours, theirs] = sides;
    for sides in [sides, [base, theirs, ours]] {
        let outcome = merged(path, sides);
        let text = outcome.into_clean().map(String::from_utf8);
        assert_eq!(text, None, "{sides:?}");
    }
}

#[track_caller]
fn assert_clean(path: &str, sides: [&str; 3], expected: &str) {
    let [base, ours, theirs] = sides;
    for sides in [sides, [base, theirs, ours]] {
        let bytes = merged(path, sides).into_clean().expect("no conflict");
        assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{sides:?}");
    }
}

#[test]
fn a_small_removal_is_not_dropped_for_a_larger_rewrite() {
    // Theirs finishes the release, ours went back to another one.
    assert_conflict("VERSION", ["3.12.0-rc.0\n", "3.11.3\n", "3.12.0\n"]);
    // Theirs makes the import unconditional, ours removes it with its condition.
    assert_conflict(
        "a.rs",
        [
            "mod a;\n#[cfg(x)]\nuse b;\n\nfn f()\n",
            "mod a;\n\nfn f()\n",
            "mod a;\nuse b;\n\nfn f()\n",
        ],
    );
    // Theirs drops a condition, ours rewrote the whole.
    assert_conflict(
        "a.c",
        [
            "if (ready(a) && old(b) && wanted(c)) {\n",
            "start(all, of, it);\n",
            "if (ready(a) && wanted(c)) {\n",
        ],
    );
}

#[test]
fn an_edit_that_indents_is_not_dropped_for_a_larger_one() {
    assert_conflict(
        "a.py",
        [
            "def f():\n    go(1)\n",
            "def f():\n    go(1)\n    stop(2, 3)\n    rest(4)\n",
            "def f():\n    go(1)\n        stop(2, 3)\n",
        ],
    );
}

#[test]
fn the_same_lines_indented_in_two_ways_are_not_the_same() {
    assert_conflict(
        "a.yml",
        [
            "hook:\n  files: x\n",
            "hook:\n  files: x\n  needs: ['a']\n",
            "hook:\n  files: x\n    needs: ['a']\n",
        ],
    );
}

#[test]
fn a_sign_belongs_to_the_word_beside_it() {
    assert_conflict(
        "a.cpp",
        [
            "if (declaration == base->name()->declaration())\n",
            "if (declaration == &base->name()->declaration())\n",
            "if (declaration == base)\n",
        ],
    );
}

#[test]
fn a_line_that_was_moved_is_not_removed() {
    // Ours removes a line of a function that theirs moves to the end.
    let text = |first: &str, last: &str| format!("top\n{first}\tgo();\nend\nrest\nmore\n{last}");
    let function = "f.chunks = function chunks() {\n\tvar one = 1;\n\tvar two = 2;\n";
    let base = text(function, "");
    let ours = base.replace("\tvar two = 2;\n", "");
    let theirs = text("f.modules = function chunks() {\n", function);
    assert_conflict("a.js", [&base, &ours, &theirs]);
}

#[test]
fn a_word_is_not_put_into_a_line_that_was_commented_out() {
    let signs = [
        "// ", "# ", "/* ", "-- ", "--", "; ", ";; ", "% ", "%", "''' ", "\"\"\" ",
    ];
    for sign in signs {
        for indent in ["", "    "] {
            let [base, commented, edited] = [("", "fourth"), (sign, "fourth"), ("", "4")]
                .map(|(sign, last)| format!("{indent}{sign}call(first, second, third, {last})\n"));
            assert_conflict("a.x", [&base, &commented, &edited]);
            // Nor into one that is none any more.
            let still = format!("{indent}{sign}call(first, second, third, 4)\n");
            assert_conflict("a.x", [&commented, &base, &still]);
        }
    }
    // A comment over several lines, which begins and ends with the same sign.
    assert_conflict(
        "a.py",
        [
            "first(one)\nsecond(two, words, here, now)\n",
            "'''first(one)\nsecond(two, words, here, now)\n",
            "first(one)\nsecond(two, words, there, now)\n",
        ],
    );
    // A comment over several lines.
    assert_conflict(
        "a.html",
        [
            "<p>one</p>\n<p>two words here now</p>\n",
            "<!-- <p>one</p>\n<p>two words here now</p> -->\n",
            "<p>one</p>\n<p>two words there now</p>\n",
        ],
    );
}

#[test]
fn what_is_a_comment_at_the_start_of_a_line_is_none_elsewhere() {
    for (base, ours, theirs, both) in [
        (
            "for i in 0 to count do step; i = next",
            "for i in 0 to count do step; i--; i = next",
            "for k in 0 to count do step; i = next",
            "for k in 0 to count do step; i--; i = next",
        ),
        (
            "    run --quiet all of the things",
            "    run --quiet --force all of the things",
            "    run --quiet all of the other things",
            "    run --quiet --force all of the other things",
        ),
        (
            "    build the first target now",
            "    --release build the first target now",
            "    build the first target later",
            "    --release build the first target later",
        ),
        (
            "total = first plus second minus third",
            "total = first plus second minus third;",
            "sum = first plus second minus third",
            "sum = first plus second minus third;",
        ),
        (
            "rest = (first + second) + third",
            "rest = (first + second) + third % 7",
            "left = (first + second) + third",
            "left = (first + second) + third % 7",
        ),
    ] {
        let [base, ours, theirs, both] = [base, ours, theirs, both].map(|line| format!("{line}\n"));
        assert_clean("a.x", [&base, &ours, &theirs], &both);
    }
}

#[test]
fn a_word_is_not_put_into_a_line_that_became_several() {
    assert_conflict(
        "a.rs",
        [
            "let result = chain.process(block, wanted, third);\n",
            "let result = chain\n    .process(extra, block, wanted, third);\n",
            "let result = chain.process(block, wanted, None);\n",
        ],
    );
}

#[test]
fn a_word_is_not_put_into_a_line_of_which_most_was_replaced() {
    assert_conflict(
        "a.txt",
        [
            "alpha beta gamma delta epsilon zeta\n",
            "one two three four epsilon zeta\n",
            "alpha beta gamma delta epsilon omega\n",
        ],
    );
    // Less than half is no such thing.
    assert_clean(
        "a.txt",
        [
            "the first word of a line that is short\n",
            "the last word of a line that is short\n",
            "the first word of a line that is very short\n",
        ],
        "the last word of a line that is very short\n",
    );
}

#[test]
fn a_word_is_not_put_into_one_of_two_lines_that_could_be_meant() {
    assert_conflict(
        "lib.rs",
        [
            "mod a;\nmod observed_blocks;\nmod z;\n",
            "mod a;\nmod observed_blobs;\nmod observed_blocks;\nmod z;\n",
            "mod a;\npub mod observed_blocks;\nmod z;\n",
        ],
    );
}

#[test]
fn a_block_around_the_other_sides_lines_is_not_more_of_the_same() {
    assert_conflict(
        "a.c",
        ["a();\n", "a();\nb();\n", "a();\nif (x) {\nb();\n}\n"],
    );
    assert_clean(
        "a.c",
        ["a();\n", "a();\nb();\n", "a();\nb();\nif (x) {\nc();\n}\n"],
        "a();\nb();\nif (x) {\nc();\n}\n",
    );
}

#[test]
fn a_block_is_not_closed_twice() {
    // Both open the block, at different words of a line; that both close it is clean by line.
    let text = |first: &str, last: &str| format!("{first}\n1\n2\n3\n4\n5\n{last}end\n");
    let base = text("if one two three four five", "");
    let ours = text("if one two three four five {", "}\n");
    let theirs = text("if { one two three four five", "}\n");
    assert_conflict("a.x", [&base, &ours, &theirs]);
}

#[test]
fn hunks_of_one_file_are_not_decided_for_opposite_sides() {
    let middle = "1\n2\n3\n4\n5\n";
    let text = |first: &str, second: &str| format!("a\n{first}{middle}z\n{second}end\n");
    let base = text("", "");
    let ours = text("new b\nnew c\n", "other d\n");
    let theirs = text("new b\n", "other d\nother e\n");
    assert_conflict("a.txt", [&base, &ours, &theirs]);
    // Both for the same side.
    let ours = text("new b\nnew c\n", "other d\nother e\n");
    let theirs = text("new b\n", "other d\n");
    assert_clean("a.txt", [&base, &ours, &theirs], &ours);
}
