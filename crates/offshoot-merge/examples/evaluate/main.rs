//! Measures the merge on the merge commits of real repositories, with people's results as truth.
//!
//! `evaluate collect LIST REPO [MERGES]` writes the files that both sides of a merge commit
//! changed; `evaluate run REPO LIST …` merges each of them, here and with `git merge-file`;
//! `evaluate worst` times made-up files that are hard to merge.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a measuring tool"
)]

mod collect;
mod run;
mod worst;

use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["collect", list, repo, rest @ ..] => {
            let limit = rest
                .first()
                .map_or(usize::MAX, |limit| limit.parse().unwrap());
            let cases = collect::collect(Path::new(repo), limit);
            let lines: Vec<String> = cases
                .iter()
                .map(|case| {
                    [
                        &case.merge,
                        &case.base,
                        &case.ours,
                        &case.theirs,
                        &case.merged,
                        &case.path,
                    ]
                    .map(String::as_str)
                    .join("\t")
                })
                .collect();
            std::fs::write(list, lines.join("\n")).unwrap();
            println!("{}: {} files", repo, cases.len());
        }
        ["run", options_and_lists @ ..] => run::run(options_and_lists),
        ["worst"] => worst::run(),
        _ => println!(
            "usage: evaluate collect LIST REPO [MERGES] | run [--no-git] REPO LIST … | worst"
        ),
    }
}
