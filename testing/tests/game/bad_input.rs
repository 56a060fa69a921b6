//! What players and plugins may send, and better had not: nothing happens, nothing breaks, and a bystander plays on.

use std::time::Duration;

use moonbridge_testing::peer::{Backend, Player, Seen, Served};
use moonbridge_testing::process::SOON;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::channel::vectors;
use crate::support::{Stage, commands, heard, join, messages, plugin_asks, plugin_reads, plugin_says, says};

/// What a string of the protocol may have.
const LONGEST: usize = 32_767;

#[tokio::test(flavor = "multi_thread")]
async fn long_and_strange_commands_are_text_and_nothing_else() {
    let mut stage = Stage::start_with("[commands]\nrate = 1000\nburst = 1000\n", json!({})).await;
    stage.permit_all().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;

    // Names that look like options, paths, patterns and codes.
    for name in [
        "--help",
        "-o",
        "--to=arena",
        "..",
        "*",
        "%s",
        "{player}",
        "§k",
        "&4x",
        "\u{202e}boB",
        "👑",
        "B%00b",
        "Bob\t",
        "'",
        "\"",
        "$(id)",
        "NUL",
    ] {
        says(&mut alice, &format!("/find {name}"), &[&format!("{} is not online.", shown(name))]).await;
        says(&mut alice, &format!("/kick {name} x"), &[&format!("{} is not online.", shown(name))]).await;
        says(&mut alice, &format!("/send {name} arena"), &[&format!("{} is not online.", shown(name))]).await;
        says(&mut alice, &format!("/server {name}"), &[&format!("There is no server {}.", shown(name))]).await;
    }
    // What is said to others is said as it is.
    for text in ["שלום \u{202e}abc\u{202c} مرحبا", "😀👩‍👩‍👧‍👦🏴‍☠️", "{player} {0} %s \\n \\u0000", "\"}],\"text\":\"x", "--all -x"]
    {
        says(&mut alice, &format!("/alert {text}"), &[&format!("[Alert] {text}")]).await;
        bob.chat(&format!("[Alert] {text}")).await;
    }

    // As long as a string may be: the node's own are answered, or refused; others pass as they are.
    let fill = |beginning: &str, with: &str| {
        let room = LONGEST - beginning.len();
        format!("{beginning}{}", with.repeat(room / with.len()))
    };
    for line in [
        fill("/find ", "x"),
        fill("/server ", "-"),
        fill("/send ", "a "),
        fill("/kick Bo ", "é"),
        fill("/moonbridge permission ", "a."),
        fill("/glist ", "all "),
    ] {
        alice.say(&line).await;
    }
    alice.say(&fill("/alert ", "😀")).await;
    let alert = |seen: &Seen| match seen {
        Seen::Chat { text, raw } if text.starts_with("[Alert] 😀😀") => Some(raw.len()),
        _ => None,
    };
    assert!(bob.expect("a long alert", alert).await <= LONGEST);
    let foreign = fill("/warp ", "€");
    alice.say(&foreign).await;
    stage.lobby.chat(&foreign).await;
    for line in ["/find \u{0}\u{1}\u{7f}", "/server \u{8}\u{1b}[2J", "/alert \u{0}a\u{1}\nb", "/kick \u{feff}"] {
        alice.say(line).await;
    }
    says(&mut alice, "/find Bob", &["Bob is on arena."]).await;
    assert!(heard(&alice).iter().all(|line| line.len() <= LONGEST), "{}", alice.log());
    assert!(raws(&alice).iter().all(|raw| raw.len() <= LONGEST && !raw.contains('\u{1b}')));
    assert_eq!(commands(&stage.lobby), [foreign], "only what is not the node's");
    alice.say("plays on").await;
    stage.lobby.chat("plays on").await;
    stage.assert_well(&[&alice, &bob]);
}

/// How a word of the player's is shown to it, as plain text.
fn shown(word: &str) -> String {
    word.chars().filter(|letter| !letter.is_control() && *letter != '§').collect()
}

