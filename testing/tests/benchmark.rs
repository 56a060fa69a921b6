//! The session benchmark runs, whatever it measures on this machine.

use std::process::Stdio;
use std::time::Duration;

use moonbridge_testing::process::moonbridge;
use serde_json::Value;

/// Phases of a short run, as `--json` gives them.
async fn phases(arguments: &[&str]) -> Vec<Value> {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_session-bench"));
    command.args(["--seconds", "0.2", "--warmup", "0.1", "--repeats", "1", "--json", "--moonbridge"]).arg(moonbridge()).args(arguments);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(Duration::from_secs(120), command.output()).await.expect("it ends").expect("it starts");
    assert!(ran.status.success(), "session-bench {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let lines = String::from_utf8(ran.stdout).expect("JSON is UTF-8");
    lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn number(phase: &Value, path: &str) -> f64 {
    phase.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {phase}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_echoes() {
    let phases = phases(&["--workload", "burst32", "--connections", "2", "--paths", "direct,proxied,floor"]).await;
    let paths: Vec<&str> = phases.iter().filter_map(|phase| phase["path"].as_str()).collect();
    assert_eq!(paths, ["direct", "proxied", "floor"]);
    for phase in &phases {
        assert!(number(phase, "/frames") > 0.0 && number(phase, "/checked") >= number(phase, "/frames"), "{phase}");
        assert_eq!(phase["cipher"], Value::Null);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn online_ticks_and_what_the_ciphers_did() {
    // So many that the worker encrypts them together, however little it has to do.
    let phases = phases(&["--workload", "fanout", "--connections", "32", "--mode", "online"]).await;
    let [together, alone] = phases.as_slice() else { panic!("two phases: {phases:?}") };
    assert_eq!((together["path"].as_str(), alone["path"].as_str()), (Some("proxied"), Some("alone")));
    for phase in [together, alone] {
        // What came was encrypted: a frame is 32 bytes and its head. (A slow machine may have encrypted the first before it counted.)
        assert!(number(phase, "/frames") > 0.0, "{phase}");
        assert!(number(phase, "/cipher/bytes") >= number(phase, "/frames") * 34.0 / 2.0, "{phase}");
        assert!(number(phase, "/cipher/ns_per_byte") > 0.0 && number(phase, "/cipher/kernel_ns_per_byte") > 0.0, "{phase}");
    }
    assert_eq!(number(alone, "/cipher/streams"), 1.0, "each alone");
    assert!(number(together, "/cipher/streams") > 1.0, "ticks that come together are encrypted together: {together}");
}

#[tokio::test(flavor = "multi_thread")]
async fn online_echoes() {
    for phase in phases(&["--workload", "burst32", "--mode", "online"]).await {
        assert!(number(&phase, "/cipher/bytes") > 0.0 && number(&phase, "/frames") > 0.0, "{phase}");
    }
}
