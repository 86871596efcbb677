//! Listings by page: what they show and what they cost.

use std::fs;

use crate::fixture::{TestEngine, p};
use offshoot_core::RelPath;
use offshoot_engine::{ListOptions, ListSort};

/// All names of a listing, page by page; between pages `meanwhile` may change something.
fn names_by_page(
    test: &TestEngine,
    id: &offshoot_core::WorkspaceId,
    options: &ListOptions,
    mut meanwhile: impl FnMut(usize),
) -> Vec<String> {
    let mut names = Vec::new();
    let mut options = options.clone();
    for round in 0.. {
        let page = test
            .engine
            .workspaces
            .list_page(id, &p("d"), &options, &|_| true)
            .unwrap();
        assert!(page.entries.len() <= options.limit);
        let shown = page.entries.iter().map(|entry| entry.path.name().to_vec());
        names.extend(shown.map(|name| String::from_utf8(name).unwrap()));
        meanwhile(round);
        match page.next {
            Some(next) => options.after = Some(next),
            None => return names,
        }
    }
    names
}

#[test]
fn pages_put_together_are_the_listing_in_every_order() {
    let test = TestEngine::plain();
    let id = test.create("w");
    test.write(&id, "d/m.txt", b"four");
    let dir = test.engine.workspaces.hand_out_path(&id).unwrap().join("d");
    for (name, content) in [("a.txt", "22"), ("z", "1"), ("k:0:x", "22"), ("B", "")] {
        fs::write(dir.join(name), content).unwrap();
    }
    fs::create_dir(dir.join("sub")).unwrap();
    fs::create_dir(dir.join("C")).unwrap();
    let by = |sort, descending, dirs_first| ListOptions {
        sort,
        descending,
        dirs_first,
        limit: 2,
        ..ListOptions::default()
    };
    let names = |options| names_by_page(&test, &id, &options, |_| ()).join(" ");
    use ListSort::{Modified, Name, Size};
    assert_eq!(names(by(Name, false, false)), "B C a.txt k:0:x m.txt sub z");
    assert_eq!(names(by(Name, true, false)), "z sub m.txt k:0:x a.txt C B");
    assert_eq!(names(by(Name, false, true)), "C sub B a.txt k:0:x m.txt z");
    assert_eq!(names(by(Size, true, true)), "sub C m.txt k:0:x a.txt z B");
    assert_eq!(names(by(Size, false, false)), "B C sub z a.txt k:0:x m.txt");
    for options in [by(Modified, false, false), by(Modified, true, true)] {
        let mut paged = names_by_page(&test, &id, &options, |_| ());
        paged.sort();
        assert_eq!(paged.join(" "), "B C a.txt k:0:x m.txt sub z");
    }
    // The last entry of a page is removed, and others are added: nothing else is lost or repeated.
    let options = by(Name, false, false);
    let shown = names_by_page(&test, &id, &options, |round| {
        if round == 0 {
            fs::remove_dir(dir.join("C")).unwrap();
            fs::write(dir.join("A"), "").unwrap();
        }
    });
    assert_eq!(shown.join(" "), "B C a.txt k:0:x m.txt sub z");
}

/// Every file that is opened or read counts as a call to the disk.
#[test]
fn a_page_by_name_looks_at_its_own_entries_alone() {
    let test = TestEngine::plain();
    let id = test.create("w");
    test.write(&id, "d/0", b"x");
    let dir = test.engine.workspaces.hand_out_path(&id).unwrap().join("d");
    for number in 0..300 {
        fs::write(dir.join(format!("f{number:03}")), "content").unwrap();
    }
    let options = ListOptions {
        limit: 5,
        after: Some("f100".to_owned()),
        ..ListOptions::default()
    };
    test.plan.arm(60);
    let page = test
        .engine
        .workspaces
        .list_page(&id, &p("d"), &options, &|_| true)
        .unwrap();
    assert!(!test.plan.disarm(), "a page of five made sixty calls");
    assert_eq!(page.entries[0].path, p("d/f101"));
    assert_eq!(page.next.as_deref(), Some("f105"));
    // A tree does not open files either, because it shows names only.
    test.plan.arm(60);
    let tree = test
        .engine
        .workspaces
        .tree(&id, &RelPath::root(), Some(1))
        .unwrap();
    assert!(!test.plan.disarm());
    assert_eq!(tree.children.len(), 1);
}
