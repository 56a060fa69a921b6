//! The permission benchmark runs, whatever it measures on this machine.

use std::process::Stdio;

use moonbridge_testing::process::SOON;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn the_benchmark_runs_and_only_those_who_inherit_a_group_are_worked_out_anew() {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_permission-bench"));
    command.args([
        "--sessions",
        "16",
        "--changes",
        "32",
        "--group-changes",
        "4",
        "--users",
        "500",
        "--groups",
        "20",
        "--repeats",
        "1",
        "--json",
    ]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(4 * SOON, command.output()).await.expect("it ends").expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let lines = String::from_utf8(ran.stdout).expect("JSON is UTF-8");
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let row = |what: &str| rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("no {what} in {rows:?}"));
    for (what, count) in
        [("in force, at the same replica", 16), ("in force, at the other replica", 16), ("in force, for every player", 4 * 4)]
    {
        assert_eq!(row(what)["count"], count, "{rows:?}");
        assert!(row(what)["p50_ms"].as_f64() > Some(0.0), "{rows:?}");
    }
    let anew = row("worked out anew");
    assert_eq!((&anew["least"], &anew["most"], &anew["inheriting"]), (&4.0.into(), &4.0.into(), &4.into()));
    let import = row("import");
    assert!(import["seconds"].as_f64() > Some(0.0) && import["replica_mib"][2].as_f64() > Some(1.0), "{import}");
}
