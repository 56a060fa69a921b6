//! Modded players are moved: the client's mods, ids, world and channels are right at every moment, and what fails costs nobody anything.
//!
//! All with the client and the servers of our own, which throw where real ones do.

use std::time::{Duration, Instant};

use moonbridge_testing::model::client::{Event, Install, Phase};
use moonbridge_testing::model::drive::{Host, Over, Pace, Player};
use moonbridge_testing::model::messages::{Ids, Mod, mods};
use moonbridge_testing::model::server::{Fault, How, Place, Served, Setup};
use moonbridge_testing::model::stage::{DOMAIN, Stage};

const TINKERS: (&str, &str) = ("TConstruct", "1.7.10-1.8.8");

fn pack() -> Vec<Mod> {
    mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), TINKERS])
}

fn alice() -> Install {
    Install { channels: vec!["TConstruct".into()], ..Install::forge("Alice", pack()) }
}

/// A server with the pack, with ids of its own if `first` is its own.
async fn modded(name: &str, entity: i32, dimension: i32, first: i32) -> Host {
    Host::start(Setup { entity_id: entity, ..Setup::forge(name, dimension, pack(), &Ids::of(500, first)) }).await
}

async fn vanilla(name: &str, entity: i32, dimension: i32) -> Host {
    Host::start(Setup { entity_id: entity, ..Setup::vanilla(name, dimension) }).await
}

fn resets(player: &Player) -> usize {
    player.with(|model| model.events().iter().filter(|event| **event == Event::Reset).count())
}

/// Deadlines that a test can wait for.
const SHORT: &str = "[timeouts]\ntransfer = \"2s\"\nforge = \"2s\"\n";

// --- Logging in ------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn modded_players_log_in() {
    for (ids, dimension) in [(Ids::default(), 0), (Ids::of_bytes(450_000, 256), 500), (Ids::of_bytes(2_090_000, 256), -2000)] {
        let host = Host::start(Setup::forge("modded", dimension, pack(), &ids)).await;
        let stage = Stage::start(&[&host], "").await;
        let acks = [Some(2), Some(3), Some(4), Some(5)];
        for (marked, acks) in
            [(true, acks), (false, acks), (true, [Some(2), None, Some(4), Some(5)]), (true, [Some(2), Some(3), Some(0), Some(5)])]
        {
            host.forget_events();
            let player = stage.join(Install { marked, acks, ..alice() }, &host).await;
            stage.plays(&player, &host, "logged in").await;
            let given =
                |wanted: &dyn Fn(&Served) -> bool| host.events().into_iter().map(|(_, served)| served).filter(wanted).collect::<Vec<_>>();
            let host_name = format!("{DOMAIN}{}", if marked { "\0FML\0" } else { "" });
            assert_eq!(given(&|served| matches!(served, Served::Handshake { .. })), [Served::Handshake { host: host_name }]);
            let wanted: Vec<_> = acks.into_iter().flatten().map(Served::Ack).collect();
            assert_eq!(given(&|served| matches!(served, Served::Ack(_))), wanted, "the client's own acks");
            let theirs = pack().into_iter().map(|own| (own.id, own.version)).collect();
            assert_eq!(given(&|served| matches!(served, Served::Mods(_))), [Served::Mods(theirs)]);
            drop(player);
            stage.cli().until(&["player", "list"], <[_]>::is_empty).await;
        }
    }
}

