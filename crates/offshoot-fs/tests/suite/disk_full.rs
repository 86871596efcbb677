//! A full disk leaves the old content as it was.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use offshoot_core::{Error, ErrorCode, RelPath, Result};
use offshoot_fs::{
    CopyProvider, CopyUp, ForkDirs, LayerWriter, OverlayProvider, PathResolver, Provider, Reserve,
    SafeDir, Sync,
};

/// A file system of one megabyte, unmounted also when a test fails.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where this process may not mount.
    fn mount(options: &str) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "offshoot-test"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: disk_full needs the right to mount a tmpfs (skipped=1)");
        }
        mounted.then_some(SmallDisk(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// One test at a time: a process that one of them starts holds, for a moment, the removed files
/// that another one has just closed, and with them the space.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rel(path: &str) -> RelPath {
    RelPath::parse(path.as_bytes()).unwrap()
}

#[test]
fn no_space_for_the_content() {
    let _turn = alone();
    for resolver in [PathResolver::Kernel, PathResolver::Portable] {
        let Some(disk) = SmallDisk::mount("size=1m") else {
            return;
        };
        let dir = SafeDir::open_with(disk.path(), resolver).unwrap();
        let old = vec![b'o'; 300_000];
        dir.write(&rel("d/f"), &old, 0o644, Sync::Durable).unwrap();
        for sync in [Sync::None, Sync::Durable] {
            let error = dir
                .write(&rel("d/f"), &vec![b'n'; 2_000_000], 0o644, sync)
                .unwrap_err();
            assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error:?}");
            assert!(error.hint().is_some());
            assert_eq!(dir.read(&rel("d/f")).unwrap(), old);
        }
        dir.write(&rel("second"), &old, 0o644, Sync::None).unwrap();
        let error = dir
            .write(&rel("third"), &vec![0; 500_000], 0o644, Sync::None)
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::QuotaExceeded);
        // Nothing is left behind that takes space: what fits, fits again.
        assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 2);
        dir.remove_tree(&rel("second")).unwrap();
        dir.write(&rel("third"), &vec![0; 500_000], 0o644, Sync::None)
            .unwrap();
        assert_eq!(dir.read(&rel("d/f")).unwrap(), old);
    }
}

#[test]
fn no_space_for_the_name() {
    let _turn = alone();
    for resolver in [PathResolver::Kernel, PathResolver::Portable] {
        let Some(disk) = SmallDisk::mount("size=1m,nr_inodes=4") else {
            return;
        };
        let dir = SafeDir::open_with(disk.path(), resolver).unwrap();
        dir.write(&rel("f"), b"old", 0o644, Sync::None).unwrap();
        dir.write(&rel("g"), b"old", 0o644, Sync::None).unwrap();
        dir.write(&rel("h"), b"old", 0o644, Sync::None).unwrap();
        for error in [
            dir.write(&rel("f"), b"new", 0o644, Sync::None).unwrap_err(),
            dir.mkdir_all(&rel("dir"), 0o755).unwrap_err(),
            dir.copy(&rel("f"), &rel("copy"), Sync::None).unwrap_err(),
            dir.symlink(&rel("f"), b"g").unwrap_err(),
        ] {
            assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error:?}");
        }
        assert_eq!(dir.read(&rel("f")).unwrap(), b"old");
    }
}

#[test]
fn no_space_for_a_layer_or_a_fork() {
    let _turn = alone();
    let Some(disk) = SmallDisk::mount("size=1m") else {
        return;
    };
    let layers = tempfile::tempdir().unwrap();
    let layer = layers.path().join("layer");
    let mut writer = LayerWriter::new(&layer).unwrap();
    for number in 0..20 {
        let path = rel(&format!("d/f{number}"));
        writer
            .file(&path, 0o644, &mut &vec![b'x'; 100_000][..])
            .unwrap();
    }
    writer.finish().unwrap();
    let nothing_left = || std::fs::read_dir(disk.path()).unwrap().count() == 0;

    let fork = ForkDirs::new(disk.path().join("private"), disk.path().join("target"));
    let error = CopyProvider
        .create(std::slice::from_ref(&layer), &fork)
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error:?}");
    assert!(nothing_left());

    let mut writer = LayerWriter::new(disk.path().join("layer")).unwrap();
    let error = writer
        .file(&rel("f"), 0o644, &mut &vec![b'x'; 2_000_000][..])
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error:?}");
    drop(writer);
    assert!(nothing_left());

    // An overlay needs next to nothing, and says so when even that is not there.
    let overlay = OverlayProvider::new(CopyUp::WholeFile);
    overlay.create(std::slice::from_ref(&layer), &fork).unwrap();
    let large = std::fs::write(fork.target.join("large"), vec![b'x'; 2_000_000]);
    overlay.cleanup(&fork).unwrap();
    assert!(large.is_err() && nothing_left());
    let Some(full) = SmallDisk::mount("size=1m,nr_inodes=4") else {
        return;
    };
    let fork = ForkDirs::new(full.path().join("private"), full.path().join("target"));
    let error = overlay.create(&[layer], &fork).unwrap_err();
    assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error:?}");
    assert_eq!(std::fs::read_dir(full.path()).unwrap().count(), 0);
}

#[test]
fn what_is_set_aside_is_lent_and_nobody_else_gets_it() {
    let _turn = alone();
    let Some(disk) = SmallDisk::mount("size=4m") else {
        return;
    };
    let at = |name: &str| disk.path().join(name);
    let store = |name: &str, bytes: u64| -> Result<()> {
        std::fs::write(at(name), vec![1; bytes as usize])
            .map_err(|cause| Error::internal("it could not be stored").with_source(cause))
    };
    let reserve = Reserve::open(&at("reserve"));
    let size = reserve.size();
    assert_eq!(size, (4 << 20) / 32);
    assert_eq!(Reserve::inspect(&at("reserve")), (size, Some(0)));
    reserve.require().unwrap();
    assert_eq!(reserve.allocated(), size);
    assert!(store("foreign", 4 << 20).unwrap_err().is_disk_full());

    let lent = reserve.release_for(|| {
        let other = Reserve::open(&at("reserve"));
        let refused = other.require().unwrap_err();
        assert_eq!(refused.code(), ErrorCode::QuotaExceeded);
        store("freeing", size / 2)
    });
    lent.unwrap();
    // What was used of it is missing, so nothing may be stored.
    assert!(reserve.require().is_err());
    let refused = reserve.release_for(|| store("more", size)).unwrap_err();
    assert!(refused.is_disk_full(), "{refused:?}");
    assert!(refused.hint().unwrap().contains("purge"), "{refused:?}");
    // What fails for other reasons is passed on as it is.
    let other = reserve
        .release_for(|| Err::<(), _>(Error::invalid("no")))
        .unwrap_err();
    assert_eq!(other.code(), ErrorCode::InvalidRequest);

    std::fs::remove_file(at("foreign")).unwrap();
    reserve.require().unwrap();
    assert_eq!(reserve.allocated(), size);
}
