//! The node's own commands, as a player types them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_proto::snapshot::{Backend, OnKick, Snapshot};
use moonbridge_proto::v1::{self, ask::Question, ask_transfer::Who};
use moonbridge_protocol::name::offline_uuid;
use moonbridge_protocol::play::{self as packets, ClientSettings};
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{Clientbound, Serverbound};
use moonbridge_protocol::{frame, login};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

use super::super::Arrival;
use super::stage::*;
use crate::commands::{Kind, Languages};
use crate::config::Config;
use crate::conn::Conn;
use crate::node::Node;
use crate::timer::timeout;

/// What the control plane says that Steve has; `!` takes away.
fn grant(node: &Node, revision: u64, permissions: &[&str]) {
    let nodes = permissions.iter().map(|text| {
        let (value, key) = text.strip_prefix('!').map_or((true, *text), |key| (false, key));
        v1::PermissionNode { key: key.into(), value, ..Default::default() }
    });
    let uuid = offline_uuid("Steve").to_string();
    node.registry.set_permissions(v1::UserPermissions {
        player_uuid: uuid.clone(),
        revision: Some(v1::Revision { store_id: "test".into(), number: revision }),
        user: Some(v1::PermissionUser { uuid, nodes: nodes.collect(), ..Default::default() }),
        ..Default::default()
    });
}

/// A node that is attached to a control plane, for its sessions.
fn attached(hosts: &[&Host], change: impl FnOnce(&mut Config)) -> Arc<Node> {
    let node = node(hosts, OnKick::Fallback, change);
    node.network.set_attached(true);
    node
}

/// The next question to the network.
async fn asked(node: &Node) -> v1::Ask {
    loop {
        if let Some(ask) = node.network.take(1).pop() {
            return ask;
        }
        timeout(PATIENCE, node.network.asked()).await.expect("asked in time");
    }
}

/// Answers the next question.
async fn answer(node: &Node, answer: v1::AskAnswer) -> v1::Ask {
    let ask = asked(node).await;
    node.network.answered(v1::AskAnswer { id: ask.id, ..answer });
    ask
}

fn problem(problem: &str) -> v1::AskAnswer {
    v1::AskAnswer { problem: problem.into(), ..Default::default() }
}

