//! Making, listing and revoking the tokens of the store.

use std::fmt::Write;
use std::time::Duration;

use moonbridge_proto::snapshot::name_problem;
use moonbridge_proto::v1::{self, Role};
use prost::Message;
use tonic::Status;

use super::page::page;
use crate::audit;
use crate::auth::{Caller, RESERVED, roles};
use crate::commands::now_ms;
use crate::replica::Replica;
use crate::store::{Change, Committed, Compare, Txn};
use crate::{keys, status, tokens};

/// Tokens that there may be, expired ones included.
const MOST: usize = 10_000;
const LONGEST_LIFETIME: Duration = Duration::from_secs(10 * 366 * 24 * 3_600);
/// The wait for this replica to know of a change that it has just made.
const CATCH_UP: Duration = Duration::from_secs(2);

pub(super) async fn create(replica: &Replica, caller: &Caller, request: v1::CreateTokenRequest) -> Result<v1::CreateTokenResponse, Status> {
    let (name, role) = (&request.name, request.role());
    let lifetime = check(&request)?;
    if caller.is_anyone() {
        return Err(Status::failed_precondition(
            "this control plane asks nobody for a token, so that another would protect nothing: set token_file in its configuration first",
        ));
    }
    if replica.tokens.count() >= MOST {
        return Err(Status::resource_exhausted(format!("there are {MOST} tokens: revoke some first (`moonbridge token revoke`)")));
    }
    let secret = secret()?;
    let now = now_ms();
    let token = v1::AdminToken {
        name: name.clone(),
        role: role.into(),
        sha256: tokens::hash(secret.as_bytes()).to_vec(),
        created_unix_ms: now,
        created_by: caller.name.to_string(),
        expires_unix_ms: lifetime.map_or(0, |lifetime| now.saturating_add(i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX))),
    };
    let expires = lifetime.map_or_else(|| "never".to_owned(), |lifetime| format!("after {} s", lifetime.as_secs()));
    let entry = audit::Entry {
        what: "token.create",
        target: format!("token {name}"),
        before: Vec::new(),
        after: vec![format!("role = {}", roles::name(role)), format!("expires = {expires}")],
    };
    let key = keys::token(name);
    let put = Change::Put { key: key.clone(), value: token.encode_to_vec(), lease: 0 };
    if !change(replica, caller, Compare::Absent(key), put, entry).await? {
        return Err(Status::failed_precondition(format!(
            "there is a token {name} already: take another name, or revoke it first (`moonbridge token revoke {name}`)"
        )));
    }
    tracing::info!(by = %caller.name, token = name, role = roles::name(role), "token created");
    Ok(v1::CreateTokenResponse { token: Some(without_hash(token)), secret })
}

pub(super) async fn list(replica: &Replica, request: v1::ListTokensRequest) -> Result<v1::ListTokensResponse, Status> {
    let at = (request.page_size, request.page_token.as_str());
    let (tokens, next_page_token) = page(&*replica.store, keys::TOKENS, at, |_| true).await?;
    Ok(v1::ListTokensResponse { tokens: tokens.into_iter().map(without_hash).collect(), next_page_token })
}

pub(super) async fn revoke(replica: &Replica, caller: &Caller, request: v1::RevokeTokenRequest) -> Result<v1::RevokeTokenResponse, Status> {
    let name = &request.name;
    let unknown = || Status::not_found(format!("there is no token {name:?}: see `moonbridge token list`"));
    // Also one that nobody could have made.
    let key = if name.is_empty() { return Err(unknown()) } else { keys::token(name) };
    let old = replica.store.get(&key).await.map_err(status::store)?.ok_or_else(unknown)?;
    let role = v1::AdminToken::decode(&*old.value).map(|token| token.role()).unwrap_or_default();
    let entry = audit::Entry {
        what: "token.revoke",
        target: format!("token {name}"),
        before: vec![format!("role = {}", roles::name(role))],
        after: Vec::new(),
    };
    if !change(replica, caller, Compare::Modified(key.clone(), old.modified), Change::Delete(key), entry).await? {
        return Err(Status::aborted(format!("the token {name} was revoked at the same time: see `moonbridge token list`")));
    }
    tracing::info!(by = %caller.name, token = name, "token revoked");
    Ok(v1::RevokeTokenResponse {})
}