/// Servers that take their time in the handshake, or die in it, or refuse; a client that does.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_does_not_end() {
    let host = modded("modded", 1, 0, 256).await;
    let stage = Stage::start(&[&host], "[timeouts]\nforge = \"1s\"\n").await;
    for place in [Place::Hello, Place::Mods, Place::Ids, Place::Ack, Place::Complete, Place::Join] {
        for how in [How::Stall, How::Die, How::Refuse("not today".into())] {
            host.set(|setup| setup.fault = Some(Fault { place, how: how.clone() }));
            let player = Player::join(stage.listen(), DOMAIN, alice()).await;
            assert_eq!(player.ended().await, Over::Closed, "{place:?}, {how:?}\n{}", player.log());
            let reason = player.with(|model| model.kicked().map(str::to_owned)).unwrap_or_default();
            assert!(!reason.is_empty(), "{place:?}, {how:?}: closed without a reason");
            if let How::Refuse(said) = &how {
                assert!(reason.contains(said), "{reason:?}");
            }
        }
    }
    // Another version of a mod on the server: it says so itself.
    host.set(|setup| {
        *setup =
            Setup::forge("modded", 0, mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("TConstruct", "1")]), &Ids::of(500, 256))
    });
    let player = Player::join(stage.listen(), DOMAIN, alice()).await;
    assert_eq!(player.ended().await, Over::Closed);
    assert_eq!(player.with(|model| model.kicked().map(str::to_owned)).as_deref(), Some("Mod rejections [TConstruct]"));
}

// --- Moving ----------------------------------------------------------------------------------------------------------

/// Equal ids: the client is not led through a handshake that tells it nothing new, and takes it.
#[tokio::test(flavor = "multi_thread")]
async fn equal_servers() {
    let (one, two) = (modded("one", 1, 0, 256).await, modded("two", 2, -1, 256).await);
    let stage = Stage::start(&[&one, &two], "").await;
    let player = stage.join(alice(), &one).await;
    for trip in 0..10 {
        stage.moves(&player, if trip % 2 == 0 { &two } else { &one }).await;
    }
    assert_eq!(resets(&player), 0, "{}", player.log());
}

/// The same where that is switched off.
#[tokio::test(flavor = "multi_thread")]
async fn equal_servers_with_every_handshake() {
    let (one, two) = (modded("one", 1, 0, 256).await, modded("two", 2, -1, 256).await);
    let stage = Stage::start(&[&one, &two], "[forge]\nskip_equal_handshakes = false\n").await;
    let player = stage.join(alice(), &one).await;
    for trip in 0..4 {
        stage.moves(&player, if trip % 2 == 0 { &two } else { &one }).await;
    }
    assert_eq!(resets(&player), 4, "{}", player.log());
}

/// Other ids: a reset and a handshake each time, at whatever pace the client's game goes.
#[tokio::test(flavor = "multi_thread")]
async fn servers_with_other_ids() {
    let (one, two) = (modded("one", 1, 0, 256).await, modded("two", 2, 0, 700).await);
    let stage = Stage::start(&[&one, &two], "").await;
    for pace in [Pace::AtOnce, Pace::Ticks] {
        let player = Player::join_at(pace, stage.listen(), DOMAIN, alice()).await;
        player.is_on(&one.setup()).await;
        stage.known("Alice").await;
        for trip in 0..6 {
            stage.moves(&player, if trip % 2 == 0 { &two } else { &one }).await;
        }
        assert_eq!(resets(&player), 6, "{}", player.log());
        drop(player);
        stage.cli().until(&["player", "list"], <[_]>::is_empty).await;
    }
}