/// The next line that the player is shown, as JSON; keep-alives are answered.
async fn line(player: &mut Peer) -> String {
    loop {
        let (kind, frame) = player.clientbound().await;
        match kind {
            Clientbound::Chat => return packets::read_chat(&frame.payload).expect("chat").to_json(),
            Clientbound::KeepAlive => {
                let id = packets::read_keep_alive(v5(), &frame.payload).expect("an id");
                player.send(|out| packets::put_keep_alive_serverbound(out, v5(), id)).await;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A line that both sides agree on: nothing else was under way.
async fn nothing_passed(player: &mut Peer, backend: &mut Peer) {
    player.say("mark").await;
    backend.is_told("mark").await;
    backend.show("mark").await;
    player.hears("mark").await;
}

#[tokio::test]
async fn server_shows_where_a_player_may_go_and_goes_there() {
    let (lobby, arena, vip) = (host("lobby").await, host("arena").await, host("vip").await);
    let node = attached(&[&lobby, &arena, &vip], |_| {});
    restrict(&node, "vip");
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &[]);
    player.say("/server").await;
    player.hears("You are on lobby.").await;
    let list = line(&mut player).await;
    assert_eq!(Text::from_json(&list).expect("JSON").plain(), "You can go to: arena, lobby");
    assert!(list.contains(r#"{"action":"run_command","value":"/server arena"}"#) && !list.contains("/server lobby"), "{list}");
    assert!(list.contains("Click to go to arena"), "{list}");

    for (typed, told) in [
        ("/server lobby", "You are on lobby already."),
        ("/server vip", "There is no server vip."),
        ("/server nowhere", "There is no server nowhere."),
        ("/server --help", "There is no server --help."),
    ] {
        player.say(typed).await;
        player.hears(told).await;
    }
    nothing_passed(&mut player, &mut backend).await;

    player.say("/SERVER  Arena and more").await;
    let mut new = arena.accept().await;
    player.say("/server lobby").await;
    player.hears("You are being moved already.").await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, -1).await;
    player.respawns(0).await;
    // At the fence a command is a command, too.
    player.say("/server").await;
    player.hears("You are on arena.").await;
    player.hears("You can go to: arena, lobby").await;
    nothing_passed(&mut player, &mut new).await;

    grant(&node, 2, &["moonbridge.server.vip"]);
    player.say("/server").await;
    player.hears("You are on arena.").await;
    player.hears("You can go to: arena, lobby, vip").await;
}

#[tokio::test]
async fn a_backend_that_does_not_take_the_player_says_why() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = attached(&[&lobby, &arena], |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &[]);
    player.say("/server arena").await;
    arena.hear().await.send(|out| login::put_disconnect(out, &Text::legacy("§4not §ltoday"))).await;
    let told = Text::from_json(&line(&mut player).await).expect("JSON").to_legacy();
    assert_eq!(told, "§carena does not take you: §4not §ltoday");
    player.say("/server arena").await;
    drop(arena.hear().await);
    player.hears("You could not be moved to arena.").await;
    // Nothing of where it is.
    drop(arena);
    player.say("/server arena").await;
    player.hears("You could not be moved to arena.").await;
    let mut snapshot = Snapshot::clone(&node.snapshot.load_full().expect("a snapshot"));
    let arena = snapshot.backends.get_mut("arena").expect("a backend");
    *arena = Arc::new(Backend { drained: true, ..Backend::clone(arena) });
    node.put_in_force(snapshot);
    player.say("/server arena").await;
    player.hears("arena takes no players at the moment.").await;
    player.say("/server").await;
    player.hears("You are on lobby.").await;
    player.hears("There is nowhere else to go.").await;
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn hub_leads_where_it_is_configured_or_the_route_begins() {
    for configured in [None, Some("arena"), Some("gone")] {
        let (lobby, arena) = (host("lobby").await, host("arena").await);
        let node = attached(&[&lobby, &arena], |config| config.commands.hub = configured.map(str::to_owned));
        let (mut player, _backend) = play(&node, &lobby, "Steve").await;
        grant(&node, 1, &[]);
        player.say("/hub").await;
        match configured {
            None => player.hears("You are on lobby already.").await,
            Some("gone") => player.hears("There is no server gone.").await,
            Some(_) => {
                let mut new = arena.accept().await;
                new.send(|out| join(9).put(out, v5())).await;
                player.joins(9, -1).await;
            }
        }
    }
}

#[tokio::test]
async fn glist_shows_the_network() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = attached(&[&lobby, &arena], |_| {});
    let (mut player, _backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.glist"]);
    let on = |backend: &str, names: &[&str], players: u32| v1::BackendPlayers {
        backend: backend.into(),
        players,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    player.say("/glist").await;
    let backends = vec![on("arena", &[], 12), on("empty", &[], 0), on("lobby", &[], 1)];
    let ask = answer(&node, v1::AskAnswer { backends, ..Default::default() }).await;
    assert_eq!(ask.origin, "player Steve");
    assert_eq!(ask.question, Some(Question::Players(v1::AskPlayers::default())));
    let arena = line(&mut player).await;
    assert_eq!(Text::from_json(&arena).expect("JSON").plain(), "[arena] (12)");
    assert!(arena.contains(r#""value":"/server arena""#), "{arena}");
    player.hears("[lobby] (1)").await;
    player.hears("Players online: 13").await;

    player.say("/glist all").await;
    let backends = vec![on("arena", &["Ada", "§kBob"], 12), on("empty", &[], 0)];
    let ask = answer(&node, v1::AskAnswer { backends, ..Default::default() }).await;
    assert_eq!(ask.question, Some(Question::Players(v1::AskPlayers { names: true, ..Default::default() })));
    player.hears("[arena] (12): Ada, kBob and 10 more").await;
    player.hears("[empty] (0)").await;
    player.hears("Players online: 12").await;
}

#[tokio::test]
async fn find_send_and_kick_ask_the_network_for_players() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = attached(&[&lobby, &arena], |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.*"]);
    let find = |player: &str| Question::Find(v1::AskFind { player: player.into() });
    player.say("/find ada").await;
    let session = v1::Session { player: "Ada".into(), backend: "arena".into(), node_name: "edge-2".into(), ..Default::default() };
    let ask = answer(&node, v1::AskAnswer { session: Some(session), ..Default::default() }).await;
    assert_eq!(ask.question, Some(find("ada")));
    player.hears("Ada is on arena.").await;
    player.say("/find Bob").await;
    answer(&node, problem("player_offline")).await;
    player.hears("Bob is not online.").await;

    let send = |who: Who| Question::Transfer(v1::AskTransfer { who: Some(who), to: "arena".into(), as_player: false });
    for (typed, who, reached, told) in [
        ("/send Ada ARENA", Who::Player("Ada".into()), 1, "Ada is being sent to arena."),
        ("/send current arena", Who::Backend("lobby".into()), 7, "Players being sent to arena: 7"),
        ("/send all arena", Who::Everybody(true), 1, "Players being sent to arena: 1"),
        ("/send Lobby arena", Who::Backend("lobby".into()), 0, "There is nobody to send to arena."),
    ] {
        player.say(typed).await;
        let ask = answer(&node, v1::AskAnswer { reached, ..Default::default() }).await;
        assert_eq!(ask.question, Some(send(who)), "{typed}");
        player.hears(told).await;
    }
    for (why, told) in [
        ("backend_drained", "arena takes no players at the moment."),
        ("unknown_backend", "There is no server arena."),
        ("already_there", "Ada is on arena already."),
        ("bad_request", "That did not work."),
        ("unavailable", "The network cannot be asked at the moment: try again in a moment."),
    ] {
        player.say("/send Ada arena").await;
        answer(&node, problem(why)).await;
        player.hears(told).await;
    }

    // The name is taken for the backend's.
    player.say("/send arena arena").await;
    assert_eq!(answer(&node, problem("already_there")).await.question, Some(send(Who::Backend("arena".into()))));
    player.hears("There is nobody to send to arena.").await;

    let kick = |text: &str| {
        let text = v1::PlayerText { text: Some(v1::player_text::Text::Legacy(text.into())) };
        Question::Kick(v1::AskKick { player: "Ada".into(), text: Some(text) })
    };
    for (typed, text) in
        [("/kick Ada", "§cYou were kicked by a moderator."), ("/kick Ada  be &lnice  now ", "§cYou were kicked: §rbe §lnice  now")]
    {
        player.say(typed).await;
        let ask = answer(&node, v1::AskAnswer { reached: 1, ..Default::default() }).await;
        assert_eq!(ask.question, Some(kick(text)));
        player.hears("Ada was kicked.").await;
    }
    for (typed, told) in [
        ("/find", "Usage: /find PLAYER"),
        ("/kick ", "Usage: /kick PLAYER [REASON]"),
        ("/send Ada", "Usage: /send PLAYER|current|all|SERVER TARGET"),
        ("/send Ada nowhere", "There is no server nowhere."),
        ("/find --all", "--all is not online."),
        ("/kick @a out", "@a is not online."),
    ] {
        player.say(typed).await;
        player.hears(told).await;
    }
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn an_alert_goes_to_everybody() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.alert"]);
    player.say("/alert &cin  5 minutes {player}").await;
    let ask = answer(&node, v1::AskAnswer { reached: 3, ..Default::default() }).await;
    let text = v1::PlayerText { text: Some(v1::player_text::Text::Legacy("§8[§4Alert§8] §cin  5 minutes {player}".into())) };
    assert_eq!(ask.question, Some(Question::Tell(v1::AskTell { player: String::new(), text: Some(text) })));
    player.say("/alert  ").await;
    player.hears("Usage: /alert TEXT").await;
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn ping_is_the_time_that_the_client_s_answer_takes() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &[]);
    player.say("/ping").await;
    let (kind, frame) = player.clientbound().await;
    assert_eq!(kind, Clientbound::KeepAlive);
    let waited = tokio::time::Instant::now();
    // An answer takes no less than this.
    crate::timer::sleep(Duration::from_millis(30)).await;
    let least = waited.elapsed().as_millis();
    let id = packets::read_keep_alive(v5(), &frame.payload).expect("an id");
    player.send(|out| packets::put_keep_alive_serverbound(out, v5(), id)).await;
    let told = Text::from_json(&line(&mut player).await).expect("JSON").plain();
    let ping: u128 = told.strip_prefix("Your ping is ").and_then(|rest| rest.strip_suffix(" ms.")).expect(&told).parse().expect("a number");
    assert!((least..PATIENCE.as_millis()).contains(&ping), "{told}");
    // The backend hears nothing of it, nor of a second answer.
    player.send(|out| packets::put_keep_alive_serverbound(out, v5(), id)).await;
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn moonbridge_tells_of_itself() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |config| config.name = "edge-1".into());
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.moonbridge"]);
    for typed in ["/moonbridge", "/moonbridge version"] {
        player.say(typed).await;
        player.hears(&format!("MoonBridge {}", env!("CARGO_PKG_VERSION"))).await;
    }
    player.say("/moonbridge info").await;
    player.hears("Node: edge-1, players: 1").await;
    let session = node.registry.subscribe().0[0].id.clone();
    player.hears(&format!("You are Steve on lobby, session {session}")).await;
    player.hears("Control plane: away").await;
    player.say("/moonbridge permission fly").await;
    player.hears("You do not have permission to use this command.").await;
    let own = "moonbridge.command.moonbridge.permission";
    grant(&node, 2, &["moonbridge.command.moonbridge", own, "!fly"]);
    for (typed, told) in [
        ("permission fly", "fly: false server=proxy world=lobby".to_owned()),
        ("PERMISSION steve walk", "walk: undefined server=proxy world=lobby".to_owned()),
        ("permission moonbridge.command.moonbridge.permission", format!("{own}: true server=proxy world=lobby")),
        ("permission Alex fly", "Usage: /moonbridge version | info | permission PERMISSION".to_owned()),
        ("permission", "Usage: /moonbridge version | info | permission PERMISSION".to_owned()),
        ("reload", "Usage: /moonbridge version | info | permission PERMISSION".to_owned()),
    ] {
        player.say(&format!("/moonbridge {typed}")).await;
        player.hears(&told).await;
    }
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn a_command_that_a_player_may_not_use_says_so_and_passes_to_nobody() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |config| config.commands.burst = 100);
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    let unknown = "It is not known at the moment what you may do: try again in a moment.";
    let refused = "You do not have permission to use this command.";
    // Nothing is known of the player; then nothing is said of commands; then they are taken away.
    let all: Vec<String> = Kind::ALL.iter().map(|kind| format!("!{}", kind.permission())).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    for (revision, had) in [(0, None), (1, Some(&[][..])), (2, Some(&all[..]))] {
        if let Some(had) = had {
            grant(&node, revision, had);
        }
        for kind in Kind::ALL {
            if had == Some(&[]) && kind.is_for_everybody() {
                continue;
            }
            player.say(&format!("/{} x y", kind.name())).await;
            player.hears(if had.is_none() { unknown } else { refused }).await;
            nothing_passed(&mut player, &mut backend).await;
        }
    }
    assert!(node.network.take(1).is_empty(), "nothing was asked");
}

#[tokio::test]
async fn what_is_not_the_node_s_passes_as_it_is() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |config| {
        *config = Config::parse(
            "[commands.kick]\nenabled = false\n[commands.server]\nnames = [\"go\", \"WECHSELN\", \"去\"]\n[commands.find]\nnames = [\"server\"]",
        )
        .expect("valid");
    });
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.*"]);
    for line in ["/kick Ada", "/find Ada", "/", "/ server", "//server", "hub", " /hub", "/hubs", "/tell Ada /hub", "/\u{202e}hub", "😀"] {
        player.say(line).await;
        backend.is_told(line).await;
    }
    for name in ["go", "wechseln", "去"] {
        player.say(&format!("/{name}")).await;
        player.hears("You are on lobby.").await;
        player.hears("There is nowhere else to go.").await;
    }
    player.say("/Server").await;
    player.hears("Usage: /Server PLAYER").await;
    nothing_passed(&mut player, &mut backend).await;
}

#[tokio::test]
async fn with_commands_off_everything_passes() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |config| *config = Config::parse("[commands]\nenabled = false").expect("valid"));
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.*"]);
    for kind in Kind::ALL {
        let line = format!("/{}", kind.name());
        player.say(&line).await;
        backend.is_told(&line).await;
    }
}