/// What is wrong with a request for a token, or else its lifetime.
fn check(request: &v1::CreateTokenRequest) -> Result<Option<Duration>, Status> {
    let invalid = |problem: String| Err(Status::invalid_argument(problem));
    if let Some(problem) = name_problem(&request.name) {
        return invalid(format!("name: {problem}"));
    }
    if RESERVED.contains(&request.name.as_str()) {
        return invalid(format!("name: {:?} is what the audit calls somebody else: take another", request.name));
    }
    if request.role() == Role::Unspecified {
        return invalid(format!("role: expected viewer, operator or admin, got {}", request.role));
    }
    match Duration::from_secs(request.lifetime_seconds) {
        Duration::ZERO => Ok(None),
        lifetime if lifetime <= LONGEST_LIFETIME => Ok(Some(lifetime)),
        _ => invalid(format!("lifetime_seconds: expected at most {}, got {}", LONGEST_LIFETIME.as_secs(), request.lifetime_seconds)),
    }
}

/// A new token: `mb_` and 32 random bytes in hexadecimal, which is a valid `token_file` as it stands.
fn secret() -> Result<String, Status> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| Status::internal(format!("no random numbers: {error}")))?;
    let mut secret = String::from("mb_");
    for byte in random {
        // A String takes everything.
        let _ = write!(secret, "{byte:02x}");
    }
    Ok(secret)
}

/// Changes a token together with its record; false if it is not as it was. This replica knows of it when this returns, the others soon
/// after.
async fn change(replica: &Replica, caller: &Caller, compare: Compare, change: Change, entry: audit::Entry) -> Result<bool, Status> {
    let changes = vec![change, entry.change(caller, &replica.name)];
    match replica.store.txn(Txn { compares: vec![compare], changes }).await.map_err(status::change)? {
        Committed::Yes(revision) => {
            let _ = tokio::time::timeout(CATCH_UP, replica.tokens.caught_up(revision)).await;
            Ok(true)
        }
        Committed::Conflict => Ok(false),
    }
}

/// A token as answers show it.
fn without_hash(token: v1::AdminToken) -> v1::AdminToken {
    v1::AdminToken { sha256: Vec::new(), ..token }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_never_the_same() {
        let (one, other) = (secret().expect("random numbers"), secret().expect("random numbers"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 3 + 64);
        assert!(one.starts_with("mb_") && one.bytes().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn requests_name_what_is_wrong_with_them() {
        let good = v1::CreateTokenRequest { name: "ci".to_owned(), role: Role::Viewer.into(), lifetime_seconds: 0 };
        assert_eq!(check(&good).expect("good"), None);
        assert_eq!(check(&v1::CreateTokenRequest { lifetime_seconds: 60, ..good.clone() }).expect("good"), Some(Duration::from_secs(60)));
        let named = |name: &str| v1::CreateTokenRequest { name: name.to_owned(), ..good.clone() };
        for (wrong, field) in [
            (named(""), "name"),
            (named("Ci"), "name"),
            (named("a/b"), "name"),
            (named("configured"), "name"),
            (named("anyone"), "name"),
            (named("configuration"), "name"),
            (v1::CreateTokenRequest { role: 0, ..good.clone() }, "role"),
            (v1::CreateTokenRequest { role: 9, ..good.clone() }, "role"),
            (v1::CreateTokenRequest { lifetime_seconds: u64::MAX, ..good.clone() }, "lifetime_seconds"),
        ] {
            let refusal = check(&wrong).expect_err("refused");
            assert!(refusal.message().starts_with(&format!("{field}: ")), "{refusal:?}");
        }
    }
}
