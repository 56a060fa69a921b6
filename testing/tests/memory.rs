//! What players who do not read cost a node, however many of them there are: what its configuration says, and no more.

use std::time::{Duration, Instant};

use futures::future::join_all;
use moonbridge_testing::network::{Plane, folder};
use moonbridge_testing::process::SOON;
use moonbridge_testing::wire::Wire;
use tokio::net::TcpListener;

/// An id that nobody looks at.
const FLOOD: i32 = 0x70;

/// Bytes of a frame.
const FRAME: usize = 4000;

/// Players.
const PLAYERS: usize = 200;

/// `limits.node_buffers`: the least that can be set.
const MARK: u64 = 16 << 20;

/// What a node whose buffers hold as much as they should reads for each player at the most.
const SHORT_READ: u64 = 16 << 10;

/// Beside what waits: sessions, the workers' read buffers and pools (8 MiB each), what the allocator keeps.
const BESIDE: u64 = 16 << 20;

/// A backend that takes any number of players and writes as much as their connections take.
async fn flood(listener: TcpListener) {
    while let Ok(mut wire) = Wire::accept_any(&listener).await {
        tokio::spawn(async move {
            let (_, name) = wire.login().await?;
            wire.login_success(&name).await?;
            wire.join_game(1, 0).await?;
            loop {
                wire.send(FLOOD, &[0x5a; FRAME]).await?;
            }
            #[expect(unreachable_code, reason = "says what the block's errors are")]
            anyhow::Ok(())
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_players_who_do_not_read_stays_within_the_mark() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let backend = listener.local_addr().expect("bound");
    let _flooding = tokio::spawn(flood(listener));
    let store = folder();
    let replica = Plane::replica("cp", &format!("[store]\nembedded = {{ data_dir = {:?} }}\n", store.path())).await;
    replica.cli().ok(&["backend", "set", "one", "--address", &backend.to_string()]).await;
    replica.cli().ok(&["route", "set", "*", "--backends", "one"]).await;
    let config = format!("control = [\"{}\"]\nworkers = 2\n[limits]\nnode_buffers = \"{} MiB\"\n", replica.url(), MARK >> 20);
    let node = Plane::node("edge", &config).await;
    replica.cli().until(&["node", "list"], |rows| rows.len() == 1).await;
    Wire::join(node.listen, "localhost", "First").await.expect("a login");
    let before = node.process.resident();

    let come = (0..PLAYERS).map(|number| async move {
        let (mut player, _) = Wire::join(node.listen, "localhost", &format!("P{number}")).await?;
        // The kernel opens its windows for who reads: the node then takes as much as it can at a time.
        for _ in 0..100 {
            player.receive_id(FLOOD).await?;
        }
        anyhow::Ok(player)
    });
    let players = join_all(come).await;
    let mut players: Vec<_> = players.into_iter().map(|player| player.unwrap_or_else(|error| panic!("{error:#}"))).collect();

    // Until the node has not taken more for a while: pressure has reached the backends.
    let (began, mut last) = (Instant::now(), (0, Instant::now()));
    while last.1.elapsed() < Duration::from_secs(2) && began.elapsed() < SOON / 2 {
        let resident = node.process.resident();
        let grown = resident.saturating_sub(before);
        assert!(grown < MARK + PLAYERS as u64 * SHORT_READ + BESIDE, "{} MiB for {PLAYERS} players that do not read", grown >> 20);
        if resident.abs_diff(last.0) > 256 << 10 {
            last = (resident, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    // Nobody was cut off for it.
    for player in &mut players {
        for _ in 0..100 {
            assert_eq!(player.receive_id(FLOOD).await.expect("what was sent"), [0x5a; FRAME]);
        }
    }
}