fn raws(player: &Player) -> Vec<String> {
    player.all().into_iter().filter_map(|seen| if let Seen::Chat { raw, .. } = seen { Some(raw) } else { None }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_commands_a_second_are_cut_to_the_rate_and_nobody_else_notices() {
    let mut stage = Stage::permitted().await;
    let (mut alice, mut bob) = stage.alice_and_bob().await;
    let began = Instant::now();
    for _ in 0..10 {
        let commands = (0..100).map(|_| "/server nowhere");
        for line in commands {
            alice.say(line).await;
        }
        says(&mut bob, "/find Alice", &["Alice is on lobby."]).await;
        bob.say("plays on").await;
        stage.arena.chat("plays on").await;
    }
    // A line of chat is not a command: it passes, behind all of them.
    alice.say("the last").await;
    stage.lobby.chat("the last").await;
    alice.chat("You are typing commands too fast: wait a moment.").await;
    // Enough has come back for one more.
    while !heard(&alice).iter().any(|line| line == "Bob is on arena.") {
        assert!(began.elapsed() < 2 * SOON, "she is not heard again: {}", alice.log());
        alice.say("/find Bob").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let seconds = began.elapsed().as_secs() + 1;
    let answered = heard(&alice).iter().filter(|line| line.as_str() == "There is no server nowhere.").count() as u64;
    let told = heard(&alice).iter().filter(|line| line.starts_with("You are typing")).count() as u64;
    assert!((20..=20 + 10 * seconds).contains(&answered), "{answered} answered in {seconds} s");
    assert!(told <= seconds, "told {told} times in {seconds} s");
    assert!(commands(&stage.lobby).is_empty(), "none passes");
    stage.assert_well(&[&alice, &bob]);
}

/// Each message cut at each of its bytes, with each of its lengths lying, and what is no message at all.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_whole_message_is_nothing() {
    let mut stage = Stage::start().await;
    let (alice, bob) = stage.alice_and_bob().await;
    let lobby = &mut stage.lobby;
    let bad = vectors("requests.json").iter().flat_map(broken).chain(vectors("refused.json").iter().map(hex)).collect::<Vec<_>>();
    assert!(bad.len() > 500, "{}", bad.len());
    for bad in bad.chunks(200) {
        for hex in bad {
            lobby.command("plugin", json!({ "player": "Alice", "channel": "BungeeCord", "hex": hex })).await;
        }
        // So many that none is left out for coming too fast, by the script's own clock.
        for _ in 0..2 {
            lobby.expect("a keep-alive", |served| matches!(served, Served::KeepAliveSent { .. }).then_some(())).await;
        }
    }
    plugin_asks(lobby, "Alice", &["UUID"], json!(["UUID", "10920508d5d83eed93d292f193afe7d7"])).await;
    assert_eq!(messages(lobby).len(), 1, "nothing is answered to any of it: {:?}", messages(lobby));
    assert!(messages(&stage.arena).is_empty() && heard(&alice).is_empty() && heard(&bob).is_empty());
    stage.assert_well(&[&alice, &bob]);
}

/// How many bytes there are behind a message's own: without them it is whole.
const BEHIND: [(&str, usize); 2] = [("Connect, and more behind it", 4), ("Forward to one, with bytes beyond its length", 1)];

fn broken(vector: &Value) -> Vec<String> {
    let hex = hex(vector);
    let behind = BEHIND.iter().find(|(what, _)| vector["what"] == *what).map_or(0, |(_, bytes)| 2 * bytes);
    let cut = (0..hex.len() - behind).step_by(2).map(|end| hex[..end].to_owned());
    let lie = |at: usize| ["7fff", "ffff"].map(|length| format!("{}{length}{}", &hex[..at], &hex[at + 4..]));
    cut.chain(lengths(vector).into_iter().flat_map(lie)).collect()
}

/// Where a message's lengths are, in digits.
fn lengths(vector: &Value) -> Vec<usize> {
    let (hex, mut at, mut lengths) = (hex(vector), 0, Vec::new());
    for call in vector["calls"].as_array().expect("calls") {
        match call[0].as_str() {
            Some("UTF") => {
                lengths.push(at);
                at += 4 + 2 * usize::from_str_radix(&hex[at..at + 4], 16).expect("hex");
            }
            Some("Short") => {
                lengths.push(at);
                at += 4;
            }
            // Bytes, or what comes behind: the last.
            _ => break,
        }
    }
    lengths
}

fn hex(vector: &Value) -> String {
    vector["bytes"].as_str().expect("hex").replace(' ', "")
}

fn is_end_of(served: &Served, player: &str) -> bool {
    matches!(served, Served::End { name: Some(name), .. } if name == player)
}

/// Bob comes and goes; whatever is asked about him meanwhile is answered as if he were there, or as if he were not.
#[tokio::test(flavor = "multi_thread")]
async fn players_who_have_just_left_are_there_or_not() {
    let mut stage = Stage::permitted().await;
    let mut alice = stage.alice().await;
    for round in 0..6 {
        let mut bob = join(&stage.net.second, "Bob").await;
        bob.in_world().await;
        stage.lobby.joined("Bob").await;
        if round % 2 == 0 {
            stage.net.known(&["Bob"]).await;
        }
        bob.command(if round % 3 == 0 { "kill" } else { "quit" }, json!({})).await;
        for texts in [
            &["Message", "Bob", "hi"][..],
            &["MessageRaw", "Bob", r#"{"text":"hi"}"#],
            &["ConnectOther", "Bob", "arena"],
            &["KickPlayer", "Bob", "bye"],
            &["KickPlayerRaw", "Bob", r#"{"text":"bye"}"#],
            &["IPOther", "Bob"],
            &["UUIDOther", "Bob"],
            &["GetPlayerServer", "Bob"],
        ] {
            plugin_says(&mut stage.lobby, "Alice", texts).await;
        }
        plugin_says(&mut stage.lobby, "Alice", &["GetServer"]).await;
        while plugin_reads(&mut stage.lobby, "Alice").await != json!(["GetServer", "lobby"]) {}
        for line in ["/find Bob", "/kick Bob", "/send Bob arena"] {
            alice.say(line).await;
        }
        let left = |lobby: &Backend| lobby.all().iter().filter(|served| is_end_of(served, "Bob")).count();
        while left(&stage.lobby) <= round {
            stage.lobby.expect("another event", |_| Some(())).await;
        }
    }
    // All that was asked has been answered by then, or never will be.
    stage.net.a.cli().until(&["player", "list"], |rows| rows.len() == 1).await;
    alice.say("/find Bob").await;
    alice.chat("Bob is not online.").await;
    plugin_asks(&mut stage.lobby, "Alice", &["GetPlayerServer", "Bob"], json!(["GetPlayerServer", "Bob", ""])).await;
    stage.assert_well(&[&alice]);
}
