//! Imports that are cut off: the old or the new, never a mixture, and nothing is left lying about.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use etcd_client::{Client as EtcdClient, EventType, GetOptions, WatchOptions, WatchStream};
use moonbridge_proto::v1::permission_record::Record;
use moonbridge_testing::etcd::Etcd;
use moonbridge_testing::network::{Plane, folder, on_etcd};
use moonbridge_testing::process::SOON;

use crate::support::{Client, node, within};

const USERS: u128 = 2_000;
const GROUPS: u32 = 20;
/// Of the instants at which replicas are killed; another one is another test.
const SEED: u64 = 5;
const KILLS: u32 = 6;
/// Where in etcd a replica with the tests' configuration keeps everything.
const STORE: &str = "/test/data/";

/// An export in which every record says which one it is of.
fn write(file: &Path, mark: &str) {
    let mut json = String::from("{\"groups\":{");
    let nodes = format!("{{\"nodes\":[{{\"key\":\"{mark}\",\"value\":true}}]}}");
    for group in 0..GROUPS {
        let _ = write!(json, "{}\"g{group}\":{nodes}", if group == 0 { "" } else { "," });
    }
    json.push_str("},\"tracks\":{\"");
    let _ = write!(json, "{mark}\":{{\"groups\":[\"g0\",\"g1\"]}}}},\"users\":{{");
    for user in 0..USERS {
        let uuid = uuid::Uuid::from_u128(user << 64 | 0x4000_8000_0000_0000_0001);
        let _ = write!(json, "{}\"{uuid}\":{nodes}", if user == 0 { "" } else { "," });
    }
    json.push_str("}}");
    std::fs::write(file, json).expect("a file in a new folder");
}

/// Which files the records are of, and how many there are of each kind; `default` says nothing.
fn marks(records: &[Record]) -> (BTreeSet<&str>, [usize; 3]) {
    let (mut marks, mut counts) = (BTreeSet::new(), [0; 3]);
    for record in records {
        match record {
            Record::Group(group) if group.name == "default" => continue,
            Record::Group(group) => {
                counts[0] += 1;
                marks.extend(group.nodes.iter().map(|node| node.key.as_str()));
            }
            Record::Track(track) => {
                counts[1] += 1;
                marks.insert(&track.name);
            }
            Record::Unreadable(key) => panic!("{key} cannot be read"),
            Record::User(user) => {
                counts[2] += 1;
                marks.extend(user.nodes.iter().map(|node| node.key.as_str()));
            }
        }
    }
    (marks, counts)
}

