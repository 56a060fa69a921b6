//! The channel "BungeeCord": each message of a backend's plugins, written as Java writes it, across nodes.
//!
//! The lobby's plugins speak over Alice's connection, on the first node; Bob is on the second, on the arena. Where nothing is to come
//! of a message, the next question's answer shows that nothing came before it.

use moonbridge_testing::peer::{Kind, Player, Seen, Served};
use moonbridge_testing::process::testing_dir;
use serde_json::{Value, json};

use crate::support::{Stage, goes_to, heard, host, messages, plugin_asks, plugin_calls, plugin_reads, plugin_says};

/// The UUID that every offline server gives her, without dashes.
const ALICE: &str = "10920508d5d83eed93d292f193afe7d7";

/// What `clients/bungeecord.js` writes is what a JDK writes.
#[tokio::test(flavor = "multi_thread")]
async fn the_scripted_plugin_writes_the_vectors() {
    let (mut backend, _) = moonbridge_testing::peer::Backend::serve(Kind::Npm, "lobby", json!({})).await;
    for file in ["requests.json", "answers.json"] {
        for vector in vectors(file) {
            backend.command("write", json!({ "calls": vector["calls"] })).await;
            let hex = backend.expect("the bytes", |served| if let Served::Written { hex } = served { Some(hex.clone()) } else { None });
            assert_eq!(hex.await, vector["bytes"].as_str().expect("hex").replace(' ', ""), "{}", vector["what"]);
        }
    }
}

