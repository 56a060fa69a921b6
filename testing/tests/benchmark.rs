//! The session benchmark runs, whatever it measures on this machine.

use std::process::Stdio;
use std::time::Duration;

use moonbridge_testing::process::moonbridge;
use serde_json::Value;

/// Phases of a short run, as `--json` gives them.
async fn phases(arguments: &[&str]) -> Vec<Value> {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_session-bench"));
    command.args(["--seconds", "0.2", "--warmup", "0.1", "--json", "--moonbridge"]).arg(moonbridge()).args(arguments);
    if !arguments.contains(&"--repeats") {
        command.args(["--repeats", "1"]);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(Duration::from_secs(120), command.output()).await.expect("it ends").expect("it starts");
    assert!(ran.status.success(), "session-bench {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let lines = String::from_utf8(ran.stdout).expect("JSON is UTF-8");
    lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn number(phase: &Value, path: &str) -> f64 {
    phase.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {phase}"))
}

fn paths(phases: &[Value]) -> Vec<&str> {
    phases.iter().filter_map(|phase| phase["path"].as_str()).collect()
}

/// Every frame of these phases came, and was checked.
fn all_came(phases: &[Value]) {
    for phase in phases {
        assert!(number(phase, "/frames") > 0.0 && number(phase, "/checked") >= number(phase, "/frames"), "{phase}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_echoes() {
    let phases = phases(&["--workload", "burst32", "--connections", "2", "--paths", "direct,proxied,raw", "--repeats", "2"]).await;
    assert_eq!(paths(&phases), ["direct", "proxied", "raw", "raw", "proxied", "direct"], "the order turns round");
    all_came(&phases);
    for phase in &phases {
        assert_eq!((&phase["workload"], &phase["mode"], &phase["layout"]), (&"burst32".into(), &"initial".into(), &"free".into()));
        assert_eq!(phase["cipher"], Value::Null);
        let has_proxy = phase["path"] != "direct";
        assert_eq!(phase["proxy_cpu_ns_per_frame"].is_number(), has_proxy, "{phase}");
        if has_proxy {
            assert!(number(phase, "/proxy_cpu_ns_per_frame") > 0.0 && number(phase, "/proxy_resident_kib") > 0.0, "{phase}");
            assert!(number(phase, "/proxy_waits_per_frame") + number(phase, "/proxy_preemptions_per_frame") > 0.0, "{phase}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_side_by_side() {
    // The relay of the benchmark's own, started as a user's proxy would be, behind a shell that stays.
    let script = format!("{} relay raw $BACKEND $LISTEN; exit", env!("CARGO_BIN_EXE_session-bench"));
    let phases = phases(&["--workload", "w16", "--paths", "nginx,haproxy,mine", "--peer", &format!("mine={script}")]).await;
    assert_eq!(paths(&phases), ["nginx", "haproxy", "mine"]);
    all_came(&phases);
    for phase in &phases {
        // The work is done by a child of nginx, and of the shell.
        assert!(number(phase, "/proxy_cpu_ns_per_frame") > 0.0, "{phase}");
    }
    let table = table(&phases);
    let rows: Vec<Vec<&str>> = table.lines().skip(2).map(|row| row.split('|').map(str::trim).collect()).collect();
    assert_eq!(rows.len(), 3, "{table}");
    for (row, phase) in rows.iter().zip(&phases) {
        assert_eq!(
            row[1..5],
            ["free", "w16", phase["path"].as_str().expect("a name"), &format!("{:.0}", number(phase, "/frames_per_second"))]
        );
    }
}

/// What `table.py` makes of phases.
fn table(phases: &[Value]) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let lines: String = phases.iter().map(|phase| format!("{phase}\n")).collect();
    std::fs::write(file.path(), lines).expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benchmarks/table.py");
    let ran = std::process::Command::new("python3").arg(script).arg(file.path()).output().expect("python3 starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("a table is text")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relay_step_by_step() {
    let phases = phases(&["--workload", "burst32", "--paths", "raw,framed,bridged"]).await;
    assert_eq!(paths(&phases), ["raw", "framed", "bridged"]);
    all_came(&phases);
}

#[tokio::test(flavor = "multi_thread")]
async fn players_who_only_stay() {
    let phases = phases(&["--workload", "idle", "--connections", "50", "--paths", "proxied,nginx"]).await;
    assert_eq!(paths(&phases), ["proxied", "nginx"]);
    for phase in &phases {
        assert!(number(phase, "/resident_kib") > 0.0 && number(phase, "/resident_before_kib") > 0.0, "{phase}");
        assert_eq!(number(phase, "/connections"), 50.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn players_who_are_far_away() {
    let phases = phases(&["--workload", "w1", "--rtt", "30ms"]).await;
    all_came(&phases);
    for phase in &phases {
        assert!(number(phase, "/p50_us") >= 30_000.0, "directly, too: {phase}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_traffic() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/benchmarks/traces/npm-ticks.frames");
    let phases = phases(&["--trace", trace, "--connections", "5", "--mode", "online"]).await;
    assert_eq!(paths(&phases), ["proxied", "alone"]);
    all_came(&phases);
}

#[tokio::test(flavor = "multi_thread")]
async fn players_that_were_moved() {
    let phases = phases(&["--workload", "w1", "--mode", "post-transfer"]).await;
    assert_eq!(paths(&phases), ["direct", "proxied"]);
    all_came(&phases);
}

/// Whether there is a perf, and the kernel lets it.
async fn may_sample() -> bool {
    let mut perf = tokio::process::Command::new("perf");
    perf.args(["record", "--event", "cpu-clock", "--output", "/dev/null", "--", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    perf.status().await.is_ok_and(|status| status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn phases_that_are_disturbed_for_one_figure_each() {
    let phases = phases(&["--workload", "burst32", "--paths", "proxied", "--user-part", "--allocations"]).await;
    let probes: Vec<_> = phases.iter().map(|phase| phase["probe"].as_str()).collect();
    if may_sample().await {
        assert_eq!(probes, [None, Some("user_part"), Some("allocations")]);
        let part = number(&phases[1], "/proxy_user_ns_per_frame");
        assert!(part > 0.0 && part < number(&phases[1], "/proxy_cpu_ns_per_frame"), "{}", phases[1]);
    } else {
        assert_eq!(probes, [None, Some("allocations")], "what cannot be had is left out");
    }
    let (plain, allocations) = (&phases[0], &phases[phases.len() - 1]);
    assert_eq!((&plain["proxy_user_ns_per_frame"], &plain["proxy_allocations_per_frame"]), (&Value::Null, &Value::Null));
    // What happens beside the relay, once a second or so, allocates.
    assert!(number(allocations, "/proxy_allocations_per_frame") < 0.1, "{allocations}");
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
