use moonbridge_proto::v1;
use prost::Message;
use tonic::Code;

use super::*;
use crate::follow::View;
use crate::keys;
use crate::store::Entry;
use crate::tokens::{self, Follower};

const LOOK: &str = "/moonbridge.v1.AdminService/ListNodes";
const MOVE: &str = "/moonbridge.v1.AdminService/StartTransfers";
const CHANGE: &str = "/moonbridge.v1.AdminService/SetBackend";
const ATTACH: &str = "/moonbridge.v1.NodeService/Attach";

/// Asks with this token configured; stored are "viewer", "operator", "admin" and "late", which has expired.
fn ask(configured: Option<&str>, header: Option<&str>, path: &str) -> Result<Caller, Status> {
    let tokens = Tokens::new();
    let entry = |name: &str, role: Role, expires_unix_ms| {
        let sha256 = tokens::hash(name.as_bytes()).to_vec();
        let token = v1::AdminToken { role: role.into(), sha256, expires_unix_ms, ..v1::AdminToken::default() };
        Entry { key: keys::token(name), value: token.encode_to_vec(), modified: 1, lease: 0 }
    };
    let stored = [("viewer", Role::Viewer, 0), ("operator", Role::Operator, 0), ("admin", Role::Admin, 0), ("late", Role::Admin, 1)];
    Follower(tokens.clone()).reset(stored.map(|(name, role, expires)| entry(name, role, expires)).into(), 1);
    let mut headers = HeaderMap::new();
    if let Some(header) = header {
        headers.insert("authorization", header.parse().expect("a header"));
    }
    Auth::new(configured.map(Into::into), tokens).admit(path, &headers).map(|(caller, _)| caller)
}

#[test]
fn only_a_token_passes_and_refusals_say_which_option_to_give() {
    assert_eq!(ask(None, None, CHANGE).expect("allowed"), Caller::admin(ANYONE));
    assert_eq!(ask(Some("secret"), Some("Bearer secret"), CHANGE).expect("allowed"), Caller::admin(CONFIGURED));
    assert_eq!(ask(Some("secret"), Some("bearer secret"), ATTACH).expect("allowed"), Caller::admin(CONFIGURED));
    for wrong in [None, Some("Bearer secre"), Some("Bearer secrets"), Some("Bearer "), Some(""), Some("Bearer late")] {
        let refusal = ask(Some("secret"), wrong, LOOK).expect_err("refused");
        assert_eq!(refusal.code(), Code::Unauthenticated);
        let text = refusal.message();
        assert!(text.contains("token") || text.contains("Bearer"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    assert!(ask(Some("secret"), None, LOOK).expect_err("refused").message().contains("--token-file"));
}

#[test]
fn a_role_allows_what_it_is_for_and_what_lesser_ones_are_for() {
    for (name, allowed) in [("viewer", 1), ("operator", 2), ("admin", 4)] {
        for (index, path) in [LOOK, MOVE, CHANGE, ATTACH].into_iter().enumerate() {
            let answer = ask(Some("secret"), Some(&format!("Bearer {name}")), path);
            match answer {
                Ok(caller) => assert!(index < allowed && &*caller.name == name, "{name} {path}"),
                Err(refusal) => {
                    assert!(index >= allowed, "{name} {path}: {refusal:?}");
                    assert_eq!(refusal.code(), Code::PermissionDenied);
                    assert!(refusal.message().contains(name) && refusal.message().contains(&format!("role {name}")), "{refusal:?}");
                }
            }
        }
    }
    let unknown = ask(Some("secret"), Some("Bearer secret"), "/moonbridge.v1.AdminService/Nothing").expect_err("refused");
    assert_eq!(unknown.code(), Code::Unimplemented);
    assert!(ask(None, None, "/x").is_err());
}

#[test]
fn a_request_that_passed_no_guard_is_nobodys() {
    assert_eq!(caller(&tonic::Request::new(())).role, Role::Unspecified);
}
