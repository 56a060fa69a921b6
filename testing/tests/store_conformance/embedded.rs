//! What only the embedded store promises: its file, its folder, its history.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use moonbridge_controlplane::store::embedded::Embedded;
use moonbridge_controlplane::store::{Event, LeaseId, Store, StoreError};
use tempfile::TempDir;

use crate::support::{self, *};

/// The revisions that the embedded store keeps.
const HISTORY: u64 = 10_000;

/// A store in a temporary folder.
pub(crate) struct Fixture {
    folder: TempDir,
    store: Mutex<Option<Arc<Embedded>>>,
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        let folder = TempDir::new().unwrap();
        let store = Mutex::new(Some(Arc::new(Embedded::open(folder.path()).unwrap())));
        Fixture { folder, store }
    }
}

#[tonic::async_trait]
impl support::Fixture for Fixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.lock().unwrap().as_ref().unwrap()) as Arc<dyn Store>
    }

    async fn compact(&self) {
        let store = self.store();
        let lease = lease(&*store).await;
        pass_revisions(&*store, lease, HISTORY).await;
    }

    async fn id_seen_by_another(&self) -> String {
        let store = self.store.lock().unwrap().take();
        drop(store);
        Embedded::open(self.folder.path()).unwrap().id().to_owned()
    }
}

async fn lease(store: &dyn Store) -> LeaseId {
    soon(store.lease_grant(Duration::from_secs(600))).await.unwrap()
}

/// Writes presence, so that so many revisions go by.
async fn pass_revisions(store: &dyn Store, lease: LeaseId, count: u64) {
    let puts = stream::iter(0..count).map(|number| commit(store, Vec::new(), vec![put_change("passing", number.to_string(), lease)]));
    let passed = puts.buffer_unordered(200).map_ok(|_| 1).try_fold(0, async |sum, one| Ok(sum + one));
    assert_eq!(soon(passed).await.unwrap(), count);
}

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder).unwrap()
}

#[tokio::test]
async fn a_restart_keeps_resources_and_drops_presence() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("not/yet/there");
    let store = open(&data);
    let lease = lease(&store).await;
    let kept = put(&store, "kept", "kept").await;
    put(&store, "deleted", "").await;
    delete(&store, "deleted").await;
    change(&store, vec![put_change("present", "", lease), put_change("kept too", "too", 0)]).await;
    // From the file into memory, and from memory into the file.
    put(&store, "becomes presence", "").await;
    change(&store, vec![put_change("becomes presence", "", lease)]).await;
    change(&store, vec![put_change("becomes kept", "", lease)]).await;
    let last = put(&store, "becomes kept", "now").await;
    let presence = change(&store, vec![put_change("present", "again", lease)]).await;
    assert_eq!(presence, last + 1);
    let before = all(&store, "", 0).await;
    drop(store);

    let store = open(&data);
    let entries = all(&store, "", 0).await;
    assert_eq!(entries, before.into_iter().filter(|entry| entry.lease == 0).collect::<Vec<_>>());
    assert_eq!(entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["becomes kept", "kept", "kept too"]);
    assert_eq!(entries[1].modified, kept);
    assert!(matches!(store.lease_keep_alive(lease).await, Err(StoreError::NoLease(_))));
    // The revision goes on, and what was before is not known any more.
    let now = newest(&store).await;
    assert!(now >= presence);
    assert!(matches!(end(&mut watch(&store, "", kept).await).await, StoreError::Compacted(revision) if revision == kept));
    let mut watch = watch(&store, "", now + 1).await;
    let revision = put(&store, "kept", "new").await;
    assert!(revision > presence);
    assert_eq!(batch(&mut watch).await.events, [Event::Put(entry("kept", "new", revision))]);
    // Revisions of before are compared with as ever.
    let compare = moonbridge_controlplane::store::Compare::Modified("becomes kept".into(), last);
    assert!(matches!(commit(&store, vec![compare], Vec::new()).await, Ok(moonbridge_controlplane::store::Committed::Yes(_))));
}

#[tokio::test]
async fn a_folder_has_one_user() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let refused = |answer: Result<Embedded, StoreError>| {
        let error = answer.expect_err("a second user").to_string();
        assert!(error.contains(&folder.path().display().to_string()) && error.contains("another process uses the folder"), "{error}");
    };
    refused(Embedded::open(folder.path()));
    // And another process is told so.
    let output = Command::new(env!("CARGO_BIN_EXE_store-writer")).arg(folder.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("another process uses the folder"), "{error}");
    put(&store, "key", "").await;
    drop(store);
    open(folder.path());
}

/// A watch on a store that is closed says so.
#[tokio::test]
async fn a_closed_store_ends_its_watches() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let mut watch = watch(&store, "", 1).await;
    drop(store);
    assert!(matches!(end(&mut watch).await, StoreError::Unavailable(_)));
}

#[tokio::test]
async fn what_is_no_store_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("store.redb");
    let noise: Vec<u8> = (0..100_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for content in [&b"not a store"[..], &noise] {
        std::fs::write(&file, content).unwrap();
        let error = Embedded::open(folder.path()).unwrap_err();
        assert!(matches!(&error, StoreError::Damaged(problem) if problem.contains("store.redb")), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), content);
    }
    // Someone else's redb file.
    std::fs::remove_file(&file).unwrap();
    redb_without_id(&file);
    assert!(matches!(Embedded::open(folder.path()), Err(StoreError::Damaged(_))));
    // A folder that cannot be one.
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert!(matches!(Embedded::open(&folder.path().join("file")), Err(StoreError::Unusable(_))));
}