/// Each of the two with 450 KB of ids, and with almost the most that there can be.
#[tokio::test(flavor = "multi_thread")]
async fn large_packs() {
    for bytes in [450_000, 2_090_000] {
        let setup = |name: &str, entity, first| Setup { entity_id: entity, ..Setup::forge(name, 0, pack(), &Ids::of_bytes(bytes, first)) };
        let (one, two) = (Host::start(setup("one", 1, 256)).await, Host::start(setup("two", 2, 300)).await);
        let stage = Stage::start(&[&one, &two], "").await;
        let player = stage.join(alice(), &one).await;
        for trip in 0..4 {
            stage.moves(&player, if trip % 2 == 0 { &two } else { &one }).await;
        }
        assert_eq!(resets(&player), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_modded_and_vanilla_servers() {
    let (one, two, three) = (modded("one", 1, 0, 256).await, modded("two", 2, 7, 700).await, vanilla("three", 3, 0).await);
    let stage = Stage::start(&[&one, &two, &three], "").await;
    let player = stage.join(alice(), &one).await;
    for to in [&three, &one, &three, &two, &three, &two, &one] {
        stage.moves(&player, to).await;
    }
    // A vanilla server needs no reset, and hears nothing of mods.
    assert!(
        !three.events().iter().any(|(_, served)| matches!(served, Served::Plugin { channel, .. } if channel == "FML|HS")),
        "{}",
        three.log()
    );
}

/// The name of the server whose world is shown, by the entity id.
fn player_on(player: &Player, hosts: &[&Host]) -> String {
    let entity = player.with(|model| model.entity_id());
    hosts.iter().map(|host| host.setup()).find(|setup| Some(setup.entity_id) == entity).map(|setup| setup.name.clone()).unwrap_or_default()
}

/// Forth and back over every dimension that a byte cannot say, and those whose byte is one of vanilla's.
#[tokio::test(flavor = "multi_thread")]
async fn dimensions_that_are_not_a_byte() {
    let dimensions = [0, 500, -2000, 128, -129, 256, 255, 1, i32::MAX, i32::MIN];
    let mut hosts = Vec::new();
    for (index, dimension) in dimensions.into_iter().enumerate() {
        let index = index as i32;
        // Every other one with ids of its own.
        hosts.push(modded(&format!("d{index}"), 100 + index, dimension, 256 + index % 2).await);
    }
    hosts.push(vanilla("plain", 99, 0).await);
    let stage = Stage::start(&hosts.iter().collect::<Vec<_>>(), "").await;
    let player = stage.join(alice(), &hosts[0]).await;
    for host in hosts.iter().skip(1).chain(hosts.iter().rev().skip(1)) {
        stage.moves(&player, host).await;
    }
    let (plain, large) = (&hosts[10], &hosts[1]);
    for host in [large, plain, large, &hosts[2], plain] {
        stage.moves(&player, host).await;
    }
    // Straight into one at login.
    let bob = Host::start(Setup { entity_id: 7, ..Setup::forge("far", 500, pack(), &Ids::of(500, 256)) }).await;
    let stage = Stage::start(&[&bob, large], "").await;
    let player = stage.join(Install { name: "Bob".into(), ..alice() }, &bob).await;
    stage.moves(&player, large).await;
}

// --- Candidates that are none ----------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_other_mods() {
    let one = modded("one", 1, 0, 256).await;
    // With another version of a mod, and without it; both would take the player.
    let lax = |version: Option<&str>| {
        let mut list = mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614")]);
        list.extend(version.map(|version| Mod { id: "TConstruct".into(), version: version.into(), required: false }));
        list
    };
    let other = Host::start(Setup { entity_id: 2, ..Setup::forge("other", 0, lax(Some("1.7.10-1.7.0")), &Ids::of(500, 700)) }).await;
    let less = Host::start(Setup { entity_id: 3, ..Setup::forge("less", 0, lax(None), &Ids::of(500, 700)) }).await;
    // One that wants a mod which the player has not.
    let more = [pack(), mods(&[("Natura", "2.2")])].concat();
    let more = Host::start(Setup { entity_id: 4, ..Setup::forge("more", 0, more, &Ids::of(500, 700)) }).await;
    let stage = Stage::start(&[&one, &other, &less, &more], SHORT).await;
    let player = stage.join(alice(), &one).await;
    let refused = stage.refuses(&player, &other, "forge_mods_differ", &one).await;
    for named in ["TConstruct", "1.7.10-1.8.8", "1.7.10-1.7.0"] {
        assert!(refused.detail.contains(named), "{refused:?} does not name {named}");
    }
    let refused = stage.refuses(&player, &less, "forge_mods_differ", &one).await;
    assert!(refused.detail.contains("TConstruct"), "{refused:?}");
    let refused = stage.refuses(&player, &more, "forge_refused", &one).await;
    assert!(refused.detail.contains("Natura"), "{refused:?}");
    assert_eq!((resets(&player), player.with(|model| model.phase())), (0, Some(Phase::Done)));
    // Mods that the client would take in any version are those that it has taken before: nothing else is known of it.
    let mut own = pack();
    own[2].required = false;
    let bob = stage.join(Install { name: "Bob".into(), ..Install::forge("Bob", own) }, &one).await;
    stage.refuses(&bob, &other, "forge_mods_differ", &one).await;
}

/// Where it is left to the client, it is moved.
#[tokio::test(flavor = "multi_thread")]
async fn servers_with_other_mods_that_the_client_may_judge() {
    let one = modded("one", 1, 0, 256).await;
    let list = vec![Mod { id: "TConstruct".into(), version: "other".into(), required: false }];
    let other = Host::start(Setup { entity_id: 2, ..Setup::forge("other", 0, list, &Ids::of(500, 700)) }).await;
    let stage = Stage::start(&[&one, &other], "[forge]\nstrict_mods = false\n").await;
    let mut own = pack();
    own.iter_mut().for_each(|own| own.required = false);
    let player = stage.join(Install { mods: Some(own), ..alice() }, &one).await;
    // `one` wants the client's mods in its own versions, and gets them.
    stage.moves(&player, &other).await;
    stage.moves(&player, &one).await;
}

/// At every place, by every way of stopping: the player stays where it is, playing, and is moved when the server is well.
#[tokio::test(flavor = "multi_thread")]
async fn candidates_that_stop() {
    let (one, two, three) = (modded("one", 1, 0, 256).await, modded("two", 2, 500, 700).await, modded("three", 3, 0, 256).await);
    let stage = Stage::start(&[&one, &two, &three], SHORT).await;
    let player = stage.join(alice(), &one).await;
    for place in Place::ALL.into_iter().filter(|place| *place < Place::World) {
        for how in [How::Stall, How::Die, How::Refuse("not today".into())] {
            for candidate in [&two, &three] {
                candidate.set(|setup| setup.fault = Some(Fault { place, how: how.clone() }));
                let started = Instant::now();
                let moved = stage.transfer(&player, candidate).await;
                assert!(!moved.succeeded, "{place:?}, {how:?}: {moved:?}");
                assert!(started.elapsed() < Duration::from_secs(10), "{place:?}, {how:?}: {:?}", started.elapsed());
                match &how {
                    How::Refuse(said) if place > Place::Connection => assert!(moved.detail.contains(said), "{place:?}: {moved:?}"),
                    How::Stall if place > Place::Hello => {
                        // Where it is, in its server's words.
                        let phase =
                            ["start", "hello", "waiting_ack", "waiting_ack", "complete", "done"][place as usize - Place::Hello as usize];
                        let words = [phase, "handshake", "phase"];
                        assert!(
                            words.iter().any(|word| moved.detail.contains(word) || moved.reason.contains(word)),
                            "{place:?}: {moved:?}"
                        );
                    }
                    _ => {}
                }
                stage.plays(&player, &one, &format!("{place:?}")).await;
            }
        }
    }
    assert_eq!((resets(&player), player.with(|model| model.joins())), (0, 1), "the client has noticed something\n{}", player.log());
    for candidate in [&two, &three] {
        candidate.set(|setup| setup.fault = None);
        stage.moves(&player, candidate).await;
        stage.moves(&player, &one).await;
        candidate.open(0).await;
    }
}

/// It dies, or says no, in the moment in which the player's world is switched: the client's handshake is ended all the same, and the player is on
/// the old server or on another.
#[tokio::test(flavor = "multi_thread")]
async fn candidates_that_die_at_the_last_moment() {
    let (one, two, three) = (modded("one", 1, 0, 256).await, modded("two", 2, 500, 700).await, vanilla("three", 3, 0).await);
    let stage = Stage::start(&[&three, &one, &two], &format!("{SHORT}[limits]\nfallback_tries = 100\n")).await;
    let player = stage.join(alice(), &three).await;
    stage.moves(&player, &one).await;
    for how in [How::Die, How::Refuse("not today".into())] {
        for round in 0..10 {
            two.set(|setup| setup.fault = Some(Fault { place: Place::World, how: how.clone() }));
            let moved = stage.transfer(&player, &two).await;
            let on = player
                .until_within(Duration::from_secs(20), "somewhere else", |model| {
                    let here = [&one, &three].into_iter().find(|host| Some(host.setup().entity_id) == model.entity_id())?;
                    (model.is_in_world() && model.joins() > 0).then_some(here)
                })
                .await
                .unwrap_or_else(|why| panic!("{how:?}, round {round}, {moved:?}: {why}{}", stage.node.process.log()));
            stage.plays(&player, on, &format!("{how:?} {round}")).await;
            if player_on(&player, &[&one, &three]) != "one" {
                stage.moves(&player, &one).await;
            }
        }
    }
}

// --- Clients that cannot be moved, or not yet ------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn vanilla_players() {
    let (plain, other, modded) = (vanilla("plain", 1, 0).await, vanilla("other", 2, 0).await, modded("modded", 3, 0, 256).await);
    // A client that has not shown that it has Forge is given five seconds to do so.
    let stage = Stage::start(&[&plain, &other, &modded], "").await;
    let player = stage.join(Install::vanilla("Alice"), &plain).await;
    stage.refuses(&player, &modded, "forge_missing", &plain).await;
    stage.moves(&player, &other).await;
    stage.moves(&player, &plain).await;
}

/// Builds of Forge before 1209 know no reset: they go where none is needed.
#[tokio::test(flavor = "multi_thread")]
async fn old_builds() {
    let list = mods(&[("FML", "7.10.18.1180"), ("Forge", "10.13.0.1180")]);
    let setup = |name: &str, entity, first| Setup { entity_id: entity, ..Setup::forge(name, 0, list.clone(), &Ids::of(500, first)) };
    let (one, same, other) =
        (Host::start(setup("one", 1, 256)).await, Host::start(setup("same", 2, 256)).await, Host::start(setup("other", 3, 700)).await);
    let plain = vanilla("plain", 4, 0).await;
    let stage = Stage::start(&[&one, &same, &other, &plain], SHORT).await;
    let install = Install { knows_reset: false, marked: false, ..Install::forge("Alice", list.clone()) };
    let player = stage.join(install, &one).await;
    stage.refuses(&player, &other, "forge_no_reset", &one).await;
    for to in [&same, &plain, &one] {
        stage.moves(&player, to).await;
    }
    stage.refuses(&player, &other, "forge_no_reset", &one).await;
}

/// The first handshake of a client that has been on vanilla servers is its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_forge_server_after_vanilla_ones() {
    let (plain, other, one, two) =
        (vanilla("plain", 1, 0).await, vanilla("other", 2, -1).await, modded("one", 3, 0, 256).await, modded("two", 4, 500, 700).await);
    let stage = Stage::start(&[&plain, &other, &one, &two], SHORT).await;
    for (number, marked) in [true, false].into_iter().enumerate() {
        let name = format!("Alice{number}");
        let player = stage.join(Install { name: name.clone(), marked, ..alice() }, &plain).await;
        // Its own acks get there, and what it says to its own server meanwhile stays there.
        stage.moves(&player, &other).await;
        stage.moves(&player, &two).await;
        assert_eq!(player.with(|model| model.phase()), Some(Phase::Done));
        for to in [&one, &plain, &two, &one] {
            stage.moves(&player, to).await;
        }
    }
}

