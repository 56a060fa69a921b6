//! What a check costs in instructions, counted by callgrind: no more in a set ten times as large, and through wildcards no more than a
//! look-up for each. Run with a kind, this program makes the checks that are counted; without, it runs itself under callgrind.

#[path = "support/people.rs"]
mod people;

use std::hint::black_box;
use std::process::Command;

use moonbridge_permissions::{Contexts, Resolved, Settings, Tracks, resolve};

/// Checks that are counted.
const TIMES: usize = 1000;
/// The table's seed is another one in each run.
const TOLERANCE: f64 = 0.1;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("exact") => check(200, "plugin.g3.feature.n42"),
        Some("exact-in-many") => check(2000, "plugin.g3.feature.n42"),
        Some("wildcard") => check(200, "wild.g3.a.b.c.d"),
        Some("undefined") => check(200, "nothing.of.the.kind"),
        _ => compare(),
    }
}

fn compare() {
    let exact = instructions("exact");
    for (kind, most) in [("exact-in-many", 1.0), ("wildcard", 3.5), ("undefined", 4.0)] {
        let ratio = instructions(kind) / exact;
        println!("{kind}: {ratio:.2} of an exact check's {:.0} instructions", exact / TIMES as f64);
        assert!(ratio <= most + TOLERANCE, "{kind}: {ratio:.2}");
    }
}

fn instructions(kind: &str) -> f64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no", "--toggle-collect=*counted_checks*"])
        .args([std::env::current_exe().expect("this program").as_os_str(), kind.as_ref()])
        .output()
        .expect("valgrind runs: `bash testing/run` installs it");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let counted = said.lines().find_map(|line| line.split("Collected :").nth(1)).expect("a count");
    let counted: f64 = counted.trim().parse().expect("a number");
    assert!(counted > 100_000.0, "{kind}: {said}");
    counted
}

fn check(nodes: usize, permission: &str) {
    let (user, groups) = people::of_five_groups(nodes);
    let resolved = resolve(&user, &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    counted_checks(&resolved, permission);
}

/// What callgrind counts.
#[inline(never)]
fn counted_checks(resolved: &Resolved, permission: &str) {
    for _ in 0..TIMES {
        black_box(resolved.check(black_box(permission)));
    }
}