/// A table of `testing/vectors/bungeecord`.
pub(crate) fn vectors(file: &str) -> Vec<Value> {
    let path = testing_dir().join("vectors/bungeecord").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("a table of cases")
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_about_the_whole_network() {
    let mut stage = Stage::start().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;
    let (alices, bobs) = (local_port(&mut alice).await, local_port(&mut bob).await);
    let arena = stage.arena_port;
    let lobby = &mut stage.lobby;

    plugin_asks(lobby, "Alice", &["IP"], json!(["IP", "127.0.0.1", alices])).await;
    plugin_asks(lobby, "Alice", &["IPOther", "bob"], json!(["IPOther", "Bob", "127.0.0.1", bobs])).await;
    plugin_asks(lobby, "Alice", &["UUID"], json!(["UUID", ALICE])).await;
    plugin_asks(lobby, "Alice", &["UUIDOther", "Bob"], json!(["UUIDOther", "Bob", uuid_of(&mut bob).await])).await;
    plugin_asks(lobby, "Alice", &["GetServer"], json!(["GetServer", "lobby"])).await;
    plugin_asks(lobby, "Alice", &["GetServers"], json!(["GetServers", "arena, lobby"])).await;
    plugin_asks(lobby, "Alice", &["GetPlayerServer", "Bob"], json!(["GetPlayerServer", "Bob", "arena"])).await;
    plugin_asks(lobby, "Alice", &["GetPlayerServer", "Nobody"], json!(["GetPlayerServer", "Nobody", ""])).await;
    plugin_asks(lobby, "Alice", &["ServerIP", "arena"], json!(["ServerIP", "arena", "127.0.0.1", arena])).await;
    plugin_asks(lobby, "Alice", &["PlayerCount", "ALL"], json!(["PlayerCount", "ALL", 2])).await;
    plugin_says(lobby, "Alice", &["PlayerList", "ALL"]).await;
    let all = plugin_reads(lobby, "Alice").await;
    assert!([json!(["PlayerList", "ALL", "Alice, Bob"]), json!(["PlayerList", "ALL", "Bob, Alice"])].contains(&all), "{all}");
    for (on, names) in [("arena", "Bob"), ("lobby", "Alice")] {
        plugin_asks(lobby, "Alice", &["PlayerCount", on], json!(["PlayerCount", on, 1])).await;
        plugin_asks(lobby, "Alice", &["PlayerList", on], json!(["PlayerList", on, names])).await;
    }

    // The other way round, and nothing is said of what there is not.
    let arena = &mut stage.arena;
    for unanswered in [&["IPOther", "Nobody"][..], &["UUIDOther", ""], &["PlayerCount", "nowhere"], &["PlayerList", ""], &["ServerIP", "x"]]
    {
        plugin_says(arena, "Bob", unanswered).await;
    }
    plugin_asks(arena, "Bob", &["GetPlayerServer", "ALICE"], json!(["GetPlayerServer", "ALICE", "lobby"])).await;
    plugin_asks(arena, "Bob", &["PlayerList", "Lobby"], json!(["PlayerList", "lobby", "Alice"])).await;
    assert!(!alice.all().iter().chain(&bob.all()).any(|seen| matches!(seen, Seen::Plugin { channel, .. } if channel == "BungeeCord")));
    stage.assert_well(&[&alice, &bob]);
}

async fn local_port(player: &mut Player) -> u16 {
    player.eventually("its port", |seen| if let Seen::Connected { local_port } = seen { Some(*local_port) } else { None }).await
}

async fn uuid_of(player: &mut Player) -> String {
    player.eventually("its UUID", |seen| if let Seen::Login { uuid, .. } = seen { Some(uuid.replace('-', "")) } else { None }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_reach_one_player_or_all_wherever_they_are() {
    let mut stage = Stage::start().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;
    let lobby = &mut stage.lobby;

    plugin_says(lobby, "Alice", &["Message", "bob", "§aHello §lBob é€😀"]).await;
    bob.chat("Hello Bob é€😀").await;
    let raw = r#"{"text":"Click","clickEvent":{"action":"run_command","value":"/spawn"},"extra":[{"text":" here","color":"red"}]}"#;
    plugin_says(lobby, "Alice", &["MessageRaw", "Bob", raw]).await;
    let seen = bob.expect("the component", |seen| match seen {
        Seen::Chat { text, raw } if text == "Click here" => Some(raw.clone()),
        _ => None,
    });
    let component: Value = serde_json::from_str(&seen.await).expect("JSON");
    let part = |text: &str| component["extra"].as_array().into_iter().flatten().find(|part| part["text"] == text);
    for (text, colour) in [("Click", Value::Null), (" here", json!("red"))] {
        let part = part(text).unwrap_or_else(|| panic!("{text:?}: {component}"));
        assert_eq!(part["clickEvent"], json!({ "action": "run_command", "value": "/spawn" }), "{component}");
        assert_eq!(part["color"], colour, "{component}");
    }

    plugin_says(lobby, "Alice", &["Message", "ALL", "to all"]).await;
    plugin_says(lobby, "Alice", &["MessageRaw", "ALL", r#""and this""#]).await;
    plugin_says(lobby, "Alice", &["Message", "Nobody", "to nobody"]).await;
    for player in [&mut alice, &mut bob] {
        player.chat("to all").await;
        player.chat("and this").await;
    }
    plugin_says(lobby, "Alice", &["Message", "Alice", "the last"]).await;
    alice.chat("the last").await;
    assert_eq!(heard(&alice), ["to all", "and this", "the last"]);
    assert_eq!(heard(&bob).len(), 4, "{}", bob.log());
    stage.assert_well(&[&alice, &bob]);
}

#[tokio::test(flavor = "multi_thread")]
async fn players_are_connected_to_other_backends_and_kicked() {
    let mut stage = Stage::start().await;
    // A plugin is trusted: nobody's permission is asked.
    stage.net.a.cli().ok(&["backend", "restrict", "arena"]).await;
    stage.net.in_force().await;
    let mut alice = stage.alice().await;
    let mut bob = crate::support::join(&stage.net.second, "Bob").await;
    bob.in_world().await;
    stage.lobby.joined("Bob").await;
    stage.net.known(&["Bob"]).await;

    plugin_says(&mut stage.lobby, "Alice", &["ConnectOther", "BOB", "arena"]).await;
    goes_to(&mut bob, &mut stage.arena, "Bob", -1).await;
    stage.is_on("Bob", "arena").await;
    plugin_says(&mut stage.lobby, "Alice", &["Connect", "nowhere"]).await;
    plugin_says(&mut stage.lobby, "Alice", &["Connect", "Arena"]).await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;
    // The plugins that she is with now are obeyed.
    plugin_asks(&mut stage.arena, "Alice", &["GetServer"], json!(["GetServer", "arena"])).await;
    plugin_says(&mut stage.arena, "Alice", &["Connect", "lobby"]).await;
    goes_to(&mut alice, &mut stage.lobby, "Alice", 0).await;
    stage.is_on("Alice", "lobby").await;

    plugin_says(&mut stage.lobby, "Alice", &["KickPlayer", "bob", "§cOut §4now"]).await;
    assert_eq!(bob.kicked().await, ("Out now".to_owned(), "play".to_owned()));
    bob.end().await;
    let mut bob = Player::join(Kind::Npm, stage.net.second.listen.port(), "Bob", json!({ "virtualHost": host("lobby") }));
    bob.in_world().await;
    stage.lobby.joined("Bob").await;
    stage.is_on("Bob", "lobby").await;
    let reason = r#"{"text":"Raw","bold":true}"#;
    plugin_says(&mut stage.lobby, "Alice", &["KickPlayerRaw", "Bob", reason]).await;
    let raw = bob.expect("the kick", |seen| if let Seen::Kick { raw, .. } = seen { Some(raw.clone()) } else { None }).await;
    let component: Value = serde_json::from_str(&raw).expect("JSON");
    assert_eq!((&component["text"], &component["bold"]), (&json!("Raw"), &json!(true)), "{raw}");
    stage.assert_well(&[&alice]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forwarded_reaches_each_backend_once() {
    let mut stage = Stage::start().await;
    let (alice, bob) = stage.alice_and_bob().await;
    // Two more, so that either backend has players on both nodes: a message goes over one connection all the same.
    let (first, second) = (stage.net.first.listen.port(), stage.net.second.listen.port());
    let mut carol = Player::join(Kind::Npm, first, "Carol", json!({ "virtualHost": host("arena") }));
    let mut dave = Player::join(Kind::Npm, second, "Dave", json!({ "virtualHost": host("lobby") }));
    for (player, name, backend) in [(&mut carol, "Carol", "arena"), (&mut dave, "Dave", "lobby")] {
        player.in_world().await;
        stage.is_on(name, backend).await;
    }
    let forward = |subchannel: &str, to: &str, channel: &str, data: &str| {
        json!([["UTF", subchannel], ["UTF", to], ["UTF", channel], ["Short", data.len() / 2], ["Bytes", data]])
    };
    let binary = "00ff80c00af0";

    let sent = [
        ("Forward", "ALL", "All"),
        ("Forward", "ONLINE", "Online"),
        ("Forward", "arena", "Arena"),
        ("Forward", "nowhere", "Nowhere"),
        ("ForwardToPlayer", "Bob", "Player"),
        ("ForwardToPlayer", "Nobody", "Nobody"),
        ("Forward", "ARENA", "Last"),
    ];
    for (subchannel, to, channel) in sent {
        plugin_calls(&mut stage.lobby, "Alice", forward(subchannel, to, channel, binary)).await;
    }
    // Over which of its connections the arena gets one, and so in which order, is the network's choice.
    let wanted = ["All", "Online", "Arena", "Player", "Last"].map(|channel| json!([channel, binary]));
    let place = |message: &Value| wanted.iter().position(|wanted| wanted == message);
    let mut came = Vec::new();
    while came.len() < wanted.len() {
        let message = |served: &Served| match served {
            Served::BungeeCord { values, .. } => Some(Value::from(values.clone())),
            _ => None,
        };
        came.push(stage.arena.expect("all messages", message).await);
    }
    came.sort_by_key(place);
    assert_eq!(came, wanted);

    // To its own player, to itself by name, of nothing, and as much as there may be.
    plugin_calls(&mut stage.lobby, "Alice", forward("ForwardToPlayer", "Alice", "Own", "2a")).await;
    assert_eq!(plugin_reads(&mut stage.lobby, "Alice").await, json!(["Own", "2a"]));
    plugin_calls(&mut stage.lobby, "Alice", forward("ForwardToPlayer", "Bob", "", "")).await;
    assert_eq!(plugin_reads(&mut stage.arena, "Bob").await, json!(["", ""]));
    let large = "5a".repeat(32_000);
    plugin_calls(&mut stage.lobby, "Alice", forward("ForwardToPlayer", "Bob", "Large", &large)).await;
    assert_eq!(plugin_reads(&mut stage.arena, "Bob").await, json!(["Large", large]));
    // In order.
    for number in 0..50u8 {
        plugin_calls(&mut stage.lobby, "Alice", forward("ForwardToPlayer", "Bob", "Count", &format!("{number:02x}"))).await;
    }
    for number in 0..50u8 {
        assert_eq!(plugin_reads(&mut stage.arena, "Bob").await, json!(["Count", format!("{number:02x}")]));
    }
    // By now a second one would have come, too.
    assert_eq!(messages(&stage.arena).iter().filter(|message| place(message).is_some()).count(), wanted.len(), "each once");
    assert_eq!(messages(&stage.lobby), [json!(["Own", "2a"])], "nothing else to those who said it");
    stage.assert_well(&[&alice, &bob, &carol, &dave]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_that_speaks_on_the_channel_is_neither_obeyed_nor_passed_on() {
    let mut stage = Stage::start().await;
    let (mut alice, bob) = stage.alice_and_bob().await;
    for request in vectors("requests.json") {
        let hex = request["bytes"].as_str().expect("hex").replace(' ', "");
        alice.command("plugin", json!({ "channel": "BungeeCord", "hex": hex })).await;
    }
    let kick = "000a4b69636b506c61796572000342 6f62000178".replace(' ', "");
    alice.command("plugin", json!({ "channel": "BungeeCord", "hex": kick })).await;
    alice.command("plugin", json!({ "channel": "Other", "hex": "2a" })).await;
    let other = |served: &Served| matches!(served, Served::Plugin { channel, hex, .. } if channel == "Other" && hex == "2a").then_some(());
    stage.lobby.expect("another channel's message", other).await;
    let passed = stage.lobby.all().into_iter().find(|served| matches!(served, Served::Plugin { channel, .. } if channel == "BungeeCord"));
    assert_eq!(passed, None);
    stage.assert_well(&[&alice, &bob]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_whose_channel_is_off_is_a_backend_like_any_other() {
    let mut stage = Stage::start().await;
    stage.net.b.cli().ok(&["backend", "plugin-channel", "lobby", "off"]).await;
    stage.net.in_force().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;

    // What its plugins say goes on to the player; what the player says, to them.
    plugin_says(&mut stage.lobby, "Alice", &["Connect", "arena"]).await;
    let passed =
        |seen: &Seen| matches!(seen, Seen::Plugin { channel, hex } if channel == "BungeeCord" && hex == "0007436f6e6e65637400056172656e61");
    alice.expect("the message", |seen| passed(seen).then_some(())).await;
    // An answer that she made herself: that is what it would be for if the channel were on.
    let forged = "00094765745365727665720004 66616b65".replace(' ', "");
    alice.command("plugin", json!({ "channel": "BungeeCord", "hex": forged })).await;
    assert_eq!(plugin_reads(&mut stage.lobby, "Alice").await, json!(["GetServer", "fake"]));
    // Nothing is forwarded to it; the other's plugins are obeyed as before.
    let forward = json!([["UTF", "Forward"], ["UTF", "ALL"], ["UTF", "Stats"], ["Short", 1], ["Bytes", "2a"]]);
    plugin_calls(&mut stage.arena, "Bob", forward.clone()).await;
    plugin_asks(&mut stage.arena, "Bob", &["GetPlayerServer", "Alice"], json!(["GetPlayerServer", "Alice", "lobby"])).await;

    // On again, while she is there.
    stage.net.a.cli().ok(&["backend", "plugin-channel", "lobby", "on"]).await;
    stage.net.in_force().await;
    plugin_asks(&mut stage.lobby, "Alice", &["GetServer"], json!(["GetServer", "lobby"])).await;
    plugin_calls(&mut stage.arena, "Bob", forward).await;
    assert_eq!(plugin_reads(&mut stage.lobby, "Alice").await, json!(["Stats", "2a"]));
    plugin_says(&mut stage.lobby, "Alice", &["Message", "Bob", "hello"]).await;
    bob.chat("hello").await;
    let rows = stage.net.a.cli().rows(&["backend", "list"]).await;
    assert!(rows.iter().all(|row| row["plugin_channel"] == true), "{rows:?}");
    assert_eq!(messages(&stage.lobby).len(), 1, "{}", stage.lobby.log());
    stage.assert_well(&[&alice, &bob]);
}
