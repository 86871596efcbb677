//! Rules for manifests: which package may use which, and which packages may use an outside library.

use super::Finding;
use super::repository::Repository;

/// What each package may depend on. Downwards only; the siblings exec, fs, store, git and merge do
/// not know each other, and the engine composes them.
const MAY_USE: [(&str, &[&str]); 14] = [
    (
        "offshoot-cli",
        &[
            "bench", "server", "agent", "wire", "engine", "merge", "sys", "core",
        ],
    ),
    ("offshoot-bench", &["server", "engine", "sys", "core"]),
    ("offshoot-server", &["agent", "wire", "engine", "core"]),
    ("offshoot-agent", &["wire", "engine", "core"]),
    ("offshoot-wire", &["engine", "core"]),
    (
        "offshoot-engine",
        &["exec", "fs", "store", "git", "merge", "sys", "core"],
    ),
    ("offshoot-exec", &["sys", "core"]),
    ("offshoot-fs", &["sys", "core"]),
    ("offshoot-store", &["core"]),
    ("offshoot-git", &["core"]),
    ("offshoot-merge", &["core"]),
    ("offshoot-testkit", &["sys", "core"]),
    ("offshoot-sys", &["core"]),
    ("offshoot-core", &[]),
];

/// For the tests of every package, and never part of the product.
const TESTKIT: &str = "offshoot-testkit";

/// Outside libraries, by the beginning of their names, and the packages that may use them.
const LIBRARY_USERS: [(&str, &[&str]); 9] = [
    ("rusqlite", &["offshoot-store"]),
    ("libsqlite3-sys", &["offshoot-store"]),
    ("gix-", &["offshoot-git"]),
    ("imara-diff", &["offshoot-merge", "offshoot-wire"]),
    ("axum", &["offshoot-server"]),
    ("hyper", &["offshoot-server"]),
    ("notify", &["offshoot-server"]),
    ("rmcp", &["offshoot-server"]),
    ("libc", &["offshoot-sys"]),
];

/// One line of a manifest that names a dependency.
#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    name: String,
    line: usize,
    for_tests: bool,
}

/// A package knows only what is below it.
pub(super) fn dependencies_point_downwards(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, path, manifest) in repository.packages() {
        let allowed = MAY_USE
            .iter()
            .find(|(name, _)| *name == package)
            .map(|(_, known)| *known);
        for dependency in dependencies(manifest) {
            let Some(short) = dependency.name.strip_prefix("offshoot-") else {
                continue;
            };
            let message = match allowed {
                // A package names itself to switch a feature on for its own tests.
                _ if dependency.name == package && dependency.for_tests => continue,
                _ if dependency.name == TESTKIT && dependency.for_tests => continue,
                _ if dependency.name == TESTKIT => {
                    format!("{TESTKIT} may only be a dev-dependency")
                }
                Some(known) if known.contains(&short) => continue,
                Some(_) => format!("{package} must not depend on {}", dependency.name),
                None => format!("{package} has no line in the table of `xtask/src/tidy/crates.rs`"),
            };
            findings.push(Finding::error(path, dependency.line, message));
        }
    }
    findings
}

/// One package knows each outside thing.
pub(super) fn outside_libraries_have_one_owner(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, path, manifest) in repository.packages() {
        for dependency in dependencies(manifest) {
            let name = dependency.name.as_str();
            let owned = LIBRARY_USERS.iter().find(|(prefix, _)| {
                // A beginning that ends with a dash stands for a family of crates.
                name == *prefix || (prefix.ends_with('-') && name.starts_with(prefix))
            });
            if let Some((_, owners)) = owned
                && !owners.contains(&package)
            {
                let message = format!("only {} may depend on {name}", owners.join(" and "));
                findings.push(Finding::error(path, dependency.line, message));
            }
        }
    }
    findings
}

/// The strict lints hold everywhere.
pub(super) fn lints_are_inherited(repository: &Repository) -> Vec<Finding> {
    let lax = repository.packages().filter(|(_, _, manifest)| {
        let mut lines = manifest
            .lines()
            .map(str::trim)
            .skip_while(|line| *line != "[lints]");
        lines.nth(1) != Some("workspace = true")
    });
    let message = "`[lints]` must say `workspace = true`";
    lax.map(|(_, path, _)| Finding::error(path, 0, message))
        .collect()
}