/// The one file that all records are of.
#[track_caller]
fn whole(records: &[Record]) -> String {
    let (marks, counts) = marks(records);
    assert_eq!(counts, [GROUPS as usize, 1, USERS as usize], "{marks:?}");
    assert_eq!(marks.len(), 1, "a mixture: {marks:?}");
    marks.into_iter().next().expect("one").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_killed_at_any_instant_of_an_import_leaves_the_old_or_the_new() {
    let etcd = Etcd::start().await.expect("etcd");
    let (mut a, b) = (Plane::replica("a", &on_etcd(&etcd)).await, Plane::replica("b", &on_etcd(&etcd)).await);
    let folder = folder();
    let file = |mark: &str| folder.path().join(format!("{mark}.json"));
    for mark in ["old", "new"] {
        write(&file(mark), mark);
    }
    let arguments = |mark: &str| ["permission", "import", file(mark).to_str().expect("a plain path"), "--replace"].map(str::to_owned);
    let import = async |replica: &Plane, mark: &str| {
        let arguments = arguments(mark);
        replica.cli().run(&arguments.each_ref().map(String::as_str)).await
    };
    let mut store = EtcdClient::connect([etcd.url()], None).await.expect("etcd");
    import(&a, "new").await.ended(0);
    // How long one is under way that replaces as much as it brings.
    let mut begins = Writes::below("permissions/imports/", &mut store).await;
    let mut ends = Writes::below("resources/permissions/head", &mut store).await;
    let (ran, takes) = tokio::join!(import(&a, "old"), async {
        begins.next().await;
        let began = Instant::now();
        ends.next().await;
        began.elapsed()
    });
    ran.ended(0);
    let survivor = Client::at(&b).await;
    assert_eq!(whole(&survivor.export().await), "old");

    let mut random = SEED;
    let mut outcomes = Vec::new();
    for _ in 0..KILLS {
        let before = whole(&survivor.export().await);
        let wanted = if before == "old" { "new" } else { "old" };
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let instant = takes.mul_f64(1.3 * (random >> 33) as f64 / f64::from(1u32 << 31));
        let cli = a.cli();
        let arguments = arguments(wanted);
        let mut begins = Writes::below("permissions/imports/", &mut store).await;
        let importing = tokio::spawn(async move { cli.run(&arguments.each_ref().map(String::as_str)).await });
        begins.next().await;
        tokio::time::sleep(instant).await;
        a.process.kill().await;
        let ran = importing.await.expect("it ends");
        let after = whole(&survivor.export().await);
        assert!(ran.code != 0 || after == wanted, "it said that it had been done: {ran:?}");
        outcomes.push((instant, after == wanted));
        // A transaction that was on its way is in force by now; the survivor's checks follow the store.
        let sample = uuid::Uuid::from_u128(7 << 64 | 0x4000_8000_0000_0000_0001).to_string();
        within(SOON, "the survivor answers by one generation", || async {
            let stored = whole(&survivor.export().await);
            let answers = survivor.check(&sample, &["old", "new"]).await.answers;
            let yes = |at: usize| answers[at] == 1;
            if yes(usize::from(stored == "new")) && !yes(usize::from(stored == "old")) {
                Ok(())
            } else {
                Err(format!("{answers:?}, {stored}"))
            }
        })
        .await;
        a.restart().await;
    }
    println!("an import is under way for {takes:?}; killed after, new: {outcomes:?}");

    // The dead imports' leases end, and any replica sweeps.
    let deadline = Instant::now() + 2 * SOON;
    loop {
        let generations = generations(&mut store).await;
        if generations.len() == 1 {
            break;
        }
        assert!(Instant::now() < deadline, "litter: {generations:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    whole(&survivor.export().await);
}

/// What is written below a key of MoonBridge's, from now on.
struct Writes(WatchStream);

impl Writes {
    async fn below(key: &str, store: &mut EtcdClient) -> Writes {
        let watch = store.watch(format!("{STORE}{key}"), Some(WatchOptions::new().with_prefix())).await;
        Writes(watch.expect("etcd watches"))
    }

    /// Waits for the next write.
    async fn next(&mut self) {
        let written = async {
            while let Some(answer) = self.0.message().await.expect("etcd tells") {
                if answer.events().iter().any(|event| event.event_type() == EventType::Put) {
                    return;
                }
            }
            panic!("etcd tells no more");
        };
        tokio::time::timeout(SOON, written).await.expect("it is written");
    }
}

/// The generations that anything is stored of.
async fn generations(store: &mut EtcdClient) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for kind in [
        "permissions/users/",
        "permissions/names/",
        "permissions/imports/",
        "resources/permissions/groups/",
        "resources/permissions/tracks/",
    ] {
        let prefix = format!("{STORE}{kind}");
        let answer = store.get(prefix.as_str(), Some(GetOptions::new().with_prefix().with_keys_only())).await.expect("etcd answers");
        let generation = |key: &str| key.strip_prefix(&prefix).and_then(|rest| rest.split('/').next()).map(str::to_owned);
        found.extend(answer.kvs().iter().filter_map(|pair| generation(pair.key_str().expect("text"))));
    }
    found
}

/// A change that comes in the middle of an import is in what the import makes visible, or comes after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_during_an_import_is_not_lost() {
    let etcd = Etcd::start().await.expect("etcd");
    let (a, b) = (Plane::replica("a", &on_etcd(&etcd)).await, Plane::replica("b", &on_etcd(&etcd)).await);
    let folder = folder();
    let file = folder.path().join("file.json");
    write(&file, "file");
    let client = Client::at(&b).await;
    let cli = a.cli();
    let path = file.to_str().expect("a plain path").to_owned();
    let mut store = EtcdClient::connect([etcd.url()], None).await.expect("etcd");
    let mut begins = Writes::below("permissions/imports/", &mut store).await;
    let sample = uuid::Uuid::from_u128(7 << 64 | 0x4000_8000_0000_0000_0001).to_string();
    let importing = tokio::spawn(async move { cli.run(&["permission", "import", &path]).await });
    const CHANGES: usize = 2;
    begins.next().await;
    for change in 0..CHANGES {
        client.set(&sample, node(&format!("meanwhile.{change}"), true)).await;
    }
    importing.await.expect("it ends").ended(0);
    let keys: Vec<_> = client.user(&sample).await.user.expect("stored").nodes.into_iter().map(|node| node.key).collect();
    let mut wanted: Vec<_> = (0..CHANGES).map(|change| format!("meanwhile.{change}")).collect();
    wanted.push("file".to_owned());
    assert_eq!(keys.iter().collect::<BTreeSet<_>>(), wanted.iter().collect(), "{keys:?}");
}
