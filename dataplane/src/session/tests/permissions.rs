//! Restricted backends, and where checks are made.

use std::sync::Arc;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_proto::v1::{self, PermissionAnswer};
use moonbridge_protocol::name::offline_uuid;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::Clientbound;
use moonbridge_protocol::{login, play as packets};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::stage::*;
use crate::node::Node;
use crate::registry::{Outcome, SessionCommand};

const VIP: &str = "moonbridge.server.vip";

/// What the control plane says that a player has.
fn permissions(name: &str, revision: u64, granted: &[&str]) -> v1::UserPermissions {
    let granted = granted.iter().map(|key| {
        let (world, key) = key.split_once('@').map_or((None, *key), |(world, key)| (Some(world), key));
        let contexts = world.map(|world| v1::PermissionContext { key: "world".into(), value: world.into() });
        v1::PermissionNode { key: key.into(), value: true, contexts: contexts.into_iter().collect(), ..Default::default() }
    });
    let uuid = offline_uuid(name).to_string();
    v1::UserPermissions {
        player_uuid: uuid.clone(),
        revision: Some(v1::Revision { store_id: "test".into(), number: revision }),
        user: Some(v1::PermissionUser { uuid, nodes: granted.collect(), ..Default::default() }),
        ..Default::default()
    }
}

/// Answers the node's claims with what each player has.
fn control(node: &Arc<Node>, granted: &'static [&'static str]) -> JoinHandle<()> {
    node.registry.set_attached(true);
    let node = node.clone();
    tokio::spawn(async move {
        loop {
            node.registry.asked.notified().await;
            for claim in node.registry.take_asks() {
                let permissions = Some(permissions(&claim.player, 1, granted));
                let answer = v1::ClaimAnswer { session_id: claim.session_id, held: true, players_elsewhere: 0, permissions };
                node.registry.answered(answer);
            }
        }
    })
}

/// What a player who is not let in is told.
async fn turned_away(node: &Arc<Node>) -> String {
    let mut player = connect(node).await;
    player.greet("Steve", 5).await;
    let told = login::read_disconnect(&player.frame().await.payload).expect("a reason").plain();
    player.ends().await;
    told
}

fn ask(node: &Node, command: impl FnOnce(oneshot::Sender<Outcome>) -> SessionCommand) -> oneshot::Receiver<Outcome> {
    let (reply, outcome) = oneshot::channel();
    let (sessions, _) = node.registry.subscribe();
    let id = sessions[0].id.parse().expect("a UUID");
    node.registry.command(&id, command(reply)).map_err(|(why, _)| why).expect("delivered");
    outcome
}

/// The player itself asks to move.
fn go(node: &Node, to: &str) -> oneshot::Receiver<Outcome> {
    ask(node, |reply| SessionCommand::Transfer { to: to.into(), as_player: true, traceparent: String::new(), deadline: None, reply })
}

async fn check(node: &Node, permission: &str) -> (PermissionAnswer, String) {
    let outcome = outcome(ask(node, |reply| SessionCommand::Check { permission: permission.into(), reply })).await;
    assert!(outcome.succeeded, "{outcome:?}");
    (outcome.result.answer(), outcome.result.detail)
}

#[tokio::test]
async fn a_login_goes_to_the_first_backend_that_the_player_may_enter() {
    for (granted, to_vip) in [(&[VIP][..], true), (&["world=vip@other", "moonbridge.server.lobby"], false)] {
        let (vip, lobby) = (host("vip").await, host("lobby").await);
        let node = node(&[&vip, &lobby], OnKick::Fallback, |_| {});
        restrict(&node, "vip");
        let control = control(&node, granted);
        let _session = log_in(&node, if to_vip { &vip } else { &lobby }, "Steve").await;
        control.abort();
    }
}

/// With the control plane away nothing is known, so nothing is allowed.
#[tokio::test]
async fn a_login_without_the_control_plane_goes_where_anybody_may() {
    let (vip, lobby) = (host("vip").await, host("lobby").await);
    let node = node(&[&vip, &lobby], OnKick::Fallback, |_| {});
    restrict(&node, "vip");
    let (_player, _backend) = log_in(&node, &lobby, "Steve").await;
    assert_eq!(check(&node, VIP).await.0, PermissionAnswer::Unavailable);
    let refused = outcome(go(&node, "vip")).await.result;
    assert_eq!(refused.reason, "not_permitted");
    assert!(refused.detail.contains("not been told"), "{}", refused.detail);
    // It is told later.
    node.registry.set_permissions(permissions("Steve", 1, &[VIP]));
    assert_eq!(check(&node, VIP).await.0, PermissionAnswer::True);
}

