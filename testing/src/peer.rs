//! Players and backends that nobody here wrote, as processes: see `testing/clients/README.md`.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use crate::process::{SOON, testing_dir};
use crate::session_server::Property;

/// Whose code a player or backend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// npm minecraft-protocol, protocol 5.
    Npm,
    /// PyPI quarry, protocol 5.
    Quarry,
    /// PyPI quarry, protocol 4.
    Quarry4,
}

/// What a player reports.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[allow(missing_docs)] // the packets' own fields
pub enum Seen {
    Connected {
        /// Where it connected from; quarry does not say.
        #[serde(default)]
        local_port: u16,
    },
    /// Login Success.
    Login {
        uuid: String,
        name: String,
    },
    /// Join Game.
    Join {
        entity_id: i32,
        dimension: i32,
        game_mode: u8,
        level_type: String,
    },
    Respawn {
        dimension: i32,
    },
    Position {
        x: f64,
        y: f64,
        z: f64,
    },
    Chat {
        text: String,
        raw: String,
    },
    /// The answer to a Tab Complete, asked for or not.
    Completed {
        matches: Vec<String>,
    },
    KeepAlive {
        id: i64,
    },
    Tab {
        name: String,
        online: bool,
    },
    Plugin {
        channel: String,
        hex: String,
    },
    Packet {
        name: String,
        params: Value,
    },
    /// Disconnected with a reason; `phase` is "login" or "play".
    Kick {
        phase: String,
        text: String,
        raw: String,
    },
    /// The answer to a status request.
    Status {
        data: Value,
    },
    /// The handshake of a client with mods has come here.
    ForgePhase {
        phase: String,
    },
    /// Server Hello.
    ForgeHello {
        dimension: i32,
    },
    /// The server's mods: id and version.
    ForgeMods {
        mods: Vec<(String, String)>,
    },
    /// Mod Id Data.
    ForgeIds {
        bytes: usize,
        sha256: String,
    },
    /// Handshake Reset, in a phase in which a client takes it.
    ForgeReset,
    /// A dimension was registered.
    ForgeDimension {
        dimension: i32,
        provider: i32,
    },
    End {
        reason: String,
    },
    Error {
        message: String,
    },
}

/// What a backend reports; `conn` counts its connections.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[allow(missing_docs)] // the packets' own fields
pub enum Served {
    Listening {
        port: u16,
    },
    Connection {
        conn: u32,
        address: String,
    },
    Handshake {
        conn: u32,
        host: String,
        port: u16,
        protocol: i32,
        next: i32,
    },
    /// What the handshake's host carries, if it carries something.
    Forwarded {
        conn: u32,
        host: String,
        address: String,
        uuid: String,
        properties: Vec<Property>,
        token: Option<String>,
    },
    LoginStart {
        conn: u32,
        name: String,
    },
    /// The option `once` had to refuse a name that is connected already.
    AlreadyConnected {
        conn: u32,
        name: String,
    },
    /// Login Success has been sent.
    Login {
        conn: u32,
        name: String,
        uuid: String,
    },
    /// Join Game and the rest of the world have been sent.
    Joined {
        conn: u32,
        name: String,
        entity_id: i32,
    },
    Chat {
        conn: u32,
        name: String,
        text: String,
    },
    /// A line of the command `chat` has been written to this connection.
    Said {
        conn: u32,
        text: String,
    },
    Settings {
        conn: u32,
        name: String,
    },
    Plugin {
        conn: u32,
        name: String,
        channel: String,
        hex: String,
    },
    /// What a plugin reads on the channel "BungeeCord": the message's name and its values.
    BungeeCord {
        conn: u32,
        name: String,
        values: Vec<Value>,
    },
    /// What a `DataOutputStream` makes of the calls in the command `write`.
    Written {
        hex: String,
    },
    /// The command `set` has been done: from here on its options hold.
    Set {},
    /// A Tab Complete has come.
    Completing {
        conn: u32,
        name: String,
        text: String,
    },
    KeepAliveSent {
        conn: u32,
        id: i64,
    },
    /// `known`: this backend had asked with this id, and had no answer yet.
    KeepAlive {
        conn: u32,
        id: i64,
        known: bool,
    },
    /// The handshake with a client with mods has come here: this is the last that was said ("stalled_…", "closed_…": was not).
    ForgePhase {
        conn: u32,
        phase: String,
    },
    /// The client's mods: id and version.
    ForgeMods {
        conn: u32,
        mods: Vec<(String, String)>,
    },
    /// The client acknowledged.
    ForgeAck {
        conn: u32,
        phase: i8,
    },
    /// Mod Id Data has been sent.
    ForgeIds {
        conn: u32,
        bytes: usize,
        sha256: String,
    },
    /// Any other packet of the player's.
    Packet {
        conn: u32,
        packet: String,
    },
    End {
        conn: u32,
        name: Option<String>,
        joined: bool,
        unanswered: u32,
    },
    Error {
        conn: Option<u32>,
        message: String,
    },
}

