//! What resolving a user costs, and then a check.

#[path = "../tests/support/people.rs"]
mod people;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use moonbridge_permissions::{Contexts, Settings, Tracks, resolve};

fn resolving(c: &mut Criterion) {
    let (settings, contexts) = (Settings::default(), Contexts::of([("server", "proxy"), ("world", "lobby")]).expect("contexts"));
    let (user, groups) = people::of_five_groups(200);
    c.bench_function("resolve, 5 groups of 200 nodes", |b| {
        b.iter(|| resolve(black_box(&user), &groups, &Tracks::new(), &settings, &contexts, 0));
    });
    let (user, groups) = people::with_regexes();
    c.bench_function("resolve, with 10 regexes in each", |b| {
        b.iter(|| resolve(black_box(&user), &groups, &Tracks::new(), &settings, &contexts, 0));
    });
}

fn checking(c: &mut Criterion) {
    let settings = Settings::default();
    let (user, groups) = people::of_five_groups(200);
    let resolved = resolve(&user, &groups, &Tracks::new(), &settings, &Contexts::none(), 0);
    for (name, permission) in [
        ("check, exact", "plugin.g3.feature.n42"),
        ("check, exact, other case", "Plugin.G3.Feature.N42"),
        ("check, wildcard, 3 segments", "wild.g3.a"),
        ("check, wildcard, 6 segments", "wild.g3.a.b.c.d"),
        ("check, undefined, 4 segments", "nothing.of.the.kind"),
    ] {
        c.bench_function(name, |b| b.iter(|| resolved.check(black_box(permission))));
    }
    let (user, groups) = people::with_regexes();
    let resolved = resolve(&user, &groups, &Tracks::new(), &settings, &Contexts::none(), 0);
    for (name, permission) in
        [("check, first of 50 regexes", "moonbridge.transfer.lobby7"), ("check, none of 50 regexes", "nothing.of.the.kind")]
    {
        c.bench_function(name, |b| b.iter(|| resolved.check(black_box(permission))));
    }
}

criterion_group!(benches, resolving, checking);
criterion_main!(benches);
