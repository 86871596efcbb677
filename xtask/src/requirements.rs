//! What a machine needs before the tests can run, and how it gets it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, shell};

/// How to see that a package is there.
#[derive(Clone, Copy)]
enum Sign {
    /// A program that it brings.
    Program(&'static str),
    /// A file that it brings.
    File(&'static str),
}

impl Sign {
    fn is_there(self) -> bool {
        match self {
            Self::Program(name) => shell::find_program(name).is_some(),
            Self::File(path) => Path::new(path).exists(),
        }
    }
}

/// A Debian package that the build or the tests need.
struct Package {
    name: &'static str,
    sign: Sign,
    reason: &'static str,
}

/// Every package, in one place. A machine that has the sign has the package, however it got it.
#[rustfmt::skip]
const PACKAGES: [Package; 13] = [
    package("gcc", Sign::Program("cc"), "compiles SQLite and zstd, links everything"),
    package("libc6-dev", Sign::File("/usr/include/stdio.h"), "headers for the above"),
    package("git", Sign::Program("git"), "the oracle for trees, merges and exports"),
    package("curl", Sign::Program("curl"), "the documents show it, and a test types them"),
    package("e2fsprogs", Sign::Program("mkfs.ext4"), "ext4 images: power cuts, full disks"),
    package("mount", Sign::Program("losetup"), "loop devices and mounts of those images"),
    package("util-linux", Sign::Program("fsfreeze"), "copies an image at one instant"),
    package("btrfs-progs", Sign::Program("mkfs.btrfs"), "btrfs images: files that share extents"),
    package("docker.io", Sign::Program("dockerd"), "forks in a container of a real engine"),
    package("busybox-static", Sign::File("/bin/busybox"), "what runs in that container"),
    package("python3-pip", Sign::Program("pip3"), "a client that is generated in Python"),
    package("npm", Sign::Program("npm"), "the web UI, and a client that is generated in TypeScript"),
    package("xfsprogs", Sign::Program("mkfs.xfs"), "XFS images: files that share extents"),
];

const fn package(name: &'static str, sign: Sign, reason: &'static str) -> Package {
    Package { name, sign, reason }
}

/// The browser of the tests: what CHROMIUM names, or the one that is installed.
pub(crate) fn chromium() -> Option<PathBuf> {
    chromium_named(std::env::var_os("CHROMIUM"))
}

fn chromium_named(named: Option<OsString>) -> Option<PathBuf> {
    match named.filter(|name| !name.is_empty()) {
        Some(name) => Some(name.into()),
        None => shell::find_program("chromium"),
    }
}

/// The version of nextest that the configuration was written for.
const NEXTEST_VERSION: &str = "0.9.143";

/// What generates clients from the OpenAPI document, for the tests that use them.
const PYTHON_TOOLS: [&str; 1] = ["openapi-python-client==0.29.1"];
const NODE_TOOLS: [&str; 4] = [
    "openapi-typescript@7.13.0",
    "openapi-fetch@0.17.0",
    "typescript@5.9.3",
    "@types/node@20.19.43",
];

/// Installs what is missing, or says what to install.
pub(crate) fn provide(root: &Path) -> Outcome {
    provide_packages()?;
    provide_components(root)?;
    provide_nextest(root)?;
    provide_browser();
    provide_generators(root)
}

/// Installs the browser where that can be done. Where it cannot, the tests in it are skipped and
/// counted.
fn provide_browser() {
    if chromium().is_some() {
        return;
    }
    println!("missing: chromium (tests of the web UI in a browser)");
    if shell::find_program("apt-get").is_none() || !is_root() {
        println!("install it, or name it in CHROMIUM; the tests in a browser are skipped");
        return;
    }
    let install = ["install", "-y", "-q", "--no-install-recommends", "chromium"];
    let installed = shell::run(apt().args(["update", "-q"]));
    if let Err(error) = installed.and_then(|()| shell::run(apt().args(install))) {
        println!("{error}; the tests in a browser are skipped");
    }
}

fn is_root() -> bool {
    shell::output(Command::new("id").arg("-u")).is_some_and(|id| id == "0")
}

/// Puts the generators of clients below the target directory. Where they cannot be had, the tests
/// that need them are skipped and counted.
fn provide_generators(root: &Path) -> Outcome {
    let tools = root.join("target").join("tools");
    let python = tools.join("python");
    if !python.join("openapi_python_client").is_dir() {
        println!("missing: {} (generate a client)", PYTHON_TOOLS.join(" "));
        let mut pip = Command::new("pip3");
        pip.args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--target",
        ]);
        if let Err(error) = shell::run(pip.arg(&python).args(PYTHON_TOOLS)) {
            println!("{error}; the test of the generated Python client is skipped");
        }
    }
    let node = tools.join("npm");
    if !node.join("node_modules/openapi-typescript").is_dir() {
        println!("missing: {} (generate a client)", NODE_TOOLS.join(" "));
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
        if let Err(error) = shell::run(npm.arg(&node).args(NODE_TOOLS)) {
            println!("{error}; the test of the generated TypeScript client is skipped");
        }
    }
    Ok(())
}

