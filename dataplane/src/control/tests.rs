//! The client against replicas played by the test, over real gRPC on loopback.

mod network;
mod permissions;
mod replica;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use moonbridge_proto::tls::{ClientTls, ServerTls};
use moonbridge_proto::v1::command::Action;
use moonbridge_proto::v1::session_event::Event;
use moonbridge_proto::v1::{self, CommandState, control_message::Message as Down, node_message::Message as Up};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Pace, run_at};
use crate::config::Config;
use crate::node::Node;
use crate::registry::{Outcome, Registration, SessionCommand};
use replica::{Replica, soon};

/// A node whose client runs until it is told to stop.
struct Running {
    node: Arc<Node>,
    client: JoinHandle<()>,
}

impl Running {
    fn start(urls: Vec<String>, pace: Pace, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { name: "edge-1".into(), control: urls, ..Config::default() };
        change(&mut config);
        let node = Arc::new(Node::new(config, CancellationToken::new()));
        let client = tokio::spawn(run_at(node.clone(), pace));
        Self { node, client }
    }

    fn session(&self) -> (Uuid, Registration) {
        let id = Uuid::now_v7();
        (id, self.node.registry.register(id, "lobby"))
    }

    /// What the control plane is to be told of a session of this node's.
    fn told(&self, id: Uuid) -> v1::Session {
        v1::Session {
            id: id.to_string(),
            node_id: self.node.id.to_string(),
            node_name: self.node.config.name.clone(),
            player: id.to_string(),
            player_uuid: id.to_string(),
            backend: "lobby".into(),
            address: "0.0.0.0:0".into(),
            trace_id: "0".repeat(32),
            ..Default::default()
        }
    }

    async fn stop(self) {
        self.node.shutdown.cancel();
        soon(self.client).await.expect("the client ends without a panic");
    }
}

/// Waits short, otherwise as it is.
fn quick() -> Pace {
    Pace { first_wait: Duration::from_millis(5), longest_wait: Duration::from_millis(20), ..Pace::default() }
}

fn revision(number: u64) -> Option<v1::Revision> {
    Some(v1::Revision { store_id: "store".into(), number })
}

fn backend(name: &str) -> v1::Backend {
    v1::Backend {
        name: name.into(),
        address: "127.0.0.1:25566".into(),
        forwarding: v1::Forwarding::None.into(),
        drained: false,
        ..Default::default()
    }
}

fn snapshot(number: u64, backends: Vec<v1::Backend>) -> Down {
    Down::Snapshot(v1::Snapshot { revision: revision(number), backends, ..v1::Snapshot::default() })
}

fn in_force(node: &Node) -> (u64, Vec<String>) {
    let snapshot = node.snapshot.load_full().expect("a snapshot");
    (snapshot.revision.number, snapshot.backends.keys().cloned().collect())
}

fn command(id: &str, action: Action) -> v1::Command {
    v1::Command { id: id.into(), deadline_unix_ms: in_ms(30_000), action: Some(action), ..Default::default() }
}

fn kick(id: &str, session: Uuid) -> v1::Command {
    command(id, Action::Kick(v1::KickAction { session_id: session.to_string(), reason: "out".into(), ..Default::default() }))
}

fn in_ms(milliseconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    i64::try_from(now).expect("fits") + milliseconds
}

fn state_and_reason(message: Up) -> (String, CommandState, String) {
    match message {
        Up::Command(update) => (update.id.clone(), update.state(), update.result.unwrap_or_default().reason),
        other => panic!("expected a command update, got {other:?}"),
    }
}

async fn next_command(registration: &mut Registration) -> SessionCommand {
    soon(registration.commands.recv()).await.expect("a command")
}

fn answer(command: SessionCommand) {
    let (SessionCommand::Kick { reply, .. }
    | SessionCommand::Message { reply, .. }
    | SessionCommand::Check { reply, .. }
    | SessionCommand::Transfer { reply, .. }) = command
    else {
        panic!("nobody waits for an outcome of {command:?}")
    };
    reply.send(Outcome::ok()).expect("somebody waits for the outcome");
}

