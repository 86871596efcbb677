//! What a store must do with rows of tokens.

use offshoot_core::{ErrorCode, Operator, Timestamp};

use super::fixtures::{read, try_write, write};
use crate::{MetaStore, TokenRow};

fn token(id: &str, first: u8) -> TokenRow {
    let mut hash = [7; 32];
    hash[0] = first;
    TokenRow {
        id: id.into(),
        hash,
        scope: "{}".into(),
        label: Some("for a test".into()),
        issued_by: Operator::user(),
        created_at: Timestamp(5),
        expires_at: Some(Timestamp(9)),
        revoked_at: None,
    }
}

pub(super) fn tokens_are_added_found_and_revoked(meta: &dyn MetaStore) {
    let (a, b) = (token("a", 1), token("b", 2));
    write(meta, |tx| {
        tx.add_token(&b)?;
        tx.add_token(&a)
    });
    assert_eq!(read(meta, |tx| tx.tokens(None, 0)), [a.clone(), b.clone()]);
    let ids = |after, limit| {
        let rows = read(meta, |tx| tx.tokens(after, limit));
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(Some("a"), 5), ["b"]);
    assert_eq!(ids(None, 1), ["a"]);
    let found = read(meta, |tx| tx.token_by_hash(&a.hash));
    assert_eq!(found, Some(a.clone()));
    assert_eq!(read(meta, |tx| tx.token_by_hash(&[0; 32])), None);
    // Neither an id nor a secret is given out twice.
    for twin in [token("a", 9), token("c", 1)] {
        let refused = try_write(meta, |tx| tx.add_token(&twin)).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::AlreadyExists);
    }
    assert!(write(meta, |tx| tx.revoke_token("a", Timestamp(6))));
    // The moment of the first revocation stays.
    assert!(!write(meta, |tx| tx.revoke_token("a", Timestamp(7))));
    assert!(!write(meta, |tx| tx.revoke_token("unknown", Timestamp(7))));
    let revoked = read(meta, |tx| tx.token_by_hash(&a.hash)).unwrap();
    assert_eq!(revoked.revoked_at, Some(Timestamp(6)));
    assert_eq!(read(meta, |tx| tx.token_by_hash(&b.hash)), Some(b.clone()));
}
