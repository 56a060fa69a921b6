//! Recordings of a session's frames: every size, in order, both ways, and nothing else. Written and read as an operator would.

use std::net::SocketAddr;
use std::path::Path;

use futures::future::join_all;
use moonbridge_protocol::frame;
use moonbridge_testing::bench::trace::Direction::{self, Clientbound, Serverbound};
use moonbridge_testing::bench::trace::Trace;
use moonbridge_testing::network::{Cli, Ran, Up, folder};
use moonbridge_testing::process::SOON;
use moonbridge_testing::session_server::SessionServer;
use moonbridge_testing::wire::{self, Wire};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An id that nobody looks at.
const ANY: i32 = 0x70;

/// Nothing of this may stand in a file.
const SECRET: &[u8] = b"swordfish";

/// A network that records into a folder, with backends that do as they are told.
struct Stage {
    up: Up,
    folder: TempDir,
    backends: Vec<TcpListener>,
    cursor: usize,
}

impl Stage {
    async fn start(names: &[&str], more: &[&str]) -> Stage {
        let folder = folder();
        let mut arguments: Vec<String> = vec!["--recordings".into(), folder.path().display().to_string()];
        let mut backends = Vec::new();
        for name in names {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            arguments.extend(["--backend".into(), format!("{name}={}", address(&listener))]);
            backends.push(listener);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Stage { up: Up::start(&arguments).await, folder, backends, cursor: 0 }
    }

    /// A player on the first backend, and that end of it.
    async fn join(&self, name: &str) -> (Wire, Wire) {
        let (player, backend) = tokio::join!(Wire::join(self.up.listen, "localhost", name), self.enter(0));
        let joined = (player.expect("a login").0, backend);
        self.up.cli.until(&["player", "list"], |rows| rows.iter().any(|row| row["name"] == name)).await;
        joined
    }

    async fn enter(&self, backend: usize) -> Wire {
        let mut wire = Wire::accept(&self.backends[backend]).await.expect("it is dialled");
        let (_, name) = wire.login().await.expect("a login");
        wire.login_success(&name).await.expect("it reads");
        wire.join_game(1, if backend == 0 { 0 } else { -1 }).await.expect("it reads");
        wire
    }

    /// Begins a recording and waits until the session is at it.
    async fn record(&mut self, which: &str, time: &str) -> JoinHandle<Ran> {
        let cli = self.up.cli.clone();
        let arguments = ["session", "record", which, "--for", time, "-o", "json"].map(str::to_owned);
        let running = tokio::spawn(async move { cli.run(&arguments.each_ref().map(String::as_str)).await });
        let begun = |line: &str| line.contains("frame sizes and times are recorded").then_some(());
        self.up.process.line_from(&mut self.cursor, SOON, "the recording's beginning", begun).await;
        running
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("bound")
}

/// Frames with bodies of these lengths, which have something secret in them where there is room.
fn frames(lengths: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &length in lengths {
        let payload: Vec<u8> = SECRET.iter().copied().cycle().take(length - 1).collect();
        frame::put(&mut bytes, ANY, |out| out.extend_from_slice(&payload));
    }
    bytes
}

async fn send(from: &mut Wire, to: &mut Wire, lengths: &[usize]) {
    from.write(&frames(lengths)).await.expect("it reads");
    for _ in lengths {
        to.receive_id(ANY).await.expect("a frame");
    }
}

/// What a recording says of itself at its end.
#[derive(Debug)]
struct Recorded {
    told: Value,
    trace: Trace,
    text: String,
}

impl Recorded {
    /// What the command that has ended says, and the file that it names.
    fn read(ran: Ran, folder: &Path) -> Recorded {
        let told = ran.ended(0).json();
        let file = Path::new(told["file"].as_str().expect("a path"));
        assert_eq!(file.parent(), Some(folder));
        let text = std::fs::read_to_string(file).expect("it is there");
        let trace = Trace::read(file).expect("it is whole");
        assert_eq!(told["frames"], (trace.frames(Clientbound).len() + trace.frames(Serverbound).len()) as u64);
        assert_eq!(told["missed"], trace.missed());
        Recorded { told, trace, text }
    }

    fn lengths(&self, direction: Direction) -> Vec<usize> {
        self.trace.frames(direction).iter().map(|frame| frame.length).collect()
    }

    /// Both ways in the order of the file.
    fn all(&self) -> Vec<String> {
        let frames = self.text.lines().filter(|line| !line.starts_with('{'));
        frames.map(|line| line.split_once(' ').expect("a time").1.to_owned()).collect()
    }

    fn has_no_contents(&self, names: &[&str]) {
        for line in self.text.lines().skip(1).filter(|line| !line.starts_with('{')) {
            assert!(line.bytes().all(|byte| byte.is_ascii_digit() || b" cs".contains(&byte)), "{line}");
        }
        let objects: Vec<Value> = self.text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect();
        let keys: Vec<_> =
            objects.iter().map(|object| object.as_object().expect("an object").keys().cloned().collect::<Vec<_>>()).collect();
        assert_eq!(keys, [vec!["began_unix_ms", "moonbridge_frames", "node", "session"], vec!["ended", "frames", "micros", "missed"]]);
        assert!(names.iter().all(|name| !self.text.contains(name)), "{}", self.text);
    }
}

/// Everything that a session's streams are made of, both ways, ended by its end.
async fn every_size_is_there(stage: &mut Stage, which: &str, mut player: Wire, mut backend: Wire, names: &[&str]) {
    let folder = stage.folder.path().to_owned();
    let recording = stage.record(which, "10m").await;
    let burst: Vec<usize> = (1..=200).map(|number| number % 40 + 1).chain([127, 128, 16_383, 16_384]).collect();
    send(&mut backend, &mut player, &burst).await;
    send(&mut player, &mut backend, &burst[..50]).await;
    // Cut through as they come, both ways.
    send(&mut backend, &mut player, &[300_000, 5]).await;
    send(&mut player, &mut backend, &[70_000, 6]).await;
    // What the node keeps for itself: a command, and an empty frame, which is none.
    let chat = wire::string("/moonbridge");
    player.write(&[0]).await.expect("it reads");
    player.send(0x01, &chat).await.expect("it reads");
    send(&mut player, &mut backend, &[7]).await;
    drop((player, backend));

    let recorded = Recorded::read(recording.await.expect("no panic"), &folder);
    assert_eq!((&recorded.told["ended"], &recorded.told["missed"]), (&"session".into(), &0.into()));
    let expected = |direction, lengths: &[usize]| lengths.iter().map(|length| format!("{direction} {length}")).collect::<Vec<_>>();
    let parts =
        [expected('c', &burst), expected('s', &burst[..50]), expected('c', &[300_000, 5]), expected('s', &[70_000, 6, 1 + chat.len(), 7])];
    assert_eq!(recorded.all(), parts.concat());
    recorded.has_no_contents(names);
    let [file] = &stage.files()[..] else { panic!("one file, under its own name: {:?}", stage.files()) };
    assert_eq!(*file, format!("{}-{}.frames", recorded.told["session"].as_str().expect("an id"), began(&recorded.text)));
}

fn began(text: &str) -> u64 {
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("an object");
    first["began_unix_ms"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_size_of_a_session_is_recorded_in_order_and_nothing_else() {
    let mut stage = Stage::start(&["one"], &[]).await;
    let (player, backend) = stage.join("Alice").await;
    every_size_is_there(&mut stage, "aLiCe", player, backend, &["Alice", "swordfish", "127.0.0.1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_session_is_recorded_as_it_is_by_its_id() {
    let sessions = SessionServer::start().await;
    let mut stage = Stage::start(&["one"], &["--online", "--session-server", &sessions.url()]).await;
    let account = sessions.account("Bob");
    let (player, backend) = tokio::join!(Wire::join_online(stage.up.listen, &sessions, &account), stage.enter(0));
    stage.up.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    let shown = stage.up.cli.ok(&["player", "show", "Bob", "-o", "json"]).await.json();
    let id = shown["session"].as_str().expect("an id");
    every_size_is_there(&mut stage, id, player.expect("a login").0, backend, &["Bob", "swordfish", "127.0.0.1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_goes_on_with_the_next_backend() {
    let mut stage = Stage::start(&["one", "two"], &[]).await;
    let folder = stage.folder.path().to_owned();
    let (mut player, mut one) = stage.join("Alice").await;
    let recording = stage.record("Alice", "10m").await;
    send(&mut one, &mut player, &[11]).await;
    let (moved, mut two) = tokio::join!(stage.up.cli.run(&["transfer", "start", "Alice", "--to", "two"]), stage.enter(1));
    moved.ended(0);
    // What the one that was left still says is nobody's.
    one.write(&frames(&[12])).await.expect("it is still read");
    let settings = [wire::string("en_GB"), vec![10, 0, 1, 2, 1]].concat();
    player.send(0x15, &settings).await.expect("it reads");
    two.receive_id(0x15).await.expect("settings");
    send(&mut two, &mut player, &[13, 14]).await;
    send(&mut player, &mut two, &[15]).await;
    drop((player, two));
    let recorded = Recorded::read(recording.await.expect("no panic"), &folder);
    assert_eq!(recorded.lengths(Clientbound), [11, 13, 14]);
    assert_eq!(recorded.lengths(Serverbound), [1 + settings.len(), 15]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_faster_than_it_can_be_written_is_counted_and_delivered() {
    const MANY: usize = 400_000;
    let mut stage = Stage::start(&["one"], &[]).await;
    let folder = stage.folder.path().to_owned();
    let (mut player, mut backend) = stage.join("Alice").await;
    let recording = stage.record("Alice", "10m").await;
    let flood = frames(&[2; 1_000]);
    let (sent, came) = tokio::join!(
        async {
            for _ in 0..MANY / 1_000 {
                backend.write(&flood).await?;
            }
            anyhow::Ok(())
        },
        player.peek(MANY / 1_000 * flood.len())
    );
    sent.and(came).expect("all of it comes");
    drop((player, backend));
    let recorded = Recorded::read(recording.await.expect("no panic"), &folder);
    assert_eq!(recorded.trace.frames(Clientbound).len() as u64 + recorded.trace.missed(), MANY as u64);
    assert!(recorded.lengths(Clientbound).iter().all(|&length| length == 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_asked_for_at_once_one_is_made() {
    let stage = Stage::start(&["one"], &[]).await;
    let (player, backend) = stage.join("Alice").await;
    let asked = (0..4).map(|_| stage.up.cli.run(&["session", "record", "Alice", "--for", "2s"]));
    let (made, refused): (Vec<Ran>, Vec<Ran>) = join_all(asked).await.into_iter().partition(|ran| ran.code == 0);
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(refused.iter().all(|ran| ran.stderr.contains("already_recording")), "{refused:?}");
    drop((player, backend));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_in_time_and_the_session_goes_on() {
    let mut stage = Stage::start(&["one"], &[]).await;
    let folder = stage.folder.path().to_owned();
    let (mut player, mut backend) = stage.join("Alice").await;
    let recording = stage.record("Alice", "4s").await;
    // The second one is refused, and does not disturb the first.
    let refused = stage.up.cli.run(&["session", "record", "Alice"]).await.ended(1);
    assert!(refused.stderr.contains("already_recording") && refused.stderr.contains("Try again"), "{refused:?}");
    send(&mut backend, &mut player, &[21]).await;
    let recorded = Recorded::read(recording.await.expect("no panic"), &folder);
    assert_eq!((&recorded.told["ended"], &recorded.told["ms"], &recorded.told["player"]), (&"time".into(), &4000.into(), &"Alice".into()));
    assert_eq!(recorded.lengths(Clientbound), [21]);
    // And another.
    send(&mut backend, &mut player, &[22]).await;
    let again = stage.record("Alice", "10m").await;
    send(&mut backend, &mut player, &[23]).await;
    // A node that ends writes its files to their end.
    assert_eq!(stage.up.stop().await, 0);
    let _ = again.await;
    let entries = std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut traces: Vec<_> = entries.map(|path| Trace::read(&path).expect("it is whole")).collect();
    traces.sort_by_key(|trace| trace.frames(Clientbound)[0].length);
    let lengths: Vec<_> = traces.iter().flat_map(|trace| trace.frames(Clientbound)).map(|frame| frame.length).collect();
    assert_eq!(lengths, [21, 23]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_recorded_is_refused_with_what_to_do() {
    let (silent, recording) = tokio::join!(Up::start(&["--demo"]), Stage::start(&["one"], &[]));
    let asked = async |cli: &Cli, arguments: &[&str], code, words: &[&str]| {
        let ran = cli.run(&[&["session", "record"], arguments].concat()).await.ended(code);
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{words:?}: {ran:?}");
    };
    let (player, backend) = recording.join("Alice").await;
    let cli = &recording.up.cli;
    asked(cli, &["Nobody"], 1, &["Nobody", "not online", "player list"]).await;
    asked(cli, &["01933f3c-0000-7000-8000-000000000000"], 1, &["not online"]).await;
    for time in ["0s", "1500ms", "601s", "soon"] {
        asked(cli, &["Alice", "--for", time], 2, &["--for"]).await;
    }
    // A file stands where the folder was.
    let path = recording.folder.path();
    std::fs::remove_dir(path).expect("it is empty");
    std::fs::write(path, "").expect("a file");
    asked(cli, &["Alice"], 1, &["recording_failed", &path.display().to_string(), "Not a directory", "write there"]).await;
    std::fs::remove_file(path).expect("it is a file");
    std::fs::create_dir(path).expect("a folder again");
    drop((player, backend));

    let _player = Wire::join(silent.listen, "localhost", "Carl").await.expect("a login");
    silent.cli.until(&["player", "list"], |rows| rows.len() == 1).await;
    asked(&silent.cli, &["Carl"], 1, &["recordings_off", "dataplane.toml", "--recordings"]).await;

    let state = folder();
    let missing = state.path().join("missing").display().to_string();
    let data = state.path().join("data");
    let mut line = vec!["up", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--recordings", &missing];
    line.extend(["--backend", "lobby=127.0.0.1:1", "--data-dir", data.to_str().expect("a name in Unicode")]);
    let up = Cli::beside(state.path()).run(&line).await;
    assert!(up.clone().ended(2).stderr.contains(&format!("recordings: {missing} is no folder")), "{up:?}");
    // And nothing has been written.
    assert!(!data.exists() || std::fs::read_dir(&data).expect("a folder").next().is_none());
}