#[tokio::test]
async fn players_are_answered_in_the_language_of_their_client() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |config| {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("de.toml"), "server_current = \"§6Du bist auf &l{backend}\"").expect("written");
        config.commands.languages = Arc::new(Languages::load(Some::<&Path>(folder.path()), "de").expect("valid"));
    });
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &[]);
    let mut settings = ClientSettings { locale: "", view_distance: 8, chat: 0, chat_colours: true, difficulty: 1, cape: true };
    for (locale, told) in [
        (None, "Du bist auf lobby"),
        (Some("zh_CN"), "你在 lobby。"),
        (Some("en_GB"), "You are on lobby."),
        (Some("fr_FR"), "Du bist auf lobby"),
        (Some(""), "Du bist auf lobby"),
    ] {
        if let Some(locale) = locale {
            settings.locale = locale;
            player.send(|out| settings.put(out, v5())).await;
            assert_eq!(backend.serverbound().await.0, Serverbound::ClientSettings);
        }
        player.say("/server").await;
        player.hears(told).await;
        line(&mut player).await;
    }
}

#[tokio::test]
async fn a_thousand_commands_at_once_are_a_burst_and_one_word_of_warning() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |config| (config.commands.rate, config.commands.burst) = (1, 5));
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &[]);
    player
        .send(|out| {
            for number in 0..1_000 {
                packets::put_chat_serverbound(out, v5(), &format!("/server nowhere{number}"));
            }
            packets::put_chat_serverbound(out, v5(), "mark");
        })
        .await;
    backend.is_told("mark").await;
    backend.show("mark").await;
    let (mut answers, mut warnings) = (0, 0);
    loop {
        let line = Text::from_json(&line(&mut player).await).expect("JSON").plain();
        match line.as_str() {
            "mark" => break,
            "You are typing commands too fast: wait a moment." => warnings += 1,
            _ => {
                assert_eq!(line, format!("There is no server nowhere{answers}."));
                answers += 1;
            }
        }
    }
    // On a busy machine a second or two may have gone by.
    assert!((5..=5 + PATIENCE.as_secs()).contains(&answers) && (1..=PATIENCE.as_secs()).contains(&warnings), "{answers}, {warnings}");
}