fn redb_without_id(file: &Path) {
    let database = redb::Database::create(file).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(redb::TableDefinition::<&str, u64>::new("numbers")).unwrap().insert("format", 1).unwrap();
    write.commit().unwrap();
}

/// A store whose creation was cut short is created again.
#[tokio::test]
async fn half_a_creation_is_none() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("store.redb.new"), "half of a file").unwrap();
    let store = open(folder.path());
    put(&store, "key", "").await;
    assert!(!folder.path().join("store.redb.new").exists());
}

/// The process is killed at any instant: every acknowledged change is there, none is halved, and no revision is used twice.
#[tokio::test]
async fn a_killed_writer_leaves_old_or_new() {
    let folder = TempDir::new().unwrap();
    let (mut number, mut newest_seen, mut id) = (0, 0, None);
    for lines in [2, 3, 5, 7, 20, 50, 64, 101, 150, 200] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_store-writer")).arg(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut acknowledged = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        let mut take = |line: Option<std::io::Result<String>>| {
            let Some(Ok(line)) = line else { return false };
            // The last line may be cut short.
            let Some((last, revision)) =
                line.split_once(' ').and_then(|(last, revision)| Some((last.parse().ok()?, revision.parse().ok()?)))
            else {
                return false;
            };
            assert!(revision > newest_seen, "revision {revision} after {newest_seen}");
            (number, newest_seen) = (last, revision);
            true
        };
        while seen < lines {
            assert!(take(acknowledged.next()), "the writer ended by itself");
            seen += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts, too; a line that was cut is left out.
        let rest: Vec<_> = acknowledged.map_while(Result::ok).collect();
        for line in rest.iter().take(rest.len().saturating_sub(1)) {
            take(Some(Ok(line.clone())));
        }

        let store = open(folder.path());
        assert_eq!(*id.get_or_insert_with(|| store.id().to_owned()), store.id());
        let entries = all(&store, "", 0).await;
        assert_eq!(entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["one", "other"]);
        assert_eq!((&entries[0].value, entries[0].modified), (&entries[1].value, entries[1].modified), "half a transaction");
        let stored: u64 = std::str::from_utf8(&entries[0].value).unwrap().parse().unwrap();
        assert!(stored >= number, "{number} was acknowledged, {stored} is stored");
        assert!(newest(&store).await >= newest_seen);
    }
}

/// A full disk (here: a limit on the size of files) refuses changes and loses nothing that was acknowledged.
#[tokio::test]
async fn a_full_disk_is_said_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    // In blocks of 512 bytes: 16 MiB. Without the trap the limit ends the process.
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap '' XFSZ; ulimit -f 32768; exec "$0" "$1" fill"#, env!("CARGO_BIN_EXE_store-writer")]).arg(folder.path());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("cannot be written") && error.contains("see to the disk"), "{error}");
    let acknowledged: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().map(|number| format!("fill/{number}")).collect();
    assert!(acknowledged.len() > 20, "{acknowledged:?}");
    let store = open(folder.path());
    for key in &acknowledged {
        assert_eq!(get(&store, key).await.map(|entry| entry.value.len()), Some(100_000), "{key}");
    }
    put(&store, "and on it goes", "").await;
}

/// Also those that only memory has seen, and more of them than are reserved at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_revision_never_goes_back() {
    let folder = TempDir::new().unwrap();
    let mut last = 0;
    for count in [1, 3, HISTORY + 10, 1] {
        let store = open(folder.path());
        assert!(newest(&store).await >= last);
        let lease = lease(&store).await;
        pass_revisions(&store, lease, count).await;
        last = newest(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_watcher_is_told_to_list_again() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let lease = lease(&store).await;
    let mut slow = watch(&store, "passing", newest(&store).await + 1).await;
    pass_revisions(&store, lease, 10).await;
    assert_eq!(events(&mut slow, 10).await.len(), 10);
    pass_revisions(&store, lease, HISTORY).await;
    // Just in time still.
    let next = slow.next().await.unwrap().unwrap();
    assert_eq!(next.events.len(), 1_000);
    pass_revisions(&store, lease, 1_001).await;
    assert!(matches!(end(&mut slow).await, StoreError::Compacted(revision) if revision == next.revision + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_on_quiet_keys_is_told_of_progress() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let lease = lease(&store).await;
    let start = newest(&store).await;
    let mut quiet = watch(&store, "quiet", start + 1).await;
    pass_revisions(&store, lease, 2_500).await;
    for told in [1_000, 2_000] {
        let batch = soon(quiet.next()).await.unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.revision), (0, start + told));
    }
}

/// Large values are not kept for long: the history is bounded in bytes, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_is_bounded_in_bytes() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let lease = lease(&store).await;
    let from = newest(&store).await + 1;
    for _ in 0..70 {
        change(&store, vec![put_change("large", vec![0; 1_000_000], lease)]).await;
    }
    assert!(matches!(end(&mut watch(&store, "", from).await).await, StoreError::Compacted(_)));
    let mut recent = watch(&store, "", from + 60).await;
    assert_eq!(events(&mut recent, 10).await.len(), 10);
}
