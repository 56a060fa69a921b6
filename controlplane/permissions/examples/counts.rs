//! Makes so many checks of a kind, to be run under callgrind: `testing/tests/permission_counts.rs` says why.
#![allow(clippy::expect_used, reason = "a measurement that cannot be made ends")]

#[path = "../tests/support/people.rs"]
mod people;

use std::hint::black_box;

use moonbridge_permissions::{Contexts, Resolved, Settings, Tracks, resolve};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let permission = match arguments.next().as_deref() {
        Some("exact") => "plugin.g3.feature.n42",
        Some("wildcard") => "wild.g3.a.b.c.d",
        Some("undefined") => "nothing.of.the.kind",
        other => panic!("exact, wildcard or undefined, not {other:?}"),
    };
    let times = arguments.next().and_then(|times| times.parse().ok()).expect("a number of checks");
    let (user, groups) = people::of_five_groups(200);
    let resolved = resolve(&user, &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    counted_checks(&resolved, permission, times);
}

/// What callgrind counts.
#[inline(never)]
fn counted_checks(resolved: &Resolved, permission: &str, times: usize) {
    for _ in 0..times {
        black_box(resolved.check(black_box(permission)));
    }
}