#[tokio::test]
async fn so_many_commands_may_wait_for_the_network() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |_| {});
    let (mut player, _backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.find"]);
    for _ in 0..9 {
        player.say("/find Ada").await;
    }
    player.hears("Your earlier commands have not been answered yet: wait a moment.").await;
    let mut asks = Vec::new();
    for _ in 0..8 {
        asks.push(asked(&node).await);
    }
    // In any order.
    for ask in asks.into_iter().rev() {
        node.network.answered(v1::AskAnswer { id: ask.id, ..problem("player_offline") });
        player.hears("Ada is not online.").await;
    }
    player.say("/find Ada").await;
    asked(&node).await;
    // The control plane goes away.
    node.network.set_attached(false);
    player.hears("The network cannot be asked at the moment: try again in a moment.").await;
    player.say("/find Ada").await;
    player.hears("The network cannot be asked at the moment: try again in a moment.").await;
}

#[tokio::test]
async fn commands_are_answered_while_the_player_is_nowhere_and_never_held() {
    let (lobby, arena) = (host("lobby").await, host("arena").await);
    let node = attached(&[&lobby, &arena], |_| {});
    let (mut player, mut old) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.find"]);
    old.send(|out| packets::put_disconnect(out, v5(), &Text::legacy("lobby restarts"))).await;
    old.ends().await;
    drop(old);
    let mut new = arena.accept().await;
    player.say("held").await;
    for (typed, told) in [("/server arena", "You are being moved already."), ("/server x", "There is no server x.")] {
        player.say(typed).await;
        assert_eq!(Text::from_json(&line(&mut player).await).expect("JSON").plain(), told);
    }
    player.say("/server").await;
    assert!(line(&mut player).await.contains("/server lobby"));
    player.say("/ping").await;
    assert!(line(&mut player).await.contains("Your ping is"));
    player.say("/find Ada").await;
    let ask = asked(&node).await;
    new.send(|out| join(9).put(out, v5())).await;
    player.joins(9, -1).await;
    player.respawns(0).await;
    player.hears("You were moved to arena: lobby restarts").await;
    node.network.answered(v1::AskAnswer { id: ask.id, ..problem("player_offline") });
    player.hears("Ada is not online.").await;
    new.is_told("held").await;
    nothing_passed(&mut player, &mut new).await;
}

