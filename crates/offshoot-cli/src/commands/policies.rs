//! `offshoot project policy`: how merges into a project are decided.

use clap::{Args, ValueEnum};
use offshoot_core::{Error, ProjectId, Result};
use offshoot_engine::{Landing, PathPolicy};

use super::Context;
use crate::output::{Align, CommandResult, Exit, printable};
use offshoot_wire as wire;

/// `project policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// The project
    #[arg(value_name = "NAME")]
    project: String,
    /// Decide conflicts in the paths of a pattern so; the first pattern that matches holds.
    /// Policies: `review`, `last-writer-wins`, `priority`, `ours`, `theirs`, `union`
    #[arg(long, value_name = "PATTERN=POLICY")]
    set: Vec<String>,
    /// Forget all patterns of policies first; protected paths stay protected
    #[arg(long)]
    clear: bool,
    /// Let every change of the paths of a pattern wait for you, also where it fits and whatever
    /// policy a merge is asked for with; a directory means all that is in it
    #[arg(long, value_name = "PATTERN")]
    protect: Vec<String>,
    /// Protect a pattern no longer
    #[arg(long, value_name = "PATTERN")]
    unprotect: Vec<String>,
    /// What lands when a merge has conflicts
    #[arg(long, value_enum)]
    landing: Option<LandingName>,
    /// Whether merges take ignored files too
    #[arg(long, value_enum)]
    include_ignored: Option<YesNo>,
}

/// The ways to land by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LandingName {
    /// What does not conflict lands at once
    Partial,
    /// Nothing lands until every conflict is decided
    Atomic,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    /// Yes
    Yes,
    /// No
    No,
}

/// Shows the policies, after changing them if that was asked for.
pub(super) fn policy(cx: &mut Context<'_>, args: &PolicyArgs) -> CommandResult {
    let project: ProjectId = args.project.parse()?;
    let before = cx.engine.projects.merge_settings(&project)?;
    let mut settings = before.clone();
    if args.clear {
        settings.policies.clear();
    }
    for pattern in &args.unprotect {
        if !settings.protect.contains(pattern) {
            return Err(Error::invalid(format!(
                "`{}` is no protected pattern of `{project}`",
                pattern.escape_debug()
            ))
            .with_hint(format!("`offshoot project policy {project}` lists them"))
            .into());
        }
        settings.protect.retain(|one| one != pattern);
    }
    let as_policy = args
        .set
        .iter()
        .filter_map(|typed| typed.strip_suffix("=protect"));
    for pattern in args.protect.iter().map(String::as_str).chain(as_policy) {
        if !settings.protect.iter().any(|known| known == pattern) {
            settings.protect.push(pattern.to_owned());
        }
    }
    for typed in args.set.iter().filter(|typed| !typed.ends_with("=protect")) {
        let new = pattern_and_policy(typed)?;
        match settings
            .policies
            .iter_mut()
            .find(|one| one.path == new.path)
        {
            Some(known) => known.policy = new.policy,
            None => settings.policies.push(new),
        }
    }
    match args.landing {
        Some(LandingName::Partial) => settings.landing = Landing::Partial,
        Some(LandingName::Atomic) => settings.landing = Landing::Atomic,
        None => {}
    }
    if let Some(answer) = args.include_ignored {
        settings.include_ignored = answer == YesNo::Yes;
    }
    if settings != before {
        cx.engine
            .projects
            .set_merge_settings(&project, &settings, &cx.cause)?;
    }
    if cx.output.json() {
        cx.output
            .document(&wire::MergeSettings::new(&project, &settings))?;
        return Ok(Exit::Done);
    }
    let landing = match settings.landing {
        Landing::Partial => "partial: what does not conflict lands at once",
        Landing::Atomic => "atomic: nothing lands until every conflict is decided",
    };
    let ignored = if settings.include_ignored {
        "yes"
    } else {
        "no"
    };
    cx.output.line(format_args!(
        "landing          {landing}\ninclude ignored  {ignored}"
    ))?;
    // What is protected comes first, for no policy goes before it.
    let protected = settings.protect.iter();
    let mut rows: Vec<Vec<String>> = protected
        .map(|pattern| vec![printable(pattern), "protect".to_owned()])
        .collect();
    let policies = settings.policies.iter();
    rows.extend(policies.map(|one| vec![printable(&one.path), one.policy.as_str().to_owned()]));
    rows.push(vec!["everything else".to_owned(), "review".to_owned()]);
    cx.output
        .table(&[("PATTERN", Align::Left), ("POLICY", Align::Left)], &rows)?;
    Ok(Exit::Done)
}

/// The last `=` divides, for a pattern may hold one.
fn pattern_and_policy(typed: &str) -> Result<PathPolicy> {
    let (path, policy) = typed.rsplit_once('=').ok_or_else(|| {
        Error::invalid(format!("`{}` names no policy", typed.escape_debug()))
            .with_hint("write it as `PATTERN=POLICY`, such as `*.lock=theirs`")
    })?;
    Ok(PathPolicy {
        path: path.to_owned(),
        policy: policy.parse()?,
    })
}
