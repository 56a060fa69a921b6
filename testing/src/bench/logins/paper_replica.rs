//! A replica on paper: it takes in one node, gives it one backend, and answers every claim at once. Nothing is stored anywhere.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use moonbridge_proto::v1;
use moonbridge_proto::v1::control_message::Message as Down;
use moonbridge_proto::v1::node_message::Message as Up;
use moonbridge_proto::v1::node_service_server::{NodeService, NodeServiceServer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{interval, timeout};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// How often it says that it is there.
const BEAT: Duration = Duration::from_secs(1);

/// How long a node may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A listening replica; ends when dropped.
pub struct PaperReplica {
    address: SocketAddr,
    in_force: watch::Receiver<bool>,
    serving: AbortHandle,
}

impl Drop for PaperReplica {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl PaperReplica {
    /// Starts it on a free port, with a route for every host to this backend.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(backend: SocketAddr) -> anyhow::Result<PaperReplica> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (told, in_force) = watch::channel(false);
        let service = NodeServiceServer::new(Paper { backend, in_force: told });
        let serving = tonic::transport::Server::builder().tcp_nodelay(true).add_service(service);
        let serving = tokio::spawn(async move {
            if let Err(error) = serving.serve_with_incoming(TcpListenerStream::new(listener)).await {
                eprintln!("the replica on paper has ended: {error}");
            }
        });
        Ok(PaperReplica { address, in_force, serving: serving.abort_handle() })
    }

    /// For a node's `control`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until its node runs on what it gave it.
    ///
    /// # Errors
    /// If it does not.
    pub async fn attached(&self) -> anyhow::Result<()> {
        let mut in_force = self.in_force.clone();
        timeout(PATIENCE, in_force.wait_for(|in_force| *in_force)).await.context("no node came")??;
        Ok(())
    }
}

struct Paper {
    backend: SocketAddr,
    in_force: watch::Sender<bool>,
}

type Answers = mpsc::Sender<Result<v1::ControlMessage, Status>>;

#[tonic::async_trait]
impl NodeService for Paper {
    type AttachStream = ReceiverStream<Result<v1::ControlMessage, Status>>;

    async fn attach(&self, request: Request<Streaming<v1::NodeMessage>>) -> Result<Response<Self::AttachStream>, Status> {
        let (answers, outgoing) = mpsc::channel(1024);
        let (snapshot, in_force) = (snapshot(self.backend), self.in_force.clone());
        tokio::spawn(async move {
            // The node has gone, or will say why it goes.
            let _ = converse(request.into_inner(), answers, snapshot, in_force).await;
        });
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }
}

async fn converse(
    mut node: Streaming<v1::NodeMessage>,
    answers: Answers,
    snapshot: v1::Snapshot,
    in_force: watch::Sender<bool>,
) -> anyhow::Result<()> {
    let mut beat = interval(BEAT);
    let say = async |message| answers.send(Ok(v1::ControlMessage { message: Some(message) })).await;
    loop {
        let message = tokio::select! {
            message = node.message() => message?.context("it has gone")?.message,
            _ = beat.tick() => {
                say(Down::Heartbeat(v1::ReplicaHeartbeat {})).await?;
                continue;
            }
        };
        match message {
            Some(Up::Hello(_)) => {
                say(Down::Welcome(v1::Welcome { replica: "paper".to_owned(), lease_seconds: 10, ..v1::Welcome::default() })).await?;
                say(Down::Snapshot(snapshot.clone())).await?;
            }
            Some(Up::Ack(_)) => {
                in_force.send_replace(true);
            }
            Some(Up::Claim(claim)) => say(Down::ClaimAnswer(held(claim, &snapshot))).await?,
            Some(Up::Events(v1::SessionEvents { sequence, .. })) => say(Down::EventsAck(v1::EventsAck { sequence })).await?,
            Some(Up::Nack(nack)) => anyhow::bail!("the snapshot is not taken: {nack:?}"),
            _ => {}
        }
    }
}

/// The player is this session's, and has nothing of its own.
fn held(claim: v1::Claim, snapshot: &v1::Snapshot) -> v1::ClaimAnswer {
    let permissions = v1::UserPermissions {
        player_uuid: claim.player_uuid,
        revision: snapshot.revision.clone(),
        generation: snapshot.permission_generation.clone(),
        ..v1::UserPermissions::default()
    };
    v1::ClaimAnswer { session_id: claim.session_id, held: true, players_elsewhere: 0, permissions: Some(permissions) }
}

fn snapshot(backend: SocketAddr) -> v1::Snapshot {
    let backend = v1::Backend {
        name: "bench".to_owned(),
        address: backend.to_string(),
        forwarding: v1::Forwarding::None.into(),
        ..v1::Backend::default()
    };
    let route = v1::Route { host: "*".to_owned(), backends: vec![backend.name.clone()], on_kick: v1::OnKick::Disconnect.into() };
    v1::Snapshot {
        revision: Some(v1::Revision { store_id: "paper".to_owned(), number: 1 }),
        settings: Some(v1::Settings::default()),
        backends: vec![backend],
        routes: vec![route],
        ..v1::Snapshot::default()
    }
}
