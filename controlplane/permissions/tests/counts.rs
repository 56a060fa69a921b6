//! What a check costs in instructions, counted by callgrind: no more in a set ten times as large, and through wildcards no more than a
//! look-up for each. Checks and resolving have ceilings, too, generous ones: what is suddenly ten times as dear shows. Run with a kind, this program makes the checks that are counted; without, it runs itself under callgrind.

#[path = "support/people.rs"]
mod people;

use std::hint::black_box;
use std::process::Command;

use moonbridge_permissions::{Contexts, Settings, Tracks, resolve};

/// Checks that are counted.
const TIMES: usize = 1000;
/// The table's seed is another one in each run.
const TOLERANCE: f64 = 0.1;
/// The most instructions, about half as many again as there were when this was written, in the dev profile: of one check, and of resolving a
/// user with five groups of 200 nodes.
const CEILINGS: [(&str, f64); 4] = [("exact", 7_000.0), ("wildcard", 21_000.0), ("undefined", 25_000.0), ("resolve", 7_000_000.0)];

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("exact") => check(200, "plugin.g3.feature.n42"),
        Some("exact-in-many") => check(2000, "plugin.g3.feature.n42"),
        Some("wildcard") => check(200, "wild.g3.a.b.c.d"),
        Some("undefined") => check(200, "nothing.of.the.kind"),
        Some("resolve") => resolving(),
        _ => compare(),
    }
}

fn compare() {
    let exact = instructions("exact");
    for (kind, most) in [("exact-in-many", 1.0), ("wildcard", 3.5), ("undefined", 4.0)] {
        let ratio = instructions(kind) / exact;
        println!("{kind}: {ratio:.2} of an exact check's");
        assert!(ratio <= most + TOLERANCE, "{kind}: {ratio:.2}");
    }
    for (kind, most) in CEILINGS {
        let counted = instructions(kind);
        println!("{kind}: {counted:.0} instructions of at most {most}");
        assert!(counted <= most, "{kind}: {counted:.0} instructions, at most {most}");
    }
}

/// Of one check, or of one user resolved.
fn instructions(kind: &str) -> f64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no", "--toggle-collect=*counted_times*"])
        .args([std::env::current_exe().expect("this program").as_os_str(), kind.as_ref()])
        .output()
        .expect("valgrind runs: `bash testing/run` installs it");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let counted = said.lines().find_map(|line| line.split("Collected :").nth(1)).expect("a count");
    let counted: f64 = counted.trim().parse().expect("a number");
    assert!(counted > 100_000.0, "{kind}: {said}");
    if kind == "resolve" { counted } else { counted / TIMES as f64 }
}

fn check(nodes: usize, permission: &str) {
    let (user, groups) = people::of_five_groups(nodes);
    let resolved = resolve(&user, &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    counted_times(TIMES, || {
        black_box(resolved.check(black_box(permission)));
    });
}

fn resolving() {
    let (user, groups) = people::of_five_groups(200);
    counted_times(1, || {
        black_box(resolve(black_box(&user), &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0));
    });
}

/// What callgrind counts.
#[inline(never)]
fn counted_times(times: usize, what: impl Fn()) {
    for _ in 0..times {
        what();
    }
}