#[tokio::test]
async fn an_answer_waits_for_the_end_of_a_long_frame() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |_| {});
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &[]);
    let mut long = Vec::new();
    frame::put(&mut long, 0x21, |out| out.extend_from_slice(&vec![7; 100_000]));
    let (head, tail) = long.split_at(80_000);
    backend.send(|out| out.extend_from_slice(head)).await;
    player.0.fill(70_000).await.expect("read");
    for _ in 0..3 {
        player.say("/server x").await;
    }
    player.say("mark").await;
    backend.is_told("mark").await;
    backend.send(|out| out.extend_from_slice(tail)).await;
    assert_eq!(player.frame().await.payload, [7; 100_000]);
    for _ in 0..3 {
        player.hears("There is no server x.").await;
    }
}

/// A player that types and does not read: what it is told does not pile up, and all of it comes once it does read.
#[tokio::test]
async fn answers_wait_for_a_player_that_does_not_read() {
    const LISTS: usize = 60;
    let lobby = host("lobby").await;
    let others = (0..60).map(|number| (format!("a-backend-with-a-long-name-{number:02}"), "127.0.0.1:1".to_owned()));
    let all = [("lobby".to_owned(), lobby.address().to_string())].into_iter().chain(others);
    let node = node_with(all.collect(), OnKick::Fallback, |config| config.commands.burst = 1_000);
    let (front, narrow) = (TcpListener::bind("127.0.0.1:0").await.expect("bind"), TcpSocket::new_v4().expect("a socket"));
    narrow.set_recv_buffer_size(4_096).expect("set");
    let mut player = Peer(Conn::new(narrow.connect(front.local_addr().expect("address")).await.expect("connected")));
    let (stream, address) = front.accept().await.expect("accept");
    socket2::SockRef::from(&stream).set_send_buffer_size(4_096).expect("set");
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a place");
    tokio::spawn(super::super::serve(node.clone(), Arrival { stream, address, place, authenticator: None }));
    player.greet("Steve", 5).await;
    let mut backend = lobby.accept().await;
    assert_eq!(player.frame().await.id, 2, "Login Success");
    grant(&node, 1, &[]);
    for _ in 0..LISTS {
        player.say("/server").await;
    }
    player.say("mark").await;
    backend.is_told("mark").await;
    player.say("/server x").await;
    for _ in 0..LISTS {
        player.hears("You are on lobby.").await;
        let list = line(&mut player).await;
        assert!(list.len() > 10_000 && list.contains("long-name-49"), "{} bytes", list.len());
    }
    player.hears("There is no server x.").await;
}