/// A running script; killed when dropped.
pub struct Peer<E> {
    name: String,
    commands: ChildStdin,
    _child: Child,
    events: Arc<Events<E>>,
    cursor: usize,
}

/// A player.
pub type Player = Peer<Seen>;
/// A backend.
pub type Backend = Peer<Served>;

struct Events<E> {
    all: Mutex<(Vec<E>, bool)>,
    grown: watch::Sender<u64>,
}

impl Player {
    /// Starts a player that connects to this port; `options` as `clients/player.js` lists them.
    pub fn join(kind: Kind, port: u16, name: &str, options: Value) -> Player {
        let mut all = json!({ "port": port, "name": name });
        merge(&mut all, options);
        Peer::start(kind, "player", name, all)
    }

    /// Waits until it is in a world and returns the dimension: that of the last packet that says so.
    pub async fn in_world(&mut self) -> i32 {
        self.expect("Join Game", |seen| match seen {
            Seen::Join { dimension, .. } => Some(*dimension),
            Seen::Kick { text, .. } => panic!("kicked: {text}"),
            _ => None,
        })
        .await
    }

    /// Waits for a chat line with this text.
    pub async fn chat(&mut self, wanted: &str) {
        self.expect(&format!("the chat line {wanted:?}"), |seen| matches!(seen, Seen::Chat { text, .. } if text == wanted).then_some(()))
            .await;
    }

    /// Waits for a disconnect and returns its reason and phase.
    pub async fn kicked(&mut self) -> (String, String) {
        self.expect("a disconnect with a reason", |seen| match seen {
            Seen::Kick { text, phase, .. } => Some((text.clone(), phase.clone())),
            _ => None,
        })
        .await
    }

    /// Waits for the connection's end.
    pub async fn end(&mut self) {
        self.expect("the end of the connection", |seen| matches!(seen, Seen::End { .. }).then_some(())).await;
    }

    /// Panics if the player has been disconnected or has met an error.
    pub fn assert_well(&self) {
        let bad: Vec<_> =
            self.all().into_iter().filter(|seen| matches!(seen, Seen::Kick { .. } | Seen::End { .. } | Seen::Error { .. })).collect();
        assert!(bad.is_empty(), "{}: {bad:?}\n{}", self.name, self.log());
    }
}

impl Backend {
    /// Starts a backend on a free port and waits until it listens; `options` as `clients/backend.js` lists them.
    pub async fn serve(kind: Kind, name: &str, options: Value) -> (Backend, u16) {
        let mut all = json!({ "name": name });
        merge(&mut all, options);
        let mut backend = Peer::start(kind, "backend", name, all);
        let port =
            backend.expect("its port", |served: &Served| if let Served::Listening { port } = served { Some(*port) } else { None }).await;
        (backend, port)
    }

    /// Changes options of a running backend, and waits until they hold.
    pub async fn set(&mut self, options: Value) {
        let set = |served: &Served| matches!(served, Served::Set {});
        let before = self.all().iter().filter(|served| set(served)).count();
        self.command("set", json!({ "options": options })).await;
        let mut done = 0;
        self.eventually("its options changed", |served| {
            done += usize::from(set(served));
            (done > before).then_some(())
        })
        .await;
    }

    /// Waits until this player is in its world; returns the connection's number.
    pub async fn joined(&mut self, player: &str) -> u32 {
        self.expect(&format!("{player} to join"), |served| match served {
            Served::Joined { name, conn, .. } if name == player => Some(*conn),
            _ => None,
        })
        .await
    }

    /// Waits for this player to leave.
    pub async fn left(&mut self, player: &str) {
        self.expect(&format!("{player} to leave"), |served| {
            matches!(served, Served::End { name: Some(name), .. } if name == player).then_some(())
        })
        .await;
    }

    /// Waits for a chat line with this text.
    pub async fn chat(&mut self, wanted: &str) {
        self.expect(&format!("the chat line {wanted:?}"), |served| {
            matches!(served, Served::Chat { text, .. } if text == wanted).then_some(())
        })
        .await;
    }
}

