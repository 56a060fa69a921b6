//! What sessions ask of the network and bring to each other, by nodes that the test plays: on one replica, and across two.

use std::collections::HashSet;

use moonbridge_controlplane::config::StoreConfig;
use moonbridge_controlplane::store::etcd::{Etcd as EtcdStore, EtcdOptions};
use moonbridge_controlplane::store::{List, Store};
use moonbridge_proto::v1::ask::Question;
use moonbridge_proto::v1::ask_forward::Where;
use moonbridge_proto::v1::ask_transfer::Who;
use moonbridge_proto::v1::command::Action;
use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::delivery::{To, What};
use moonbridge_proto::v1::node_message::Message as Up;
use moonbridge_proto::v1::player_text::Text;
use moonbridge_proto::v1::{self, CommandState};
use moonbridge_testing::etcd::Etcd;
use tempfile::tempdir;

use crate::support::{Hello, Node, Replica, config, eventually, session, set_backend};

async fn ask(node: &mut Node, question: Question) -> v1::AskAnswer {
    node.send(Up::Ask(v1::Ask { id: 7, origin: "player Ann".to_owned(), question: Some(question) })).await;
    let answer = node.next("answer", |message| if let Down::AskAnswer(answer) = message { Some(answer) } else { None }).await;
    assert_eq!(answer.id, 7);
    answer
}

/// How many a question has reached, or why none.
async fn reach(node: &mut Node, question: Question) -> Result<u32, String> {
    let answer = ask(node, question).await;
    if answer.problem.is_empty() { Ok(answer.reached) } else { Err(answer.problem) }
}

fn problem(problem: &str) -> Result<u32, String> {
    Err(problem.to_owned())
}

fn legacy(text: &str) -> Option<v1::PlayerText> {
    Some(v1::PlayerText { text: Some(Text::Legacy(text.to_owned())) })
}

fn tell(player: &str, text: &str) -> Question {
    Question::Tell(v1::AskTell { player: player.to_owned(), text: legacy(text) })
}

