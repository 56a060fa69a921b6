//! What sessions ask of the network, and what comes for them from elsewhere.

use std::time::Duration;

use moonbridge_proto::v1::{self, ask::Question, control_message::Message as Down, delivery, node_message::Message as Up, player_text};
use moonbridge_proto::v1::{CommandState, command::Action};
use tonic::Status;
use uuid::Uuid;

use super::replica::{Call, Replica, soon};
use super::{Event, Pace, Running, answer, command, kick, next_command, quick, state_and_reason};
use crate::network::UNAVAILABLE;
use crate::registry::{Delivered, Registration, SessionCommand};

fn find(running: &Running, player: &str) -> impl Future<Output = v1::AskAnswer> + use<> {
    running.node.network.ask("player Ada".to_owned(), Question::Find(v1::AskFind { player: player.to_owned() }))
}

/// The next question: its id, and whom it looks for.
async fn asked(call: &mut Call) -> (u64, String) {
    match call.next().await {
        Up::Ask(v1::Ask { id, origin, question: Some(Question::Find(find)) }) => {
            assert_eq!(origin, "player Ada");
            (id, find.player)
        }
        other => panic!("expected a question, got {other:?}"),
    }
}

fn text(id: &str, session: Uuid, text: &str) -> Down {
    let text = v1::PlayerText { text: Some(player_text::Text::Legacy(text.to_owned())) };
    let (to, what) = (delivery::To::SessionId(session.to_string()), delivery::What::Text(text));
    Down::Delivery(v1::Delivery { id: id.to_owned(), to: Some(to), what: Some(what) })
}

async fn told(registration: &mut Registration) -> String {
    match next_command(registration).await {
        SessionCommand::Deliver(Delivered::Text(text)) => text.plain(),
        other => panic!("expected a text, got {other:?}"),
    }
}

#[tokio::test]
async fn questions_go_to_the_replica_and_its_answers_to_who_asked() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let mut call = replica.call().await;
    call.hello().await;
    assert_eq!(soon(find(&running, "early")).await.problem, UNAVAILABLE, "it has not taken the node in");
    call.send(Down::Welcome(v1::Welcome { lease_seconds: 10, ..v1::Welcome::default() })).await;
    // A node takes in order what it is sent.
    call.send(super::snapshot(1, Vec::new())).await;
    assert!(matches!(call.next().await, Up::Ack(_)));

    let (one, two) = (find(&running, "one"), find(&running, "two"));
    let (first, second) = (asked(&mut call).await, asked(&mut call).await);
    assert_eq!((first.1.as_str(), second.1.as_str()), ("one", "two"));
    for (id, _) in [&second, &first] {
        let session = v1::Session { id: id.to_string(), ..v1::Session::default() };
        call.send(Down::AskAnswer(v1::AskAnswer { id: *id, session: Some(session), ..v1::AskAnswer::default() })).await;
    }
    let found = |answer: v1::AskAnswer| answer.session.unwrap_or_default().id;
    assert_eq!(found(soon(two).await), second.0.to_string());
    assert_eq!(found(soon(one).await), first.0.to_string());

    // More than go out at once.
    let many: Vec<_> = (0..100).map(|number| find(&running, &number.to_string())).collect();
    for number in 0..100 {
        let (id, player) = asked(&mut call).await;
        assert_eq!(player, number.to_string());
        call.send(Down::AskAnswer(v1::AskAnswer { id, reached: number, ..v1::AskAnswer::default() })).await;
    }
    let answers = soon(futures::future::join_all(many)).await;
    assert_eq!(answers.iter().map(|answer| answer.reached).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());

    let lost = find(&running, "lost");
    asked(&mut call).await;
    call.fail(Status::unavailable("gone")).await;
    assert_eq!(soon(lost).await.problem, UNAVAILABLE);
    running.stop().await;
}

#[tokio::test]
async fn what_a_node_s_players_have_done_is_told_before_anything_is_asked() {
    let mut replica = Replica::start().await;
    // What changes is gathered for as long as nobody asks.
    let running = Running::start(vec![replica.url()], Pace { gather: Duration::from_secs(600), ..quick() }, |_| {});
    let (_id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    call.send(super::snapshot(1, Vec::new())).await;
    assert!(matches!(call.next().await, Up::Ack(_)));
    registration.moved("arena");
    let found = find(&running, "Ada");
    let events = call.events().await.events;
    let [v1::SessionEvent { event: Some(Event::Set(session)) }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(session.backend, "arena");
    assert_eq!(asked(&mut call).await.1, "Ada");
    drop((found, registration));
    running.node.shutdown.cancel();
}

#[tokio::test]
async fn a_delivery_that_comes_again_from_another_replica_is_done_once() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    call.send(text("one", id, "hello")).await;
    assert_eq!(told(&mut registration).await, "hello");
    call.fail(Status::unavailable("gone")).await;
    let (mut call, _) = replica.welcomed(1).await;
    for delivery in [text("one", id, "hello"), text("two", id, "again"), text("two", id, "again"), text("three", id, "§cat last")] {
        call.send(delivery).await;
    }
    assert_eq!((told(&mut registration).await, told(&mut registration).await), ("again".to_owned(), "at last".to_owned()));
    drop(registration);
    running.stop().await;
}

#[tokio::test]
async fn a_kick_shows_a_json_component_if_it_has_one() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    let with_json = |name: &str, json: &str| {
        let action = v1::KickAction { session_id: id.to_string(), reason_json: json.to_owned(), ..v1::KickAction::default() };
        command(name, Action::Kick(action))
    };
    call.send(Down::Command(with_json("bad", "{"))).await;
    assert_eq!(state_and_reason(call.next().await), ("bad".to_owned(), CommandState::Failed, "bad_command".to_owned()));
    call.send(Down::Command(with_json("long", &format!("\"{}\"", "x".repeat(4_096))))).await;
    assert_eq!(state_and_reason(call.next().await).2, "bad_command");
    for (command, expected) in [(with_json("json", r#"{"text":"out","color":"red"}"#), "§cout"), (kick("legacy", id), "out")] {
        let name = command.id.clone();
        call.send(Down::Command(command)).await;
        assert_eq!(state_and_reason(call.next().await).1, CommandState::Running);
        let kick = next_command(&mut registration).await;
        let SessionCommand::Kick { reason, .. } = &kick else { panic!("expected a kick, got {kick:?}") };
        assert_eq!(reason.to_legacy(), expected);
        answer(kick);
        assert_eq!(state_and_reason(call.next().await).1, CommandState::Succeeded);
        call.send(Down::CommandAck(v1::CommandAck { id: name })).await;
    }
    drop(registration);
    running.stop().await;
}
