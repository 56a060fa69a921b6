//! A replica on a runtime of its own, a client of it, and a node that does what the test says.

use std::path::Path;
use std::time::Duration;

use moonbridge_controlplane::Config;
use moonbridge_controlplane::config::StoreConfig;
use moonbridge_proto::token::Bearer;
use moonbridge_proto::v1::admin_service_client::AdminServiceClient;
use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::node_message::Message as Up;
use moonbridge_proto::v1::node_service_client::NodeServiceClient;
use moonbridge_proto::v1::{self, CommandState};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use uuid::Uuid;

/// Whatever a test waits for comes within this.
const SOON: Duration = Duration::from_secs(30);

/// Waits, but not for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} did not come within {SOON:?}"))
}

/// Asks again and again until the answer is there.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let answer = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(what, answer).await
}

/// A running replica.
pub(crate) struct Replica {
    pub(crate) url: String,
    shutdown: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
    runtime: Option<Runtime>,
}

impl Replica {
    pub(crate) async fn start(config: Config) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let shutdown = CancellationToken::new();
        let (sender, ready) = oneshot::channel();
        let mut running = runtime.spawn(moonbridge_controlplane::run(config, shutdown.clone(), sender));
        let ready = soon("the replica", async {
            tokio::select! {
                Ok(ready) = ready => ready,
                ended = &mut running => panic!("the replica has ended: {ended:?}"),
            }
        });
        let listen = ready.await.listen;
        Self { url: format!("http://{listen}"), shutdown, running, runtime: Some(runtime) }
    }

    /// One on an embedded store in this folder.
    pub(crate) async fn embedded(folder: &Path) -> Self {
        Self::start(config(StoreConfig::Embedded { data_dir: folder.to_owned() })).await
    }

    pub(crate) async fn channel(&self) -> Channel {
        Channel::from_shared(self.url.clone()).expect("a URL").connect().await.expect("the replica")
    }

    pub(crate) async fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel().await)
    }

    /// An admin with this token.
    pub(crate) async fn admin_with(&self, token: &str) -> AdminServiceClient<InterceptedService<Channel, Bearer>> {
        AdminServiceClient::with_interceptor(self.channel().await, Bearer::maybe(Some(token)))
    }

    /// Ends it in good order.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        let ended = soon("the replica's end", &mut self.running).await;
        ended.expect("no panic").expect("no error");
    }

    /// Ends it at once, with all its connections, whatever it is doing.
    pub(crate) fn kill(self) {}
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A configuration for tests: any port, and a short lease.
pub(crate) fn config(store: StoreConfig) -> Config {
    Config {
        name: "replica".to_owned(),
        listen: "127.0.0.1:0".parse().expect("an address"),
        lease: Duration::from_secs(2),
        store,
        ..Config::default()
    }
}

/// A node played by the test.
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) welcome: v1::Welcome,
    messages: Option<mpsc::Sender<v1::NodeMessage>>,
    incoming: Streaming<v1::ControlMessage>,
    heartbeats: JoinHandle<()>,
    sequence: u64,
}

/// How a node says hello; `Hello::new` is that of a fresh one.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) lease: i64,
    pub(crate) held: Option<v1::Revision>,
    pub(crate) sessions: Vec<v1::Session>,
    pub(crate) commands: Vec<v1::CommandUpdate>,
    pub(crate) claims: Vec<v1::Claim>,
    pub(crate) token: Option<String>,
}

impl Hello {
    pub(crate) fn new(name: &str) -> Self {
        let (sessions, commands, claims) = (Vec::new(), Vec::new(), Vec::new());
        Self { id: Uuid::now_v7().to_string(), name: name.to_owned(), lease: 0, held: None, sessions, commands, claims, token: None }
    }

    pub(crate) fn sessions(self, sessions: impl IntoIterator<Item = v1::Session>) -> Self {
        Self { sessions: sessions.into_iter().collect(), ..self }
    }

    fn message(&self) -> v1::NodeMessage {
        let node = v1::Node { id: self.id.clone(), name: self.name.clone(), ..v1::Node::default() };
        up(Up::Hello(v1::Hello {
            node: Some(node),
            lease_id: self.lease,
            held: self.held.clone(),
            sessions: self.sessions.clone(),
            commands: self.commands.clone(),
            claims: self.claims.clone(),
        }))
    }