/// Reads the dependency tables of a manifest, in the forms that people write them.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    // Whether the lines are dependencies, and if so, whether only of tests.
    let mut table: Option<bool> = None;
    for (number, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let mut add = |name: &str, for_tests| {
            let name = name.trim().trim_matches('"').to_owned();
            found.push(Dependency {
                name,
                line: number + 1,
                for_tests,
            });
        };
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            // `[target.'cfg(unix)'.dependencies]` and `[dependencies.name]` are tables as well.
            table = None;
            for (word, for_tests) in [
                ("dev-dependencies", true),
                ("build-dependencies", false),
                ("dependencies", false),
            ] {
                if header == word || header.ends_with(&format!(".{word}")) {
                    table = Some(for_tests);
                    break;
                }
                if let Some((before, name)) = header.split_once(&format!("{word}."))
                    && (before.is_empty() || before.ends_with('.'))
                {
                    add(name, for_tests);
                    break;
                }
            }
        } else if let Some(for_tests) = table
            && !line.starts_with('#')
            && let Some((key, _)) = line.split_once('=')
        {
            add(key.split('.').next().unwrap_or(key), for_tests);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: super::super::Check, package: &str, manifest: &str) -> Vec<String> {
        let path = format!("crates/{package}/Cargo.toml");
        let findings = check(&Repository::of(&[(path.as_str(), manifest)]));
        findings
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn every_form_of_a_dependency_is_read() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n# b = \"1\"\n\
                        c = { version = \"1\" }\n[dependencies.d]\nversion = \"1\"\n\
                        [dev-dependencies]\ne = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\nf = \"1\"\n[build-dependencies]\ng = \"1\"\n\
                        [dev-dependencies.h]\n[features]\ni = []\n";
        let found: Vec<_> = dependencies(manifest)
            .into_iter()
            .map(|dependency| (dependency.name, dependency.for_tests))
            .collect();
        let expected = [
            ("a", false),
            ("c", false),
            ("d", false),
            ("e", true),
            ("f", false),
            ("g", false),
            ("h", true),
        ];
        assert_eq!(
            found,
            expected.map(|(name, for_tests)| (name.to_owned(), for_tests))
        );
    }

    #[test]
    fn upward_and_sideward_dependencies_are_found() {
        let check = dependencies_point_downwards;
        let on = |name: &str| format!("[dependencies]\n{name}.workspace = true\n");
        assert!(messages(check, "offshoot-cli", &on("offshoot-engine")).is_empty());
        assert_eq!(
            messages(check, "offshoot-fs", &on("offshoot-store")),
            ["offshoot-fs must not depend on offshoot-store"]
        );
        assert_eq!(
            messages(check, "offshoot-core", &on("offshoot-engine")).len(),
            1
        );
        assert_eq!(
            messages(check, "offshoot-new", &on("offshoot-core")).len(),
            1
        );
    }

    #[test]
    fn the_testkit_is_only_for_tests() {
        let check = dependencies_point_downwards;
        let manifest = "[dev-dependencies]\noffshoot-testkit.workspace = true\n";
        assert!(messages(check, "offshoot-merge", manifest).is_empty());
        let manifest = "[dependencies]\noffshoot-testkit.workspace = true\n";
        assert_eq!(messages(check, "offshoot-cli", manifest).len(), 1);
    }

    #[test]
    fn outside_libraries_are_found_where_they_do_not_belong() {
        let check = outside_libraries_have_one_owner;
        let manifest = "[dependencies]\nrusqlite = \"1\"\ngix-hash = \"1\"\nimara-diff = \"1\"\n";
        let count = |package| messages(check, package, manifest).len();
        assert_eq!(count("offshoot-store"), 2);
        assert_eq!(count("offshoot-git"), 2);
        assert_eq!(count("offshoot-merge"), 2);
        assert_eq!(count("offshoot-engine"), 3);
    }

    #[test]
    fn lints_must_be_inherited() {
        let check = lints_are_inherited;
        assert!(messages(check, "offshoot-fs", "[lints]\nworkspace = true\n").is_empty());
        assert_eq!(
            messages(check, "offshoot-fs", "[package]\nname = \"x\"\n").len(),
            1
        );
        assert_eq!(
            messages(check, "offshoot-fs", "[lints]\nrust.x = \"allow\"\n").len(),
            1
        );
    }
}
