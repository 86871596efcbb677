//! The scanner over uppers made by hand: what a kernel writes rarely, or only an attacker would.

use std::fs::{self, File};
use std::path::PathBuf;

use offshoot_sys::{make_whiteout, set_xattr};

use super::*;

struct ManualUpper {
    host: tempfile::TempDir,
    layers: Vec<PathBuf>,
}

impl ManualUpper {
    /// A base with some files and an empty upper.
    fn new() -> ManualUpper {
        let host = offshoot_testkit::scratch();
        let base = host.path().join("base");
        for file in ["d/one", "d/sub/two", "e/three", "top"] {
            let path = base.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        fs::create_dir(host.path().join("upper")).unwrap();
        ManualUpper {
            layers: vec![base],
            host,
        }
    }

    fn upper(&self, name: &str) -> PathBuf {
        self.host.path().join("upper").join(name)
    }

    fn dir(&self, name: &str) -> File {
        fs::create_dir_all(self.upper(name)).unwrap();
        File::open(self.upper(name)).unwrap()
    }

    fn lines(&self, xattrs: OverlayXattrs, follow_redirects: bool) -> Vec<String> {
        let stack = LayerStack::open_with(&self.layers, xattrs).unwrap();
        let upper = File::open(self.upper("")).unwrap();
        let format = UpperFormat {
            xattrs,
            follow_redirects,
        };
        let found = upper_differences(&stack, upper.as_fd(), format, &mut |_, _| false)
            .unwrap()
            .differences;
        let line = |found: &Difference| format!("{:?} {}", found.kind(), found.path);
        found.iter().map(line).collect()
    }

    /// Sets a `user` attribute; where the file system has none the test cannot run.
    fn set_user_xattr(&self, dir: &File, name: &CStr, value: &[u8]) -> bool {
        let set = set_xattr(dir, name, value).is_ok();
        if !set {
            offshoot_testkit::skip("this file system has no extended attributes");
        }
        set
    }
}

const USER: OverlayXattrs = OverlayXattrs::User;

#[test]
fn a_whiteout_of_nothing_says_nothing() {
    let manual = ManualUpper::new();
    let dir = manual.dir("d");
    make_whiteout(&dir, c"never-was").unwrap();
    make_whiteout(&dir, c"one").unwrap();
    make_whiteout(manual.dir("new"), c"inside").unwrap();
    // Overlays make whiteouts as links of one file.
    fs::hard_link(manual.upper("d/one"), manual.upper("e")).unwrap();
    let expected = ["Deleted d/one", "Deleted e", "Added new"];
    assert_eq!(manual.lines(USER, false), expected);
}

#[test]
fn whiteouts_by_attribute_count_only_where_the_directory_says_so() {
    let manual = ManualUpper::new();
    let dir = manual.dir("d");
    let file = File::create(manual.upper("d/one")).unwrap();
    if !manual.set_user_xattr(&file, USER.whiteout(), b"y") {
        return;
    }
    assert_eq!(manual.lines(USER, false), ["Maybe d/one"]);
    assert!(manual.set_user_xattr(&dir, USER.opaque(), b"x"));
    File::create(manual.upper("d/empty")).unwrap();
    assert_eq!(
        manual.lines(USER, false),
        ["Added d/empty", "Deleted d/one"]
    );
    // With `trusted` attributes all of this is the work of an agent.
    let inert = ["Added d/empty", "Maybe d/one"];
    assert_eq!(manual.lines(OverlayXattrs::Trusted, true), inert);
}

#[test]
fn opaque_directories_count_only_in_the_right_attributes() {
    let manual = ManualUpper::new();
    let dir = manual.dir("d");
    if !manual.set_user_xattr(&dir, USER.opaque(), b"y") {
        return;
    }
    let perm = fs::metadata(manual.layers[0].join("d"))
        .unwrap()
        .permissions();
    dir.set_permissions(perm).unwrap();
    assert_eq!(
        manual.lines(USER, false),
        ["Deleted d/one", "Deleted d/sub"]
    );
    assert!(manual.lines(OverlayXattrs::Trusted, true).is_empty());
}

#[test]
fn redirects_are_followed_only_when_asked_and_only_inside() {
    for (redirect, shown) in [
        (
            &b"/d"[..],
            &["Added new/one", "Added new/sub", "Added new/sub/two"][..],
        ),
        (b"/d/sub", &["Added new/two"]),
        (b"e", &["Added new/three"]),
        (b"/", &[]),
        (b"", &[]),
        (b"/none", &[]),
        (b"/none/none", &[]),
        (b"/../../etc", &[]),
        (b"..", &[]),
        (b"../d", &[]),
        (b"/top", &[]),
        (b"/d/one/two", &[]),
    ] {
        let manual = ManualUpper::new();
        let dir = manual.dir("new");
        if !manual.set_user_xattr(&dir, USER.redirect(), redirect) {
            return;
        }
        let mut expected = vec!["Added new"];
        assert_eq!(manual.lines(USER, false), expected);
        assert_eq!(manual.lines(OverlayXattrs::Trusted, true), expected);
        expected.extend(shown);
        let text = String::from_utf8_lossy(redirect);
        assert_eq!(manual.lines(USER, true), expected, "{text}");
    }
}

#[test]
fn links_and_staged_files_are_not_entered_or_shown() {
    let manual = ManualUpper::new();
    std::os::unix::fs::symlink(&manual.layers[0], manual.upper("out")).unwrap();
    std::os::unix::fs::symlink("/", manual.upper("d")).unwrap();
    let staged = [STAGE_PREFIX, b"7"].concat();
    let staged = String::from_utf8(staged).unwrap();
    fs::write(manual.upper(&staged), "half").unwrap();
    assert_eq!(manual.lines(USER, true), ["Type d", "Added out"]);
}
