//! [`Model`]s and [`Server`]s on TCP connections.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::Broken;
use super::client::{Install, Model};
use super::server::{Choose, Fault, Flow, Served, Server, Setup};
use crate::process::SOON;

/// How often a peer looks at the clock.
const TICK: Duration = Duration::from_millis(50);

/// When a client's game looks at what has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At once: a computer that never has to wait for its next tick.
    AtOnce,
    /// 20 times a second, as a real client: what came since waits.
    Ticks,
}

/// A client, connected. Its connection ends when this is dropped.
pub struct Player {
    shared: Arc<Shared<Played>>,
    commands: mpsc::UnboundedSender<Vec<u8>>,
    task: AbortHandle,
}

struct Played {
    model: Model,
    /// Why it does not play on.
    over: Option<Over>,
}

/// How a player's connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// The client's own doing: what no test of a node should ever see.
    Broken(Broken),
    /// Closed from the other side.
    Closed,
}

struct Shared<T> {
    state: Mutex<T>,
    moved: watch::Sender<u64>,
}

impl<T> Shared<T> {
    fn new(state: T) -> Arc<Shared<T>> {
        Arc::new(Shared { state: Mutex::new(state), moved: watch::Sender::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self) {
        self.moved.send_modify(|count| *count += 1);
    }

    /// Waits until `find` makes something of the state.
    async fn until<F>(&self, within: Duration, mut find: impl FnMut(&T) -> Option<F>) -> Option<F> {
        let mut moved = self.moved.subscribe();
        let wait = async {
            loop {
                moved.borrow_and_update();
                if let Some(found) = find(&self.lock()) {
                    return Some(found);
                }
                if moved.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::time::timeout(within, wait).await.ok().flatten()
    }
}

impl Player {
    /// Connects and logs in; `host` is what the handshake says.
    pub async fn join(address: SocketAddr, host: &str, install: Install) -> Player {
        Player::join_at(Pace::AtOnce, address, host, install).await
    }

    /// The same with a client of this pace.
    pub async fn join_at(pace: Pace, address: SocketAddr, host: &str, install: Install) -> Player {
        let stream = TcpStream::connect(address).await.unwrap_or_else(|error| panic!("{address} cannot be connected to: {error}"));
        stream.set_nodelay(true).expect("a TCP socket");
        let model = Model::new(install, Instant::now());
        let mut hello = Vec::new();
        model.login(host, address.port(), &mut hello);
        let shared = Shared::new(Played { model, over: None });
        let (commands, orders) = mpsc::unbounded_channel();
        let _ = commands.send(hello);
        let task = tokio::spawn(play(shared.clone(), stream, orders, pace)).abort_handle();
        Player { shared, commands, task }
    }

    /// Says a line.
    pub fn say(&self, text: &str) {
        self.write(|model, out| model.say(text, out));
    }

    /// Sends a plugin message.
    pub fn plugin(&self, channel: &str, data: &[u8]) {
        self.write(|model, out| model.plugin(channel, data, out));
    }

    /// Sends what `put` appends.
    pub fn write(&self, put: impl FnOnce(&Model, &mut Vec<u8>)) {
        let mut out = Vec::new();
        put(&self.shared.lock().model, &mut out);
        // Whoever has been disconnected says nothing more; what the test waits for says so.
        let _ = self.commands.send(out);
    }

    /// What the client is now.
    pub fn with<T>(&self, look: impl FnOnce(&Model) -> T) -> T {
        look(&self.shared.lock().model)
    }

    /// How its connection ended, if it has.
    pub fn over(&self) -> Option<Over> {
        self.shared.lock().over.clone()
    }

    /// Waits until `find` makes something of the client. Panics if the connection ends before.
    pub async fn until<T>(&self, what: &str, find: impl FnMut(&Model) -> Option<T>) -> T {
        self.until_within(SOON, what, find).await.unwrap_or_else(|why| panic!("{why}"))
    }

    /// The same within a time, and without a panic.
    ///
    /// # Errors
    /// Says who did not get where, and what happened in place of it.
    pub async fn until_within<T>(&self, within: Duration, what: &str, mut find: impl FnMut(&Model) -> Option<T>) -> Result<T, String> {
        let found = self.shared.until(within, |played| match (find(&played.model), &played.over) {
            (Some(found), _) => Some(Ok(found)),
            (None, Some(over)) => Some(Err(format!("{over:?}"))),
            (None, None) => None,
        });
        match found.await {
            Some(Ok(found)) => Ok(found),
            Some(Err(over)) => Err(format!("{over} before {what}\n{}", self.log())),
            None => Err(format!("not {what} within {within:?}\n{}", self.log())),
        }
    }

    /// Waits until the player sees the world of this server, with nothing left of another's: tab list, scoreboard, ids, dimension, entity id.
    pub async fn is_on(&self, setup: &Setup) {
        self.is_on_within(SOON, setup).await.unwrap_or_else(|why| panic!("{why}"));
    }

    /// The same within a time, and without a panic.
    ///
    /// # Errors
    /// As [`Player::until_within`].
    pub async fn is_on_within(&self, within: Duration, setup: &Setup) -> Result<(), String> {
        let what = format!("in the world of {}: {:?}", setup.name, expected(setup));
        self.until_within(within, &what, |model| (model.is_in_world() && seen(model, setup) == expected(setup)).then_some(())).await
    }

    /// Waits for the end of its connection.
    pub async fn ended(&self) -> Over {
        let found = self.shared.until(SOON, |played| played.over.clone()).await;
        found.unwrap_or_else(|| panic!("the connection did not end\n{}", self.log()))
    }

    /// Panics if the client has been disconnected, or would have.
    pub fn assert_well(&self) {
        let (over, kicked) = (self.over(), self.with(|model| model.kicked().map(str::to_owned)));
        assert!(over.is_none() && kicked.is_none(), "{over:?}, {kicked:?}\n{}", self.log());
    }

    /// The end of what happened to it, for failure messages.
    pub fn log(&self) -> String {
        let played = self.shared.lock();
        let model = &played.model;
        let mut text = format!("  {}: {:?}\n", model.install().name, played.over);
        let all = model.events();
        for event in &all[all.len().saturating_sub(30)..] {
            let shown: String = format!("{event:?}").chars().take(200).collect();
            let _ = writeln!(text, "    {shown}");
        }
        let _ = writeln!(text, "    now: {:?}, dimension {:?}, in world: {}", model.phase(), model.dimension(), model.is_in_world());
        text
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a player sees of a server: dimension, entity id, ids, tab list, objectives, teams. Ids only of a server with Forge.
type Seen = (Option<i32>, Option<i32>, Option<u64>, Vec<String>, Vec<String>, Vec<String>);

fn seen(model: &Model, setup: &Setup) -> Seen {
    let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    (
        model.dimension(),
        model.entity_id(),
        model.ids().filter(|_| setup.forge.is_some()),
        names(model.tab().collect()),
        names(model.objectives()),
        names(model.teams()),
    )
}

fn expected(setup: &Setup) -> Seen {
    let mut tab = setup.tab.clone();
    tab.sort();
    tab.dedup();
    (
        Some(setup.dimension),
        Some(setup.entity_id),
        setup.ids(),
        tab,
        setup.objective.iter().cloned().collect(),
        setup.team.iter().cloned().collect(),
    )
}

async fn play(shared: Arc<Shared<Played>>, mut stream: TcpStream, mut orders: mpsc::UnboundedReceiver<Vec<u8>>, pace: Pace) {
    let mut clock = tokio::time::interval(TICK);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut came = vec![0; 64 * 1024];
    let mut out = Vec::new();
    let over = loop {
        let mut turn = false;
        let read = tokio::select! {
            read = stream.read(&mut came) => match read {
                Ok(0) | Err(_) => break Over::Closed,
                Ok(read) => read,
            },
            Some(order) = orders.recv() => {
                out.extend_from_slice(&order);
                0
            }
            _ = clock.tick() => {
                turn = true;
                0
            }
        };
        let now = Instant::now();
        let done = {
            let mut played = shared.lock();
            let mut done = if read > 0 { played.model.receive(now, &came[..read], &mut out) } else { Ok(()) };
            if done.is_ok() && (turn || pace == Pace::AtOnce) {
                done = played.model.turn(now, &mut out);
            }
            done
        };
        if let Err(broken) = done {
            break Over::Broken(broken);
        }
        if read > 0 || turn {
            shared.moved();
        }
        if !out.is_empty() {
            // What cannot be written will not be read either.
            let _ = stream.write_all(&out).await;
            out.clear();
        }
    };
    shared.lock().over = Some(over);
    shared.moved();
}

/// A server, listening. It is gone when this is dropped.
pub struct Host {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared<Hosted>>,
    task: AbortHandle,
}

/// Where the server stops on this player's nth connection to it (from 0 on). The same whatever other players do.
pub type Plan = dyn Fn(&str, u32) -> Option<Fault> + Send + Sync;

struct Hosted {
    setup: Arc<Setup>,
    plan: Option<Arc<Plan>>,
    /// Connections so far, by player.
    counts: HashMap<String, u32>,
    connections: u32,
    events: Vec<(u32, Served)>,
    /// Connections, by number, and what gets bytes onto them.
    open: Vec<(u32, mpsc::UnboundedSender<Order>)>,
    keeps: bool,
}

enum Order {
    Say(String),
    Plugin(String, Vec<u8>),
    Packets(Vec<i32>),
    Kick(String),
    Release,
    Drop,
}

impl Host {
    /// Starts one on a free port.
    pub async fn start(setup: Setup) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Shared::new(Hosted {
            setup: Arc::new(setup),
            plan: None,
            counts: HashMap::new(),
            connections: 0,
            events: Vec::new(),
            open: Vec::new(),
            keeps: true,
        });
        let task = tokio::spawn(accept(shared.clone(), listener)).abort_handle();
        Host { address, shared, task }
    }

    /// As `--backend` takes it: NAME=HOST:PORT.
    pub fn backend(&self) -> String {
        format!("{}={}", self.setup().name, self.address)
    }

    /// What it is to whoever connects from here on.
    pub fn setup(&self) -> Arc<Setup> {
        self.shared.lock().setup.clone()
    }

    /// Changes what it is to whoever connects from here on.
    pub fn set(&self, change: impl FnOnce(&mut Setup)) {
        let mut hosted = self.shared.lock();
        change(Arc::make_mut(&mut hosted.setup));
    }

    /// Stops as the plan says, from here on.
    pub fn plan(&self, plan: impl Fn(&str, u32) -> Option<Fault> + Send + Sync + 'static) {
        self.shared.lock().plan = Some(Arc::new(plan));
    }

    /// Where it stops on this player's newest connection, by its plan.
    pub fn fault_of(&self, player: &str) -> Option<Fault> {
        let hosted = self.shared.lock();
        let nth = hosted.counts.get(player)?.checked_sub(1)?;
        hosted.plan.as_ref()?(player, nth)
    }

    /// Forgets what happened so far.
    pub fn forget_events(&self) {
        self.shared.lock().events.clear();
    }

    /// Keeps no record from here on, for tests of many connections.
    pub fn keep_no_events(&self) {
        let mut hosted = self.shared.lock();
        hosted.keeps = false;
        hosted.events = Vec::new();
    }

    /// Everything that happened: by connection, counted from 1.
    pub fn events(&self) -> Vec<(u32, Served)> {
        self.shared.lock().events.clone()
    }

    /// Waits until `find` makes something of an event. Panics if none comes.
    pub async fn until<T>(&self, what: &str, mut find: impl FnMut(u32, &Served) -> Option<T>) -> T {
        let found = self.shared.until(SOON, |hosted| hosted.events.iter().find_map(|(connection, served)| find(*connection, served))).await;
        found.unwrap_or_else(|| panic!("{} did not get to {what}\n{}", self.setup().name, self.log()))
    }

    /// Waits for a line of chat with this text.
    pub async fn chat(&self, text: &str) {
        self.until(&format!("the line {text:?}"), |_, served| matches!(served, Served::Chat(line) if line == text).then_some(())).await;
    }

    /// Waits until so many connections are open.
    pub async fn open(&self, count: usize) {
        let found = self.shared.until(SOON, |hosted| (hosted.open.len() == count).then_some(())).await;
        found.unwrap_or_else(|| panic!("{} has other than {count} connections\n{}", self.setup().name, self.log()));
    }

    /// Says a line to everybody on it.
    pub fn say(&self, text: &str) {
        self.order(|| Order::Say(text.into()));
    }

    /// Sends everybody a plugin message.
    pub fn plugin(&self, channel: &str, data: &[u8]) {
        self.order(|| Order::Plugin(channel.into(), data.to_vec()));
    }

    /// Sends everybody packets of a mod's, with these ids.
    pub fn packets(&self, ids: &[i32]) {
        self.order(|| Order::Packets(ids.to_vec()));
    }

    /// Whoever waits at a place goes on ([`super::server::How::Hold`]).
    pub fn release(&self) {
        self.order(|| Order::Release);
    }

    /// Disconnects everybody.
    pub fn kick(&self, reason: &str) {
        self.order(|| Order::Kick(reason.into()));
    }

    /// Closes all connections without a word.
    pub fn drop_all(&self) {
        self.order(|| Order::Drop);
    }

    fn order(&self, order: impl Fn() -> Order) {
        for (_, connection) in &self.shared.lock().open {
            let _ = connection.send(order());
        }
    }

    /// Panics if something came to it that a real server throws at, or that was not for it.
    pub fn assert_well(&self) {
        let bad = |served: &Served| {
            matches!(served, Served::Threw(_) | Served::Unregistered { .. } | Served::KeepAlive { known: false })
                || matches!(served, Served::Plugin { channel, .. } if channel == super::messages::HANDSHAKE)
        };
        let bad: Vec<_> = self.events().into_iter().filter(|(_, served)| bad(served)).collect();
        assert!(bad.is_empty(), "{}: {bad:?}\n{}", self.setup().name, self.log());
    }

    /// The end of what happened on it, for failure messages.
    pub fn log(&self) -> String {
        let hosted = self.shared.lock();
        let mut text = format!("  {}:\n", hosted.setup.name);
        for (connection, served) in &hosted.events[hosted.events.len().saturating_sub(40)..] {
            let shown: String = format!("{served:?}").chars().take(200).collect();
            let _ = writeln!(text, "    {connection}: {shown}");
        }
        text
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
        // The connections end with the senders of their orders.
        self.shared.lock().open.clear();
    }
}

async fn accept(shared: Arc<Shared<Hosted>>, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let (orders, received) = mpsc::unbounded_channel();
        let (number, setup) = {
            let mut hosted = shared.lock();
            hosted.connections += 1;
            let number = hosted.connections;
            hosted.open.push((number, orders));
            (number, hosted.setup.clone())
        };
        tokio::spawn(serve(shared.clone(), number, setup, stream, received));
    }
}

async fn serve(
    shared: Arc<Shared<Hosted>>,
    number: u32,
    setup: Arc<Setup>,
    mut stream: TcpStream,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let _ = stream.set_nodelay(true);
    let mut clock = tokio::time::interval(TICK);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut came = vec![0; 16 * 1024];
    let mut out = Vec::new();
    let choose = shared.lock().plan.clone().map(|plan| {
        let shared = shared.clone();
        let choose: Choose = Box::new(move |player: &str| {
            let mut hosted = shared.lock();
            let count = hosted.counts.entry(player.to_owned()).or_default();
            let nth = std::mem::replace(count, *count + 1);
            plan(player, nth)
        });
        choose
    });
    let (mut server, mut flow) = Server::new(setup, choose);
    loop {
        record(&shared, number, server.take_events());
        if !out.is_empty() {
            let _ = stream.write_all(&out).await;
            out.clear();
        }
        if flow == Flow::Close {
            break;
        }
        tokio::select! {
            read = stream.read(&mut came) => match read {
                Ok(0) | Err(_) => break,
                Ok(read) => flow = server.receive(Instant::now(), &came[..read], &mut out),
            },
            order = orders.recv() => match order {
                Some(Order::Say(text)) if server.is_playing() => server.say(&text, &mut out),
                Some(Order::Plugin(channel, data)) if server.is_playing() => super::messages::put_plugin(&mut out, 0x3f, &channel, &data),
                Some(Order::Packets(ids)) => {
                    ids.iter().for_each(|id| moonbridge_protocol::frame::put(&mut out, *id, |out| out.extend_from_slice(b"odd")));
                }
                Some(Order::Kick(reason)) => {
                    server.kick(&reason, &mut out);
                    flow = Flow::Close;
                }
                Some(Order::Release) => flow = server.release(Instant::now(), &mut out),
                Some(Order::Drop) | None => break,
                Some(_) => {}
            },
            _ = clock.tick() => server.tick(Instant::now(), &mut out),
        }
    }
    shared.lock().open.retain(|(open, _)| *open != number);
    record(&shared, number, vec![Served::Ended]);
}

fn record(shared: &Shared<Hosted>, number: u32, events: Vec<Served>) {
    if events.is_empty() {
        return;
    }
    let mut hosted = shared.lock();
    if hosted.keeps {
        hosted.events.extend(events.into_iter().map(|served| (number, served)));
    }
    drop(hosted);
    shared.moved();
}
