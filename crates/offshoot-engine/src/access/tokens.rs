//! Tokens: random, shown once, stored as a hash, taken back at any time.

use std::time::Duration;

use offshoot_core::{Cause, Error, ErrorCode, Operator, Result, Timestamp, to_hex};
use offshoot_store::{Durability, ReadTx, TokenRow};
use sha2::{Digest, Sha256};

use crate::access::AccessControl;
use crate::access::agent_tree::check_known;
use crate::access::{Principal, PrincipalKind, Reach, Scope};
use crate::content::rows::{ParentProject, last_row_in, open_project, parent_project};

/// How every secret begins, so that scanners for leaked secrets can know it.
pub const TOKEN_PREFIX: &str = "ofs_";
/// The longest label, in bytes.
const MAX_LABEL: usize = 128;

/// A token without its secret.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its name, which is no secret.
    pub id: String,
    /// What its holder may do.
    pub scope: Scope,
    /// What it is for.
    pub label: Option<String>,
    /// Who issued it.
    pub issued_by: Operator,
    /// When it was issued.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}

/// A new token with its secret, which cannot be shown again.
#[derive(Clone, Debug)]
pub struct IssuedToken {
    /// The token.
    pub token: Token,
    /// What its holder presents.
    pub secret: String,
}

impl AccessControl {
    /// Issues a token. The secret is in the answer and nowhere else. One for an agent, a workspace
    /// or a project that does not exist is refused: what gets that name later would be open to the
    /// token.
    pub fn issue_token(
        &self,
        scope: &Scope,
        label: Option<&str>,
        ttl: Option<Duration>,
        cause: &Cause,
    ) -> Result<IssuedToken> {
        let end = ttl.map(|ttl| after(self.context.now(), ttl));
        self.issue_token_until(scope, label, end, cause)
    }

    /// Like [`issue_token`](Self::issue_token), with the moment at which the token ends.
    pub(crate) fn issue_token_until(
        &self,
        scope: &Scope,
        label: Option<&str>,
        expires_at: Option<Timestamp>,
        cause: &Cause,
    ) -> Result<IssuedToken> {
        check_label(label)?;
        let home = self.store().read(|tx| home_of_reach(tx, &scope.reach))?;
        let secret = new_secret()?;
        let row = TokenRow {
            id: format!("tok-{}", uuid::Uuid::now_v7().simple()),
            hash: hash_of(&secret),
            scope: scope.to_stored(home)?,
            label: label.map(str::to_owned),
            issued_by: cause.operator.clone(),
            created_at: self.context.now(),
            expires_at,
            revoked_at: None,
        };
        self.store()
            .write(Durability::Synced, |tx| tx.add_token(&row))?;
        Ok(IssuedToken {
            token: token_of(row)?,
            secret,
        })
    }

    /// Tokens in the order of their ids, which is the order in which they were issued.
    pub fn tokens(&self, after: Option<&str>, limit: usize) -> Result<Vec<Token>> {
        let rows = self.store().read(|tx| tx.tokens(after, limit))?;
        rows.into_iter().map(token_of).collect()
    }

    /// Takes a token back. Returns false if it had been taken back before.
    pub fn revoke_token(&self, id: &str) -> Result<bool> {
        let at = self.context.now();
        let (known, revoked) = self.store().write(Durability::Synced, |tx| {
            let known = tx.tokens(None, 0)?.iter().any(|row| row.id == id);
            Ok((known, tx.revoke_token(id, at)?))
        })?;
        if !known {
            return Err(
                Error::invalid(format!("there is no token `{}`", id.escape_debug()))
                    .with_hint("`offshoot token list` shows those there are"),
            );
        }
        Ok(revoked)
    }

