//! Golden files: the writer produces the newest byte for byte, and the reader parses each earlier one.

use offshoot_core::{ErrorCode, ObjectId, RelPath, Result};

use super::fork_note::{ForkNote, LayerNote};
use super::scope::{StoredRule, StoredScope};
use super::*;
use crate::access::{Operation, PrincipalKind};
use crate::content::left_out::LeftOut;
use crate::content::rows::ParentProject;
use crate::merge::complete::{
    AutoResolved, BroughtCommits, CompleteOptions, Completed, LeftOutCommit, PendingConflict,
    PushedCommit,
};
use crate::merge::policy_decision::Decided;
use crate::merge::regions::{PartChoice, PartChoices};
use crate::merge::review_row::{LandsIn, Who};
use crate::project::policy::{PathPolicy, Policy};
use crate::sync::ignored::IgnoredFiles;

macro_rules! golden {
    ($name:literal) => {
        include_str!(concat!("golden/", $name, ".json"))
    };
}

fn id(digit: char) -> ObjectId {
    digit.to_string().repeat(40).parse().unwrap()
}

fn path(text: &str) -> RelPath {
    RelPath::parse_text(text).unwrap()
}

/// Checks that a value is written as the newest golden file and parsed from both.
fn check<T: PartialEq + std::fmt::Debug>(
    value: &T,
    write: impl Fn(&T) -> Result<String>,
    read: impl Fn(&str) -> Result<T>,
    [first, newest]: [&str; 2],
) {
    assert_eq!(format!("{}\n", write(value).unwrap()), newest);
    assert_eq!(read(newest).unwrap(), *value);
    assert_eq!(read(first).unwrap(), *value);
    // A newer version is refused.
    let newer = newest.replacen("\"version\":2", "\"version\":3", 1);
    assert_ne!(newer, newest);
    let refused = read(&newer).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unsupported, "{refused}");
    for torn in ["", "{", "7", "null"] {
        assert_eq!(
            read(torn).unwrap_err().code(),
            ErrorCode::Internal,
            "{torn}"
        );
    }
}

fn check_stored<T: StoredFormat + PartialEq + std::fmt::Debug>(value: &T, goldens: [&str; 2]) {
    check(value, to_text, |text| parse_text(text), goldens);
}

#[test]
fn complete_options() {
    let options = CompleteOptions {
        policy: Some(Policy::LastWriterWins),
        atomic: Some(true),
        keep: false,
        include_ignored: true,
        label: Some("Löwe".to_owned()),
        push: None,
    };
    check(
        &options,
        complete_options_text,
        parse_complete_options,
        [golden!("complete_options/1"), golden!("complete_options/2")],
    );
    let pushed = CompleteOptions {
        push: Some(PushedCommit {
            commit: id('a'),
            over_protected: true,
            all_or_nothing: false,
        }),
        ..CompleteOptions::default()
    };
    let text = golden!("complete_options/2-push");
    assert_eq!(
        format!("{}\n", complete_options_text(&pushed).unwrap()),
        text
    );
    assert_eq!(parse_complete_options(text).unwrap(), pushed);
    let first = parse_complete_options(golden!("complete_options/1-first")).unwrap();
    let keep = CompleteOptions {
        keep: true,
        ..CompleteOptions::default()
    };
    assert_eq!(first, keep);
}

