//! Nodes on paper: attached to a replica, they report players of whom there is nothing but what they report.

use std::time::Duration;

use anyhow::Context as _;
use moonbridge_proto::v1;
use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::node_message::Message as Up;
use moonbridge_proto::v1::node_service_client::NodeServiceClient;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use uuid::Uuid;

/// How often it gives a sign of life.
const BEAT: Duration = Duration::from_secs(1);

/// Players of one node; more of them at once would take a replica too long while it gives no sign of life yet.
const OF_ONE: usize = 500;

/// As many nodes as these players take, attached to the replica at this URL; each player is on a backend.
///
/// # Errors
/// If the replica does not take one.
pub async fn crowd(replica: &str, players: &[(String, &str)]) -> anyhow::Result<Vec<PaperNode>> {
    let mut nodes = Vec::new();
    for (index, players) in players.chunks(OF_ONE).enumerate() {
        nodes.push(PaperNode::attach(replica, &format!("paper-{index}"), players).await?);
    }
    Ok(nodes)
}

/// An attached node; it is gone when this is dropped.
#[derive(Debug)]
pub struct PaperNode(AbortHandle);

impl Drop for PaperNode {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PaperNode {
    async fn attach(replica: &str, name: &str, players: &[(String, &str)]) -> anyhow::Result<PaperNode> {
        let node = v1::Node { id: Uuid::now_v7().to_string(), name: name.to_owned(), ..v1::Node::default() };
        let sessions = players.iter().map(|(player, backend)| session(player, backend)).collect();
        let (say, said) = mpsc::channel(16);
        let hello = v1::Hello { node: Some(node.clone()), sessions, ..v1::Hello::default() };
        say.send(up(Up::Hello(hello))).await?;
        let mut hears = NodeServiceClient::connect(replica.to_owned()).await?.attach(ReceiverStream::new(said)).await?.into_inner();
        let first = hears.message().await?.and_then(|message| message.message);
        anyhow::ensure!(matches!(first, Some(Down::Welcome(_))), "expected a welcome, got {first:?}");
        let live = tokio::spawn(async move {
            if let Err(error) = live(node, say, hears).await {
                eprintln!("a node on paper has lost its replica: {error:#}");
            }
        });
        Ok(PaperNode(live.abort_handle()))
    }
}

/// Says that it is there, and takes whatever it is sent.
async fn live(node: v1::Node, say: mpsc::Sender<v1::NodeMessage>, mut hears: Streaming<v1::ControlMessage>) -> anyhow::Result<()> {
    let mut beat = tokio::time::interval(BEAT);
    loop {
        let answer = tokio::select! {
            _ = beat.tick() => Up::Heartbeat(v1::Heartbeat { node: Some(node.clone()) }),
            message = hears.message() => match message?.context("its stream has ended")?.message {
                Some(Down::Snapshot(v1::Snapshot { revision: Some(revision), .. })) => Up::Ack(revision),
                Some(Down::Delta(v1::SnapshotDelta { to: Some(revision), .. })) => Up::Ack(revision),
                _ => continue,
            },
        };
        say.send(up(answer)).await.context("its stream has ended")?;
    }
}

fn session(player: &str, backend: &str) -> v1::Session {
    let offline = Uuid::new_v3(&Uuid::NAMESPACE_DNS, player.as_bytes());
    v1::Session {
        id: Uuid::now_v7().to_string(),
        player: player.to_owned(),
        player_uuid: offline.to_string(),
        backend: backend.to_owned(),
        address: "192.0.2.1:50000".to_owned(),
        protocol: 5,
        ..v1::Session::default()
    }
}

fn up(message: Up) -> v1::NodeMessage {
    v1::NodeMessage { message: Some(message) }
}