/// A first handshake that fails half-way: the player stays, later Forge servers are refused, vanilla ones are not.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_handshake_that_stops() {
    let (plain, other, one, two) =
        (vanilla("plain", 1, 0).await, vanilla("other", 2, -1).await, modded("one", 3, 0, 256).await, modded("two", 4, 500, 700).await);
    let stage = Stage::start(&[&plain, &other, &one, &two], SHORT).await;
    let mut number = 0;
    for (place, whole) in
        [(Place::Hello, true), (Place::Mods, false), (Place::Ids, false), (Place::Ack, true), (Place::Complete, true), (Place::Join, true)]
    {
        for how in [How::Stall, How::Die, How::Refuse("not today".into())] {
            number += 1;
            let player = stage.join(Install { name: format!("Alice{number}"), ..alice() }, &plain).await;
            one.set(|setup| setup.fault = Some(Fault { place, how: how.clone() }));
            let moved = stage.transfer(&player, &one).await;
            assert!(!moved.succeeded, "{place:?}, {how:?}: {moved:?}");
            stage.plays(&player, &plain, &format!("{place:?}")).await;
            if whole {
                stage.moves(&player, &two).await;
            } else {
                stage.refuses(&player, &two, "forge_stuck", &plain).await;
                stage.moves(&player, &other).await;
                stage.refuses(&player, &two, "forge_stuck", &other).await;
            }
        }
    }
}

