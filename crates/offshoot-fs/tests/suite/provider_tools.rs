//! A fork behaves like a plain directory for real programs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use offshoot_fs::{CopyProvider, CopyUp, ForkDirs, LayerWriter, OverlayProvider, Provider};
use offshoot_testkit::{DirImage, dir_image, is_root, scratch, skip};

/// Fills an empty directory.
const FIRST: &str = r"
git init -q -b main repo
cd repo
for i in 1 2 3 4 5 6 7 8 9; do
    mkdir -p src/d$i/deep
    echo $i > src/d$i/file
    seq $i 200 > src/d$i/deep/numbers
done
chmod +x src/d1/file
ln -s ../d2/file src/d1/link
git add -A
git commit -qm one
git checkout -q -b two
mv src lib
sed -i s/1/one/ lib/d1/deep/numbers
rm -r lib/d2
git add -A
git commit -qm two
git checkout -q main
cd ..
tar cf all.tar repo/src
mkdir -p unpacked/empty
";

/// Works on what the first one left, which is a layer by then.
const SECOND: &str = r"
cd repo
test -z $(git status --porcelain)
git merge -q two
git gc -q
git fsck --strict
mv lib library
mkdir lib
mv library/d3 lib/d3
rm -rf library/d4
cp -a library/d5 library/d4
find library -name numbers -exec sed -i s/0/zero/ {} +
git add -A
git commit -qm three
git checkout -q two
git checkout -q main
cd ..
tar xf all.tar -C unpacked
mv unpacked/repo/src unpacked/src
rmdir unpacked/repo unpacked/empty
mv unpacked renamed
mv renamed/src/d6 .
gzip all.tar
";

fn run(script: &str, dir: &Path) {
    let mut shell = Command::new("sh");
    shell
        .args(["-e", "-c", script])
        .current_dir(dir)
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        shell
            .env(format!("GIT_{who}_NAME"), "tester")
            .env(format!("GIT_{who}_EMAIL"), "tester@example.com")
            .env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
    }
    let output = shell.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// What the programs left, but for what holds times: the archive and git's own files.
fn outcome(dir: &Path) -> DirImage {
    let mut image = dir_image(dir);
    image.retain(|path, _| !path.0.starts_with(b"repo/.git/") && !path.0.starts_with(b"all.tar"));
    image
}

fn write_layer(place: &Path, provider: &dyn Provider, layers: &[PathBuf], fork: &ForkDirs) {
    let mut layer = LayerWriter::new(place).unwrap();
    for found in provider.changes(layers, fork).unwrap() {
        let host = fork.target.join(OsStr::from_bytes(found.path.as_bytes()));
        let Some(now) = found.now else {
            layer.whiteout(&found.path).unwrap();
            continue;
        };
        if now.is_dir() {
            layer.dir(&found.path, now.perm).unwrap();
        } else if let Ok(target) = fs::read_link(&host) {
            let target = target.as_os_str().as_bytes();
            layer.symlink(&found.path, target).unwrap();
        } else {
            let mut content = fs::File::open(&host).unwrap();
            layer.file(&found.path, now.perm, &mut content).unwrap();
        }
    }
    layer.finish().unwrap();
}

/// Removes a fork, also when the test fails.
struct Cleanup<'a>(&'a dyn Provider, &'a ForkDirs);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let _ = self.0.cleanup(self.1);
    }
}

fn programs_work(provider: &dyn Provider) {
    let host = scratch();
    let at = |name: &str| host.path().join(name);
    fs::create_dir(at("plain")).unwrap();
    LayerWriter::new(at("empty")).unwrap().finish().unwrap();
    let mut layers = vec![at("empty")];
    for (number, script) in [FIRST, SECOND].into_iter().enumerate() {
        let place = |what: &str| at(&format!("{what}{number}"));
        let fork = ForkDirs::new(place("private"), place("target"));
        let _guard = Cleanup(provider, &fork);
        provider.create(&layers, &fork).unwrap();
        assert_eq!(outcome(&fork.target), outcome(&at("plain")));
        run(script, &fork.target);
        run(script, &at("plain"));
        assert_eq!(outcome(&fork.target), outcome(&at("plain")));
        write_layer(&place("layer"), provider, &layers, &fork);
        layers.insert(0, place("layer"));
        provider.close(&fork).unwrap();
    }
    // Frozen a second time it is a repository still.
    let fork = ForkDirs::new(at("private"), at("target"));
    let _guard = Cleanup(provider, &fork);
    provider.create(&layers, &fork).unwrap();
    run(
        "cd repo; git fsck --strict; test -z $(git status --porcelain)",
        &fork.target,
    );
    assert_eq!(outcome(&fork.target), outcome(&at("plain")));
}

#[test]
fn programs_work_in_an_overlay() {
    if !is_root() {
        return skip("overlays on the host need root");
    }
    programs_work(&OverlayProvider::new(CopyUp::WholeFile));
}

#[test]
fn programs_work_in_a_copy() {
    programs_work(&CopyProvider);
}