fn receipt() -> Completed {
    let decided = Decided {
        path: path("g"),
        parts: vec!["/x".to_owned()],
        policy: Policy::Priority,
        winner: "theirs".to_owned(),
        lost: Some(id('d')),
        lost_by: Some("bob".to_owned()),
        lost_message_id: Some("m-1".to_owned()),
        ours_by: Some("bob".to_owned()),
        ours_message_id: Some("m-1".to_owned()),
    };
    let joined = Decided {
        path: path("h"),
        parts: Vec::new(),
        policy: Policy::Union,
        winner: "both".to_owned(),
        lost: None,
        lost_by: None,
        lost_message_id: None,
        ours_by: None,
        ours_message_id: None,
    };
    let waiting = |name: &str, parts: &[&str], kind: &str, review: Option<&str>| PendingConflict {
        path: path(name),
        parts: parts.iter().map(ToString::to_string).collect(),
        kind: kind.to_owned(),
        review_id: review.map(str::to_owned),
    };
    Completed {
        merge_id: Some("m1".to_owned()),
        project: "web".to_owned(),
        workspace: "ada".to_owned(),
        snapshot: Some(id('a')),
        theirs: Some(id('b')),
        since: Some(id('c')),
        merged: vec![path("a.txt"), path("b\\xff")],
        waiting: Vec::new(),
        conflicts: vec![
            waiting("c", &["line 1", "/name"], "both_changed", Some("r1")),
            waiting("d", &[], "protected", None),
        ],
        unchanged: vec![path("e")],
        auto_resolved: vec![AutoResolved {
            path: path("f"),
            method: "lines".to_owned(),
        }],
        decided: vec![decided, joined],
        left_out: vec![LeftOut {
            path: path(".git"),
            reason: "git refuses it".to_owned(),
        }],
        include_ignored: true,
        ignored_removed: IgnoredFiles {
            files: 2,
            bytes: 30,
        },
        keep: true,
        atomic: true,
        landed_nothing: true,
        pushed: None,
        label: None,
        commits: BroughtCommits::default(),
        after: None,
    }
}

#[test]
fn receipts() {
    check(
        &receipt(),
        receipt_text,
        parse_receipt,
        [golden!("receipt/1"), golden!("receipt/2")],
    );
    let first = parse_receipt(golden!("receipt/1-first")).unwrap();
    assert_eq!((first.since, first.left_out), (None, Vec::new()));
    assert_eq!(first.decided[0].policy, Policy::Review);
    assert!(!first.include_ignored && !first.landed_nothing);
    let waits = Completed {
        waiting: vec![path("g")],
        label: Some("Löwe".to_owned()),
        commits: BroughtCommits {
            count: 3,
            tips: vec![id('e')],
            left_out: vec![LeftOutCommit {
                id: Some(id('f')),
                reason: "too large".to_owned(),
            }],
        },
        ..receipt()
    };
    assert_eq!(
        parse_receipt(&receipt_text(&waits).unwrap()).unwrap(),
        waits
    );
}

fn review() -> Details {
    let who = |operator: &str, at: &str| Who {
        operator: operator.to_owned(),
        claim: None,
        message_id: None,
        at: at.to_owned(),
    };
    let parts = [
        ("1", PartChoice::Ours),
        ("2", PartChoice::Theirs),
        ("3", PartChoice::Base),
        ("line 4", PartChoice::Union),
    ];
    Details {
        kind: "both_changed".to_owned(),
        parts: vec!["line 1".to_owned()],
        related: vec![path("b")],
        base_snapshot: id('a'),
        since: Some(id('b')),
        theirs_snapshot: Some(id('c')),
        paths: vec![path("a.txt")],
        there: ContentAtOpening::Content(Some(id('d'))),
        ours_by: Some(Who {
            claim: Some("ada".to_owned()),
            message_id: Some("m-7".to_owned()),
            ..who("user", "2026-11-17T13:19:15.975239Z")
        }),
        theirs_by: None,
        decision: Some(Decision {
            choice: "parts".to_owned(),
            content: Some(id('e')),
            parts: Some(PartChoices {
                parts: parts.map(|(name, choice)| (name.to_owned(), choice)).into(),
                rest: Some(PartChoice::Ours),
                ours: Some(id('a')),
            }),
            over_protected: true,
            by: who("bob", "2026-11-17T13:19:25.722395Z"),
        }),
        lands_in: LandsIn::Workspace,
        protected: true,
    }
}

