//! Every provider passes the suite, on real file systems that have what it needs.

use std::path::Path;

use offshoot_core::ErrorCode;
use offshoot_fs::{
    CopyProvider, CopyUp, OverlayProvider, ProviderName, ReflinkProvider, choose, conformance,
    probe,
};
use offshoot_testkit::{FileSystem, LoopImage, is_root, scratch, skip, soak};

/// A file system in an image; none, and the test is counted as skipped, where that is impossible.
fn image(kind: FileSystem) -> Option<LoopImage> {
    if let Some(reason) = LoopImage::unavailable(kind) {
        skip(&reason);
        return None;
    }
    let image = LoopImage::create(kind, 512 << 20);
    assert!(kind.holds(image.path()), "the file system is real");
    Some(image)
}

fn works(dir: &Path) -> Vec<ProviderName> {
    let probes = probe(dir).unwrap();
    let working = probes.iter().filter(|probe| probe.works);
    working.map(|probe| probe.name).collect()
}

#[test]
fn copy_in_memory() {
    let dir = scratch();
    conformance::provider(&CopyProvider, dir.path());
}

#[test]
fn overlay_in_memory() {
    if !is_root() {
        return skip("overlays on the host need root");
    }
    let dir = scratch();
    conformance::provider(&OverlayProvider::new(CopyUp::WholeFile), dir.path());
}

#[test]
fn loop_overlay_on_ext4() {
    let Some(image) = image(FileSystem::Ext4) else {
        return;
    };
    conformance::provider(&OverlayProvider::new(CopyUp::WholeFile), image.path());
    conformance::provider(&CopyProvider, image.path());
    assert_eq!(
        works(image.path()),
        [ProviderName::Overlay, ProviderName::Copy]
    );
    let refused = choose(image.path(), Some(ProviderName::Reflink)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unsupported);
    assert!(refused.hint().unwrap().contains("btrfs"));
    let choice = choose(image.path(), None).unwrap();
    assert_eq!(choice.provider.name(), ProviderName::Overlay);
    assert_eq!(choice.provider.capabilities().copy_up, CopyUp::WholeFile);
}

#[test]
fn loop_reflink_on_btrfs() {
    let Some(image) = image(FileSystem::Btrfs) else {
        return;
    };
    conformance::provider(&ReflinkProvider, image.path());
    conformance::provider(&OverlayProvider::new(CopyUp::Shared), image.path());
    assert_eq!(works(image.path()), ProviderName::ALL);
}

#[test]
fn loop_reflink_on_xfs() {
    let Some(image) = image(FileSystem::Xfs) else {
        return;
    };
    conformance::provider(&ReflinkProvider, image.path());
    conformance::provider(&OverlayProvider::new(CopyUp::Shared), image.path());
    let choice = choose(image.path(), None).unwrap();
    assert_eq!(choice.provider.name(), ProviderName::Overlay);
    assert_eq!(choice.provider.capabilities().copy_up, CopyUp::Shared);
    let required = choose(image.path(), Some(ProviderName::Reflink)).unwrap();
    assert_eq!(required.provider.name(), ProviderName::Reflink);
    let left: Vec<_> = std::fs::read_dir(image.path()).unwrap().collect();
    assert!(left.is_empty(), "a probe leaves nothing");
}

/// A hundred times as many edits as the suite has, in a soak run.
#[test]
fn random_edits_in_memory() {
    if !is_root() {
        return skip("overlays on the host need root");
    }
    let stacks = if soak() { 1_000 } else { 20 };
    let dir = scratch();
    let overlay = dir.path().join("overlay");
    std::fs::create_dir(&overlay).unwrap();
    conformance::random_edits(&OverlayProvider::new(CopyUp::WholeFile), &overlay, stacks);
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    conformance::random_edits(&CopyProvider, &copy, stacks);
}

#[test]
fn probes_say_what_to_do() {
    let dir = scratch();
    let probes = probe(dir.path()).unwrap();
    let names: Vec<ProviderName> = probes.iter().map(|probe| probe.name).collect();
    assert_eq!(names, ProviderName::ALL);
    for probe in probes {
        assert_eq!(probe.works, probe.why_not.is_none());
        assert_eq!(probe.works, probe.remedy.is_none());
        if let Some(why_not) = probe.why_not {
            assert!(!why_not.message().contains('/'), "{why_not}");
        }
        assert_eq!(
            probe.name.as_str().parse::<ProviderName>().unwrap(),
            probe.name
        );
    }
    assert!("zfs".parse::<ProviderName>().unwrap_err().hint().is_some());
    assert!(probe(&dir.path().join("none")).is_err());
}
