//! A check allocates nothing: whatever the answer, whatever it comes from, whatever the case.

#[path = "support/people.rs"]
mod people;

use moonbridge_permissions::{Answer, Contexts, Settings, Tracks, resolve};

#[test]
fn a_check_allocates_nothing() {
    let (user, groups) = people::of_five_groups(200);
    let settings = Settings { implicit_wildcards: true, ..Settings::default() };
    let resolved = resolve(&user, &groups, &Tracks::new(), &settings, &Contexts::none(), 0);
    let long = "x".repeat(250);
    for (permission, answer) in [
        ("plugin.g3.feature.n42", Answer::True),
        ("Plugin.G3.Feature.N42", Answer::True),
        ("wild.g4.a.b", Answer::False),
        ("WILD.g1.A.b.c.d", Answer::True),
        ("plugin.g3.feature.n42.below", Answer::True),
        ("größe.ÄÖÜ", Answer::True),
        ("nothing.of.the.kind", Answer::Undefined),
        (&long, Answer::Undefined),
        ("", Answer::Undefined),
        ("wild.g1.", Answer::True),
    ] {
        let mut answered = None;
        let counted = allocation_counter::measure(|| answered = Some(resolved.check(permission)));
        assert_eq!(answered, Some(answer), "{permission}");
        assert_eq!(counted.count_total, 0, "{permission}");
    }
}

#[test]
fn nor_does_one_by_regular_expressions_once_they_are_warm() {
    let (user, groups) = people::with_regexes();
    let resolved = resolve(&user, &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    for permission in ["moonbridge.transfer.lobby12", "moonbridge.transfer.elsewhere"] {
        let first = resolved.check(permission);
        let counted = allocation_counter::measure(|| assert_eq!(resolved.check(permission), first));
        assert_eq!(counted.count_total, 0, "{permission}");
    }
}

#[test]
fn a_permission_longer_than_any_reasonable_one_is_looked_up_all_the_same() {
    let (user, groups) = people::of_five_groups(10);
    let resolved = resolve(&user, &groups, &Tracks::new(), &Settings::default(), &Contexts::none(), 0);
    let dots = "wild.g1".to_owned() + &".X".repeat(500_000);
    let counted = allocation_counter::measure(|| assert_eq!(resolved.check(&dots), Answer::True));
    assert!(counted.bytes_max <= 4 * dots.len() as u64, "{counted:?}");
}