fn provide_packages() -> Outcome {
    let missing: Vec<&Package> = PACKAGES
        .iter()
        .filter(|package| !package.sign.is_there())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        println!("missing: {} ({})", package.name, package.reason);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if shell::find_program("apt-get").is_none() {
        let names = names.join(" ");
        return Err(format!(
            "install what Debian calls: {names}; then run this again"
        ));
    }
    if !is_root() {
        let names = names.join(" ");
        return Err(format!(
            "packages are missing; run: sudo apt-get update && sudo apt-get install -y \
             --no-install-recommends {names}"
        ));
    }
    shell::run(apt().args(["update", "-q"]))?;
    shell::run(
        apt()
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(&names),
    )
}

/// An apt-get that asks nothing.
fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

/// rustfmt and clippy, which a minimal toolchain lacks.
fn provide_components(root: &Path) -> Outcome {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if shell::succeeds(shell::cargo(root).args([subcommand, "--version"])) {
            continue;
        }
        println!("missing: the toolchain component {component}");
        shell::run(
            Command::new("rustup")
                .current_dir(root)
                .args(["component", "add", component]),
        )
        .map_err(|error| format!("{error}; add {component} to your Rust toolchain by hand"))?;
    }
    Ok(())
}

fn provide_nextest(root: &Path) -> Outcome {
    if shell::succeeds(shell::cargo(root).args(["nextest", "--version"])) {
        return Ok(());
    }
    println!("missing: cargo-nextest (runs the tests); building it takes some minutes");
    // Its own speed does not matter beside the tests; the time to build it on a cold machine does.
    let install = [
        "install",
        "cargo-nextest",
        "--locked",
        "--version",
        NEXTEST_VERSION,
    ];
    shell::run(
        shell::cargo(root)
            .args(install)
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_RELEASE_LTO", "false"),
    )
    .map_err(|error| {
        format!(
            "{error}; install cargo-nextest by hand (a newer toolchain may be needed, or a \
             prebuilt binary from its project page) and run this again"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_listed_once_with_a_reason() {
        for (number, package) in PACKAGES.iter().enumerate() {
            assert!(!package.reason.is_empty());
            assert!(
                PACKAGES[..number]
                    .iter()
                    .all(|earlier| earlier.name != package.name)
            );
        }
    }

    #[test]
    fn the_browser_is_the_one_that_is_named_or_installed() {
        let named = chromium_named(Some("/opt/browser".into()));
        assert_eq!(named, Some(PathBuf::from("/opt/browser")));
        let installed = shell::find_program("chromium");
        assert_eq!(chromium_named(Some(OsString::new())), installed);
        assert_eq!(chromium_named(None), installed);
    }

    #[test]
    fn signs_are_looked_for() {
        assert!(Sign::Program("sh").is_there());
        assert!(!Sign::Program("no-such-program-here").is_there());
        assert!(Sign::File("/").is_there());
        assert!(!Sign::File("/no/such/file").is_there());
    }
}
