//! What the relay costs in instructions, counted by callgrind over memory: no sockets, no runtime, no noise. A session costs
//! no more for what it has been through.

use std::process::Command;

/// Counts may differ by so much: three in a hundred.
const TOLERANCE: f64 = 0.03;

fn instructions(past: &[&str]) -> f64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no", "--toggle-collect=*counted_ticks*"])
        .arg(env!("CARGO_BIN_EXE_relay-counts"))
        .args(past)
        .output()
        .expect("valgrind runs: `bash testing/run` installs it");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let counted = said.lines().find_map(|line| line.split("Collected :").nth(1)).expect("a count");
    let counted: f64 = counted.trim().parse().expect("a number");
    assert!(counted > 100_000.0, "{past:?}: {said}");
    counted
}

#[test]
fn a_session_costs_no_more_for_forge_or_for_having_been_moved() {
    let vanilla = instructions(&["vanilla"]);
    for past in ["forge", "vanilla-moved", "forge-moved"] {
        let ratio = instructions(&[past]) / vanilla;
        println!("{past}: {ratio:.4} of a vanilla session's {vanilla} instructions");
        assert!((ratio - 1.0).abs() <= TOLERANCE, "{past}: {ratio:.4}");
    }
}

/// What the node looks for in players' lines and on the plugin channel costs a frame that is neither nothing.
#[test]
fn commands_cost_an_ordinary_frame_nothing() {
    for past in ["vanilla", "forge-moved"] {
        let without = instructions(&[past, "without-commands"]);
        let ratio = instructions(&[past]) / without;
        println!("{past}: {ratio:.4} of a session's {without} instructions without commands");
        assert!((ratio - 1.0).abs() <= 0.01, "{past}: {ratio:.4}");
    }
}
