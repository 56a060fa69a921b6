//! Permissions by the PermissionService: on the embedded store, and on two replicas over a real etcd.

mod ask;
mod changes;
mod import;
mod unreadable;

use moonbridge_controlplane::config::StoreConfig;
use moonbridge_controlplane::store::etcd::{Etcd as EtcdStore, EtcdOptions};
use moonbridge_controlplane::store::{List, Store};
use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_edit::Edit;
use moonbridge_proto::v1::permission_service_client::PermissionServiceClient;
use moonbridge_testing::etcd::Etcd;
use tempfile::tempdir;
use tonic::transport::Channel;

use crate::support::{Replica, config};

type Client = PermissionServiceClient<Channel>;

const ADA: &str = "00000000-0000-4000-8000-00000000000a";
const BOB: &str = "00000000-0000-4000-8000-00000000000b";

/// Has a test done with an embedded replica, and with two over etcd: what is done at the one is seen at the other.
async fn on_both_stores(test: impl AsyncFn(Client, Client)) {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    test(client(&replica).await, client(&replica).await).await;
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (on_etcd(&etcd).await, on_etcd(&etcd).await);
    test(client(&one).await, client(&two).await).await;
}

async fn on_etcd(etcd: &Etcd) -> Replica {
    Replica::start(config(StoreConfig::Etcd { endpoints: vec![etcd.url()], prefix: "/test/".to_owned() })).await
}

/// The store of such replicas.
async fn store_of(etcd: &Etcd) -> EtcdStore {
    let options = EtcdOptions { endpoints: vec![etcd.url()], prefix: "/test/".to_owned(), tls: None, user: None };
    EtcdStore::connect(options).await.expect("the store")
}

/// The keys of all permissions that have a generation.
async fn generations(store: &dyn Store) -> Vec<String> {
    let mut keys = Vec::new();
    for prefix in ["resources/permissions/groups/", "resources/permissions/tracks/", "permissions/users/", "permissions/names/"] {
        let mut list = List { prefix: prefix.to_owned(), ..List::default() };
        loop {
            let page = store.list(list.clone()).await.expect("a page");
            keys.extend(page.entries.into_iter().map(|entry| entry.key));
            if !page.more {
                break;
            }
            list.after.clone_from(keys.last().expect("a key"));
        }
    }
    let generation = |key: &String| key.rsplit('/').nth(1).expect("a generation").to_owned();
    let mut generations: Vec<_> = keys.iter().map(generation).collect();
    generations.sort();
    generations.dedup();
    generations
}

async fn client(replica: &Replica) -> Client {
    let channel = Channel::from_shared(replica.url.clone()).expect("a URL").connect().await.expect("the replica");
    PermissionServiceClient::new(channel).max_decoding_message_size(64 << 20)
}

fn node(key: &str, value: bool) -> v1::PermissionNode {
    v1::PermissionNode { key: key.to_owned(), value, ..v1::PermissionNode::default() }
}

fn in_world(node: v1::PermissionNode, world: &str) -> v1::PermissionNode {
    v1::PermissionNode { contexts: vec![context("world", world)], ..node }
}

fn context(key: &str, value: &str) -> v1::PermissionContext {
    v1::PermissionContext { key: key.to_owned(), value: value.to_owned() }
}

fn set(node: v1::PermissionNode) -> Edit {
    Edit::Set(v1::SetNode { node: Some(node), temporary: 0 })
}

fn unset(key: &str) -> Edit {
    Edit::Unset(v1::UnsetNode { key: key.to_owned(), ..v1::UnsetNode::default() })
}

fn change_user(player: &str, edits: impl IntoIterator<Item = Edit>) -> v1::ChangeUserRequest {
    let edits = edits.into_iter().map(|edit| v1::PermissionEdit { edit: Some(edit) }).collect();
    v1::ChangeUserRequest { player: player.to_owned(), edits, expected_revision: None }
}

fn change_group(name: &str, edits: impl IntoIterator<Item = Edit>) -> v1::ChangeGroupRequest {
    let edits = edits.into_iter().map(|edit| v1::PermissionEdit { edit: Some(edit) }).collect();
    v1::ChangeGroupRequest { name: name.to_owned(), edits, expected_revision: None }
}

async fn create_group(client: &mut Client, name: &str) {
    client.create_group(v1::CreateGroupRequest { name: name.to_owned() }).await.expect("a group");
}

fn track(name: &str, groups: &[&str]) -> v1::PermissionTrack {
    v1::PermissionTrack { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
}

async fn set_track(client: &mut Client, name: &str, groups: &[&str]) {
    let request = v1::SetTrackRequest { track: Some(track(name, groups)), ..v1::SetTrackRequest::default() };
    client.set_track(request).await.expect("a track");
}

async fn user(client: &mut Client, player: &str) -> v1::PermissionUserState {
    client.get_user(v1::GetUserRequest { player: player.to_owned() }).await.expect("a user").into_inner()
}

/// The keys of a user's nodes.
async fn keys_of(client: &mut Client, player: &str) -> Vec<String> {
    let user = user(client, player).await.user.expect("a user");
    user.nodes.into_iter().map(|node| node.key).collect()
}

async fn check(client: &mut Client, player: &str, permission: &str, contexts: Vec<v1::PermissionContext>) -> v1::PermissionAnswer {
    let request = v1::CheckRequest { player: player.to_owned(), permissions: vec![permission.to_owned()], contexts, exact_contexts: false };
    client.check(request).await.expect("an answer").into_inner().answers().next().expect("an answer")
}
