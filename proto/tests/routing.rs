//! Routing against a model that looks at every route.

use std::sync::Arc;

use moonbridge_proto::routing::{MatchedBy, Usable, normalise_host};
use moonbridge_proto::snapshot::{Route, Snapshot};
use moonbridge_proto::v1;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

fn snapshot(hosts: impl IntoIterator<Item = String>, backends: &[(&str, bool)]) -> Snapshot {
    let route = |host| v1::Route { host, backends: vec!["a".into(), "b".into(), "c".into()], on_kick: 0 };
    let backend = |(name, drained): &(&str, bool)| v1::Backend {
        name: (*name).into(),
        address: "127.0.0.1:25566".into(),
        forwarding: 1,
        drained: *drained,
        ..v1::Backend::default()
    };
    let raw = v1::Snapshot {
        revision: Some(v1::Revision { store_id: "store".into(), number: 1 }),
        settings: None,
        backends: backends.iter().map(backend).collect(),
        routes: hosts.into_iter().map(route).collect(),
        ..Default::default()
    };
    Snapshot::try_from(raw).expect("valid")
}

/// What the host ought to match: the best of all routes that fit, by the words of the design.
fn model<'a>(snapshot: &'a Snapshot, host: &str) -> Option<(MatchedBy, &'a Arc<Route>)> {
    let fits = snapshot.routes.values().filter_map(|route| match route.host.strip_prefix('*') {
        Some("") => Some((0, MatchedBy::Any, route)),
        Some(suffix) => (host.len() > suffix.len() && host.ends_with(suffix)).then_some((suffix.len(), MatchedBy::Suffix, route)),
        None => (route.host == host).then_some((usize::MAX, MatchedBy::Exact, route)),
    });
    fits.max_by_key(|(rank, ..)| *rank).map(|(_, matched_by, route)| (matched_by, route))
}

proptest! {
    #[test]
    fn routing_is_what_the_model_says(
        routes in btree_set("\\*|(\\*\\.)?[ab](\\.[ab]){0,3}", 0..12),
        labels in vec("[abAB*]?", 0..5),
        tail in prop_oneof![Just(""), Just("."), Just(":25565"), Just(".:1"), Just("\0FML\0"), Just(":25565\x00127.0.0.1")],
    ) {
        let snapshot = snapshot(routes, &[]);
        let typed = format!("{}{tail}", labels.join("."));
        let decision = snapshot.route(&typed, |_| false);
        let expected = model(&snapshot, &normalise_host(&typed));
        prop_assert_eq!(decision.matched_by, expected.map_or(MatchedBy::None, |(matched_by, _)| matched_by));
        prop_assert_eq!(decision.route.as_ref(), expected.map(|(_, route)| route));
    }

    #[test]
    fn routing_survives_anything(host in ".{0,300}") {
        let snapshot = snapshot(["*".to_owned(), "*.net".to_owned()], &[]);
        prop_assert!(snapshot.route(&host, |_| false).route.is_some());
    }
}

#[test]
fn exact_goes_before_the_longest_suffix_before_any() {
    let hosts = ["*", "*.example.net", "*.eu.example.net", "example.net", "play.eu.example.net"];
    let snapshot = snapshot(hosts.map(str::to_owned), &[]);
    let matched = |host: &str| {
        let decision = snapshot.route(host, |_| false);
        (decision.matched_by, decision.route.map(|route| route.host.clone()).unwrap_or_default())
    };
    assert_eq!(matched("PLAY.eu.example.net.:25565"), (MatchedBy::Exact, "play.eu.example.net".into()));
    assert_eq!(matched("x.eu.example.net"), (MatchedBy::Suffix, "*.eu.example.net".into()));
    assert_eq!(matched("y.x.eu.example.net"), (MatchedBy::Suffix, "*.eu.example.net".into()));
    assert_eq!(matched("eu.example.net"), (MatchedBy::Suffix, "*.example.net".into()));
    assert_eq!(matched("example.net\0FML\0"), (MatchedBy::Exact, "example.net".into()));
    assert_eq!(matched("badexample.net"), (MatchedBy::Any, "*".into()));
    assert_eq!(matched(""), (MatchedBy::Any, "*".into()));
    assert_eq!(matched("*"), (MatchedBy::Any, "*".into()));
    let fewer = self::snapshot(["*.example.net".to_owned()], &[]);
    assert_eq!(fewer.route("example.net", |_| false).matched_by, MatchedBy::None);
    assert!(fewer.route("example.net", |_| false).candidates.is_empty());
}

#[test]
fn candidates_keep_their_order_and_say_why_not() {
    let snapshot = snapshot(["*".to_owned()], &[("a", true), ("c", false)]);
    let decision = snapshot.route("anywhere", |_| false);
    let seen: Vec<_> = decision.candidates.iter().map(|candidate| (candidate.name.as_str(), candidate.why)).collect();
    assert_eq!(seen, [("a", Usable::Drained), ("b", Usable::Missing), ("c", Usable::Ok)]);
    assert_eq!(decision.usable().map(|backend| backend.name.as_str()).collect::<Vec<_>>(), ["c"]);
    let answer = v1::TestRouteResponse::from(&decision);
    assert_eq!((answer.host.as_str(), answer.matched_by.as_str()), ("anywhere", "any"));
    let shown: Vec<_> = answer.candidates.iter().map(|one| (one.usable, one.why.as_str(), one.address.as_str())).collect();
    assert_eq!(shown, [(false, "drained", "127.0.0.1:25566"), (false, "missing", ""), (true, "ok", "127.0.0.1:25566")]);
}

#[test]
fn hosts_as_players_send_them() {
    for (typed, normal) in [
        ("Play.Example.NET", "play.example.net"),
        ("play.example.net.", "play.example.net"),
        ("play.example.net.:25565", "play.example.net"),
        ("play.example.net\0FML\0", "play.example.net"),
        ("play.example.net\x00203.0.113.9\0uuid", "play.example.net"),
        ("[2001:DB8::1]:25565", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
        ("\0", ""),
        (":25565", ""),
    ] {
        assert_eq!(normalise_host(typed), normal, "{typed:?}");
    }
}