    /// Who presents this secret. Unknown, expired and revoked ones answer alike.
    pub fn authenticate(&self, secret: &str) -> Result<Principal> {
        let refused = || {
            Error::new(ErrorCode::Unauthorized, "no valid token was given")
                .with_hint("send `Authorization: Bearer TOKEN`; `offshoot token issue` makes one")
        };
        if !secret.starts_with(TOKEN_PREFIX) {
            return Err(refused());
        }
        let hash = hash_of(secret);
        let row = self.store().read(|tx| tx.token_by_hash(&hash))?;
        let now = self.context.now();
        let valid = row.filter(|row| {
            row.revoked_at.is_none() && row.expires_at.is_none_or(|expires| now < expires)
        });
        let row = valid.ok_or_else(refused)?;
        let (_, home) = Scope::and_home_from_stored(&row.scope)?;
        let token = token_of(row)?;
        if !self.is_same_project(&token.scope.reach, home)? {
            return Err(refused());
        }
        Ok(Principal {
            operator: operator_of(&token),
            expires_at: token.expires_at,
            scope: token.scope,
            token: Some(token.id),
            home,
        })
    }

    /// Whether the project of a token is not a new one that got the name of a deleted one.
    fn is_same_project(&self, reach: &Reach, home: Option<ParentProject>) -> Result<bool> {
        let (Reach::Project(id), Some(home)) = (reach, home) else {
            return Ok(true);
        };
        let named = self.store().read(|tx| tx.project(id))?;
        Ok(named.is_none_or(|named| ParentProject::Project(named.key.0) == home))
    }
}

/// What a new token is bound to. An agent of the tree is bound to its workspaces itself.
fn home_of_reach(tx: &dyn ReadTx, reach: &Reach) -> Result<Option<ParentProject>> {
    match reach {
        Reach::Everything => Ok(None),
        Reach::Project(id) => parent_project(tx, &open_project(tx, id)?).map(Some),
        Reach::Workspace(id) => parent_project(tx, &last_row_in(tx, id)?).map(Some),
        Reach::Agent(agent) => {
            check_known(tx, agent)?;
            if tx.agent(agent)?.is_some() {
                return Ok(None);
            }
            parent_project(tx, &last_row_in(tx, &agent.as_str().parse()?)?).map(Some)
        }
    }
}

/// Who the holder of a token is in the history.
fn operator_of(token: &Token) -> Operator {
    match (&token.scope.reach, token.scope.kind) {
        (Reach::Agent(agent), _) => Operator::new(agent.as_str()),
        (_, PrincipalKind::User) => Operator::user(),
        _ => Operator::new(token.label.as_deref().unwrap_or(match token.scope.kind {
            PrincipalKind::Admin => "admin",
            _ => &token.id,
        })),
    }
}

/// A label ends up as an operator's name, so it must not be taken for one of ours.
fn check_label(label: Option<&str>) -> Result<()> {
    let Some(label) = label else { return Ok(()) };
    let reserved = [Operator::system(), Operator::outside()];
    if label.len() > MAX_LABEL
        || Operator::new(label).as_str() != label
        || reserved.iter().any(|name| name.as_str() == label)
    {
        return Err(Error::invalid(format!(
            "the label `{}` is refused",
            label.escape_debug()
        ))
        .with_hint("use up to 128 bytes, no control characters, no `<` or `>`; `system` and `outside` are reserved"));
    }
    Ok(())
}

fn token_of(row: TokenRow) -> Result<Token> {
    Ok(Token {
        scope: Scope::from_stored(&row.scope)?,
        id: row.id,
        label: row.label,
        issued_by: row.issued_by,
        created_at: row.created_at,
        expires_at: row.expires_at,
        revoked_at: row.revoked_at,
    })
}

/// A secret holds 256 random bits, so one round of a hash protects it as well as many would.
fn hash_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A new secret for a token or a sign-in.
pub fn new_secret() -> Result<String> {
    Ok(format!("{TOKEN_PREFIX}{}", random_hex()?))
}

/// 256 random bits that nobody can guess, in hexadecimal digits.
pub fn random_hex() -> Result<String> {
    Ok(to_hex(&random_bytes(32)?))
}

/// So many random bytes that nobody can guess.
pub fn random_bytes(count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(|cause| {
        Error::internal("the system gives no random numbers").with_source(cause)
    })?;
    Ok(bytes)
}

fn after(at: Timestamp, ttl: Duration) -> Timestamp {
    let micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
    Timestamp(at.0.saturating_add(micros))
}
