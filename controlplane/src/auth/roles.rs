//! Which role each call needs.

use moonbridge_proto::v1::Role::{self, Admin, Operator, Viewer};

/// Every call there is. One that is missing here is refused to everybody.
#[rustfmt::skip]
const NEEDED: &[(&str, Role)] = &[
    // Looking.
    ("/moonbridge.v1.AdminService/ListNodes", Viewer),
    ("/moonbridge.v1.AdminService/ListBackends", Viewer),
    ("/moonbridge.v1.AdminService/ListRoutes", Viewer),
    ("/moonbridge.v1.AdminService/TestRoute", Viewer),
    ("/moonbridge.v1.AdminService/ListPlayers", Viewer),
    ("/moonbridge.v1.AdminService/ListCommands", Viewer),
    ("/moonbridge.v1.AdminService/WatchCommands", Viewer),
    ("/moonbridge.v1.AdminService/GetSettings", Viewer),
    ("/moonbridge.v1.PermissionService/Check", Viewer),
    ("/moonbridge.v1.PermissionService/Explain", Viewer),
    ("/moonbridge.v1.PermissionService/GetUser", Viewer),
    ("/moonbridge.v1.PermissionService/GetGroup", Viewer),
    ("/moonbridge.v1.PermissionService/ListUsers", Viewer),
    ("/moonbridge.v1.PermissionService/ListGroups", Viewer),
    ("/moonbridge.v1.PermissionService/ListTracks", Viewer),
    ("/moonbridge.v1.PermissionService/Search", Viewer),
    ("/moonbridge.v1.PermissionService/GetPermissionSettings", Viewer),
    ("/moonbridge.v1.PermissionService/Export", Viewer),
    ("/moonbridge.v1.PermissionService/Watch", Viewer),
    // Moving players about, and what is taken back as easily as done.
    ("/moonbridge.v1.AdminService/DrainNode", Operator),
    ("/moonbridge.v1.AdminService/DrainBackend", Operator),
    ("/moonbridge.v1.AdminService/KickPlayer", Operator),
    ("/moonbridge.v1.AdminService/MessagePlayer", Operator),
    ("/moonbridge.v1.AdminService/StartTransfers", Operator),
    ("/moonbridge.v1.AdminService/RecordSession", Operator),
    // It only looks, but leaves the record of a command behind.
    ("/moonbridge.v1.PermissionService/CheckSession", Operator),
    // Everything else: what the network is, and who may change it.
    ("/moonbridge.v1.AdminService/SetBackend", Admin),
    ("/moonbridge.v1.AdminService/RemoveBackend", Admin),
    ("/moonbridge.v1.AdminService/RestrictBackend", Admin),
    ("/moonbridge.v1.AdminService/SetPluginChannel", Admin),
    ("/moonbridge.v1.AdminService/SetRoute", Admin),
    ("/moonbridge.v1.AdminService/RemoveRoute", Admin),
    ("/moonbridge.v1.AdminService/SetSettings", Admin),
    ("/moonbridge.v1.AdminService/CreateToken", Admin),
    ("/moonbridge.v1.AdminService/ListTokens", Admin),
    ("/moonbridge.v1.AdminService/RevokeToken", Admin),
    ("/moonbridge.v1.AdminService/ListAudit", Admin),
    ("/moonbridge.v1.PermissionService/ChangeUser", Admin),
    ("/moonbridge.v1.PermissionService/ChangeGroup", Admin),
    ("/moonbridge.v1.PermissionService/CreateGroup", Admin),
    ("/moonbridge.v1.PermissionService/DeleteGroup", Admin),
    ("/moonbridge.v1.PermissionService/SetTrack", Admin),
    ("/moonbridge.v1.PermissionService/DeleteTrack", Admin),
    ("/moonbridge.v1.PermissionService/Promote", Admin),
    ("/moonbridge.v1.PermissionService/SetPermissionSettings", Admin),
    ("/moonbridge.v1.PermissionService/Import", Admin),
    // A node is given the backends' forwarding tokens, and says who is online.
    ("/moonbridge.v1.NodeService/Attach", Admin),
];

/// The least role that may make the call with this path; `None`: there is no such call.
pub(super) fn needed(path: &str) -> Option<Role> {
    NEEDED.iter().find(|(call, _)| *call == path).map(|(_, role)| *role)
}

/// A role as people write it.
pub(crate) fn name(role: Role) -> &'static str {
    match role {
        Role::Unspecified => "none",
        Viewer => "viewer",
        Operator => "operator",
        Admin => "admin",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The calls that the .proto files have.
    fn declared() -> BTreeSet<String> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto");
        let files = ["admin", "node", "permissions"].map(|file| format!("moonbridge/v1/{file}.proto"));
        let descriptors = protox::compile(files, [folder]).expect("our .proto files");
        let calls = descriptors.file.iter().flat_map(|file| {
            file.service.iter().flat_map(move |service| {
                service.method.iter().map(move |method| format!("/{}.{}/{}", file.package(), service.name(), method.name()))
            })
        });
        calls.collect()
    }

    #[test]
    fn every_call_has_a_role_and_none_has_two() {
        let listed: BTreeSet<_> = NEEDED.iter().map(|(call, _)| (*call).to_owned()).collect();
        assert_eq!(listed, declared());
        assert_eq!(listed.len(), NEEDED.len());
        assert!(NEEDED.iter().all(|(_, role)| *role > Role::Unspecified));
    }

    #[test]
    fn what_changes_nothing_is_for_viewers_and_secrets_are_for_admins() {
        for (call, role) in NEEDED {
            let name = call.rsplit('/').next().unwrap_or_default();
            let looks = ["Get", "List", "Check", "Watch", "Search", "Explain", "Export", "Test"].iter().any(|verb| name.starts_with(verb));
            let secret = name.contains("Token") || name.contains("Audit");
            let leaves_a_record = name == "CheckSession";
            assert_eq!(*role == Viewer, looks && !secret && !leaves_a_record, "{call}");
        }
        assert_eq!(needed("/moonbridge.v1.AdminService/Nothing"), None);
        assert!(Viewer < Operator && Operator < Admin);
    }
}