#[tokio::test]
async fn a_snapshot_is_in_force_before_it_is_acknowledged_and_a_bad_one_changes_nothing() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (mut call, hello) = replica.welcomed(7).await;
    let described = hello.node.expect("describes itself");
    assert_eq!((described.id, described.name), (running.node.id.to_string(), "edge-1".to_owned()));
    assert_eq!((hello.lease_id, hello.held, hello.sessions.len(), hello.commands.len()), (0, None, 0, 0));

    call.send(snapshot(3, vec![backend("lobby")])).await;
    assert_eq!(call.next().await, Up::Ack(revision(3).expect("some")));
    assert_eq!(in_force(&running.node), (3, vec!["lobby".to_owned()]));

    call.send(snapshot(4, vec![backend("arena"), v1::Backend { address: "nowhere".into(), ..backend("lobby") }])).await;
    let Up::Nack(nack) = call.next().await else { panic!("expected a nack") };
    assert_eq!(nack.revision, revision(4));
    assert_eq!(nack.errors.iter().map(|error| error.path.as_str()).collect::<Vec<_>>(), ["backends[1].address"]);
    assert_eq!(in_force(&running.node), (3, vec!["lobby".to_owned()]), "the last good one stays");

    // A delta counts from what is in force.
    let delta = |from, to, name| v1::SnapshotDelta {
        from: revision(from),
        to: revision(to),
        set_backends: vec![backend(name)],
        ..Default::default()
    };
    call.send(Down::Delta(delta(3, 5, "arena"))).await;
    assert_eq!(call.next().await, Up::Ack(revision(5).expect("some")));
    assert_eq!(in_force(&running.node), (5, vec!["arena".to_owned(), "lobby".to_owned()]));
    call.send(Down::Delta(delta(4, 6, "survival"))).await;
    let Up::Nack(nack) = call.next().await else { panic!("expected a nack") };
    assert_eq!((nack.revision, nack.errors[0].path.as_str()), (revision(6), "from"));
    assert_eq!(in_force(&running.node).0, 5);
    running.stop().await;
}

#[tokio::test]
async fn another_replica_gets_the_lease_the_revision_and_every_session() {
    let (mut first, mut second) = (Replica::start().await, Replica::start().await);
    let running = Running::start(vec![first.url(), second.url()], quick(), |_| {});
    let (mut call, _) = first.welcomed(42).await;
    call.send(snapshot(3, vec![backend("lobby")])).await;
    call.next().await;
    let (id, mut registration) = running.session();
    // The event is on its way or not: nobody acknowledges it, so the next Hello has it.
    call.fail(tonic::Status::unavailable("the replica stops")).await;

    let (mut call, hello) = second.welcomed(42).await;
    assert_eq!((hello.lease_id, hello.held), (42, revision(3)));
    assert_eq!(hello.sessions, [running.told(id)]);
    call.send(snapshot(4, Vec::new())).await;
    assert_eq!(call.next().await, Up::Ack(revision(4).expect("some")));
    registration.moved("arena");
    let Up::Events(events) = call.next().await else { panic!("expected events") };
    assert_eq!(events.events[0].event, Some(Event::Set(v1::Session { backend: "arena".into(), ..running.told(id) })));
    assert!(running.node.registry.is_attached());

    // A replica that goes without a word is a loss like any other.
    drop(call);
    let (_call, hello) = first.welcomed(43).await;
    assert_eq!((hello.lease_id, hello.sessions.len()), (42, 1));
    drop(registration);
    running.node.shutdown.cancel();
}

/// With every replica's store away the node asks on, its sessions stay, and the first that takes it again gets all.
#[tokio::test]
async fn replicas_that_refuse_are_asked_again_in_turn_with_the_lease_and_every_session() {
    let (mut first, mut second) = (Replica::start().await, Replica::start().await);
    let running = Running::start(vec![first.url(), second.url()], quick(), |_| {});
    let (id, registration) = running.session();
    let (call, _) = first.welcomed(42).await;
    let away = || tonic::Status::unavailable("the store is away");
    call.fail(away()).await;
    for _ in 0..3 {
        for replica in [&mut second, &mut first] {
            let mut call = replica.call().await;
            let hello = call.hello().await;
            assert_eq!((hello.lease_id, hello.sessions), (42, vec![running.told(id)]));
            assert!(!running.node.registry.is_attached());
            call.fail(away()).await;
        }
    }
    let (_call, hello) = second.welcomed(42).await;
    assert_eq!((hello.lease_id, hello.sessions), (42, vec![running.told(id)]));
    drop(registration);
    running.node.shutdown.cancel();
}

