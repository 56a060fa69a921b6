//! A replica whose every message the test writes and reads.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use moonbridge_proto::v1::node_service_server::{NodeService, NodeServiceServer};
use moonbridge_proto::v1::{self, control_message::Message as Down, node_message::Message as Up};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// What is awaited comes well before this.
const SOON: Duration = Duration::from_secs(10);

pub(super) async fn soon<F: Future>(future: F) -> F::Output {
    crate::timer::timeout(SOON, future).await.expect("it happens in time")
}

/// A listening replica; each stream that is opened waits for the test to take it.
pub(super) struct Replica {
    address: SocketAddr,
    calls: mpsc::Receiver<Call>,
    server: JoinHandle<()>,
}

/// One node stream, from the replica's side. Dropping it ends the stream.
pub(super) struct Call {
    pub(super) authorization: Option<String>,
    incoming: Streaming<v1::NodeMessage>,
    outgoing: mpsc::Sender<Result<v1::ControlMessage, Status>>,
}

impl Replica {
    pub(super) async fn start() -> Self {
        Self::start_on(tonic::transport::Server::builder()).await
    }

    pub(super) async fn start_on(mut builder: tonic::transport::Server) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (taken, calls) = mpsc::channel(64);
        let serve = builder.add_service(NodeServiceServer::new(Service { taken }));
        let server = tokio::spawn(async move {
            serve.serve_with_incoming(TcpListenerStream::new(listener)).await.expect("serves");
        });
        Self { address, calls, server }
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next stream that a node opens.
    pub(super) async fn call(&mut self) -> Call {
        soon(self.calls.recv()).await.expect("a stream")
    }

    /// Whether a stream was opened that the test has not taken.
    pub(super) fn was_called(&mut self) -> bool {
        self.calls.try_recv().is_ok()
    }

    /// The next stream, its Hello answered.
    pub(super) async fn welcomed(&mut self, lease_id: i64) -> (Call, v1::Hello) {
        let mut call = self.call().await;
        let hello = call.hello().await;
        call.send(Down::Welcome(v1::Welcome { replica: "cp-1".into(), lease_id, lease_seconds: 10, ..Default::default() })).await;
        (call, hello)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Call {
    pub(super) async fn hello(&mut self) -> v1::Hello {
        match self.any().await {
            Up::Hello(hello) => hello,
            other => panic!("expected a hello, got {other:?}"),
        }
    }

    /// The next message.
    pub(super) async fn any(&mut self) -> Up {
        let message = soon(self.incoming.message()).await.expect("a stream in order").expect("a message");
        message.message.expect("not empty")
    }

    /// The next message that is no heartbeat.
    pub(super) async fn next(&mut self) -> Up {
        soon(async {
            loop {
                match self.any().await {
                    Up::Heartbeat(_) => {}
                    other => return other,
                }
            }
        })
        .await
    }

    pub(super) async fn events(&mut self) -> v1::SessionEvents {
        match self.next().await {
            Up::Events(events) => events,
            other => panic!("expected events, got {other:?}"),
        }
    }

    pub(super) async fn send(&mut self, message: Down) {
        assert!(self.try_send(message).await, "the node is gone");
    }

    /// Whether the node still took it.
    pub(super) async fn try_send(&mut self, message: Down) -> bool {
        soon(self.outgoing.send(Ok(v1::ControlMessage { message: Some(message) }))).await.is_ok()
    }

    /// Ends the stream with an error.
    pub(super) async fn fail(self, status: Status) {
        let _ = soon(self.outgoing.send(Err(status))).await;
    }

    /// The node says goodbye and ends the stream in good order.
    pub(super) async fn ended(&mut self) {
        let mut said = false;
        soon(async {
            loop {
                match self.incoming.message().await.expect("a stream in order") {
                    None => return assert!(said, "no goodbye"),
                    Some(v1::NodeMessage { message: Some(Up::Heartbeat(_)) }) => {}
                    Some(v1::NodeMessage { message: Some(Up::Goodbye(_)) }) => said = true,
                    Some(other) => panic!("expected the end, got {other:?}"),
                }
            }
        })
        .await
    }
}

struct Service {
    taken: mpsc::Sender<Call>,
}

#[tonic::async_trait]
impl NodeService for Service {
    type AttachStream = ReceiverStream<Result<v1::ControlMessage, Status>>;

    async fn attach(&self, request: Request<Streaming<v1::NodeMessage>>) -> Result<Response<Self::AttachStream>, Status> {
        let authorization = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (outgoing, messages) = mpsc::channel(64);
        let call = Call { authorization, incoming: request.into_inner(), outgoing };
        self.taken.send(call).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
