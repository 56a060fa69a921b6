//! Ten thousand transfers in random order over servers that fail at random places. No session is lost, for a server that never fails is always
//! there, and no client ever sees what a real one would throw at.
//!
//! What happens is drawn from a seed, player by player, so that a player's transfers and the places at which servers fail on it do not depend on
//! how the players' tasks are interleaved. `FORGE_SEED=… cargo test -p moonbridge-testing --test forge_random` repeats one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moonbridge_testing::admin::{Admin, Moved};
use moonbridge_testing::model::client::{Install, Phase};
use moonbridge_testing::model::drive::{Host, Pace, Player};
use moonbridge_testing::model::messages::{Ids, Mod, mods};
use moonbridge_testing::model::server::{Fault, How, Place, Setup};
use moonbridge_testing::model::stage::{DOMAIN, Stage};

/// In all.
const TRANSFERS: usize = 10_000;
/// Players at once.
const PLAYERS: usize = 20;
/// Of a hundred connections to a server that fails, so many do.
const FAILING: u64 = 25;
/// Of a thousand failures, so many are silence, which takes until a deadline.
const SILENT: u64 = 30;

const CONFIG: &str = "[timeouts]\ntransfer = \"1s\"\nforge = \"1s\"\nconnect = \"1s\"\n[limits]\nfallback_tries = 16\n";

fn pack() -> Vec<Mod> {
    mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614"), ("TConstruct", "1.7.10-1.8.8")])
}

/// Small, fast, and the same everywhere (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A generator for this of the seed's purposes.
fn random(seed: u64, purpose: &str, number: u32) -> Random {
    let mut hash = Random(seed);
    for byte in purpose.bytes() {
        hash.0 = hash.next() ^ u64::from(byte);
    }
    Random(hash.next() ^ u64::from(number))
}

