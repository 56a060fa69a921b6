//! A benchmark's own binary in one of its hidden roles, started by [`role`](super::processes::role).

use std::io::Read as _;

use tokio::net::TcpListener;

/// Listens, says where, and serves until standard input ends (with the process that started this one).
///
/// # Errors
/// If it cannot listen, or serving fails.
pub async fn serve<F: Future<Output = anyhow::Result<()>>>(serve: impl FnOnce(TcpListener) -> F) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
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
