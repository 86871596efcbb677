//! Overlay mounts of this kernel do what the wrappers say. Needs root; counted as skipped without.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use offshoot_sys::{
    Overlay, OverlayXattrs, attach_mount, clone_mount, get_xattr, is_mount_point, is_on_overlay,
    is_upper_in_use, set_immutable, set_xattr, unmount_idle, unmount_lazily,
};

/// A target that is unmounted and made removable again, also when a test fails.
struct Target(PathBuf);

impl Drop for Target {
    fn drop(&mut self) {
        while unmount_lazily(&self.0).is_ok() {}
        if let Ok(dir) = File::open(&self.0) {
            let _ = set_immutable(&dir, false);
        }
    }
}

fn open(path: &Path) -> File {
    File::open(path).unwrap()
}

fn dir(path: PathBuf) -> File {
    fs::create_dir_all(&path).unwrap();
    open(&path)
}

fn needs_root() -> bool {
    if !offshoot_testkit::is_root() {
        offshoot_testkit::skip("mounts need root");
        return true;
    }
    false
}

#[test]
fn an_overlay_of_layers_with_any_path() {
    if needs_root() {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    let at = |name: &str| host.path().join(name);
    let odd = [
        at("a:b,c d\\e"),
        host.path().join(OsStr::from_bytes(b"\xff\n=")),
        at(&"long".repeat(60))
            .join("x".repeat(200))
            .join("y".repeat(200)),
    ];
    let mut layers = Vec::new();
    for (number, path) in odd.into_iter().enumerate() {
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(format!("from-{number}")), "layer").unwrap();
        fs::write(path.join("all"), number.to_string()).unwrap();
        layers.push(open(&path));
    }
    for number in 0..125 {
        layers.push(dir(at(&format!("layer{number}"))));
    }
    let (upper, work) = (dir(at("upper,1")), dir(at("work:1")));
    let target = Target(at("target"));
    fs::create_dir(&target.0).unwrap();
    let bare = open(&target.0);
    set_immutable(&bare, true).unwrap();
    assert!(!is_mount_point(&bare).unwrap());
    assert!(fs::write(target.0.join("lost"), "").is_err());

    let lowers: Vec<BorrowedFd<'_>> = layers.iter().map(AsFd::as_fd).collect();
    let overlay = Overlay {
        lowers: &lowers,
        upper: upper.as_fd(),
        work: work.as_fd(),
        xattrs: OverlayXattrs::Trusted,
        redirect_dir: true,
    };
    attach_mount(overlay.mount().unwrap(), &bare).unwrap();
    let mounted = open(&target.0);
    assert!(is_mount_point(&mounted).unwrap() && is_on_overlay(&mounted).unwrap());
    drop(mounted);
    assert_eq!(
        fs::read(target.0.join("all")).unwrap(),
        b"0",
        "the newest layer wins"
    );
    for number in 0..3 {
        assert!(target.0.join(format!("from-{number}")).exists());
    }
    fs::write(target.0.join("new"), "n").unwrap();
    assert_eq!(fs::read(at("upper,1/new")).unwrap(), b"n");
    assert!(!is_mount_point(dir(target.0.join("below"))).unwrap());

    let second = Target(at("second"));
    attach_mount(clone_mount(&target.0).unwrap(), dir(second.0.clone())).unwrap();
    fs::write(second.0.join("shared"), "s").unwrap();
    assert!(target.0.join("shared").exists());
    unmount_idle(&second.0).unwrap();

    let busy = open(&target.0.join("new"));
    assert_eq!(
        unmount_idle(&target.0).unwrap_err().kind(),
        std::io::ErrorKind::ResourceBusy
    );
    drop(busy);
    unmount_idle(&target.0).unwrap();
    assert!(!is_mount_point(open(&target.0)).unwrap());
    assert!(
        fs::write(target.0.join("lost"), "").is_err(),
        "the bare place is immutable"
    );
}

/// A mount that shows nowhere is one as well: it may be in another namespace.
#[test]
fn an_upper_in_use_is_known_wherever_it_is_mounted() {
    if needs_root() {
        return;
    }
    let host = tempfile::tempdir().unwrap();
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| dir(host.path().join(name)));
    assert!(!is_upper_in_use(upper.as_fd()).unwrap());
    for xattrs in [OverlayXattrs::Trusted, OverlayXattrs::User] {
        let overlay = Overlay {
            lowers: &[lower.as_fd()],
            upper: upper.as_fd(),
            work: work.as_fd(),
            xattrs,
            redirect_dir: false,
        };
        let mount = overlay.mount().unwrap();
        assert!(is_upper_in_use(upper.as_fd()).unwrap());
        drop(mount);
        let is_free = || !is_upper_in_use(upper.as_fd()).unwrap();
        offshoot_testkit::wait_until("the upper is free again", is_free);
    }
    // Asking leaves nothing behind.
    assert_eq!(fs::read_dir(host.path().join("upper")).unwrap().count(), 0);
}

#[test]
fn attributes_of_any_length() {
    let host = tempfile::tempdir().unwrap();
    let file = dir(host.path().join("d"));
    assert_eq!(get_xattr(&file, c"user.none").unwrap(), None);
    for length in [0, 1, 64, 65, 1000] {
        let value = vec![b'v'; length];
        if set_xattr(&file, c"user.some", &value).is_err() {
            return offshoot_testkit::skip("this file system has no extended attributes");
        }
        assert_eq!(get_xattr(&file, c"user.some").unwrap(), Some(value));
    }
}
