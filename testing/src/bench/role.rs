//! A benchmark's own binary in one of its hidden roles, started by [`role`](super::processes::role).

use std::io::Read as _;

use tokio::net::{TcpListener, ToSocketAddrs};

/// Listens at a free port of this machine's own, says where, and serves until standard input ends (with the process that started
/// this one).
///
/// # Errors
/// If it cannot listen, or serving fails.
pub async fn serve<F: Future<Output = anyhow::Result<()>>>(serve: impl FnOnce(TcpListener) -> F) -> anyhow::Result<()> {
    serve_at("127.0.0.1:0", serve).await
}

/// The same at an address.
///
/// # Errors
/// As [`serve`].
pub async fn serve_at<F: Future<Output = anyhow::Result<()>>>(
    listen: impl ToSocketAddrs,
    serve: impl FnOnce(TcpListener) -> F,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("{}", listener.local_addr()?);
    let (ended, parent_ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        drop(ended);
    });
    tokio::select! {
        ended = serve(listener) => ended,
        _ = parent_ended => Ok(()),
    }
}