#[test]
fn reviews() {
    check_stored(&review(), [golden!("review/1"), golden!("review/2")]);
    let first: Details = parse_text(golden!("review/1-first")).unwrap();
    assert_eq!(first.there, ContentAtOpening::Unknown);
    assert_eq!((first.since, first.lands_in), (None, LandsIn::Project));
    let decision = first.decision.unwrap();
    assert!(!first.protected && !decision.over_protected && decision.parts.is_none());
}

#[test]
fn settings_of_a_project() {
    let names = ["*.json", "a", "b", "c", "d", "e"];
    let policies = names.into_iter().zip(Policy::ALL);
    let policies: Vec<PathPolicy> = policies
        .map(|(path, policy)| PathPolicy {
            path: path.to_owned(),
            policy,
        })
        .collect();
    check(
        &policies,
        |policies| policies_text(policies),
        parse_policies,
        [golden!("policies/1"), golden!("policies/2")],
    );
    let patterns = vec!["conf/rules".to_owned(), "*.key".to_owned()];
    check(
        &patterns,
        |patterns| protected_text(patterns),
        parse_protected,
        [golden!("protected/1"), golden!("protected/2")],
    );
}

#[test]
fn scopes() {
    let admin = || StoredScope {
        kind: PrincipalKind::Admin,
        agent: None,
        workspace: None,
        project: None,
        home: None,
        allow: Vec::new(),
    };
    check_stored(
        &admin(),
        [golden!("scope_admin/1"), golden!("scope_admin/2")],
    );
    let service = StoredScope {
        kind: PrincipalKind::Service,
        project: Some("web".to_owned()),
        home: Some(ParentProject::Project(3)),
        allow: vec![StoredRule {
            pattern: "src/**".to_owned(),
            operations: vec![
                Operation::Read,
                Operation::Write,
                Operation::Delete,
                Operation::Snapshot,
                Operation::Restore,
            ],
        }],
        ..admin()
    };
    check_stored(&service, [golden!("scope/1"), golden!("scope/2")]);
    let agent = StoredScope {
        kind: PrincipalKind::Agent,
        agent: Some("ada".to_owned()),
        home: Some(ParentProject::None),
        ..admin()
    };
    check_stored(&agent, [golden!("scope_agent/1"), golden!("scope_agent/2")]);
    let user = StoredScope {
        kind: PrincipalKind::User,
        workspace: Some("w".to_owned()),
        ..admin()
    };
    let goldens = [golden!("scope_workspace/1"), golden!("scope_workspace/2")];
    check_stored(&user, goldens);
}

#[test]
fn notes_of_forks() {
    let hex = |digit: char| id(digit).to_hex();
    let note = ForkNote {
        id: "cyd".to_owned(),
        project: "web".to_owned(),
        base: hex('a'),
        agent: Some("cyd".to_owned()),
        priority: -2,
        provider: "copy".to_owned(),
        created_at: 1_794_921_555_784_458,
        handed_out: true,
        git: true,
        origin: Some(hex('b')),
        layers: vec![LayerNote {
            name: "01a1".to_owned(),
            tree: hex('c'),
            sidecar: hex('d'),
            level: 1,
            entries: 7,
            bytes: 82,
        }],
        setup: None,
        boot: Some("2812ce65".to_owned()),
        rows_on_disk: false,
    };
    for earlier in [golden!("fork_note/1"), golden!("fork_note/2")] {
        assert_eq!(parse_text::<ForkNote>(earlier).unwrap(), note);
    }
    let newest = golden!("fork_note/3");
    let note = ForkNote {
        setup: Some("01a2-cd.setup".to_owned()),
        ..note
    };
    assert_eq!(format!("{}\n", to_text(&note).unwrap()), newest);
    assert_eq!(parse_text::<ForkNote>(newest).unwrap(), note);
    let note = UpdateNote {
        target: "/data/tmp/next-1".into(),
        carry: vec!["target".to_owned(), "a\\xff".to_owned()],
        git_from: Some(hex('a')),
    };
    check_stored(&note, [golden!("update_note/1"), golden!("update_note/2")]);
    let first: UpdateNote = parse_text(golden!("update_note/1-first")).unwrap();
    assert_eq!(first.git_from, None);
}

