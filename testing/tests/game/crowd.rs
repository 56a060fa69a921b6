//! Ten thousand players on the network: counts, lists and completions are right, and fit.

use moonbridge_testing::paper_node;
use moonbridge_testing::peer::Seen;
use serde_json::json;

use crate::support::{Stage, plugin_asks, plugin_reads, plugin_says, says};

const CROWD: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_are_counted_and_as_many_named_as_fit() {
    let mut stage = Stage::permitted().await;
    let (mut alice, bob) = stage.alice_and_bob().await;
    let player = |number: usize| (format!("Paper_{number:05}"), if number.is_multiple_of(10) { "arena" } else { "lobby" });
    let players: Vec<_> = (0..CROWD).map(player).collect();
    let _crowd = paper_node::crowd(&stage.net.b.url(), &players).await.expect("attached");
    stage.net.known(&["Paper_09999"]).await;

    says(&mut alice, "/glist", &["[arena] (1001)", "[lobby] (9001)", "Players online: 10002"]).await;
    alice.say("/glist all").await;
    for (backend, players) in [("arena", 1_001), ("lobby", 9_001)] {
        let beginning = format!("[{backend}] ({players}): ");
        let (line, bytes) = alice
            .expect(&beginning, |seen| match seen {
                Seen::Chat { text, raw } if text.starts_with(&beginning) => Some((text.clone(), raw.len())),
                _ => None,
            })
            .await;
        assert!(line.ends_with(&format!(" and {} more", players - 200)), "{line}");
        assert!(bytes <= 32_767, "a client takes no more: {bytes}");
    }
    alice.chat("Players online: 10002").await;
    says(&mut alice, "/find paper_09999", &["Paper_09999 is on lobby."]).await;

    let lobby = &mut stage.lobby;
    plugin_asks(lobby, "Alice", &["PlayerCount", "ALL"], json!(["PlayerCount", "ALL", 10_002])).await;
    plugin_asks(lobby, "Alice", &["PlayerCount", "arena"], json!(["PlayerCount", "arena", 1_001])).await;
    plugin_says(lobby, "Alice", &["PlayerList", "ALL"]).await;
    let list = plugin_reads(lobby, "Alice").await;
    let names: Vec<_> = list[2].as_str().expect("names").split(", ").collect();
    // As many as fit in a plugin message, and each a whole one.
    assert!((2_000..CROWD).contains(&names.len()), "{}", names.len());
    assert!(names.iter().all(|name| ["Alice", "Bob"].contains(name) || name.len() == "Paper_00000".len()), "{names:?}");
    plugin_asks(lobby, "Alice", &["GetPlayerServer", "paper_00010"], json!(["GetPlayerServer", "paper_00010", "arena"])).await;
    stage.assert_well(&[&alice, &bob]);
}