impl<E: DeserializeOwned + Clone + Debug + Send + Sync + 'static> Peer<E> {
    fn start(kind: Kind, what: &str, name: &str, mut options: Value) -> Self {
        let clients = testing_dir().join("clients");
        let mut command = match kind {
            Kind::Npm => {
                let mut command = Command::new("node");
                command.arg(clients.join(format!("{what}.js")));
                command
            }
            Kind::Quarry | Kind::Quarry4 => {
                options["protocol"] = json!(if kind == Kind::Quarry { 5 } else { 4 });
                let mut command = Command::new(testing_dir().join(".venv/bin/python"));
                // quarry's cipher is one that its library warns of.
                command.args(["-B", "-Wignore::UserWarning"]).arg(clients.join("quarry").join(format!("{what}.py")));
                command
            }
        };
        command.arg(options.to_string()).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start ({error}): has testing/run installed the clients?"));
        let events = Arc::new(Events { all: Mutex::new((Vec::new(), false)), grown: watch::Sender::new(0) });
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (sink, from) = (events.clone(), format!("{what} {name}"));
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str(&line) {
                    Ok(event) => sink.all.lock().unwrap_or_else(PoisonError::into_inner).0.push(event),
                    Err(error) => eprintln!("{from} said something else than an event ({error}): {line}"),
                }
                sink.grown.send_modify(|grown| *grown += 1);
            }
            sink.all.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
            sink.grown.send_modify(|grown| *grown += 1);
        });
        Peer { name: format!("{what} {name}"), commands: child.stdin.take().expect("piped"), _child: child, events, cursor: 0 }
    }

    /// Gives a command: `command("chat", json!({"text": "hi"}))`.
    pub async fn command(&mut self, command: &str, mut fields: Value) {
        fields["do"] = json!(command);
        let written = self.commands.write_all(format!("{fields}\n").as_bytes()).await;
        written.unwrap_or_else(|error| panic!("{} takes no more commands ({error}):\n{}", self.name, self.log()));
    }

    /// Says a line in chat.
    pub async fn say(&mut self, text: &str) {
        self.command("chat", json!({ "text": text })).await;
    }

    /// Waits for the next event, after those that earlier calls have found, that `find` makes something of.
    pub async fn expect<T>(&mut self, what: &str, find: impl FnMut(&E) -> Option<T>) -> T {
        self.expect_within(SOON, what, find).await
    }

    /// The same with a deadline of its own.
    pub async fn expect_within<T>(&mut self, within: Duration, what: &str, find: impl FnMut(&E) -> Option<T>) -> T {
        let mut cursor = self.cursor;
        let found = self.find(&mut cursor, within, what, find).await;
        self.cursor = cursor;
        found
    }

    /// Waits for an event anywhere in what it has reported and will report.
    pub async fn eventually<T>(&self, what: &str, find: impl FnMut(&E) -> Option<T>) -> T {
        self.find(&mut 0, SOON, what, find).await
    }

    async fn find<T>(&self, cursor: &mut usize, within: Duration, what: &str, find: impl FnMut(&E) -> Option<T>) -> T {
        match tokio::time::timeout(within, self.events.find(cursor, find)).await {
            Ok(Some(found)) => found,
            Ok(None) => panic!("{} ended without {what}:\n{}", self.name, self.log()),
            Err(_) => panic!("{} did not get to {what} within {within:?}:\n{}", self.name, self.log()),
        }
    }

    /// Everything it has reported.
    pub fn all(&self) -> Vec<E> {
        self.events.all.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// The end of what it has reported, for failure messages.
    pub fn log(&self) -> String {
        let all = self.all();
        all.iter().skip(all.len().saturating_sub(30)).map(|event| format!("  {}: {event:?}\n", self.name)).collect()
    }
}

impl<E> Events<E> {
    async fn find<T>(&self, cursor: &mut usize, mut find: impl FnMut(&E) -> Option<T>) -> Option<T> {
        let mut grown = self.grown.subscribe();
        loop {
            grown.borrow_and_update();
            {
                let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
                while let Some(event) = all.0.get(*cursor) {
                    *cursor += 1;
                    if let Some(found) = find(event) {
                        return Some(found);
                    }
                }
                if all.1 {
                    return None;
                }
            }
            if grown.changed().await.is_err() {
                return None;
            }
        }
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
