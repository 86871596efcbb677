//! Paths in every form that a door takes: none panics, and what is taken is in normal form, stays
//! inside and is read back as the same path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offshoot_core::{RelPath, percent_decode};

fuzz_target!(|bytes: &[u8]| {
    check(RelPath::parse(bytes));
    check(RelPath::parse_loose(bytes));
    check(RelPath::parse_loose_inner(bytes));
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    check(RelPath::parse_text(text));
    if let Ok(plain) = percent_decode(text) {
        check(RelPath::parse(&plain));
    }
});

fn check(parsed: offshoot_core::Result<RelPath>) {
    let Ok(path) = parsed else {
        return;
    };
    let bytes = path.as_bytes();
    assert!(!bytes.contains(&0));
    assert!(!bytes.starts_with(b"/"));
    for part in path.parts() {
        assert!(!part.is_empty() && part != b"." && part != b"..");
        assert!(!part.contains(&b'/'));
    }
    assert_eq!(path.parts().collect::<Vec<_>>().join(&b'/'), bytes);
    if !path.is_root() {
        assert_eq!(RelPath::parse(bytes).expect("normal form is a path"), path);
        let text = path.to_text();
        let again = RelPath::parse_text(&text).expect("what is shown can be typed");
        assert_eq!(again, path, "{text}");
    }
}
