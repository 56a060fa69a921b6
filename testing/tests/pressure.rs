//! Much at once: floods, slow readers, long frames during transfers, many players. Every frame is checked, to the byte.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use moonbridge_protocol::frame;
use moonbridge_testing::network::Up;
use moonbridge_testing::process::SOON;
use moonbridge_testing::wire::{self, Wire};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An id that nobody looks at.
const FLOOD: i32 = 0x70;

/// The payload of flood frame `number` of backend `from`: its number, then a pattern of a length that varies from bytes to 300 KB.
fn flood(from: u8, number: u32) -> Vec<u8> {
    let length = match number % 16 {
        0 => 300_000,
        1 => 70_000,
        2 => 65_530,
        other => 20 * other as usize,
    };
    let mut payload = vec![from];
    payload.extend_from_slice(&number.to_be_bytes());
    payload.extend((0..length).map(|at| (at as u32).wrapping_mul(31).wrapping_add(number) as u8));
    payload
}

/// A backend that takes any number of players and floods each from the beginning until told otherwise by a close.
async fn flooding(from: u8, dimension: i8, pace: Duration) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serving = tokio::spawn(async move {
        while let Ok(mut wire) = Wire::accept_any(&listener).await {
            tokio::spawn(async move {
                let (_, name) = wire.login().await?;
                wire.login_success(&name).await?;
                wire.join_game(1, dimension).await?;
                for number in 0.. {
                    wire.send(FLOOD, &flood(from, number)).await?;
                    if !pace.is_zero() {
                        tokio::time::sleep(pace).await;
                    }
                }
                anyhow::Ok(())
            });
        }
    });
    (address, serving)
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_between_backends_that_send_long_frames_all_the_time() {
    let (one, _one) = flooding(1, 0, Duration::from_millis(1)).await;
    let (two, _two) = flooding(2, 0, Duration::from_millis(1)).await;
    let up = Up::start(&["--backend", &format!("one={one}"), "--backend", &format!("two={two}")]).await;
    let (mut player, _) = Wire::join(up.listen, "localhost", "Alice").await.expect("a login");
    let cli = up.cli.clone();
    let moving = tokio::spawn(async move {
        cli.until(&["player", "list"], |rows| rows.len() == 1).await;
        for trip in 0..10 {
            let to = if trip % 2 == 0 { "two" } else { "one" };
            let ran = cli.run(&["transfer", "start", "Alice", "--to", to]).await;
            assert_eq!(ran.code, 0, "transfer {trip}: {ran:?}");
        }
    });
    // Read all the while: each world begins with Join Game and Respawn, and each backend's frames come from their first on without a gap.
    let (mut world, mut next, mut worlds) = (1_u8, 0_u32, 1);
    let deadline = Instant::now() + 2 * SOON;
    while worlds < 11 || next < 50 {
        assert!(Instant::now() < deadline, "{worlds} worlds, frame {next}: {}", up.process.log());
        match player.receive().await.unwrap_or_else(|error| panic!("in world {worlds} at frame {next}: {error:#}\n{}", up.process.log())) {
            (FLOOD, payload) => {
                assert_eq!((payload[0], &payload[1..5]), (world, &next.to_be_bytes()[..]), "in world {worlds}");
                assert!(payload == flood(world, next), "frame {next} in world {worlds} was changed");
                next += 1;
            }
            (0x01, join) => {
                assert_eq!(join, wire::join_game(1, -1), "Join Game with the dimension flipped");
                let (id, _) = player.receive().await.expect("a Respawn");
                assert_eq!(id, 0x07, "right behind Join Game");
                // As the client does: Client Settings when it has processed Join Game.
                player.send(0x15, &[wire::string("en_GB"), vec![10, 0, 1, 2, 1]].concat()).await.expect("it reads");
                (world, next, worlds) = (3 - world, 0, worlds + 1);
            }
            (0x00, id) => player.send(0x00, &id).await.expect("it reads"),
            (id, payload) => panic!("packet {id:#04x} {payload:?} in world {worlds}"),
        }
    }
    moving.await.expect("every transfer succeeds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_that_does_not_read_costs_bounded_memory_and_loses_nothing() {
    let (one, _one) = flooding(1, 0, Duration::ZERO).await;
    let up = Up::start(&["--backend", &format!("one={one}")]).await;
    let before = up.process.resident();
    let mut players = Vec::new();
    for index in 0..8 {
        players.push(Wire::join(up.listen, "localhost", &format!("P{index}")).await.expect("a login").0);
    }
    // Until the node has not taken more for a while: pressure has reached the backends.
    let mut last = (0, Instant::now());
    let began = Instant::now();
    while last.1.elapsed() < Duration::from_secs(2) && began.elapsed() < Duration::from_secs(15) {
        let resident = up.process.resident();
        if resident.abs_diff(last.0) > 256 << 10 {
            last = (resident, Instant::now());
        }
        assert!(resident < before + (64 << 20), "{} MiB for 8 players that do not read", (resident - before) >> 20);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (index, player) in players.iter_mut().enumerate() {
        for number in 0..200 {
            let payload = player
                .receive_id(FLOOD)
                .await
                .unwrap_or_else(|error| panic!("player {index}, frame {number}: {error:#}\n{}", up.process.log()));
            assert!(payload == flood(1, number), "player {index}, frame {number} was changed");
        }
    }
    assert_eq!(up.stop().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_player_sends_before_the_world_is_there_reaches_the_backend_in_order() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let up = Up::start(&["--backend", &format!("raw={}", listener.local_addr().expect("bound"))]).await;
    let mut player = Wire::connect(up.listen).await.expect("it listens");
    let mut hurry = Vec::new();
    frame::put(&mut hurry, 0, |out| out.extend_from_slice(&wire::handshake(5, "localhost", 25565, 2)));
    frame::put(&mut hurry, 0, |out| out.extend_from_slice(&wire::string("Hasty")));
    for number in 0..200 {
        frame::put(&mut hurry, 0x01, |out| out.extend_from_slice(&wire::string(&format!("line {number}"))));
    }
    player.write(&hurry).await.expect("it reads");
    let mut backend = Wire::accept(&listener).await.expect("it is dialled");
    backend.login().await.expect("a login");
    backend.login_success("Hasty").await.expect("it reads");
    backend.join_game(1, 0).await.expect("it reads");
    for number in 0..200 {
        let line = backend.receive_id(0x01).await.expect("a line");
        assert_eq!(line, wire::string(&format!("line {number}")));
    }
    player.receive_id(0x01).await.expect("the world");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_players_are_moved_by_one_command() {
    const MANY: usize = 100;
    let (one, _one) = flooding(1, 0, Duration::from_millis(300)).await;
    let (two, _two) = flooding(2, 0, Duration::from_millis(300)).await;
    let up = Up::start(&["--backend", &format!("one={one}"), "--backend", &format!("two={two}")]).await;
    let mut playing = Vec::new();
    for index in 0..MANY {
        let (mut player, _) = Wire::join(up.listen, "localhost", &format!("P{index}")).await.expect("a login");
        playing.push(tokio::spawn(async move {
            let mut next = 0;
            let mut world = 1;
            loop {
                match player.receive().await? {
                    (FLOOD, payload) => {
                        anyhow::ensure!(payload == flood(world, next), "player {index}, frame {next} of {world}");
                        next += 1;
                        if world == 2 && next == 3 {
                            return Ok(());
                        }
                    }
                    (0x01, _) => (world, next) = (2, 0),
                    (0x40, reason) => anyhow::bail!("player {index}: {}", String::from_utf8_lossy(&reason)),
                    _ => {}
                }
            }
        }));
    }
    up.cli.until(&["player", "list"], |rows| rows.len() == MANY).await;
    let ran = up.cli.ok(&["transfer", "start", "--from", "one", "--to", "two"]).await;
    assert!(ran.said().contains(&format!("{MANY} succeeded, 0 failed")), "{ran:?}");
    for player in playing {
        player.await.expect("no panic").unwrap_or_else(|error| panic!("{error:#}"));
    }
}
