//! The backends: one that greets its players, asks them every 2 s whether they are there and echoes what they say; and one that writes
//! as much as it can.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};

use super::Kind;
use crate::bench::{frames, login};
use crate::model::messages::{Ids, Mod, mods};
use crate::model::server::{Flow, Server, Setup};

/// What a node whose buffers hold as much as they should reads at a time.
pub const SHORT_READ: u64 = 16 << 10;

/// Mods of a pack of some size, the loader's own among them.
const MODS: usize = 100;

/// Bytes of its numbers of blocks and items. The node keeps nothing of them but a fingerprint.
const IDS: u32 = 30_000;

/// The mods that server and clients of [`Kind::Forge`] have.
pub fn pack() -> Vec<Mod> {
    let mut pack = mods(&[("FML", "7.10.99.99"), ("Forge", "10.13.4.1614")]);
    pack.extend((pack.len()..MODS).map(|number| Mod {
        id: format!("some_mod_{number}"),
        version: format!("1.7.10-2.{number}.0"),
        required: true,
    }));
    pack
}

/// Greets, asks and echoes until the future is dropped, all on this thread (within a `LocalSet`).
///
/// # Errors
/// If nothing can be accepted any more.
pub async fn quiet(listener: TcpListener, kind: Kind) -> anyhow::Result<()> {
    let setup = Arc::new(match kind {
        Kind::Vanilla => Setup::vanilla("bench", 0),
        Kind::Forge => Setup::forge("bench", 0, pack(), &Ids::of_bytes(IDS, 256)),
    });
    loop {
        let (stream, peer) = listener.accept().await?;
        let setup = setup.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = host(stream, setup).await {
                eprintln!("the quiet backend: {peer}: {error:#}");
            }
        });
    }
}

async fn host(mut stream: TcpStream, setup: Arc<Setup>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut clock = interval(setup.keep_alive);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut server, _) = Server::new(setup, None);
    let (mut came, mut out) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            read = stream.read_buf(&mut came) => if read? == 0 { return Ok(()) },
            _ = clock.tick() => server.tick(Instant::now(), &mut out),
        }
        while let Some(next) = frames::next(&came)? {
            let whole: Vec<u8> = came.drain(..next.whole).collect();
            if next.ours {
                out.extend_from_slice(&whole);
            } else if server.receive(Instant::now(), &whole, &mut out) == Flow::Close {
                return Ok(());
            }
        }
        // Nobody asks what happened.
        server.take_events();
        stream.write_all(&out).await?;
        out.clear();
    }
}

/// Writes as much as each player's connection takes, from its first frame of the benchmark's own on, until the future is dropped.
///
/// # Errors
/// If nothing can be accepted any more.
pub async fn flooding(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            let (_, mut came) = login::backend(&mut stream).await?;
            while !has_ours(&mut came)? && stream.read_buf(&mut came).await? > 0 {}
            let flood = frames::Frames::new(1000, 0)?;
            let mut tick = Vec::new();
            (0..64).for_each(|number| flood.put(&mut tick, number, 0));
            loop {
                stream.write_all(&tick).await?;
            }
            #[expect(unreachable_code, reason = "says what the block's errors are")]
            anyhow::Ok(())
        });
    }
}

/// Takes whole frames off, up to one of the benchmark's own; says whether there was one.
fn has_ours(came: &mut Vec<u8>) -> anyhow::Result<bool> {
    while let Some(next) = frames::next(came)? {
        came.drain(..next.whole);
        if next.ours {
            return Ok(true);
        }
    }
    Ok(false)
}