/// Asked for while the player's own handshake lasts: it waits for its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_during_the_handshake_waits() {
    let (one, two) = (modded("one", 1, 0, 256).await, modded("two", 2, 0, 700).await);
    one.set(|setup| setup.fault = Some(Fault { place: Place::Complete, how: How::Hold }));
    let stage = Stage::start(&[&one, &two], "[timeouts]\ntransfer = \"20s\"\n").await;
    let player = Player::join(stage.listen(), DOMAIN, alice()).await;
    one.until("the place", |_, served| (*served == Served::Stopped(Place::Complete)).then_some(())).await;
    stage.known("Alice").await;
    let mut admin = stage.admin();
    let mut asked = tokio::spawn(async move { admin.transfer("Alice", "two").await });
    // Not refused; and the candidate hears nothing yet that would have to be undone.
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut asked).await.is_err(), "it did not wait");
    assert_eq!(player.with(|model| model.joins()), 0);
    one.release();
    let moved = asked.await.expect("no panic");
    assert!(moved.succeeded, "{moved:?}\n{}", player.log());
    stage.plays(&player, &two, "moved").await;
    assert_eq!(player.with(|model| model.joins()), 2, "{}", player.log());
}

/// The same with a handshake that does not end before the transfer's own deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_during_a_handshake_that_lasts_is_refused() {
    let (one, two) = (modded("one", 1, 0, 256).await, modded("two", 2, 0, 700).await);
    one.set(|setup| setup.fault = Some(Fault { place: Place::Complete, how: How::Hold }));
    let stage = Stage::start(&[&one, &two], "[timeouts]\ntransfer = \"1s\"\nforge = \"30s\"\n").await;
    let player = Player::join(stage.listen(), DOMAIN, alice()).await;
    one.until("the place", |_, served| (*served == Served::Stopped(Place::Complete)).then_some(())).await;
    stage.known("Alice").await;
    let moved = stage.transfer(&player, &two).await;
    assert!(!moved.succeeded && moved.reason == "forge_handshake_under_way", "{moved:?}");
    one.release();
    stage.plays(&player, &one, "refused").await;
    stage.moves(&player, &two).await;
}

