//! Records that something else than a control plane wrote: named or left out, in nothing's way, and repaired by the calls that there are.

use moonbridge_controlplane::store::{Change, Committed, Store, Txn};
use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_edit::Edit;
use moonbridge_proto::v1::permission_record::Record;
use moonbridge_testing::etcd::Etcd;
use tonic::Code;

use super::*;
use crate::support::refused;

const DAMAGED: [&str; 5] = [
    "permissions/users/0/00000000-0000-4000-8000-00000000000a",
    "resources/permissions/groups/0/mod",
    "resources/permissions/groups/0/old",
    "resources/permissions/tracks/0/staff",
    "resources/permissions/settings",
];

async fn damage(store: &dyn Store) {
    let put = |key: &str| Change::Put { key: key.to_owned(), value: vec![0xff], lease: 0 };
    let changes = DAMAGED.map(put).into_iter().chain([Change::Put { key: "resources/revision".to_owned(), value: Vec::new(), lease: 0 }]);
    let committed = store.txn(Txn { compares: Vec::new(), changes: changes.collect() }).await.expect("an answer");
    assert!(matches!(committed, Committed::Yes(_)));
}

fn clear() -> Edit {
    Edit::Clear(v1::ClearNodes { kind: v1::ClearKind::All.into(), ..v1::ClearNodes::default() })
}

async fn groups_of(client: &mut Client) -> Vec<String> {
    let groups = client.list_groups(v1::ListGroupsRequest::default()).await.expect("groups").into_inner().groups;
    groups.into_iter().filter_map(|state| state.group).map(|group| group.name).collect()
}

async fn tracks_of(client: &mut Client) -> usize {
    client.list_tracks(v1::ListTracksRequest {}).await.expect("tracks").into_inner().tracks.len()
}

async fn export(client: &mut Client) -> (Vec<String>, usize) {
    let mut stream = client.export(v1::ExportRequest {}).await.expect("an export").into_inner();
    let (mut unreadable, mut readable) = (Vec::new(), 0);
    while let Some(record) = stream.message().await.expect("no error") {
        match record.record.expect("a record") {
            Record::Unreadable(key) => unreadable.push(key),
            _ => readable += 1,
        }
    }
    unreadable.sort();
    (unreadable, readable)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_left_out_by_name_and_can_be_cleared_deleted_and_set() {
    let etcd = Etcd::start().await.expect("etcd");
    let replica = on_etcd(&etcd).await;
    let mut client = client(&replica).await;
    create_group(&mut client, "helper").await;
    client.change_user(change_user(BOB, [set(node("a", true))])).await.expect("changed");
    damage(&store_of(&etcd).await).await;

    let no_mod = v1::GetGroupRequest { name: "mod".to_owned() };
    refused(client.get_group(no_mod).await, Code::DataLoss, &["groups/0/mod", "clear it"]);
    refused(client.get_user(v1::GetUserRequest { player: ADA.to_owned() }).await, Code::DataLoss, &[ADA, "clear it"]);
    assert_eq!((groups_of(&mut client).await, tracks_of(&mut client).await), (vec!["default".to_owned(), "helper".to_owned()], 0));
    let users = client.list_users(v1::ListUsersRequest::default()).await.expect("users").into_inner().users;
    assert_eq!(users.into_iter().filter_map(|state| state.user).map(|user| user.uuid).collect::<Vec<_>>(), [BOB]);
    let mut named: Vec<_> = DAMAGED[..4].iter().map(|key| (*key).to_owned()).collect();
    named.sort();
    assert_eq!(export(&mut client).await, (named, 2));

    // A change that needs to know what there was is refused.
    refused(client.change_user(change_user(ADA, [set(node("a", true))])).await, Code::DataLoss, &[ADA]);
    refused(client.change_group(change_group("mod", [set(node("a", true))])).await, Code::DataLoss, &["groups/0/mod"]);
    client.change_user(change_user(ADA, [clear()])).await.expect("cleared");
    assert!(user(&mut client, ADA).await.revision == 0, "nothing is stored any more");
    client.change_group(change_group("mod", [clear()])).await.expect("cleared");
    client.change_group(change_group("mod", [set(node("a", true)), set(node("group.helper", true))])).await.expect("changed");
    client.delete_group(v1::DeleteGroupRequest { name: "old".to_owned(), expected_revision: None }).await.expect("deleted");
    set_track(&mut client, "staff", &["mod"]).await;
    refused(client.get_permission_settings(v1::GetPermissionSettingsRequest {}).await, Code::DataLoss, &["settings"]);
    let settings = v1::PermissionSettings { apply_regex: Some(false), ..v1::PermissionSettings::default() };
    let request = v1::SetPermissionSettingsRequest { settings: Some(settings), expected: None };
    client.set_permission_settings(request).await.expect("set");
    assert_eq!(
        client.get_permission_settings(v1::GetPermissionSettingsRequest {}).await.expect("settings").get_ref().apply_regex,
        Some(false)
    );
    assert_eq!(groups_of(&mut client).await, ["default", "helper", "mod"]);
    assert_eq!(export(&mut client).await, (Vec::new(), 4));

    let audit = replica.admin().await.list_audit(v1::ListAuditRequest::default()).await.expect("the audit").into_inner().records;
    let lost = audit.iter().filter(|record| record.before == ["what could not be read"]).map(|record| &*record.what);
    let mut lost: Vec<_> = lost.collect();
    lost.sort_unstable();
    let expected = ["group.change", "group.delete", "settings.set", "track.set", "user.change"].map(|what| format!("permission.{what}"));
    assert_eq!(lost, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_replaces_what_cannot_be_read_and_adds_nothing_to_it() {
    let etcd = Etcd::start().await.expect("etcd");
    let replica = on_etcd(&etcd).await;
    let mut client = client(&replica).await;
    damage(&store_of(&etcd).await).await;
    let import = |replace| {
        let group = v1::PermissionGroup { name: "mod".to_owned(), nodes: vec![node("a", true)] };
        let user = v1::PermissionUser { uuid: ADA.to_owned(), nodes: vec![node("b", true)], ..v1::PermissionUser::default() };
        let records = [Record::Group(group), Record::User(user)].map(|record| v1::PermissionRecord { record: Some(record) });
        let header = v1::ImportHeader { replace, ..v1::ImportHeader::default() };
        let batch = v1::ImportBatch { records: records.into() };
        let parts = [v1::import_request::Part::Header(header), v1::import_request::Part::Batch(batch)];
        tokio_stream::iter(parts.map(|part| v1::ImportRequest { part: Some(part) }))
    };
    refused(client.import(import(false)).await, Code::DataLoss, &["groups/0/mod", "clear it"]);
    let imported = client.import(import(true)).await.expect("imported").into_inner();
    let added = |added| Some(v1::ImportCount { added, ..v1::ImportCount::default() });
    assert_eq!((imported.groups, imported.tracks, imported.users), (added(1), added(0), added(1)));
    assert_eq!(keys_of(&mut client, ADA).await, ["b"]);
    assert_eq!(groups_of(&mut client).await, ["default", "mod"]);
}