#[tokio::test]
async fn a_player_who_may_go_nowhere_is_told_so() {
    let vip = host("vip").await;
    let node = node(&[&vip], OnKick::Fallback, |_| {});
    restrict(&node, "vip");
    assert!(turned_away(&node).await.contains("cannot tell at the moment whether you have permission"));
    let control = control(&node, &[]);
    assert_eq!(turned_away(&node).await, "You do not have permission to join this server.");
    control.abort();
}

#[tokio::test]
async fn a_fallback_goes_to_the_first_backend_that_the_player_may_enter() {
    for granted in [true, false] {
        let (lobby, vip, arena) = (host("lobby").await, host("vip").await, host("arena").await);
        let node = node(&[&lobby, &vip, &arena], OnKick::Fallback, |_| {});
        restrict(&node, "vip");
        let (mut player, mut old) = play(&node, &lobby, "Steve").await;
        node.registry.set_permissions(permissions("Steve", 1, if granted { &[VIP] } else { &[] }));
        old.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("lobby restarts"))).await;
        drop(old);
        let next = if granted { &vip } else { &arena };
        let mut new = next.accept().await;
        new.send(|out| join(9).put(out, v5())).await;
        player.joins(9, -1).await;
    }
}

#[tokio::test]
async fn a_player_goes_to_a_restricted_backend_with_the_permission_only_and_an_admin_sends_anybody() {
    let (lobby, vip) = (host("lobby").await, host("vip").await);
    let node = node(&[&lobby, &vip], OnKick::Fallback, |_| {});
    restrict(&node, "vip");
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    node.registry.set_permissions(permissions("Steve", 1, &[]));
    let refused = outcome(go(&node, "vip")).await.result;
    assert_eq!(refused.reason, "not_permitted");
    assert!(refused.detail.contains("moonbridge permission user Steve set moonbridge.server.vip"), "{}", refused.detail);
    player.say("still here").await;
    old.is_told("still here").await;

    // Granted meanwhile, it goes without having to join again.
    node.registry.set_permissions(permissions("Steve", 2, &[VIP]));
    let moved = go(&node, "vip");
    let mut new = vip.accept().await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, -1).await;
    player.respawns(0).await;
    assert!(outcome(moved).await.succeeded);

    // It stays though the permission goes; back again, only an admin brings it there.
    node.registry.set_permissions(permissions("Steve", 3, &[]));
    let _old = move_to(&node, &lobby, &mut player, 10).await;
    assert_eq!(outcome(go(&node, "vip")).await.result.reason, "not_permitted");
    let _new = move_to(&node, &vip, &mut player, 11).await;
}

#[tokio::test]
async fn a_permission_that_is_taken_away_while_the_candidate_is_entered_no_longer_counts() {
    let (lobby, vip) = (host("lobby").await, host("vip").await);
    let node = node(&[&lobby, &vip], OnKick::Fallback, |_| {});
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    node.registry.set_permissions(permissions("Steve", 1, &[]));
    // First anybody may go there, then it has the permission.
    for revision in [2, 4] {
        let refused = go(&node, "vip");
        let mut candidate = vip.accept().await;
        restrict(&node, "vip");
        node.registry.set_permissions(permissions("Steve", revision, &[]));
        candidate.send(|out| join(9).put(out, v5())).await;
        let result = outcome(refused).await.result;
        assert_eq!(result.reason, "not_permitted", "{}", result.detail);
        candidate.ends().await;
        player.say("still here").await;
        old.is_told("still here").await;
        node.registry.set_permissions(permissions("Steve", revision + 1, &[VIP]));
    }
}

#[tokio::test]
async fn the_world_of_a_check_changes_with_the_cutover() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = node(&[&lobby, &arena], OnKick::Fallback, |_| {});
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    node.registry.set_permissions(permissions("Steve", 1, &["lobby@fly", "arena@build"]));
    let in_lobby = async || {
        assert_eq!(check(&node, "fly").await, (PermissionAnswer::True, "server=proxy world=lobby".to_owned()));
        assert_eq!(check(&node, "build").await.0, PermissionAnswer::Undefined);
    };
    in_lobby().await;
    let moved = transfer(&node, "arena");
    let mut new = arena.accept().await;
    // The candidate has taken the player, who is still where it was.
    in_lobby().await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, -1).await;
    assert_eq!(check(&node, "build").await, (PermissionAnswer::True, "server=proxy world=arena".to_owned()));
    assert_eq!(check(&node, "fly").await.0, PermissionAnswer::Undefined);
    assert!(outcome(moved).await.succeeded);
    player.respawns(0).await;
    old.ends().await;

    // A fallback, too: until there is another backend, the one that was lost counts.
    new.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("arena restarts"))).await;
    drop(new);
    let mut back = lobby.accept().await;
    assert_eq!(check(&node, "build").await.0, PermissionAnswer::True);
    back.send(|out| join(10).put(out, v5())).await;
    while player.clientbound().await.0 != Clientbound::JoinGame {}
    assert_eq!(check(&node, "fly").await.0, PermissionAnswer::True);
}
