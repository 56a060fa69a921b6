//! The benchmark of `/glist` runs, whatever it measures on this machine.

use std::process::Stdio;

use moonbridge_testing::process::SOON;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn the_benchmark_runs() {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_glist-bench"));
    command
        .args(["--players", "300", "--backends", "3", "--times", "5", "--repeats", "1", "--json"])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ran = tokio::time::timeout(2 * SOON, command.output()).await.expect("it ends").expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let lines = String::from_utf8(ran.stdout).expect("JSON is UTF-8");
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert_eq!(rows.iter().map(|row| &row["command"]).collect::<Vec<_>>(), ["/glist", "/glist all", "/find"]);
    assert!(rows.iter().all(|row| row["count"] == 5 && row["p50_ms"].as_f64() > Some(0.0)), "{rows:?}");
}
