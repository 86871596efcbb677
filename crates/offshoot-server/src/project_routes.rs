//! The routes of projects, forks, merges, reviews and agents.

use crate::handlers::{agents, forks, links, merges, project_files, projects, reviews};
use crate::route::{BYTES, Kind, Route, delete, get, post, put};
use offshoot_wire as wire;

/// The groups with their names.
pub(crate) fn groups() -> Vec<(&'static str, Vec<Route>)> {
    vec![
        ("projects", project_routes()),
        ("projects", content_routes()),
        ("forks", fork_routes()),
        ("merges", merge_routes()),
        ("merges", review_routes()),
        ("agents", agent_routes()),
    ]
}

fn of(rest: &str) -> String {
    format!("/projects/{{project}}{rest}")
}

fn project_routes() -> Vec<Route> {
    vec![
        post("/projects", "Create a project", projects::create)
            .takes::<wire::NewProject>()
            .gives::<wire::NewlyMade>()
            .creates(),
        get("/projects", "List projects", projects::list)
            .gives::<wire::Projects>()
            .paged(Kind::Id),
        get(
            "/overview",
            "The projects in reach and their open forks beside each other",
            projects::overview,
        )
        .gives::<wire::Overview>()
        .query("project", Kind::Id, "Only this project"),
        get(&of(""), "Show a project", projects::show).gives::<wire::ProjectDetails>(),
        delete(
            &of(""),
            "Delete a project that has no open forks; its last snapshot is kept",
            projects::delete,
        )
        .gives::<wire::DeletedProject>(),
        get(
            &of("/policy"),
            "How merges into a project are decided",
            projects::policy,
        )
        .gives::<wire::MergeSettings>(),
        put(
            &of("/policy"),
            "Set how merges into a project are decided",
            projects::set_policy,
        )
        .takes::<wire::PolicyRequest>()
        .gives::<wire::MergeSettings>(),
        post(
            &of("/sync"),
            "Bring a project to what a directory of the server's machine holds, by one snapshot",
            projects::sync,
        )
        .takes::<wire::SyncRequest>()
        .gives::<wire::ProjectSynced>(),
        get(
            &of("/link"),
            "The repository that a project is linked to, and how far the two are apart",
            links::show,
        )
        .gives::<wire::Link>(),
        post(
            &of("/pull"),
            "Bring the new commits of the linked repository into a project",
            links::pull,
        )
        .takes::<wire::PullRequest>()
        .gives::<wire::Pulled>(),
        post(
            &of("/push"),
            "Give what was merged back to the linked repository, as a branch",
            links::push,
        )
        .takes::<wire::PushRequest>()
        .gives::<wire::Pushed>(),
        post(
            &of("/import"),
            "Unpack an archive (zip, tar or tar.gz) into a project, as one snapshot",
            projects::import,
        )
        .takes_raw(&[BYTES])
        .gives::<wire::ProjectImported>()
        .query("path", Kind::Path, "Into this directory"),
    ]
}

fn content_routes() -> Vec<Route> {
    vec![
        get(
            &of("/snapshots"),
            "List snapshots, newest first",
            projects::snapshots,
        )
        .gives::<wire::Snapshots>()
        .paged(Kind::Snapshot),
        get(
            &of("/tree"),
            "The directories of a project, nested",
            projects::tree,
        )
        .gives::<wire::DirNode>()
        .at_snapshot(),
        get(&of("/list"), "List a directory", projects::entries)
            .gives::<wire::ProjectEntries>()
            .at_snapshot()
            .query(
                "path",
                Kind::Path,
                "The directory; without it the whole project's",
            )
            .query("deep", Kind::Flag, "With everything below it"),
        get(
            &of("/files/{path}"),
            "Read a file of a project",
            project_files::read,
        )
        .serves_file(),
        put(
            &of("/files/{path}"),
            "A person's edit of one file: one new snapshot",
            project_files::write,
        )
        .takes_file()
        .gives::<wire::Snapshot>(),
        get(
            &of("/versions/{path}"),
            "Every version of a file, newest first",
            project_files::versions,
        )
        .gives::<wire::Versions>(),
        get(
            &of("/diff"),
            "What differs between two snapshots of a project",
            project_files::diff,
        )
        .gives::<wire::Difference>()
        .query(
            "from",
            Kind::Snapshot,
            "A snapshot; without it the one before `to`",
        )
        .query("to", Kind::Snapshot, "A snapshot; without it the newest")
        .query("path", Kind::Path, "Only below this path")
        .query("name_only", Kind::Flag, "Without the lines"),
        get(
            &of("/blame/{path}"),
            "Who wrote each line of a file",
            project_files::blame,
        )
        .gives::<wire::Blame>()
        .at_snapshot(),
    ]
}

