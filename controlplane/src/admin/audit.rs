//! Looking at the audit.

use moonbridge_proto::v1;
use tonic::Status;

use super::page::page_while;
use crate::audit::KINDS;
use crate::keys;
use crate::replica::Replica;

pub(super) async fn list(replica: &Replica, request: v1::ListAuditRequest) -> Result<v1::ListAuditResponse, Status> {
    check_kind(&request.what)?;
    let within = |record: &v1::AuditRecord| record.unix_ms >= request.since_unix_ms;
    let keep = |record: &v1::AuditRecord| {
        (request.who.is_empty() || record.who == request.who)
            && is_of_kind(&record.what, &request.what)
            && record.target.contains(&request.target)
    };
    let at = (request.page_size, request.page_token.as_str());
    let (records, next_page_token) = page_while(&*replica.store, keys::AUDIT, at, within, keep).await?;
    Ok(v1::ListAuditResponse { records, next_page_token })
}

/// Refuses a kind that no change is of: nothing found would pass for nothing done.
fn check_kind(kind: &str) -> Result<(), Status> {
    let first = kind.split('.').next().unwrap_or_default();
    match first.is_empty() || KINDS.contains(&first) {
        true => Ok(()),
        false => Err(Status::invalid_argument(format!(
            "what: expected {}, or one of their changes, such as backend.set; got {kind:?}",
            KINDS.join(", ")
        ))),
    }
}

/// Whether "backend.set" is of the kind "backend" or "backend.set" (or ""); it is not of the kind "back".
fn is_of_kind(what: &str, kind: &str) -> bool {
    what.strip_prefix(kind).is_some_and(|rest| kind.is_empty() || rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_there_are_none_of_are_refused() {
        for kind in ["", "backend", "permission.user.change"] {
            assert!(check_kind(kind).is_ok(), "{kind}");
        }
        assert!(check_kind("nope").expect_err("none").message().contains("backend, permission, route, settings, token"));
    }

    #[test]
    fn kinds_are_whole_words() {
        for kind in ["", "backend", "backend.set"] {
            assert!(is_of_kind("backend.set", kind), "{kind}");
        }
        for kind in ["back", "backend.", "backend.se", "backend.set.x", "set"] {
            assert!(!is_of_kind("backend.set", kind), "{kind}");
        }
    }
}
