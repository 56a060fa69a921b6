//! Names, texts and languages of the operator's own; and what is not the node's passes.

use moonbridge_testing::network::folder;
use moonbridge_testing::peer::{Kind, Player};
use serde_json::json;

use crate::support::{Stage, commands, goes_to, host, says};

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_called_what_the_operator_calls_them_and_all_else_passes_untouched() {
    let messages = folder();
    std::fs::write(messages.path().join("en.toml"), "found = \"&b{player} plays on {backend} ({node})\"\n").expect("a file");
    std::fs::write(messages.path().join("tlh.toml"), "hub_none = \"pagh\"\nping = \"{ping}!\"\nfind_usage = \"Dochvetlh yI{command}!\"\n")
        .expect("a file");
    let config = format!(
        "[commands]\nmessages = {:?}\n\
         [commands.find]\nnames = [\"where\", \"Wo\"]\n\
         [commands.alert]\nenabled = false\n\
         [commands.hub]\nbackend = \"arena\"\nnames = [\"hub\", \"l\", \"大厅\"]\n",
        messages.path()
    );
    let mut stage = Stage::start_with(&config, json!({})).await;
    stage.permit_all().await;
    let (mut alice, bob) = stage.alice_and_bob().await;

    says(&mut alice, "/where Bob", &["Bob plays on arena (second)"]).await;
    says(&mut alice, "/wO Bob", &["Bob plays on arena (second)"]).await;
    let foreign = [
        "/find Bob",
        "/alert hear",
        "/home  sweet  home ",
        "/",
        "/ server arena",
        "//server arena",
        "/servers",
        "/l0bby",
        "/\u{200f}server",
    ];
    for line in foreign {
        alice.say(line).await;
        stage.lobby.chat(line).await;
    }
    assert_eq!(commands(&stage.lobby), foreign);
    alice.say("/大厅").await;
    goes_to(&mut alice, &mut stage.arena, "Alice", -1).await;

    let mut klingon =
        Player::join(Kind::Npm, stage.net.first.listen.port(), "Worf", json!({ "virtualHost": host("lobby"), "locale": "tlh_AA" }));
    klingon.in_world().await;
    stage.lobby.joined("Worf").await;
    stage.lobby.expect("his settings", |served| settings_of(served, "Worf")).await;
    says(&mut klingon, "/where", &["Dochvetlh yIwhere!"]).await;
    // What the file does not say is English, as built in.
    says(&mut klingon, "/server nowhere", &["There is no server nowhere."]).await;
    stage.assert_well(&[&alice, &bob, &klingon]);
}

fn settings_of(served: &moonbridge_testing::peer::Served, player: &str) -> Option<()> {
    use moonbridge_testing::peer::Served;
    matches!(served, Served::Settings { name, .. } if name == player).then_some(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_player_reads_the_language_of_its_client() {
    let mut stage = Stage::start().await;
    for (name, locale, answer) in [
        ("Wei", "zh_CN", "服务器 nowhere 不存在。"),
        ("Hong", "ZH_tw", "服务器 nowhere 不存在。"),
        ("Alice", "en_US", "There is no server nowhere."),
        ("Emil", "de_DE", "There is no server nowhere."),
        ("Odd", "", "There is no server nowhere."),
    ] {
        let options = json!({ "virtualHost": host("lobby"), "locale": locale });
        let mut player = Player::join(Kind::Npm, stage.net.second.listen.port(), name, options);
        player.in_world().await;
        stage.lobby.expect("the settings", |served| settings_of(served, name)).await;
        says(&mut player, "/server nowhere", &[answer]).await;
        player.assert_well();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_commands_off_the_backend_has_them_all() {
    let mut stage = Stage::start_with("[commands]\nenabled = false\n", json!({})).await;
    stage.permit_all().await;
    let mut alice = stage.alice().await;
    for line in ["/server arena", "/hub", "/glist", "/find Bob", "/send all arena", "/alert x", "/kick Bob", "/ping", "/moonbridge info"] {
        alice.say(line).await;
        stage.lobby.chat(line).await;
    }
    stage.assert_well(&[&alice]);
}
