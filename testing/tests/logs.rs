//! Logs that cannot be written cost log lines and nothing else.

use std::process::Stdio;
use std::time::Duration;

use moonbridge_testing::network::{Cli, command, folder};
use tokio::io::{AsyncBufReadExt, BufReader};

/// Starts `up --demo` with its stderr as given; gives it and the port that players connect to.
async fn up(state: &std::path::Path, stderr: Stdio) -> (tokio::process::Child, String) {
    let mut up = command(state);
    up.args(["up", "--demo", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
    let mut up = up.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true).spawn().expect("starts");
    let mut lines = BufReader::new(up.stdout.take().expect("piped")).lines();
    let listen = tokio::time::timeout(Duration::from_secs(30), async {
        while let Some(line) = lines.next_line().await.expect("readable") {
            if let Some((_, address)) = line.split_once("players connect to") {
                return address.trim().to_owned();
            }
        }
        panic!("it ended without serving");
    });
    let listen = listen.await.expect("serves in time");
    // What it still prints is not read; it is short.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (up, listen)
}

async fn players_come_and_move(state: &std::path::Path, listen: &str) {
    let cli = Cli::beside(state);
    for name in ["First", "Second"] {
        let (probe, moved) = tokio::join!(async { cli.run(&["probe", listen, "--name", name, "--hold", "3s"]).await.ended(0) }, async {
            cli.until(&["player", "list"], |rows| rows.iter().any(|row| row["name"] == name)).await;
            cli.run(&["transfer", "start", name, "--to", "demo-2"]).await.ended(0)
        });
        assert!(moved.stdout.contains("succeeded"), "{moved:?}");
        assert!(probe.stdout.contains("world-change"), "{probe:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_the_logs_any_more() {
    let state = folder();
    let (mut up, listen) = up(state.path(), Stdio::piped()).await;
    drop(up.stderr.take());
    players_come_and_move(state.path(), &listen).await;
    up.kill().await.expect("killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_disk_of_the_logs_is_full() {
    let state = folder();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let (mut up, listen) = up(state.path(), full.into()).await;
    players_come_and_move(state.path(), &listen).await;
    up.kill().await.expect("killed");
}
