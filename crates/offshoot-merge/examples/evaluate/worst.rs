//! Times the merge of made-up files of 1 MiB that are as hard as we could think of.

use offshoot_merge::{FileMerge, MergeFileOptions, merge_file};

const SIZE: usize = 1 << 20;
const ROUNDS: usize = 5;

/// A name, a path, and the three sides.
type Case = (&'static str, &'static str, [String; 3]);

pub(crate) fn run() {
    println!("| case of 1 MiB | outcome | least CPU ms | most |\n|---|---|---|---|");
    for (name, path, sides) in cases() {
        let mut times: Vec<f64> = Vec::new();
        let mut outcome = "";
        for _ in 0..ROUNDS {
            let [base, ours, theirs] = sides.each_ref().map(String::as_bytes);
            let options = MergeFileOptions::default();
            let start = cpu_ms();
            let merge = merge_file(path.as_bytes(), base, ours, theirs, &options);
            times.push(cpu_ms() - start);
            outcome = match merge {
                FileMerge::Clean { .. } => "clean",
                FileMerge::Conflict { .. } => "conflict",
            };
        }
        times.sort_unstable_by(f64::total_cmp);
        let (best, worst) = (times[0], times[ROUNDS - 1]);
        println!("| {name} | {outcome} | {best:.1} | {worst:.1} |");
    }
}

/// The time that this thread had a processor: the machine may be busy with other things.
fn cpu_ms() -> f64 {
    // Giving the processor away brings the kernel's count up to date.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos: f64 = text.split(' ').next().unwrap().parse().unwrap();
    nanos / 1e6
}

fn cases() -> Vec<Case> {
    let line = |side: usize, at: usize| format!("    let value_{at} = call_{side}({at}, other);\n");
    let word = |side: usize, at: usize| format!("word{}_{side} ", at % 5000);
    let repeated = |side: usize, at: usize| match (side, at % 97) {
        (1, 13) => "    ours();\n".to_owned(),
        (2, 15) => "    theirs();\n".to_owned(),
        _ => ["}\n", "\n", "    end\n"][at % 3].to_owned(),
    };
    let same_but = |every: usize, shift: usize| {
        move |side: usize, at: usize| {
            let changed = side > 0 && at % every == shift * (side - 1);
            line(if changed { side } else { 0 }, at)
        }
    };
    let member = |side: usize, at: usize| {
        let changed = side > 0 && at % 50 == side;
        format!("\"k{at}\":{},", if changed { side } else { 0 })
    };
    let element = |side: usize, at: usize| match (side, at % 1000) {
        (1, 3) => "-1,".to_owned(),
        (2, 5) => "-2,7,".to_owned(),
        _ => format!("{},", at % 700),
    };
    let changed_word = |side: usize, at: usize| {
        let changed = side > 0 && at % 100 == 40 * side;
        word(if changed { side } else { 0 }, at)
    };
    let entry = |side: usize, at: usize| {
        let nested = "[".repeat(100) + &"]".repeat(100);
        let changed = side > 0 && at % 20 == side;
        format!(
            "\"k{at}\":{{\"n\":{nested},\"v\":{}}},\n",
            if changed { side } else { 0 }
        )
    };
    let deep = |side: usize| {
        let half = SIZE / 2 - 8;
        format!("{}{side}{}", "[".repeat(half), "]".repeat(half))
    };
    let wrap = |[base, ours, theirs]: [String; 3], open: &str, close: &str| {
        [base, ours, theirs].map(|side| format!("{open}{side}\"end\":0{close}"))
    };
    let list =
        |[base, ours, theirs]: [String; 3]| [base, ours, theirs].map(|side| format!("[{side}0]"));
    vec![
        (
            "one line, a word in a hundred changed",
            "a.txt",
            fill(changed_word),
        ),
        ("one line, all words changed", "a.txt", fill(word)),
        ("all lines changed", "a.txt", fill(line)),
        (
            "every fourth line, other lines",
            "a.txt",
            fill(same_but(4, 2)),
        ),
        ("every second line, both", "a.txt", fill(same_but(2, 0))),
        ("lines that repeat, some changed", "a.txt", fill(repeated)),
        (
            "JSON, tiny members in one line",
            "a.json",
            wrap(fill(member), "{", "}"),
        ),
        (
            "JSON, elements inserted in one line",
            "a.json",
            list(fill(element)),
        ),
        (
            "JSON, members with 100 levels each",
            "a.json",
            wrap(fill(entry), "{", "}"),
        ),
        ("JSON, half a million levels", "a.json", [0, 1, 2].map(deep)),
        ("the same as text", "a.txt", [0, 1, 2].map(deep)),
    ]
}

/// Three sides of 1 MiB from what `piece` gives for a side and a place.
fn fill(piece: impl Fn(usize, usize) -> String) -> [String; 3] {
    [0, 1, 2].map(|side| {
        let mut text = String::with_capacity(SIZE + 200);
        let mut at = 0;
        while text.len() < SIZE {
            text.push_str(&piece(side, at));
            at += 1;
        }
        text
    })
}