/// Two at once: one of them is carried out.
#[tokio::test(flavor = "multi_thread")]
async fn double_requests() {
    let (one, two, three) = (modded("one", 1, 0, 256).await, modded("two", 2, 0, 700).await, modded("three", 3, 0, 900).await);
    let stage = Stage::start(&[&one, &two, &three], "").await;
    let player = stage.join(alice(), &one).await;
    two.set(|setup| setup.fault = Some(Fault { place: Place::Ids, how: How::Hold }));
    let mut admin = stage.admin();
    let asked = tokio::spawn(async move { admin.transfer("Alice", "two").await });
    two.until("the place", |_, served| (*served == Served::Stopped(Place::Ids)).then_some(())).await;
    stage.refuses(&player, &three, "transfer_in_progress", &one).await;
    stage.refuses(&player, &two, "transfer_in_progress", &one).await;
    two.release();
    assert!(asked.await.expect("no panic").succeeded);
    stage.plays(&player, &two, "moved").await;
}

// --- What the player brings along, and what is left behind -----------------------------------------------------------

/// On every server the channels come before any message of a mod's.
#[tokio::test(flavor = "multi_thread")]
async fn channels() {
    let many: Vec<String> = (0..1000).map(|number| format!("channel{number:05}")).collect();
    let (one, two, three) = (modded("one", 1, 0, 256).await, modded("two", 2, 0, 700).await, vanilla("three", 3, 0).await);
    let stage = Stage::start(&[&one, &two, &three], "").await;
    let player = stage.join(Install { channels: many.clone(), ..alice() }, &one).await;
    player.plugin("REGISTER", b"late\0gone");
    player.plugin("UNREGISTER", b"gone");
    player.plugin("late", b"one");
    one.until("the message", |_, served| matches!(served, Served::Plugin { channel, .. } if channel == "late").then_some(())).await;
    for to in [&two, &three, &one, &three, &two] {
        to.forget_events();
        stage.moves(&player, to).await;
        for channel in ["late", "channel00000", "channel00999"] {
            player.plugin(channel, b"hello");
            to.until("the message", |_, served| matches!(served, Served::Plugin { channel: on, .. } if on == channel).then_some(())).await;
        }
        let events = to.events();
        let told: Vec<String> = events
            .iter()
            .filter_map(|(_, served)| {
                if let Served::Plugin { channel, data } = served {
                    (channel == "REGISTER").then(|| String::from_utf8_lossy(data).into_owned())
                } else {
                    None
                }
            })
            .collect();
        let told: Vec<&str> = told.iter().flat_map(|names| names.split('\0')).collect();
        assert!(told.contains(&"late") && told.contains(&"channel00999") && !told.contains(&"gone"), "{}", to.log());
        to.assert_well();
    }
}

