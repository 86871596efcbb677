//! An overlay fork becomes a copy, whichever user made it and whatever its files are.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use offshoot_core::{ErrorCode, RelPath};
use offshoot_fs::{
    CopyProvider, CopyUp, ForkDirs, LayerWriter, OverlayProvider, OverlayXattrs, Provider,
    copy_changes,
};
use offshoot_testkit::{is_root, scratch, skip};

const HOLE: u64 = 64 << 20;

fn layer(place: &Path) -> Vec<PathBuf> {
    let mut layer = LayerWriter::new(place).unwrap();
    for path in ["docs/a", "docs/b", "kept"] {
        let path = RelPath::parse(path.as_bytes()).unwrap();
        layer.file(&path, 0o644, &mut &b"old\n"[..]).unwrap();
    }
    layer.finish().unwrap();
    vec![place.to_owned()]
}

/// A directory that was made again, a file with holes in the middle and at the end.
fn work_in(path: &Path) {
    fs::remove_dir_all(path.join("docs")).unwrap();
    fs::create_dir(path.join("docs")).unwrap();
    fs::write(path.join("docs/new"), "new\n").unwrap();
    let mut image = fs::File::create(path.join("image")).unwrap();
    image.write_all(b"first").unwrap();
    image.seek(SeekFrom::Start(HOLE)).unwrap();
    image.write_all(b"last").unwrap();
    image.set_len(2 * HOLE).unwrap();
}

fn assert_converted(path: &Path) {
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(path), ["docs", "image", "kept"]);
    assert_eq!(
        names(&path.join("docs")),
        ["new"],
        "what was deleted is gone"
    );
    let mut image = fs::File::open(path.join("image")).unwrap();
    let found = image.metadata().unwrap();
    assert_eq!(found.len(), 2 * HOLE);
    assert!(found.blocks() * 512 < HOLE / 4, "{} blocks", found.blocks());
    let mut text = [0; 8];
    image.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"first\0\0\0");
    image.seek(SeekFrom::Start(HOLE - 2)).unwrap();
    image.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"\0\0last\0\0");
}

#[test]
fn an_overlay_is_read_as_whoever_made_it_wrote_it() {
    if !is_root() {
        return skip("overlays on the host need root");
    }
    for xattrs in [OverlayXattrs::Trusted, OverlayXattrs::User] {
        let dir = scratch();
        let layers = layer(&dir.path().join("layer"));
        let made_by = OverlayProvider::with_xattrs(xattrs, CopyUp::WholeFile);
        let dirs = |name: &str| {
            let private = dir.path().join(format!("{name}-private"));
            ForkDirs::new(private, dir.path().join(name))
        };
        let (from, to, again) = (dirs("from"), dirs("to"), dirs("again"));
        made_by.create(&layers, &from).unwrap();
        work_in(&from.target);
        // A process with more privileges finds the same changes and mounts the fork the same way.
        let by_root = OverlayProvider::new(CopyUp::WholeFile);
        let seen = made_by.changes(&layers, &from).unwrap();
        assert_eq!(by_root.changes(&layers, &from).unwrap(), seen);
        by_root.close(&from).unwrap();
        by_root.ensure(&layers, &from).unwrap();
        assert_converted(&from.target);
        by_root.close(&from).unwrap();

        CopyProvider.create(&layers, &to).unwrap();
        assert!(copy_changes(&layers, &from, &to).unwrap().is_empty());
        assert_converted(&to.target);

        // Without the record of the attribute namespace, nothing is guessed.
        fs::remove_file(from.private.join("xattrs")).unwrap();
        CopyProvider.create(&layers, &again).unwrap();
        let refused = copy_changes(&layers, &from, &again).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Unsupported);
        assert!(refused.hint().is_some());
        made_by.cleanup(&from).unwrap();
        for copy in [&to, &again] {
            CopyProvider.cleanup(copy).unwrap();
        }
    }
}
