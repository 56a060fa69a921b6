//! What the replica says of players' permissions, and where it gets to.

use std::sync::Arc;

use moonbridge_proto::snapshot::DuplicateLogin;
use moonbridge_proto::v1::command::Action;
use moonbridge_proto::v1::{self, CommandState, PermissionAnswer, control_message::Message as Down, node_message::Message as Up};
use uuid::Uuid;

use super::replica::{Call, Replica, soon};
use super::{Running, command, quick, revision, snapshot, state_and_reason};
use crate::node::Node;
use crate::permissions::Answer;
use crate::registry::{Outcome, Registration, SessionCommand};

const ANN: Uuid = Uuid::from_u128(1);

fn told(number: u64, granted: &[&str]) -> v1::UserPermissions {
    let granted = granted.iter().map(|key| v1::PermissionNode { key: (*key).into(), value: true, ..Default::default() });
    let user = v1::PermissionUser { uuid: ANN.to_string(), nodes: granted.collect(), ..Default::default() };
    v1::UserPermissions { player_uuid: ANN.to_string(), revision: revision(number), user: Some(user), ..Default::default() }
}

/// A session that has claimed its player.
fn claim(node: &Node) -> (Uuid, Registration) {
    let id = Uuid::now_v7();
    let claimed = node.registry.claim(id, "Ann", &ANN, DuplicateLogin::Newest);
    (id, claimed.map_err(|_| "refused").expect("newest").registration)
}

/// Waits until all that was sent before has been dealt with.
async fn settled(call: &mut Call, number: u64) {
    call.send(snapshot(number, Vec::new())).await;
    while call.next().await != Up::Ack(revision(number).expect("some")) {}
}

fn check(node: &Arc<Node>, registration: &mut Registration, expected: [Answer; 2]) {
    assert_eq!(["a", "b"].map(|permission| registration.permissions.check(node, permission)), expected);
}

#[tokio::test]
async fn permissions_come_with_the_answer_to_a_claim_and_change_as_they_are_told() {
    use Answer::{True, Unavailable, Undefined};
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let node = &running.node;
    let (mut call, _) = replica.welcomed(1).await;
    settled(&mut call, 1).await;
    let (id, mut ann) = claim(node);
    check(node, &mut ann, [Unavailable; 2]);

    let asked = node.registry.ask(&id).expect("attached");
    let Up::Claim(claimed) = call.next().await else { panic!("expected a claim") };
    let answer = v1::ClaimAnswer { session_id: claimed.session_id, held: true, permissions: Some(told(5, &["a"])), ..Default::default() };
    call.send(Down::ClaimAnswer(answer)).await;
    assert!(soon(asked).await.expect("an answer").held);
    check(node, &mut ann, [True, Undefined]);

    call.send(Down::Permissions(told(6, &["b"]))).await;
    // One that is late, one of a player who is not here, one of nobody.
    call.send(Down::Permissions(told(4, &["a"]))).await;
    call.send(Down::Permissions(v1::UserPermissions { player_uuid: Uuid::from_u128(2).to_string(), ..told(9, &["a"]) })).await;
    call.send(Down::Permissions(v1::UserPermissions::default())).await;
    settled(&mut call, 2).await;
    check(node, &mut ann, [Undefined, True]);

    // Away, what was told last holds; the next replica's word counts, whatever its revision.
    drop(call);
    let (mut call, hello) = replica.welcomed(1).await;
    assert_eq!(hello.claims.len(), 1);
    check(node, &mut ann, [Undefined, True]);
    call.send(Down::Permissions(told(3, &["a"]))).await;
    settled(&mut call, 3).await;
    check(node, &mut ann, [True, Undefined]);

    // A later session of the player's is told its own.
    let (_, mut newer) = claim(node);
    call.send(Down::Permissions(told(7, &["b"]))).await;
    settled(&mut call, 4).await;
    check(node, &mut newer, [Undefined, True]);
    drop((ann, newer, call));
    running.node.shutdown.cancel();
}

#[tokio::test]
async fn a_check_is_answered_by_the_session() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    let ask = |command_id: &str, permission: &str| {
        let check = v1::CheckAction { session_id: id.to_string(), permission: permission.into(), ..Default::default() };
        Down::Command(command(command_id, Action::Check(check)))
    };
    call.send(ask("check", "moonbridge.command.list")).await;
    assert_eq!(state_and_reason(call.next().await).1, CommandState::Running);
    let SessionCommand::Check { permission, reply } = super::next_command(&mut registration).await else { panic!("expected a check") };
    assert_eq!(permission, "moonbridge.command.list");
    let mut result = v1::CommandResult { reason: "ok".into(), detail: "world=lobby".into(), ..Default::default() };
    result.set_answer(PermissionAnswer::False);
    reply.send(Outcome { result: result.clone(), ..Outcome::ok() }).expect("somebody waits");
    let Up::Command(update) = call.next().await else { panic!("expected an update") };
    assert_eq!((update.state(), update.result), (CommandState::Succeeded, Some(result)));

    call.send(ask("long", &"x".repeat(4_097))).await;
    let Up::Command(update) = call.next().await else { panic!("expected an update") };
    assert_eq!(update.result.map(|result| result.reason).as_deref(), Some("bad_command"));
    drop((registration, call));
    running.node.shutdown.cancel();
}

#[tokio::test]
async fn a_transfer_says_whether_the_player_goes_itself() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    for as_player in [true, false] {
        let transfer = v1::TransferAction { session_id: id.to_string(), to: "vip".into(), as_player, ..Default::default() };
        call.send(Down::Command(command(&as_player.to_string(), Action::Transfer(transfer)))).await;
        let asked = super::next_command(&mut registration).await;
        assert!(matches!(asked, SessionCommand::Transfer { as_player: by_itself, .. } if by_itself == as_player));
    }
    drop((registration, call));
    running.node.shutdown.cancel();
}
