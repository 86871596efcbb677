//! `offshoot forks`: the forks of a project beside each other.

use offshoot_core::{ProjectId, RelPath};
use offshoot_engine::ForkOverview;

use super::Context;
use crate::output::{Align, CommandResult, Exit, printable, short, shown};
use offshoot_wire as wire;

/// Shows the forks.
pub(super) fn run(cx: &mut Context<'_>, project: Option<&str>) -> CommandResult {
    let project: Option<ProjectId> = match project {
        Some(typed) => Some(typed.parse()?),
        None => cx.project_here(),
    };
    let forks = cx.engine.merges.overview(project.as_ref(), true)?;
    if cx.output.json() {
        cx.output
            .document(&wire::ForkOverviews::from(forks.as_slice()))?;
        return Ok(Exit::Done);
    }
    if forks.is_empty() {
        cx.output
            .note("there are no forks; `offshoot fork PROJECT` makes one");
    }
    let rows: Vec<Vec<String>> = forks
        .iter()
        .map(|fork| {
            vec![
                fork.workspace.id.to_string(),
                fork.project.to_string(),
                agent(fork),
                short(&fork.base.to_hex()).to_owned(),
                fork.changed.to_string(),
                fork.behind.to_string(),
                fork.open_reviews.to_string(),
                provider(fork),
                overlap(fork),
            ]
        })
        .collect();
    cx.output.table(
        &[
            ("FORK", Align::Left),
            ("PROJECT", Align::Left),
            ("AGENT", Align::Left),
            ("BASE", Align::Left),
            ("CHANGES", Align::Right),
            ("BEHIND", Align::Right),
            ("REVIEWS", Align::Right),
            ("PROVIDER", Align::Left),
            ("OVERLAP", Align::Left),
        ],
        &rows,
    )?;
    for fork in &forks {
        if let Some(reason) = &fork.not_looked_at {
            cx.output.note(format_args!(
                "`{}` is shown as it was recorded: {}",
                fork.workspace.id,
                printable(reason)
            ));
        }
    }
    Ok(Exit::Done)
}

pub(super) fn agent(fork: &ForkOverview) -> String {
    let agent = fork.agent.as_ref();
    agent.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// The provider; a fork that has no directory yet has none.
pub(super) fn provider(fork: &ForkOverview) -> String {
    fork.provider.map_or("-", |name| name.as_str()).to_owned()
}

/// Who changed the same paths, and how many of them.
pub(super) fn overlap(fork: &ForkOverview) -> String {
    let mut others: Vec<String> = fork
        .overlap
        .iter()
        .map(|other| format!("{} ({})", other.fork, other.count()))
        .collect();
    if !fork.overlap_with_project.is_empty() {
        let number = fork.overlap_with_project.len() + fork.overlap_with_project_more;
        others.insert(0, format!("the project ({number})"));
    }
    match others.is_empty() {
        true => "-".to_owned(),
        false => others.join(", "),
    }
}

/// What `workspace show` has to say of a fork, beyond what every workspace has.
pub(super) fn fields(fork: &ForkOverview) -> Vec<(&'static str, String)> {
    let paths = |paths: &[RelPath], count: usize| {
        let shown: Vec<String> = paths.iter().take(SHOWN_PATHS).map(shown).collect();
        let more = match count.saturating_sub(SHOWN_PATHS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more}", shown.join(", "))
    };
    let mut rows = vec![
        ("project", fork.project.to_string()),
        ("agent", agent(fork)),
        ("base", short(&fork.base.to_hex()).to_owned()),
        ("changes", fork.changed.to_string()),
        ("behind", fork.behind.to_string()),
        ("open reviews", fork.open_reviews.to_string()),
        ("provider", provider(fork)),
    ];
    if !fork.overlap_with_project.is_empty() {
        let both = &fork.overlap_with_project;
        let paths = paths(both, both.len() + fork.overlap_with_project_more);
        rows.push(("overlap", format!("the project: {paths}")));
    }
    for other in &fork.overlap {
        rows.push((
            "overlap",
            format!("{}: {}", other.fork, paths(&other.paths, other.count())),
        ));
    }
    if fork.overlap.is_empty() && fork.overlap_with_project.is_empty() {
        rows.push(("overlap", "-".to_owned()));
    }
    rows
}

/// The most paths that are named for each fork that overlaps.
const SHOWN_PATHS: usize = 10;