fn fork_routes() -> Vec<Route> {
    vec![
        post(&of("/workspaces"), "Fork a project", forks::create)
            .takes::<wire::NewFork>()
            .gives::<wire::ForkOrForks>()
            .creates(),
        get(
            &of("/workspaces"),
            "The open forks of a project",
            forks::list,
        )
        .gives::<wire::Forks>()
        .paged(Kind::Id),
        get(
            &of("/path"),
            "The directory of the fork that an agent has of a project",
            forks::path,
        )
        .gives::<wire::HostPath>()
        .query("agent_id", Kind::Id, "The agent"),
    ]
}

fn merge_routes() -> Vec<Route> {
    vec![
        get(
            &of("/merges"),
            "The merges into a project, newest first",
            merges::list,
        )
        .gives::<wire::Merges>()
        .paged(Kind::Text),
        get(
            "/merges",
            "The merges into all projects in reach, newest first",
            merges::list_all,
        )
        .gives::<wire::Merges>()
        .query("project", Kind::Id, "Only into this project")
        .paged(Kind::Text),
        get("/merges/{merge}", "What came of a merge", merges::show).gives::<wire::Merge>(),
        post(
            "/merges/{merge}/undo",
            "Take a merge out again, as a new snapshot; what was changed since stays",
            merges::undo,
        )
        .gives::<wire::Undone>(),
        get(
            &of("/reviews"),
            "The conflicts that wait for a decision",
            reviews::list,
        )
        .gives::<wire::Reviews>()
        .query("all", Kind::Flag, "Also those that are resolved")
        .paged(Kind::Text),
        post(
            "/merges/{merge}/take",
            "Bring back what lost at a path when a policy decided it, as a new snapshot",
            merges::take,
        )
        .takes::<wire::TakeRequest>()
        .gives::<wire::TakenBack>(),
        post(
            "/merge",
            "Merge three texts, as a merge would; nothing is stored",
            merges::texts,
        )
        .takes::<wire::MergeTextsRequest>()
        .gives::<wire::MergedTexts>(),
    ]
}

fn review_routes() -> Vec<Route> {
    vec![
        get(
            "/reviews",
            "The conflicts that wait for a decision, of all projects in reach",
            reviews::list_all,
        )
        .gives::<wire::Reviews>()
        .query(
            "state",
            Kind::Words(&["open", "decided", "resolved", "all"]),
            "Only of this state; without it all that are not resolved",
        )
        .query("project", Kind::Id, "Only of this project")
        .query("workspace", Kind::Id, "Only of changes of this workspace")
        .query("agent", Kind::Id, "Only of changes of this agent")
        .query("path", Kind::Text, "Only of paths like this, such as `docs/**`")
        .query("kind", Kind::Text, "Only of this kind, such as `both_changed`")
        .paged(Kind::Text),
        post(
            "/reviews/resolve",
            "Decide many conflicts alike: those that are named, or those that a rule fits",
            reviews::resolve_many,
        )
        .takes::<wire::ResolveManyRequest>()
        .gives::<wire::ManyResolved>(),
        get(
            "/reviews/{review}/content",
            "The texts of a conflict and its parts, as they are now",
            reviews::content,
        )
        .gives::<wire::ReviewContent>(),
        get(
            "/reviews/{review}/sides/{side}",
            "One text of a conflict as it is: `base`, `ours`, `theirs`, `merged` or the number of a candidate",
            reviews::side,
        )
        .serves_content(),
        get(
            "/reviews/{review}",
            "A conflict with what each side did",
            reviews::show,
        )
        .gives::<wire::Review>(),
        post(
            "/reviews/{review}/candidates",
            "Propose a resolution; nothing is decided by it",
            reviews::propose,
        )
        .takes::<wire::NewCandidate>()
        .gives::<wire::Review>()
        .status(201),
        post(
            "/reviews/{review}/resolve",
            "Decide a conflict; the project gets it as a new snapshot",
            reviews::resolve,
        )
        .takes::<wire::ResolveRequest>()
        .gives::<wire::Resolved>(),
    ]
}

fn agent_routes() -> Vec<Route> {
    vec![
        post(
            "/agents",
            "Let an agent come into being, with a token of its own",
            agents::spawn,
        )
        .takes::<wire::NewAgent>()
        .gives::<wire::SpawnedAgent>()
        .creates(),
        get("/agents", "The tree of agents", agents::list).gives::<wire::Agents>(),
        delete(
            "/agents/{agent}",
            "Remove an agent from the tree; its workspace and the agents below it stay",
            agents::end,
        )
        .gives::<wire::AgentEnded>(),
    ]
}