/// Where a server stops on this player's nth connection.
fn fault(seed: u64, server: &str, player: &str, nth: u32) -> Option<Fault> {
    let mut random = random(seed, &format!("{server}/{player}"), nth);
    // Its first handshake is the player's own, and cannot be taken back.
    if nth == 0 || random.below(100) >= FAILING {
        return None;
    }
    let place = Place::ALL[1 + random.below(Place::ALL.len() as u64 - 1) as usize];
    let how = match random.below(1000) {
        // A server that falls silent after the world has been shown is another matter: half a minute.
        silent if silent < SILENT && place != Place::World => How::Stall,
        other if other % 2 == 0 => How::Die,
        _ => How::Refuse("not now".into()),
    };
    Some(Fault { place, how })
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_transfers() {
    let seed = match std::env::var("FORGE_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos() as u64,
    };
    // Shown if the test fails, and only then.
    println!("FORGE_SEED={seed}");
    let started = Instant::now();

    let forge =
        |name: &str, entity, dimension, first| Setup { entity_id: entity, ..Setup::forge(name, dimension, pack(), &Ids::of(200, first)) };
    let other = [pack(), mods(&[("Natura", "2.2")])].concat();
    let setups = [
        forge("a", 1, 0, 256),
        // The one that never fails, and takes everybody.
        Setup { entity_id: 2, ..Setup::vanilla("home", 0) },
        forge("b", 3, 500, 256),
        forge("c", 4, -2000, 700),
        forge("d", 5, -1, 700),
        Setup { entity_id: 6, ..Setup::vanilla("plain", -1) },
        // Takes nobody with the players' mods.
        Setup { entity_id: 7, ..Setup::forge("other", 0, other, &Ids::of(200, 900)) },
    ];
    let mut hosts = Vec::new();
    for setup in setups {
        let host = Host::start(setup).await;
        host.keep_no_events();
        let name = host.setup().name.clone();
        if name != "home" {
            host.plan(move |player, nth| fault(seed, &name, player, nth));
        }
        hosts.push(host);
    }
    let stage = Stage::start(&hosts.iter().collect::<Vec<_>>(), CONFIG).await;
    // Those who begin there have had no handshake yet.
    stage.cli().ok(&["route", "set", "vanilla.example.net", "--backends", "home,plain,a"]).await;
    let hosts = Arc::new(hosts);

    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..PLAYERS {
        let name = format!("Player{number}");
        let install = match number % 10 {
            3 => Install::vanilla(&name),
            _ => Install { channels: vec!["TConstruct".into()], ..Install::forge(&name, pack()) },
        };
        // A client of 20 ticks a second among those that never wait.
        let pace = if number % 10 == 1 { Pace::Ticks } else { Pace::AtOnce };
        let domain = if install.mods.is_none() || number % 5 == 4 { "vanilla.example.net" } else { DOMAIN };
        let player = Player::join_at(pace, stage.listen(), domain, install).await;
        player.until("in a world", |model| model.is_in_world().then_some(())).await;
        stage.known(&name).await;
        tasks.spawn(journey(seed, player, stage.admin(), hosts.clone(), TRANSFERS / PLAYERS));
    }
    let mut all = BTreeMap::new();
    while let Some(ended) = tasks.join_next().await {
        match ended.expect("no panic") {
            Ok(outcomes) => outcomes.into_iter().for_each(|(reason, count)| *all.entry(reason).or_insert(0) += count),
            Err((name, why)) => {
                // Of the node's log, what is about this player.
                let own = format!("player={name:?}");
                let log: Vec<_> = stage.node.process.lines().into_iter().filter(|line| line.contains(&own)).collect();
                panic!("FORGE_SEED={seed}\n{why}\n{}", log[log.len().saturating_sub(12)..].join("\n"));
            }
        }
    }
    assert_eq!(all.values().sum::<usize>(), TRANSFERS);
    println!("{all:?} in {:?}", started.elapsed());
    // Not a test of refusals alone.
    assert!(all.get("ok").is_some_and(|moved| *moved > TRANSFERS / 4), "{all:?}");
    // The players have gone, and nothing of theirs is left over.
    stage.cli().until(&["player", "list"], <[_]>::is_empty).await;
    for host in hosts.iter() {
        host.open(0).await;
    }
}

/// One player's transfers; how many ended how.
async fn journey(
    seed: u64,
    player: Player,
    mut admin: Admin,
    hosts: Arc<Vec<Host>>,
    count: usize,
) -> Result<BTreeMap<String, usize>, (String, String)> {
    let name = player.with(|model| model.install().name.clone());
    let mut random = random(seed, &name, 0);
    let mut outcomes = BTreeMap::new();
    for number in 0..count {
        let (from, joins) = (here(&player, &hosts), player.with(|model| model.joins()));
        let others: Vec<_> = hosts.iter().map(|host| host.setup()).filter(|setup| Some(&setup.name) != from.as_ref()).collect();
        let to = &others[random.below(others.len() as u64) as usize];
        let moved = admin.transfer(&name, &to.name).await;
        *outcomes.entry(moved.reason.clone()).or_insert(0) += 1;
        settle(&player, &hosts, from.as_deref(), &to.name, &moved, joins)
            .await
            .map_err(|why| (name.clone(), format!("{name}, transfer {number}, from {from:?} to {}: {moved:?}\n{why}", to.name)))?;
    }
    Ok(outcomes)
}

/// The server whose world is shown.
fn here(player: &Player, hosts: &[Host]) -> Option<String> {
    let entity = player.with(|model| model.entity_id());
    hosts.iter().map(|host| host.setup()).find(|setup| Some(setup.entity_id) == entity).map(|setup| setup.name.clone())
}

/// The player is where it is to be, and sees that alone. From a server that dies after it has shown its world it falls back: to any other.
async fn settle(player: &Player, hosts: &[Host], from: Option<&str>, to: &str, moved: &Moved, joins: u32) -> Result<(), String> {
    let name = player.with(|model| model.install().name.clone());
    let leaves = |host: &Host| host.fault_of(&name).is_some_and(|fault| fault.place == Place::World);
    let whole = player.until_within(Duration::from_secs(20), "whole, in one world", |model| {
        // A slow client may not yet have looked at what was written to it.
        (model.joins() > joins || !moved.succeeded).then_some(())?;
        let host = hosts.iter().find(|host| Some(host.setup().entity_id) == model.entity_id())?;
        let setup = host.setup();
        let mut tab = setup.tab.clone();
        tab.sort();
        let ids = setup.forge.is_none() || (model.ids() == setup.ids() && model.phase() == Some(Phase::Done));
        let things = model.tab().eq(tab.iter()) && model.objectives().len() == 1 && model.teams().len() == 1;
        (model.is_in_world() && model.dimension() == Some(setup.dimension) && ids && things && !leaves(host)).then(|| setup.name.clone())
    });
    let on = whole.await?;
    if let Some(kicked) = player.with(|model| model.kicked().map(str::to_owned)) {
        return Err(format!("kicked: {kicked}\n{}", player.log()));
    }
    let went = hosts.iter().find(|host| host.setup().name == to).is_some_and(leaves);
    let expected = if moved.succeeded { Some(to) } else { from };
    if Some(on.as_str()) != expected && !(moved.succeeded && went) {
        return Err(format!("on {on}\n{}", player.log()));
    }
    Ok(())
}