fn forward(to: Where, data: &[u8]) -> Question {
    Question::Forward(v1::AskForward { r#where: Some(to), from: "lobby".to_owned(), data: data.to_vec() })
}

fn transfer(who: Who, to: &str) -> Question {
    Question::Transfer(v1::AskTransfer { who: Some(who), to: to.to_owned(), as_player: false })
}

fn player(name: &str) -> Who {
    Who::Player(name.to_owned())
}

fn short(delivery: &v1::Delivery) -> String {
    let to = match &delivery.to {
        Some(To::SessionId(id)) => format!("session {id}"),
        Some(To::Backend(backend)) => format!("backend {backend}"),
        Some(To::Everybody(true)) => "everybody".to_owned(),
        other => panic!("{other:?}"),
    };
    match &delivery.what {
        Some(What::Text(v1::PlayerText { text: Some(Text::Legacy(text)) })) => format!("{to}: {text}"),
        Some(What::PluginMessage(data)) => format!("{to}: {}", String::from_utf8_lossy(data)),
        other => panic!("{other:?}"),
    }
}

async fn delivered(node: &mut Node) -> String {
    node.next("delivery", |message| if let Down::Delivery(delivery) = message { Some(short(&delivery)) } else { None }).await
}

/// Two nodes, who plays on them, and one that asks.
struct Stage {
    asker: Node,
    edge: Node,
    west: Node,
    anna: v1::Session,
}

impl Stage {
    async fn new(one: &Replica, two: &Replica) -> Stage {
        let mut admin = one.admin().await;
        for backend in ["lobby", "games", "quiet", "void"] {
            set_backend(&mut admin, backend).await;
        }
        admin.set_plugin_channel(v1::SetPluginChannelRequest { name: "quiet".to_owned(), off: true }).await.expect("off");
        let anna = session("Anna", "lobby");
        let edge = Hello::new("edge").sessions([session("Ann", "lobby"), session("Abe", "games")]).attach(one).await;
        let west = Hello::new("west").sessions([anna.clone(), session("Bob", "quiet"), session("Cid", "games")]).attach(two).await;
        let asker = Hello::new("asker").attach(one).await;
        let mut stage = Stage { asker, edge, west, anna };
        // Replicas are a little behind the store.
        for node in [&mut stage.asker, &mut stage.west] {
            let everybody = v1::AskPlayers { prefix: Some(String::new()), ..v1::AskPlayers::default() };
            eventually("everybody", async || {
                let names = ask(node, Question::Players(everybody.clone())).await.names;
                let channel = ask(node, forward(Where::Backend("quiet".to_owned()), b"?")).await;
                (names.len() == 5 && channel.problem.is_empty() && channel.reached == 0).then_some(())
            })
            .await;
        }
        stage.told().await;
        stage
    }

    /// What the nodes have been sent until now by the one that asks.
    async fn told(&mut self) -> [Vec<String>; 2] {
        reach(&mut self.asker, tell("", "until here")).await.expect("told");
        let mut told = [Vec::new(), Vec::new()];
        for (node, told) in [&mut self.edge, &mut self.west].into_iter().zip(&mut told) {
            loop {
                match delivered(node).await {
                    last if last == "everybody: until here" => break,
                    delivery => told.push(delivery),
                }
            }
        }
        told
    }
}

async fn players(node: &mut Node, backend: &str, names: bool) -> Vec<(String, u32, Vec<String>)> {
    let wanted = v1::AskPlayers { backend: backend.to_owned(), names, ..v1::AskPlayers::default() };
    let answer = ask(node, Question::Players(wanted)).await;
    answer.backends.into_iter().map(|backend| (backend.backend, backend.players, backend.names)).collect()
}

/// Who is where is known on every node.
async fn everybody_is_found(Stage { asker, .. }: &mut Stage) {
    let on = |backend: &str, names: &[&str]| {
        let players = u32::try_from(names.len()).expect("few");
        (backend.to_owned(), players, names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    };
    let all = [on("games", &["Abe", "Cid"]), on("lobby", &["Ann", "Anna"]), on("quiet", &["Bob"]), on("void", &[])];
    assert_eq!(players(asker, "", true).await, all);
    let counts = all.map(|(backend, count, _)| (backend, count, Vec::new()));
    assert_eq!(players(asker, "", false).await, counts);
    assert_eq!(players(asker, "games", true).await, [on("games", &["Abe", "Cid"])]);
    let nowhere = v1::AskPlayers { backend: "nowhere".to_owned(), ..v1::AskPlayers::default() };
    assert_eq!(ask(asker, Question::Players(nowhere)).await.problem, "unknown_backend");
    for (prefix, limit, expected) in
        [("AN", 100, &["Ann", "Anna"][..]), ("an", 1, &["Ann"]), ("anna", 0, &["Anna"]), ("x", 5, &[]), ("", 2, &["Abe", "Ann"])]
    {
        let wanted = v1::AskPlayers { prefix: Some(prefix.to_owned()), limit, ..v1::AskPlayers::default() };
        assert_eq!(ask(asker, Question::Players(wanted)).await.names, expected, "{prefix}");
    }

    let cid = session("Cid", "games");
    for wanted in ["Cid", "cid", &cid.player_uuid] {
        let found = ask(asker, Question::Find(v1::AskFind { player: wanted.to_owned() })).await.session.expect(wanted);
        assert_eq!((found.player.as_str(), found.backend.as_str(), found.node_name.as_str()), ("Cid", "games", "west"));
    }
    for nobody in ["Cidd", "", &"x".repeat(30_000)] {
        assert_eq!(reach(asker, Question::Find(v1::AskFind { player: nobody.to_owned() })).await, problem("player_offline"));
    }
    asker.send(Up::Ask(v1::Ask { id: 8, ..v1::Ask::default() })).await;
    let answer = asker.next("answer", |message| if let Down::AskAnswer(answer) = message { Some(answer) } else { None }).await;
    assert_eq!((answer.id, answer.problem.as_str()), (8, "bad_request"));
}

async fn texts_reach_players_wherever_they_are(stage: &mut Stage) {
    let [for_ann, for_anna] = ["ann", "ANNA"];
    for number in 0..50 {
        assert_eq!(reach(&mut stage.asker, tell(for_anna, &number.to_string())).await, Ok(1));
    }
    assert_eq!(reach(&mut stage.asker, tell("", "hello")).await, Ok(5));
    assert_eq!(reach(&mut stage.asker, tell(for_ann, "here")).await, Ok(1));
    assert_eq!(reach(&mut stage.asker, tell("nobody", "hello")).await, problem("player_offline"));
    for text in [legacy(""), legacy(&"x".repeat(32_768)), None, Some(v1::PlayerText::default())] {
        let wrong = Question::Tell(v1::AskTell { player: "Ann".to_owned(), text });
        assert_eq!(reach(&mut stage.asker, wrong).await, problem("bad_request"));
    }
    let [edge, west] = stage.told().await;
    assert!(edge[0] == "everybody: hello" && edge[1].ends_with(": here") && edge.len() == 2, "{edge:?}");
    let mut expected: Vec<String> = (0..50).map(|number| format!("session {}: {number}", stage.anna.id)).collect();
    expected.push("everybody: hello".to_owned());
    assert_eq!(west, expected);
}

async fn a_plugin_s_message_reaches_each_backend_once(stage: &mut Stage) {
    let backend = |name: &str| Where::Backend(name.to_owned());
    let asker = &mut stage.asker;
    assert_eq!(reach(asker, forward(backend("games"), b"one")).await, Ok(1));
    assert_eq!(reach(asker, forward(backend("lobby"), b"two")).await, Ok(1));
    assert_eq!(reach(asker, forward(Where::Everywhere(true), b"three")).await, Ok(1), "games alone listens, but for the sender");
    assert_eq!(reach(asker, forward(Where::Player("anna".to_owned()), b"four")).await, Ok(1));
    for deaf in [backend("quiet"), backend("void"), Where::Player("Bob".to_owned())] {
        assert_eq!(reach(asker, forward(deaf, b"no")).await, Ok(0));
    }
    assert_eq!(reach(asker, forward(backend("nowhere"), b"no")).await, problem("unknown_backend"));
    assert_eq!(reach(asker, forward(Where::Player("nobody".to_owned()), b"no")).await, problem("player_offline"));
    assert_eq!(reach(asker, forward(backend("games"), &[0; 32_768])).await, problem("bad_request"));
    assert_eq!(reach(asker, forward(backend("games"), b"")).await, problem("bad_request"));
    assert_eq!(reach(asker, forward(Where::Everywhere(false), b"no")).await, problem("bad_request"));
    let [edge, west] = stage.told().await;
    let all: Vec<_> = edge.iter().chain(&west).map(String::as_str).collect();
    let session = format!("session {}: four", stage.anna.id);
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(
        HashSet::from(["backend games: one", "backend lobby: two", "backend games: three", &session]),
        all.iter().copied().collect()
    );
    assert!(west.contains(&session));
}

async fn players_are_moved_and_kicked(replica: &Replica, stage: &mut Stage) {
    let Stage { asker, edge, west, .. } = stage;
    let as_player = v1::AskTransfer { who: Some(player("bob")), to: "lobby".to_owned(), as_player: true };
    assert_eq!(reach(asker, Question::Transfer(as_player)).await, Ok(1));
    let command = west.command().await;
    assert_eq!(command.origin, "game:player Ann");
    let Some(Action::Transfer(moved)) = command.action else { panic!("{command:?}") };
    assert_eq!((moved.player.as_str(), moved.from.as_str(), moved.to.as_str(), moved.as_player), ("Bob", "quiet", "lobby", true));
    west.report(&command.id, CommandState::Succeeded, "ok").await;

    for (who, to, expected) in [
        (player("nobody"), "lobby", problem("player_offline")),
        (player("Bob"), "nowhere", problem("unknown_backend")),
        (player("Bob"), "", problem("unknown_backend")),
        (player("Bob"), "quiet", problem("already_there")),
        (Who::Backend("nowhere".to_owned()), "lobby", problem("unknown_backend")),
        (Who::Backend("void".to_owned()), "nowhere", problem("unknown_backend")),
        (Who::Backend("void".to_owned()), "lobby", Ok(0)),
        (Who::Everybody(false), "lobby", problem("bad_request")),
    ] {
        assert_eq!(reach(asker, transfer(who.clone(), to)).await, expected, "{who:?} to {to}");
    }
    // The two of games; then all but those of lobby.
    for (who, count) in [(Who::Backend("games".to_owned()), 2), (Who::Everybody(true), 3)] {
        assert_eq!(reach(asker, transfer(who, "lobby")).await, Ok(count));
        let mut at_west = HashSet::new();
        for _ in 1..count {
            let command = west.command().await;
            west.report(&command.id, CommandState::Succeeded, "ok").await;
            let Some(Action::Transfer(moved)) = command.action else { panic!("{command:?}") };
            at_west.insert(moved.player);
        }
        assert_eq!(at_west.len(), count as usize - 1, "{at_west:?}");
        let command = edge.command().await;
        assert!(matches!(command.action, Some(Action::Transfer(moved)) if moved.player == "Abe"));
        edge.report(&command.id, CommandState::Succeeded, "ok").await;
    }

    let kick = |text| Question::Kick(v1::AskKick { player: "cid".to_owned(), text });
    let json = v1::PlayerText { text: Some(Text::Json(r#"{"text":"out"}"#.to_owned())) };
    for (text, reason, reason_json) in [(Some(json), "", r#"{"text":"out"}"#), (legacy("§cout"), "§cout", ""), (None, "", "")] {
        assert_eq!(reach(asker, kick(text)).await, Ok(1));
        let command = west.command().await;
        let Some(Action::Kick(kicked)) = command.action else { panic!("{command:?}") };
        assert_eq!((kicked.player.as_str(), kicked.reason.as_str(), kicked.reason_json.as_str()), ("Cid", reason, reason_json));
        west.report(&command.id, CommandState::Succeeded, "ok").await;
    }
    assert_eq!(reach(asker, kick(legacy(&"x".repeat(4_097)))).await, problem("bad_request"));
    let nobody = v1::AskKick { player: "nobody".to_owned(), text: None };
    assert_eq!(reach(asker, Question::Kick(nobody)).await, problem("player_offline"));

    let mut admin = replica.admin().await;
    admin.drain_backend(v1::DrainBackendRequest { name: "void".to_owned(), drained: true }).await.expect("drained");
    assert_eq!(reach(asker, transfer(player("Bob"), "void")).await, problem("backend_drained"));
    eventually("the replica to hear of it", async || {
        let nobody = reach(asker, transfer(Who::Backend("void".to_owned()), "void")).await;
        (nobody == problem("backend_drained")).then_some(())
    })
    .await;
}

async fn the_whole(one: &Replica, two: &Replica) {
    let mut stage = Stage::new(one, two).await;
    everybody_is_found(&mut stage).await;
    texts_reach_players_wherever_they_are(&mut stage).await;
    a_plugin_s_message_reaches_each_backend_once(&mut stage).await;
    players_are_moved_and_kicked(two, &mut stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_reach_all_others_on_one_replica() {
    let folder = tempdir().expect("a folder");
    let replica = Replica::embedded(folder.path()).await;
    the_whole(&replica, &replica).await;
}

async fn on(etcd: &Etcd) -> Replica {
    Replica::start(config(StoreConfig::Etcd { endpoints: vec![etcd.url()], prefix: "/test/".to_owned() })).await
}

/// Waits until the store has so many deliveries.
async fn stored(etcd: &Etcd, count: usize) {
    let options = EtcdOptions { endpoints: vec![etcd.url()], prefix: "/test/".to_owned(), tls: None, user: None };
    let store = EtcdStore::connect(options).await.expect("etcd");
    let list = List { prefix: "deliveries/".to_owned(), ..List::default() };
    eventually("deliveries in the store", async || (store.list(list.clone()).await.expect("listed").entries.len() == count).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_reach_all_others_across_replicas() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (on(&etcd).await, on(&etcd).await);
    the_whole(&one, &two).await;
    stored(&etcd, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_between_two_replicas_is_sent_waits_for_it() {
    let etcd = Etcd::start().await.expect("etcd");
    let (one, two) = (on(&etcd).await, on(&etcd).await);
    let anna = session("Anna", "lobby");
    let hello = Hello::new("west").sessions([anna.clone()]);
    let mut edge = Hello::new("edge").attach(&one).await;
    let west = hello.attach(&two).await;
    eventually("Anna", async || (reach(&mut edge, tell("Anna", "first")).await == Ok(1)).then_some(())).await;
    stored(&etcd, 0).await;
    two.kill();
    let lease = west.welcome.lease_id;
    assert!(west.end().await.is_some());
    for text in ["second", "third"] {
        assert_eq!(reach(&mut edge, tell("Anna", text)).await, Ok(1));
    }
    stored(&etcd, 2).await;
    let hello = Hello { lease, ..hello };
    let mut west = hello.attach(&one).await;
    assert!(west.welcome.lease_resumed);
    for text in ["second", "third"] {
        assert_eq!(delivered(&mut west).await, format!("session {}: {text}", anna.id));
    }
    stored(&etcd, 0).await;
    // Once only.
    let mut west = hello.attach(&one).await;
    assert_eq!(reach(&mut edge, tell("Anna", "fourth")).await, Ok(1));
    assert_eq!(delivered(&mut west).await, format!("session {}: fourth", anna.id));
    // Nobody waits for a node that has gone.
    west.leave().await;
    eventually("its end", async || (reach(&mut edge, tell("Anna", "late")).await == problem("player_offline")).then_some(())).await;
    stored(&etcd, 0).await;
}