/// Mod messages of the player's, all the while: each comes once, to one server, in order.
#[tokio::test(flavor = "multi_thread")]
async fn mod_messages_during_transfers() {
    let (one, two, three) = (modded("one", 1, 0, 256).await, modded("two", 2, 500, 700).await, vanilla("three", 3, 0).await);
    let stage = Stage::start(&[&one, &two, &three], "").await;
    let player = stage.join(alice(), &one).await;
    let going = std::sync::atomic::AtomicBool::new(true);
    let sent = std::sync::atomic::AtomicU32::new(0);
    let talk = async {
        let mut clock = tokio::time::interval(Duration::from_millis(1));
        while going.load(std::sync::atomic::Ordering::Relaxed) {
            clock.tick().await;
            let number = sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // Some long, as mods send them.
            let mut data = number.to_be_bytes().to_vec();
            data.resize(if number.is_multiple_of(50) { 30_000 } else { 8 }, 0);
            player.plugin("TConstruct", &data);
            one.say(&format!("one {number}"));
        }
    };
    let moves = async {
        for round in 0..12 {
            let to = [&two, &three, &one][round % 3];
            let moved = stage.transfer(&player, to).await;
            assert!(moved.succeeded, "round {round}: {moved:?}\n{}", player.log());
            player.is_on(&to.setup()).await;
        }
        going.store(false, std::sync::atomic::Ordering::Relaxed);
    };
    tokio::join!(talk, moves);
    player.plugin("TConstruct", b"end!");
    one.until("the last", |_, served| matches!(served, Served::Plugin { data, .. } if data == b"end!").then_some(())).await;
    let mut all = Vec::new();
    for host in [&one, &two, &three] {
        let numbers: Vec<u32> = host
            .events()
            .iter()
            .filter_map(|(_, served)| match served {
                Served::Plugin { channel, data } if channel == "TConstruct" && data != b"end!" => {
                    Some(u32::from_be_bytes(*data.first_chunk()?))
                }
                _ => None,
            })
            .collect();
        assert!(numbers.is_sorted() && !numbers.is_empty(), "{}: {numbers:?}", host.setup().name);
        all.extend(numbers);
        host.assert_well();
    }
    all.sort_unstable();
    assert_eq!(all, (0..sent.into_inner()).collect::<Vec<_>>());
    player.assert_well();
}

/// A server of the player's dies: it goes on on another, modded or not.
#[tokio::test(flavor = "multi_thread")]
async fn fallback() {
    let (one, two, three) = (modded("one", 1, 0, 256).await, modded("two", 2, 500, 700).await, vanilla("three", 3, 0).await);
    for (first, second) in [(&one, &two), (&two, &one), (&one, &three), (&three, &one)] {
        let stage = Stage::start(&[first, second], SHORT).await;
        let player = stage.join(alice(), first).await;
        first.drop_all();
        if let Err(why) = player.is_on_within(Duration::from_secs(20), &second.setup()).await {
            panic!("{why}{}{}", second.log(), stage.node.process.log());
        }
        stage.plays(&player, second, "fell back").await;
        drop(player);
        // The next begins on the first again.
        let player = stage.join(Install { name: "Bob".into(), ..alice() }, first).await;
        first.kick("restarting");
        stage.plays(&player, second, "fell back").await;
    }
}

