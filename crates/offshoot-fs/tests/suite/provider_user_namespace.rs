//! Overlay forks without root: in a user namespace, with metadata in `user` attributes.

use std::process::Command;

use offshoot_fs::{CopyUp, OverlayProvider, OverlayXattrs, Provider, conformance};
use offshoot_testkit::{scratch, skip};

/// The variable that tells the child that it is in the namespace.
const INSIDE: &str = "OFFSHOOT_TEST_IN_USER_NAMESPACE";

/// This program again, in new user and mount namespaces, running the test below only.
fn run_inside(test: &str) -> std::io::Result<std::process::Output> {
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .arg(std::env::current_exe()?)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
}

#[test]
fn overlay_in_a_user_namespace() {
    let possible = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "true"])
        .output();
    if !possible.is_ok_and(|output| output.status.success()) {
        return skip("user namespaces are not allowed here");
    }
    let output = run_inside("provider_user_namespace::inside_the_namespace").unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("1 passed"), "{text}{errors}");
    assert!(errors.contains("ran inside"), "{text}{errors}");
}

/// The body of the test above; by itself it has nothing to do.
#[test]
#[allow(clippy::print_stderr, reason = "the parent looks for it")]
fn inside_the_namespace() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    assert_eq!(OverlayXattrs::best(), OverlayXattrs::User);
    let provider = OverlayProvider::new(CopyUp::WholeFile);
    assert!(!provider.capabilities().needs_root);
    assert!(!provider.capabilities().renames_base_dirs);
    let dir = scratch();
    conformance::provider(&provider, dir.path());
    eprintln!("ran inside");
}