#[tokio::test]
async fn a_silent_replica_is_given_up() {
    let deaf = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let deaf_url = format!("http://{}", deaf.local_addr().expect("an address"));
    let (mut silent, mut sound) = (Replica::start().await, Replica::start().await);
    let pace = Pace { silence: Duration::from_millis(300), ..quick() };
    let running = Running::start(vec![deaf_url, silent.url(), sound.url()], pace, |_| {});
    let (call, _) = silent.welcomed(1).await;
    let (_sound, hello) = sound.welcomed(2).await;
    assert_eq!(hello.lease_id, 1);
    drop(call);
    running.stop().await;
}

#[tokio::test]
async fn a_command_runs_once_whatever_is_delivered_again() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;

    let transfer = v1::TransferAction { session_id: id.to_string(), to: "arena".into(), ..Default::default() };
    let transfer = v1::Command { traceparent: "00-trace".into(), ..command("t", Action::Transfer(transfer)) };
    call.send(Down::Command(transfer.clone())).await;
    assert_eq!(state_and_reason(call.next().await), ("t".into(), CommandState::Running, String::new()));
    call.send(Down::Command(transfer.clone())).await;
    assert_eq!(state_and_reason(call.next().await).1, CommandState::Running);
    let held = next_command(&mut registration).await;
    assert!(matches!(&held, SessionCommand::Transfer { to, traceparent, .. } if to == "arena" && traceparent == "00-trace"));

    // It ends while the node is between two replicas: the result is in the next Hello.
    drop(call);
    let mut call = replica.call().await;
    let hello = call.hello().await;
    assert_eq!(
        hello.commands.iter().map(|update| (update.id.as_str(), update.state())).collect::<Vec<_>>(),
        [("t", CommandState::Running)]
    );
    answer(held);
    assert_eq!(state_and_reason(call.next().await), ("t".into(), CommandState::Succeeded, "ok".into()));
    drop(call);
    let (mut call, hello) = replica.welcomed(1).await;
    assert_eq!(
        hello.commands.iter().map(|update| (update.id.as_str(), update.state())).collect::<Vec<_>>(),
        [("t", CommandState::Succeeded)]
    );

    call.send(Down::Command(transfer.clone())).await;
    assert_eq!(state_and_reason(call.next().await).1, CommandState::Succeeded, "answered from the record");
    call.send(Down::CommandAck(v1::CommandAck { id: "t".into() })).await;
    call.send(Down::Command(transfer)).await;
    assert_eq!(state_and_reason(call.next().await).1, CommandState::Succeeded, "even after the acknowledgement");
    assert!(registration.commands.try_recv().is_none(), "it ran once");
    drop(call);
    let (_call, hello) = replica.welcomed(1).await;
    assert!(hello.commands.is_empty(), "an acknowledged result is not sent again");
    drop(registration);
    running.node.shutdown.cancel();
}