#[tokio::test]
async fn garbage_is_harmless() {
    let lobby = host("lobby").await;
    let node = attached(&[&lobby], |config| config.commands.burst = 1_000);
    let (mut player, mut backend) = play(&node, &lobby, "Steve").await;
    grant(&node, 1, &["moonbridge.command.*"]);
    let words =
        ["x".repeat(32_700), "\u{202e}\u{200f}שלום".into(), "\u{0}\u{7}\u{1b}[31m\r\n".into(), "😀\u{10ffff}".repeat(8_000), "§k§".into()];
    for kind in [Kind::Server, Kind::Find, Kind::Kick, Kind::Send, Kind::MoonBridge] {
        for word in words.iter().map(String::as_str).chain(["-", "--", "../..", "%s", "{player}", "$(id)", "'; --", "*", "&c"]) {
            player.say(&format!("/{} {word} lobby", kind.name())).await;
            let told = Text::from_json(&line(&mut player).await).expect("JSON").plain();
            assert!(told.chars().count() < 200 && !told.contains(['§', '\u{1b}', '\r']), "{told}");
        }
    }
    for message in &words {
        player.say(&format!("/alert {message}")).await;
        let Some(Question::Tell(tell)) = asked(&node).await.question else { panic!("expected a text for everybody") };
        let Some(v1::player_text::Text::Legacy(text)) = tell.text.and_then(|text| text.text) else { panic!("expected a text") };
        assert!(text.chars().count() < 300, "{} characters", text.chars().count());
    }
    // One that is no line at all is the backend's to judge.
    player.send_frame(1, &[0xff; 9]).await;
    assert_eq!(backend.frame().await.payload, [0xff; 9]);
    nothing_passed(&mut player, &mut backend).await;
}