/// Every id is replaced, also one that occurs twice, and no text that only looks like an id.
#[test]
fn ids_are_replaced_as_values() {
    let new = |old: ObjectId| if old == id('b') { old } else { id('f') };
    let mut merge = Completed {
        workspace: id('a').to_hex(),
        ..receipt()
    };
    replace_ids_in_receipt(&mut merge, &new);
    let ids = (merge.snapshot, merge.theirs, merge.since);
    assert_eq!(ids, (Some(id('f')), Some(id('b')), Some(id('f'))));
    assert_eq!(merge.decided[0].lost, Some(id('f')));
    assert_eq!(merge.workspace, id('a').to_hex());
    let mut details = review();
    details.kind = id('a').to_hex();
    details.replace_ids(&new);
    let text = to_text(&details).unwrap();
    for gone in ['c', 'd', 'e'] {
        assert!(!text.contains(&id(gone).to_hex()), "{text}");
    }
    assert_eq!(text.matches(&id('a').to_hex()).count(), 1, "{text}");
    assert_eq!(text.matches(&id('b').to_hex()).count(), 1, "{text}");
    assert_eq!(text.matches(&id('f').to_hex()).count(), 5, "{text}");
}

#[test]
fn setup() {
    let setup = Setup {
        command: vec!["npm".to_owned(), "ci".to_owned()],
        on: vec!["package-lock.json".to_owned()],
    };
    let golden = golden!("setup/1");
    assert_eq!(format!("{}\n", to_text(&setup).unwrap()), golden);
    assert_eq!(parse_text::<Setup>(golden).unwrap(), setup);
}

#[test]
fn link() {
    let link = Link {
        repository: "/src/app".to_owned(),
        branch: "main".to_owned(),
        auto: true,
        taken: id('a'),
        pulled_at: Some(1_794_921_545_941_144),
        pushed: Some(PushedBranch {
            branch: "offshoot/main".to_owned(),
            commit: id('b'),
            at: 1_794_921_546_010_824,
        }),
        pending: Some(PendingPull {
            workspace: 7,
            tip: id('c'),
        }),
        purged: false,
    };
    let golden = golden!("link/1");
    assert_eq!(format!("{}\n", to_text(&link).unwrap()), golden);
    assert_eq!(parse_text::<Link>(golden).unwrap(), link);
    let newer = golden.replacen("\"version\":1", "\"version\":2", 1);
    let refused = parse_text::<Link>(newer).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unsupported, "{refused}");
    // A purge of what both have is noted; one of anything else is not.
    let mut purged = link.clone();
    purged.replace_ids(&|old| if old == id('a') { id('f') } else { old });
    assert!(purged.purged && purged.taken == link.taken);
    purged = link.clone();
    purged.replace_ids(&|old| if old == id('a') { old } else { id('f') });
    assert_eq!(purged, link);
}

#[test]
fn source() {
    let source = DirectorySource {
        directory: Some("/src/app".to_owned()),
        ignore_rules: true,
        taken: id('a'),
        sidecar: id('b'),
        pending: Some(PendingDirectory {
            workspace: 7,
            taken: id('c'),
            sidecar: id('d'),
        }),
    };
    let golden = golden!("source/1");
    assert_eq!(format!("{}\n", to_text(&source).unwrap()), golden);
    assert_eq!(parse_text::<DirectorySource>(golden).unwrap(), source);
    let mut purged = source.clone();
    purged.replace_ids(&|old| if old == id('c') { id('e') } else { old });
    assert_eq!(purged.pending.unwrap().taken, id('e'));
    assert_eq!(purged.taken, source.taken);
}