    pub(crate) async fn attach(&self, replica: &Replica) -> Node {
        self.try_attach(replica).await.expect("attached")
    }

    /// Attaches, and gives signs of life from here on.
    pub(crate) async fn try_attach(&self, replica: &Replica) -> Result<Node, Status> {
        let (messages, mut incoming) = open_with(replica, self.message(), self.token.as_deref()).await?;
        let first = soon("the welcome", incoming.message()).await?.and_then(|message| message.message);
        let Some(Down::Welcome(welcome)) = first else { panic!("expected a welcome, got {first:?}") };
        let sender = messages.downgrade();
        let node = v1::Node { id: self.id.clone(), name: self.name.clone(), ..v1::Node::default() };
        let heartbeats = tokio::spawn(async move {
            while let Some(sender) = sender.upgrade() {
                let _ = sender.send(up(Up::Heartbeat(v1::Heartbeat { node: Some(node.clone()) }))).await;
                drop(sender);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Ok(Node { id: self.id.clone(), welcome, messages: Some(messages), incoming, heartbeats, sequence: 0 })
    }
}

/// A stream with this first message.
pub(crate) async fn open(
    replica: &Replica,
    first: v1::NodeMessage,
) -> Result<(mpsc::Sender<v1::NodeMessage>, Streaming<v1::ControlMessage>), Status> {
    open_with(replica, first, None).await
}

async fn open_with(
    replica: &Replica,
    first: v1::NodeMessage,
    token: Option<&str>,
) -> Result<(mpsc::Sender<v1::NodeMessage>, Streaming<v1::ControlMessage>), Status> {
    let channel = Channel::from_shared(replica.url.clone()).expect("a URL").connect().await;
    let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
    let (messages, outgoing) = mpsc::channel(64);
    messages.send(first).await.expect("an open channel");
    let incoming =
        NodeServiceClient::with_interceptor(channel, Bearer::maybe(token)).attach(ReceiverStream::new(outgoing)).await?.into_inner();
    Ok((messages, incoming))
}

pub(crate) fn up(message: Up) -> v1::NodeMessage {
    v1::NodeMessage { message: Some(message) }
}

impl Node {
    pub(crate) async fn send(&self, message: Up) {
        self.messages.as_ref().expect("open").send(up(message)).await.expect("a stream that is open");
    }

    /// The first message from here on that is wanted; others are passed over.
    pub(crate) async fn next<T>(&mut self, what: &str, mut want: impl FnMut(Down) -> Option<T>) -> T {
        let wanted = async {
            loop {
                let message = self.incoming.message().await.unwrap_or_else(|status| panic!("no {what}: {status}"));
                let message = message.unwrap_or_else(|| panic!("no {what}: the stream has ended"));
                if let Some(wanted) = message.message.and_then(&mut want) {
                    return wanted;
                }
            }
        };
        soon(what, wanted).await
    }

    /// The next push, not answered.
    pub(crate) async fn push(&mut self) -> Down {
        self.next("push", |message| matches!(message, Down::Snapshot(_) | Down::Delta(_)).then_some(message)).await
    }

    /// The next push, acknowledged: the revision it brings the node to.
    pub(crate) async fn take_push(&mut self) -> v1::Revision {
        let revision = revision_of(&self.push().await);
        self.send(Up::Ack(revision.clone())).await;
        revision
    }

    pub(crate) async fn command(&mut self) -> v1::Command {
        self.next("command", |message| if let Down::Command(command) = message { Some(command) } else { None }).await
    }

    /// Reports on a command.
    pub(crate) async fn report(&self, id: &str, state: CommandState, reason: &str) {
        self.send(Up::Command(update(id, state, reason))).await;
    }

    /// Sends session events and waits until they are in the store; what else comes until then is passed over.
    pub(crate) async fn events(&mut self, events: impl IntoIterator<Item = v1::session_event::Event>) {
        let sequence = self.send_events(events).await;
        let acknowledged = |message| matches!(message, Down::EventsAck(ack) if ack.sequence == sequence).then_some(());
        self.next("ack of events", acknowledged).await;
    }

    /// Sends session events: the sequence number that their ack will have.
    pub(crate) async fn send_events(&mut self, events: impl IntoIterator<Item = v1::session_event::Event>) -> u64 {
        self.sequence += 1;
        let events = events.into_iter().map(|event| v1::SessionEvent { event: Some(event) }).collect();
        self.send(Up::Events(v1::SessionEvents { sequence: self.sequence, events })).await;
        self.sequence
    }

    /// The status that the stream ends with.
    pub(crate) async fn end(mut self) -> Option<Status> {
        let end = async {
            loop {
                match self.incoming.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(status) => return Some(status),
                }
            }
        };
        soon("the stream's end", end).await
    }

    /// No more signs of life; the stream stays open.
    pub(crate) fn fall_silent(&self) {
        self.heartbeats.abort();
    }

    /// Says goodbye.
    pub(crate) async fn leave(mut self) {
        self.fall_silent();
        self.send(Up::Goodbye(v1::Goodbye {})).await;
        self.messages = None;
        let end = self.end().await;
        assert!(end.is_none(), "{end:?}");
    }

    /// The connection breaks.
    pub(crate) fn vanish(self) {
        self.fall_silent();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.heartbeats.abort();
    }
}

pub(crate) fn update(id: &str, state: CommandState, reason: &str) -> v1::CommandUpdate {
    let result = v1::CommandResult { reason: reason.to_owned(), ..v1::CommandResult::default() };
    v1::CommandUpdate { id: id.to_owned(), state: state.into(), result: Some(result) }
}

pub(crate) fn revision_of(push: &Down) -> v1::Revision {
    match push {
        Down::Snapshot(snapshot) => snapshot.revision.clone(),
        Down::Delta(delta) => delta.to.clone(),
        _ => None,
    }
    .expect("a revision")
}

pub(crate) fn session(player: &str, backend: &str) -> v1::Session {
    v1::Session {
        id: Uuid::now_v7().to_string(),
        player: player.to_owned(),
        player_uuid: Uuid::new_v3(&Uuid::NAMESPACE_DNS, player.as_bytes()).to_string(),
        backend: backend.to_owned(),
        ..v1::Session::default()
    }
}

pub(crate) async fn set_backend(admin: &mut AdminServiceClient<Channel>, name: &str) {
    let backend = v1::Backend { name: name.to_owned(), address: "127.0.0.1:25501".to_owned(), ..v1::Backend::default() };
    admin.set_backend(v1::SetBackendRequest { backend: Some(backend), keep_drained: true }).await.expect("a backend");
}

pub(crate) fn route(host: &str, backends: &[&str]) -> v1::SetRouteRequest {
    let backends = backends.iter().map(|name| (*name).to_owned()).collect();
    v1::SetRouteRequest { route: Some(v1::Route { host: host.to_owned(), backends, ..v1::Route::default() }) }
}

/// The names of all players.
pub(crate) async fn players(admin: &mut AdminServiceClient<Channel>) -> Vec<String> {
    let answer = admin.list_players(v1::ListPlayersRequest::default()).await.expect("players").into_inner();
    let mut names: Vec<_> = answer.players.into_iter().map(|session| session.player).collect();
    names.sort();
    names
}

pub(crate) async fn nodes(admin: &mut AdminServiceClient<Channel>) -> Vec<v1::Node> {
    admin.list_nodes(v1::ListNodesRequest::default()).await.expect("nodes").into_inner().nodes
}

/// The one command with this id.
pub(crate) async fn command(admin: &mut AdminServiceClient<Channel>, id: &str) -> v1::Command {
    let request = v1::ListCommandsRequest { ids: vec![id.to_owned()], ..v1::ListCommandsRequest::default() };
    admin.list_commands(request).await.expect("commands").into_inner().commands.remove(0)
}

pub(crate) fn transfer(players: &[&str], to: &str) -> v1::StartTransfersRequest {
    let players = players.iter().map(|player| (*player).to_owned()).collect();
    v1::StartTransfersRequest { players, to: to.to_owned(), origin: "test".to_owned(), ..v1::StartTransfersRequest::default() }
}

/// The status a call was refused with: this code, and these words in its message.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<tonic::Response<T>, Status>, code: Code, words: &[&str]) {
    let status = result.expect_err("a refusal");
    assert_eq!(status.code(), code, "{status:?}");
    for word in words {
        assert!(status.message().contains(word), "{word:?} not in {:?}", status.message());
    }
}
