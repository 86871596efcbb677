//! Whatever a killed process leaves of a fork, it can be mounted again or removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use offshoot_core::RelPath;
use offshoot_fs::{
    CopyProvider, CopyUp, Difference, DifferenceKind, ForkDirs, LayerWriter, OverlayProvider,
    Provider, ProviderName,
};
use offshoot_testkit::{Process, Rng, is_root, scratch, skip, soak};

/// Tells the child which provider to use and where.
const PROVIDER: &str = "OFFSHOOT_TEST_PROVIDER";
const PLACE: &str = "OFFSHOOT_TEST_PLACE";

/// How many files the child changes.
const CHANGED: usize = 40;

fn provider(name: &str) -> Box<dyn Provider> {
    match name.parse().unwrap() {
        ProviderName::Overlay => Box::new(OverlayProvider::new(CopyUp::WholeFile)),
        _ => Box::new(CopyProvider),
    }
}

fn places(dir: &Path) -> (Vec<PathBuf>, ForkDirs) {
    let fork = ForkDirs::new(dir.join("private"), dir.join("target"));
    (vec![dir.join("layer")], fork)
}

/// The child: makes, changes, closes, mounts and removes a fork until it is killed.
#[test]
fn child_of_the_kill_tests() {
    let (Some(name), Some(place)) = (std::env::var_os(PROVIDER), std::env::var_os(PLACE)) else {
        return;
    };
    let provider = provider(name.to_str().unwrap());
    let (layers, fork) = places(Path::new(&place));
    let whole = Path::new(&place).join("whole");
    loop {
        provider.create(&layers, &fork).unwrap();
        for number in 1..=CHANGED {
            fs::write(fork.target.join(format!("f{number}")), "changed").unwrap();
        }
        fs::write(&whole, "").unwrap();
        provider.close(&fork).unwrap();
        provider.ensure(&layers, &fork).unwrap();
        provider.cleanup(&fork).unwrap();
        fs::remove_file(&whole).unwrap();
    }
}

/// Removes what a failed test leaves.
struct Cleanup<'a>(&'a dyn Provider, &'a ForkDirs);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let _ = self.0.cleanup(self.1);
    }
}

fn kill_rounds(name: &str) {
    let dir = scratch();
    let (layers, fork) = places(dir.path());
    let mut layer = LayerWriter::new(&layers[0]).unwrap();
    for number in 0..50 {
        let path = RelPath::parse(format!("f{number}").as_bytes()).unwrap();
        layer.file(&path, 0o644, &mut &b"base"[..]).unwrap();
    }
    layer.finish().unwrap();
    let provider = provider(name);
    let _guard = Cleanup(provider.as_ref(), &fork);
    let mut rng = Rng::new(7);
    for round in 0..if soak() { 500 } else { 40 } {
        let mut child = Process::spawn(
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "provider_kill::child_of_the_kill_tests"])
                .env(PROVIDER, name)
                .env(PLACE, dir.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let micros = rng.between(2_000, 25_000) as u64;
        let ended = child.wait_at_most(Duration::from_micros(micros));
        assert!(ended.is_none(), "the child works until it is killed");
        child.kill_hard();
        // If it had become a fork, it is one again; either way it can be removed and made anew.
        let whole = fs::remove_file(dir.path().join("whole")).is_ok();
        if provider.ensure(&layers, &fork).is_ok() {
            let content = fs::read(fork.target.join("f0"));
            assert_eq!(content.unwrap(), b"base", "round {round}");
            let changes = provider.changes(&layers, &fork).unwrap();
            let modified = |found: &Difference| found.kind() == DifferenceKind::Maybe;
            assert!(changes.iter().all(modified), "{round}: {changes:?}");
            // What was changed is there as a whole, or the fork is gone as a whole.
            assert!(!whole || changes.len() == CHANGED, "{round}: {changes:?}");
        }
        provider.cleanup(&fork).unwrap();
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "round {round}: only the layer and its mark");
    }
    provider.create(&layers, &fork).unwrap();
    assert_eq!(fs::read_dir(&fork.target).unwrap().count(), 50);
}

#[test]
fn kill_overlay() {
    if !is_root() {
        return skip("overlays on the host need root");
    }
    kill_rounds("overlay");
}

#[test]
fn kill_copy() {
    kill_rounds("copy");
}
