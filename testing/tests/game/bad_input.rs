//! What players and plugins may send, and better had not: nothing happens, nothing breaks, and a bystander plays on.

use std::time::Duration;

use moonbridge_testing::peer::{Backend, Player, Seen, Served};
use moonbridge_testing::process::SOON;
use serde_json::json;
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

/// Each message cut at each of its bytes, with lengths that lie, and what is no message at all.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_whole_message_is_nothing() {
    let mut stage = Stage::start().await;
    let (alice, bob) = stage.alice_and_bob().await;
    let lobby = &mut stage.lobby;
    let mut sent = 0;
    for file in ["requests.json", "refused.json"] {
        for vector in vectors(file) {
            let whole = vector["bytes"].as_str().expect("hex").replace(' ', "");
            for bad in broken(&whole, file == "refused.json") {
                lobby.command("plugin", json!({ "player": "Alice", "channel": "BungeeCord", "hex": bad })).await;
                sent += 1;
                // So many that none is left out for coming too fast.
                if sent % 100 == 0 {
                    paced(lobby, sent / 100).await;
                }
            }
        }
    }
    assert!(sent > 500, "{sent}");
    plugin_asks(lobby, "Alice", &["GetServer"], json!(["GetServer", "lobby"])).await;
    let bad: Vec<_> = messages(lobby).into_iter().filter(|message| message[0] != "UUID").collect();
    assert!(bad.is_empty(), "nothing is answered to any of it: {bad:?}");
    assert!(messages(&stage.arena).is_empty() && heard(&alice).is_empty() && heard(&bob).is_empty());
    stage.assert_well(&[&alice, &bob]);
}

/// What is cut short of its last field, and, with `whole`, what is no message anyway; and with each length that lies beyond the end.
fn broken(hex: &str, whole: bool) -> Vec<String> {
    let mut broken: Vec<_> = needed(hex).map(|end| (0..end).step_by(2).map(|end| hex[..end].to_owned()).collect()).unwrap_or_default();
    if whole {
        broken.push(hex.to_owned());
    }
    if hex.len() >= 4 {
        broken.push(format!("ffff{}", &hex[4..]));
        broken.push(format!("7fff{}", &hex[4..]));
    }
    broken
}

/// Where a message's own last field ends, in digits: bytes behind it are ignored.
fn needed(hex: &str) -> Option<usize> {
    // "Connect, and more behind it", and a Forward with bytes beyond its length.
    let more = [("0007436f6e6e656374000161", 24), ("0007466f72776172640003707670 0002c3a900012a", 42)];
    let beyond = more.iter().find(|(beginning, _)| hex.starts_with(&beginning.replace(' ', "")));
    Some(beyond.map_or(hex.len(), |(_, end)| *end))
}

/// Asks for something that is answered at once, a second's requests apart.
async fn paced(lobby: &mut Backend, round: usize) {
    let uuid = json!(["UUID", "10920508d5d83eed93d292f193afe7d7"]);
    plugin_asks(lobby, "Alice", &["UUID"], uuid).await;
    let before = Instant::now();
    // The keep-alives of the script are the clock: two seconds apart.
    lobby.expect(&format!("keep-alive {round}"), |served| matches!(served, Served::KeepAliveSent { .. }).then_some(())).await;
    assert!(before.elapsed() < Duration::from_secs(10));
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
