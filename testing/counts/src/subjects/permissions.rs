//! What a check of a permission costs, and the working out of what a user has.

#[path = "../../../../controlplane/permissions/tests/support/people.rs"]
mod people;

use std::hint::black_box;

use anyhow::ensure;
use moonbridge_permissions::{Answer, Contexts, Resolved, Settings, Tracks, resolve};

use crate::callgrind::counted_by_callgrind;

/// Tables have seeds of their own, other ones in each run, and a look-up that meets a stranger costs a little more: so many tables
/// come to the same in each run.
const TABLES: usize = 16;

/// Checks of each table.
const CHECKS: usize = 200;

/// Checks of a user with five groups of so many nodes, each of another permission; how many.
pub(super) fn check(nodes: usize, permission: impl Fn(usize) -> String, answer: Answer) -> anyhow::Result<u64> {
    let tables: Vec<_> = (0..TABLES).map(|_| resolved(nodes)).collect();
    let permissions: Vec<_> = (0..CHECKS).map(permission).collect();
    let mut as_expected = 0;
    counted_by_callgrind(&mut || {
        for table in &tables {
            for permission in &permissions {
                as_expected += usize::from(table.check(black_box(permission)) == answer);
            }
        }
    });
    ensure!(as_expected == TABLES * CHECKS, "only {as_expected} answers are {answer:?}");
    Ok(as_expected as u64)
}

/// A user with five groups of 200 nodes is worked out; how often.
pub(super) fn resolving() -> anyhow::Result<u64> {
    let (user, groups) = people::of_five_groups(200);
    counted_by_callgrind(&mut || {
        for _ in 0..TABLES {
            black_box(resolve(black_box(&user), &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0));
        }
    });
    Ok(TABLES as u64)
}

/// A permission that a node grants by its own name.
pub(super) fn exact(index: usize) -> String {
    format!("plugin.g{}.feature.n{}", index % 5 + 1, index / 5 * 7 % 196)
}

/// One that a wildcard grants, found behind the fourth dot from the right.
pub(super) fn by_wildcard(index: usize) -> String {
    format!("wild.g{}.a.b.c.n{index}", [1, 2, 3, 5][index % 4])
}

/// One of which nothing says anything.
pub(super) fn undefined(index: usize) -> String {
    format!("nothing.of.the.kind{index}")
}

fn resolved(nodes: usize) -> Resolved {
    let (user, groups) = people::of_five_groups(nodes);
    resolve(&user, &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0)
}
