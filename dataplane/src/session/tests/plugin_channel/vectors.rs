//! Every request of the vectors, as a plugin writes it: what is asked of the network for it.

use std::fs;
use std::path::Path;

use moonbridge_proto::v1::{PlayerText, player_text};
use serde_json::{Value, json};

use super::*;

pub(super) fn vectors(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/vectors/bungeecord").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("an array")
}

/// What hexadecimal digits say; white space is for the eye.
pub(super) fn hex(digits: &Value) -> Vec<u8> {
    let digits = digits.as_str().expect("hex").chars().filter_map(|digit| digit.to_digit(16)).collect::<Vec<_>>();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// What the network is to be asked for a request that means this, at a network of lobby and pvp; none if the node answers itself,
/// or nothing comes of it.
fn question(meaning: &Value) -> Option<Question> {
    let text = |field: &str| meaning[field].as_str().unwrap_or_default().to_owned();
    let shown = |text| Some(PlayerText { text: Some(text) });
    let data =
        || [texts(&[&text("channel")]), ((hex(&meaning["data"]).len()) as u16).to_be_bytes().to_vec(), hex(&meaning["data"])].concat();
    let forward = |to: Where| Question::Forward(v1::AskForward { r#where: Some(to), from: "lobby".into(), data: data() });
    let message = meaning["message"].as_str().expect("a message");
    Some(match message {
        "ConnectOther" => {
            Question::Transfer(v1::AskTransfer { who: Some(Who::Player(text("player"))), to: text("backend"), as_player: false })
        }
        "IPOther" | "UUIDOther" | "GetPlayerServer" => Question::Find(v1::AskFind { player: text("player") }),
        "PlayerCount" | "PlayerList" if meaning["on"] == json!("all") => return None,
        "PlayerCount" | "PlayerList" => {
            Question::Players(v1::AskPlayers { backend: text("on"), names: message == "PlayerList", ..Default::default() })
        }
        "Message" => Question::Tell(v1::AskTell { player: text("to"), text: shown(player_text::Text::Legacy(text("text"))) }),
        "MessageRaw" => Question::Tell(v1::AskTell { player: text("to"), text: shown(player_text::Text::Json(text("json"))) }),
        "KickPlayer" => Question::Kick(v1::AskKick { player: text("player"), text: shown(player_text::Text::Legacy(text("reason"))) }),
        "KickPlayerRaw" => Question::Kick(v1::AskKick { player: text("player"), text: shown(player_text::Text::Json(text("json"))) }),
        "ForwardToPlayer" => forward(Where::Player(text("player"))),
        "Forward" if meaning["to"].is_array() => forward(Where::Backend("pvp".into())),
        "Forward" => forward(Where::Everywhere(true)),
        _ => return None,
    })
}

#[tokio::test]
async fn every_request_comes_to_the_right_question() {
    let (lobby, pvp) = (host("lobby").await, host("pvp").await);
    let node = obeying(&[&lobby, &pvp]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    let mut seen = 0;
    for vector in vectors("requests.json") {
        backend.ask(&hex(&vector["bytes"])).await;
        backend.show("mark").await;
        // The player who is to go where it is hears so; of everything else it hears nothing.
        if vector["what"] == json!("Connect") {
            assert_eq!(player.clientbound().await.0, Clientbound::Chat);
        }
        player.hears("mark").await;
        let asks = node.network.take(10);
        asks.iter()
            .for_each(|ask| node.network.answered(v1::AskAnswer { id: ask.id, problem: "unavailable".into(), ..Default::default() }));
        let questions: Vec<_> = asks.into_iter().filter_map(|ask| ask.question).collect();
        assert_eq!(questions, Vec::from_iter(question(&vector["meaning"])), "{}", vector["what"]);
        seen += questions.len();
    }
    assert!(seen > 12, "{seen}");
}

#[tokio::test]
async fn a_message_to_nobody_is_not_one_to_everybody() {
    let lobby = host("lobby").await;
    let node = obeying(&[&lobby]);
    let (mut player, mut backend) = enter(&node, &lobby).await;
    for request in [
        ["Message", "", "hi"],
        ["MessageRaw", "", "{}"],
        ["KickPlayer", "", "out"],
        ["ConnectOther", "", "lobby"],
        ["Message", "no one", "hi"],
    ] {
        backend.ask(&texts(&request)).await;
    }
    nothing_passed(&mut player, &mut backend).await;
    assert_eq!(node.network.take(10), []);
}