#[tokio::test]
async fn what_a_command_changed_is_told_before_its_result() {
    let mut replica = Replica::start().await;
    // Changes would be gathered for an hour.
    let pace = Pace { gather: Duration::from_secs(3_600), ..quick() };
    let running = Running::start(vec![replica.url()], pace, |_| {});
    let (id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    let transfer = v1::TransferAction { session_id: id.to_string(), to: "arena".into(), ..Default::default() };
    call.send(Down::Command(command("t", Action::Transfer(transfer)))).await;
    assert_eq!(state_and_reason(call.next().await).1, CommandState::Running);
    let transfer = next_command(&mut registration).await;
    registration.moved("arena");
    answer(transfer);
    let events = call.events().await;
    assert_eq!(events.events[0].event, Some(Event::Set(v1::Session { backend: "arena".into(), ..running.told(id) })));
    assert_eq!(state_and_reason(call.next().await), ("t".into(), CommandState::Succeeded, "ok".into()));
    drop(registration);
    running.node.shutdown.cancel();
}

#[tokio::test]
async fn every_command_has_one_outcome() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (id, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    let failed = |id: &str, reason: &str| (id.to_owned(), CommandState::Failed, reason.to_owned());

    call.send(Down::Command(v1::Command { deadline_unix_ms: in_ms(-1), ..kick("late", id) })).await;
    assert_eq!(state_and_reason(call.next().await), failed("late", "expired"));
    assert!(registration.commands.try_recv().is_none(), "not run");
    call.send(Down::Command(kick("stranger", Uuid::now_v7()))).await;
    assert_eq!(state_and_reason(call.next().await), failed("stranger", "session_gone"));
    call.send(Down::Command(v1::Command { node_id: "another".into(), ..kick("astray", id) })).await;
    assert_eq!(state_and_reason(call.next().await), failed("astray", "wrong_node"));
    call.send(Down::Command(v1::Command { action: None, ..kick("unknown", id) })).await;
    assert_eq!(state_and_reason(call.next().await), failed("unknown", "bad_command"));
    let text = v1::MessageAction { session_id: id.to_string(), text: "x".repeat(4_097), ..Default::default() };
    call.send(Down::Command(command("long", Action::Message(text)))).await;
    assert_eq!(state_and_reason(call.next().await), failed("long", "bad_command"));

    // The session leaves with one command in its hands and the queue full.
    let mut queued = Vec::new();
    let busy = loop {
        let name = format!("kick-{}", queued.len());
        call.send(Down::Command(kick(&name, id))).await;
        let update = state_and_reason(call.next().await);
        if update.1 != CommandState::Running {
            break update;
        }
        queued.push(name);
    };
    assert_eq!((busy.1, busy.2.as_str(), queued.len()), (CommandState::Failed, "session_busy", 256));
    let in_hand = next_command(&mut registration).await;
    drop((in_hand, registration));
    let mut ended = Vec::new();
    while ended.len() < queued.len() {
        match call.next().await {
            Up::Events(_) => {}
            update => {
                let (id, state, reason) = state_and_reason(update);
                assert_eq!((state, reason.as_str()), (CommandState::Failed, "session_gone"));
                ended.push(id);
            }
        }
    }
    ended.sort();
    queued.sort();
    assert_eq!(ended, queued);
    drop(call);
    running.node.shutdown.cancel();
}

#[tokio::test]
async fn a_drain_and_the_network_count_reach_the_node() {
    let mut replica = Replica::start().await;
    let running = Running::start(vec![replica.url()], quick(), |_| {});
    let (mut call, _) = replica.welcomed(1).await;
    call.send(Down::Status(v1::NetworkStatus { players_elsewhere: 1_234 })).await;
    call.send(Down::Command(command("d", Action::Drain(v1::DrainAction { drained: true })))).await;
    let Up::Heartbeat(beat) = call.any().await else { panic!("expected the heartbeat that shows it") };
    assert!(beat.node.expect("a node").drained);
    assert_eq!(state_and_reason(call.next().await), ("d".into(), CommandState::Succeeded, "ok".into()));
    assert!(running.node.drained.load(Ordering::Relaxed));
    assert_eq!(running.node.players_elsewhere.load(Ordering::Relaxed), 1_234);
    call.send(Down::Command(command("u", Action::Drain(v1::DrainAction { drained: false })))).await;
    assert_eq!(state_and_reason(call.next().await).0, "u");
    assert!(!running.node.drained.load(Ordering::Relaxed));
    drop(call);
    running.stop().await;
}

#[tokio::test]
async fn session_events_come_in_numbered_batches_and_the_last_ones_are_waited_for() {
    let mut replica = Replica::start().await;
    let never = Duration::from_secs(3_600);
    let pace = Pace { silence: never, unacknowledged: never, last_words: never, ..quick() };
    let running = Running::start(vec![replica.url()], pace, |_| {});
    let (mut call, _) = replica.welcomed(1).await;

    // One event a session, however much happened to it within the moment.
    let (first, mut first_registration) = running.session();
    first_registration.moved("arena");
    let (second, second_registration) = running.session();
    let events = call.events().await;
    assert_eq!(events.sequence, 1);
    let mut ids: Vec<String> = events
        .events
        .into_iter()
        .map(|event| match event.event {
            Some(Event::Set(session)) => format!("{} {}", session.id, session.backend),
            other => panic!("expected a session, got {other:?}"),
        })
        .collect();
    ids.sort();
    assert_eq!(ids, [format!("{first} arena"), format!("{second} lobby")]);
    call.send(Down::EventsAck(v1::EventsAck { sequence: 1 })).await;

    // Shutting down, the client stays until the last session's end is acknowledged.
    drop(first_registration);
    assert_eq!(call.events().await.sequence, 2);
    call.send(Down::EventsAck(v1::EventsAck { sequence: 2 })).await;
    running.node.shutdown.cancel();
    for number in 1..=20 {
        call.send(snapshot(number, Vec::new())).await;
        assert!(matches!(call.next().await, Up::Ack(_)), "still there");
    }
    drop(second_registration);
    let last = call.events().await;
    assert_eq!(last.sequence, 3);
    assert_eq!(last.events.len(), 1);
    assert!(!running.client.is_finished());
    call.send(Down::EventsAck(v1::EventsAck { sequence: 3 })).await;
    call.ended().await;
    soon(running.client).await.expect("ends without a panic");
    assert!(!running.node.registry.is_attached());
}

#[tokio::test]
async fn unacknowledged_events_cost_the_stream_and_do_not_hold_up_a_shutdown() {
    let mut replica = Replica::start().await;
    let pace = Pace { unacknowledged: Duration::from_millis(400), last_words: Duration::from_millis(100), ..quick() };
    let running = Running::start(vec![replica.url()], pace, |_| {});
    let (_, mut registration) = running.session();
    let (mut call, _) = replica.welcomed(1).await;
    registration.moved("arena");
    // It speaks, but does not acknowledge.
    let talk = async {
        loop {
            crate::timer::sleep(Duration::from_millis(50)).await;
            if !call.try_send(Down::Heartbeat(v1::ReplicaHeartbeat {})).await {
                break;
            }
        }
    };
    soon(talk).await;
    let (mut call, hello) = replica.welcomed(1).await;
    assert_eq!(hello.sessions[0].backend, "arena");
    drop(registration);
    running.node.shutdown.cancel();
    assert_eq!(call.events().await.events.len(), 1);
    soon(running.client).await.expect("ends though nobody acknowledged");
}

#[tokio::test]
async fn the_token_is_shown_and_a_short_lease_is_renewed_in_time() {
    let mut replica = Replica::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    // Until there is a token nothing is asked; it is read anew at every attempt.
    let pace = Pace { heartbeat: Duration::from_secs(3_600), ..quick() };
    let running = Running::start(vec![replica.url()], pace, |config| config.token_file = Some(file.clone()));
    std::fs::write(&file, "s3cret\n").expect("written");
    let mut call = replica.call().await;
    assert_eq!(call.authorization.as_deref(), Some("Bearer s3cret"));
    call.hello().await;
    call.send(Down::Welcome(v1::Welcome { lease_id: 1, lease_seconds: 1, ..Default::default() })).await;
    for _ in 0..3 {
        assert!(matches!(call.any().await, Up::Heartbeat(_)), "every third of the lease, not every hour");
    }
    drop(call);
    running.stop().await;
}

#[tokio::test]
async fn over_tls_both_sides_show_who_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, host: &str| {
        let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).expect("a certificate");
        let (cert, key) = (folder.path().join(format!("{name}.pem")), folder.path().join(format!("{name}.key")));
        std::fs::write(&cert, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        (cert, key)
    };
    let ((server, server_key), (client, client_key), (stranger, _)) =
        (write("cp", "cp.test"), write("node", "node.test"), write("stranger", "cp.test"));
    let tls = ServerTls { cert: server.clone(), key: server_key, client_ca: Some(client.clone()) };
    let builder = || tonic::transport::Server::builder().tls_config(tls.load().expect("valid")).expect("accepted");
    let (mut unproven, mut proven) = (Replica::start_on(builder()).await, Replica::start_on(builder()).await);
    let url = |replica: &Replica| vec![format!("https://127.0.0.1:{}", replica.port())];
    let known = ClientTls { ca: Some(server), cert: Some(client), key: Some(client_key), domain: Some("cp.test".into()) };

    let fooled =
        Running::start(url(&unproven), quick(), |config| config.control_tls = Some(ClientTls { ca: Some(stranger), ..known.clone() }));
    let nameless =
        Running::start(url(&unproven), quick(), |config| config.control_tls = Some(ClientTls { cert: None, key: None, ..known.clone() }));
    let running = Running::start(url(&proven), quick(), |config| config.control_tls = Some(known));
    let (mut call, hello) = proven.welcomed(1).await;
    assert_eq!(hello.node.expect("a node").id, running.node.id.to_string());
    call.send(snapshot(1, Vec::new())).await;
    assert!(matches!(call.next().await, Up::Ack(_)));
    running.stop().await;
    fooled.stop().await;
    nameless.stop().await;
    assert!(!unproven.was_called(), "nobody speaks to a replica that is not proven, nor a replica to a node that is not");
}

#[tokio::test]
async fn shutting_down_unattached_ends_at_once() {
    let deaf = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let running = Running::start(vec![format!("http://{}", deaf.local_addr().expect("an address"))], Pace::default(), |_| {});
    let (accepted, _) = soon(tokio::task::spawn_blocking(move || deaf.accept())).await.expect("joined").expect("it connects");
    running.stop().await;
    drop(accepted);
}
