//! A session server that says whatever a test wants, byte for byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// In whatever a session server says that is no good answer.
pub(crate) const CANARY: &str = "canary-of-the-session-server";

/// What a request gets.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// These bytes, and the next request on the same connection.
    Bytes(Vec<u8>),
    /// These bytes and the end of the connection.
    Last(Vec<u8>),
    /// These bytes over and over.
    Endless(Vec<u8>),
    /// Nothing.
    Silence,
    /// The end of the connection.
    Close,
}

/// Listens until it is dropped. Requests are answered with the script's entries in turn, the last one for ever.
pub(crate) struct Responder {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    script: Vec<Say>,
    heads: Mutex<Vec<String>>,
    connections: AtomicUsize,
    /// Requests that have come, and those of them that are open.
    came: watch::Sender<(usize, usize)>,
}

impl Responder {
    pub(crate) async fn start(script: Vec<Say>) -> Responder {
        Responder::start_with(script, None).await
    }

    /// Behind TLS, if `tls` is given.
    pub(crate) async fn start_with(script: Vec<Say>, tls: Option<TlsAcceptor>) -> Responder {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("address");
        let came = watch::Sender::new((0, 0));
        let shared = Arc::new(Shared { script, heads: Mutex::default(), connections: AtomicUsize::new(0), came });
        let own = shared.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                own.connections.fetch_add(1, Ordering::Relaxed);
                let (own, tls) = (own.clone(), tls.clone());
                connections.spawn(async move {
                    let Some(tls) = tls else { return own.serve(stream).await };
                    // A client that does not trust us makes no request.
                    if let Ok(stream) = tls.accept(stream).await {
                        own.serve(stream).await;
                    }
                });
            }
        });
        Responder { address, shared, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.shared.heads.lock().expect("no panic").clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Waits until so many requests have come and so many of them wait for their answer or for the client to go.
    pub(crate) async fn until(&self, came: usize, open: usize) {
        let mut watch = self.shared.came.subscribe();
        let reached = watch.wait_for(|now| *now == (came, open));
        crate::timer::timeout(std::time::Duration::from_secs(10), reached).await.expect("in time").expect("it runs");
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            head.push(byte);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            let say = {
                let mut heads = self.heads.lock().expect("no panic");
                heads.push(String::from_utf8(std::mem::take(&mut head)).expect("text"));
                self.script[(heads.len() - 1).min(self.script.len() - 1)].clone()
            };
            self.came.send_modify(|(came, open)| (*came, *open) = (*came + 1, *open + 1));
            let goes_on = self.say(&mut stream, &say).await;
            self.came.send_modify(|(_, open)| *open -= 1);
            if !goes_on {
                return;
            }
        }
    }

    async fn say(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin), say: &Say) -> bool {
        match say {
            Say::Bytes(bytes) => stream.write_all(bytes).await.is_ok(),
            Say::Last(bytes) => {
                let _ = stream.write_all(bytes).await;
                false
            }
            Say::Endless(bytes) => {
                while stream.write_all(bytes).await.is_ok() {}
                false
            }
            Say::Silence => {
                let _ = stream.read_u8().await;
                false
            }
            Say::Close => false,
        }
    }
}

/// An answer with this status line's end and body.
pub(crate) fn http(status: &str, body: &str) -> Say {
    Say::Bytes(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// The profile of an account.
pub(crate) fn profile(id: &str, name: &str) -> String {
    format!(
        r#"{{"id":"{id}","name":"{name}","properties":[{{"name":"textures","value":"dGV4dHVyZXM=","signature":"c2lnbmF0dXJl"}}],"profileActions":[]}}"#
    )
}