// --- Odd things ------------------------------------------------------------------------------------------------------

/// Unknown, out-of-range and negative packets in both directions, before, during and after handshakes: they pass, at any time.
#[tokio::test(flavor = "multi_thread")]
async fn packets_of_mods() {
    let ids = [0x41, 0x7f, 300, 70_000, -1, -2_000_000_000];
    let (one, two) = (modded("one", 1, 0, 256).await, modded("two", 2, 0, 700).await);
    let stage = Stage::start(&[&one, &two], "").await;
    let player = Player::join(stage.listen(), DOMAIN, Install { packets: ids.into(), ..alice() }).await;
    let odd = |player: &Player| {
        for id in ids {
            player.write(|_, out| moonbridge_protocol::frame::put(out, id, |out| out.extend_from_slice(b"odd")));
        }
    };
    odd(&player);
    player.is_on(&one.setup()).await;
    stage.known("Alice").await;
    for to in [&two, &one, &two] {
        odd(&player);
        let moved = stage.transfer(&player, to).await;
        assert!(moved.succeeded, "{moved:?}");
        to.packets(&ids);
        odd(&player);
        for id in ids {
            to.until("the packet", |_, served| (*served == Served::Packet { id }).then_some(())).await;
            player.until("the packet", |model| model.events().contains(&Event::Packet { id }).then_some(())).await;
        }
        stage.plays(&player, to, "odd").await;
    }
}

/// A server dies when the client has not yet shown that it is in its world; whoever is left is a Forge server with other ids. The client
/// cannot be reset before it has, and is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_right_after_the_cutover() {
    let (one, two) = (modded("one", 1, 0, 256).await, modded("two", 2, 0, 700).await);
    let stage = Stage::start(&[&one, &two], "").await;
    for (number, pace) in [Pace::AtOnce, Pace::Ticks, Pace::Ticks].into_iter().enumerate() {
        let player = Player::join_at(pace, stage.listen(), DOMAIN, Install { name: format!("Alice{number}"), ..alice() }).await;
        player.is_on(&one.setup()).await;
        stage.known(&format!("Alice{number}")).await;
        two.set(|setup| setup.fault = Some(Fault { place: Place::World, how: How::Die }));
        let moved = stage.transfer(&player, &two).await;
        assert!(moved.succeeded, "{moved:?}");
        two.set(|setup| setup.fault = None);
        player.until("back", |model| (model.joins() == 3).then_some(())).await;
        stage.plays(&player, &one, "back").await;
        drop(player);
        stage.cli().until(&["player", "list"], <[_]>::is_empty).await;
    }
}

/// A pack of five thousand mods, and ten thousand channels.
#[tokio::test(flavor = "multi_thread")]
async fn more_than_anybody_has() {
    let list: Vec<Mod> =
        (0..5000).map(|number| Mod { id: format!("mod{number:04}"), version: format!("1.7.10-{number}"), required: true }).collect();
    let channels: Vec<String> = (0..10_000).map(|number| format!("channel{number:05}")).collect();
    let setup = |name: &str, entity, first| Setup { entity_id: entity, ..Setup::forge(name, 0, list.clone(), &Ids::of(500, first)) };
    let (one, two) = (Host::start(setup("one", 1, 256)).await, Host::start(setup("two", 2, 700)).await);
    let stage = Stage::start(&[&one, &two], "[limits]\nchannels = 10100\n").await;
    let player = stage.join(Install { channels, ..Install::forge("Alice", list.clone()) }, &one).await;
    for trip in 0..4 {
        stage.moves(&player, if trip % 2 == 0 { &two } else { &one }).await;
        player.plugin("channel09999", b"hello");
        let to = if trip % 2 == 0 { &two } else { &one };
        to.until("the message", |_, served| matches!(served, Served::Plugin { channel, .. } if channel == "channel09999").then_some(()))
            .await;
        to.assert_well();
    }
}
