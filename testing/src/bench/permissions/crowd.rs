//! Players of protocol 5 that log in and stay, and the backend that they are on: both do no more than keep-alives ask for.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use moonbridge_protocol::frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::bench::login;

/// How often the backend asks.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Logins at a time.
const AT_ONCE: usize = 16;

/// A task that ends with this value.
#[derive(Debug)]
pub struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The backend, on a free port.
pub async fn backend() -> anyhow::Result<(Task, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A node that looks at its backends ends the connection before the login.
            tokio::spawn(serve(stream));
        }
    });
    Ok((Task(task.abort_handle()), address))
}

async fn serve(mut stream: TcpStream) -> anyhow::Result<()> {
    login::backend(&mut stream).await?;
    let (mut from, mut to) = stream.split();
    let mut sink = vec![0; 1024];
    let mut clock = tokio::time::interval(KEEP_ALIVE);
    let mut id = 1i32;
    loop {
        tokio::select! {
            read = from.read(&mut sink) => if read? == 0 { return Ok(()) },
            _ = clock.tick() => {
                let mut out = Vec::new();
                frame::put(&mut out, 0x00, |out| out.extend_from_slice(&id.to_be_bytes()));
                to.write_all(&out).await?;
                id = id.checked_add(1).unwrap_or(1);
            }
        }
    }
}

/// These players log in through the node and stay as long as what is returned.
pub async fn join(node: SocketAddr, names: &[String]) -> anyhow::Result<Vec<Task>> {
    let joining = futures::stream::iter(names).map(|name| async move {
        let playing = login::player(node, name, None).await.with_context(|| format!("{name} logs in"))?;
        Ok(Task(tokio::spawn(stay(playing.stream, playing.came)).abort_handle()))
    });
    joining.buffered(AT_ONCE).try_collect().await
}

/// Answers keep-alives.
async fn stay(mut stream: TcpStream, mut came: Vec<u8>) -> anyhow::Result<()> {
    loop {
        while let Some(frame) = frame::first(&came, frame::MAX_FRAME)? {
            let whole = frame.whole.len();
            if frame.id == 0x00 {
                let mut out = Vec::new();
                frame::put(&mut out, 0x00, |out| out.extend_from_slice(frame.payload));
                stream.write_all(&out).await?;
            }
            came.drain(..whole);
        }
        anyhow::ensure!(stream.read_buf(&mut came).await? > 0, "the connection was closed");
    }
}
