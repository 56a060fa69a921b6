//! The relay over real sockets, to plain and to encrypted players.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use moonbridge_crypto::cfb8::{Encryptor, Secret};
use moonbridge_protocol::frame;
use moonbridge_protocol::walk::{Empty, HOLD, Verdict, WatchSet};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::flusher::{self, Counters};
use super::link::Link;
use super::{Halt, Rules, Sink, pump};
use crate::conn::Conn;
use crate::timer::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let near = TcpStream::connect(listener.local_addr().expect("address")).await.expect("connect");
    let (far, _) = listener.accept().await.expect("accept");
    (near, far)
}

fn secret(number: usize) -> Secret {
    let mut bytes = [7; 16];
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    Secret::new(bytes)
}

/// A session that does nothing but relay, until the backend ends its stream and all of it has been sent.
async fn relay(mut player: Link, mut backend: Link) {
    let rules = Rules { watch: WatchSet::default(), empty: Empty::Pass, hold: HOLD };
    let mut turn = |cx: &mut Context<'_>| {
        let _ = pump(cx, &mut player, &mut Sink::Link(&mut backend), rules, &mut 0, |_| Verdict::Pass);
        match pump(cx, &mut backend, &mut Sink::Link(&mut player), rules, &mut 0, |_| Verdict::Pass) {
            Poll::Ready(Halt::Ended) => player.out.poll_flush(cx),
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => {
                player.out.push(cx);
                Poll::Pending
            }
        }
    };
    poll_fn(&mut turn).await;
}

/// The two far ends of a session that relays; the player's is encrypted with the secret of this number, if any.
async fn session(number: Option<usize>) -> (Conn, Conn) {
    let (player, player_far) = pair().await;
    let (backend, backend_far) = pair().await;
    let (mut near, mut far) = (Conn::new(player), Conn::new(player_far));
    if let Some(number) = number {
        near.encrypt(&secret(number));
        far.encrypt(&secret(number));
    }
    tokio::spawn(relay(near.into_link(), Conn::new(backend).into_link()));
    (far, Conn::new(backend_far))
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + seed) as u8).collect()
}

/// Frames of these sizes, both ways, and what arrives of them.
async fn exchange(mut player: Conn, mut backend: Conn, sizes: &[usize], seed: usize) {
    let deadline = Instant::now() + PATIENCE;
    for (index, &size) in sizes.iter().enumerate() {
        let mut burst = Vec::new();
        let frames = if size < 1000 { 5 } else { 1 };
        for _ in 0..frames {
            frame::put(&mut burst, 0x50, |out| out.extend_from_slice(&bytes(size, seed + index)));
        }
        let (sent, received) = tokio::join!(backend.write(&burst, deadline), async {
            let mut received = Vec::new();
            for _ in 0..frames {
                received.push(player.frame(frame::MAX_FRAME, deadline).await.expect("a frame").payload);
            }
            received
        });
        sent.expect("sent");
        assert!(received.iter().all(|payload| *payload == bytes(size, seed + index)), "clientbound, {size} bytes");
        let (sent, received) = tokio::join!(player.write(&burst, deadline), async {
            let mut received = Vec::new();
            for _ in 0..frames {
                received.push(backend.frame(frame::MAX_FRAME, deadline).await.expect("a frame").payload);
            }
            received
        });
        sent.expect("sent");
        assert!(received.iter().all(|payload| *payload == bytes(size, seed + index)), "serverbound, {size} bytes");
    }
}

async fn forty_sessions(together: Option<bool>) -> Arc<Counters> {
    let counters: Arc<Counters> = Arc::default();
    if let Some(together) = together {
        flusher::set_up(counters.clone(), together);
        tokio::spawn(flusher::run());
    }
    let mut under_way = Vec::new();
    for number in 0..40 {
        let (player, backend) = session((number % 4 > 0).then_some(number)).await;
        let sizes = [0, 1, number, 33, 200, 1500, 70_000 + number, 17, 300_000, 1];
        under_way.push(tokio::spawn(async move { exchange(player, backend, &sizes, number).await }));
    }
    for exchange in under_way {
        timeout(PATIENCE, exchange).await.expect("in time").expect("what was sent arrives");
    }
    counters
}

#[tokio::test]
async fn plain_and_encrypted_players_get_what_was_sent_to_them() {
    let counters = forty_sessions(Some(true)).await;
    let batches = counters.batches.load(Ordering::Relaxed);
    let lines = counters.lines.load(Ordering::Relaxed);
    assert!(lines > batches, "some were encrypted together: {counters:?}");
    let by_lines: u64 = counters.batches_by_lines.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    assert_eq!(by_lines, batches);
    let sent: usize = (0..40).filter(|number| number % 4 > 0).map(|number| 370_000 + number).sum();
    assert!(counters.bytes.load(Ordering::Relaxed) as usize > sent);
}

#[tokio::test]
async fn players_that_are_encrypted_alone_get_the_same() {
    let counters = forty_sessions(Some(false)).await;
    assert_eq!(counters.lines.load(Ordering::Relaxed), counters.batches.load(Ordering::Relaxed));
}

#[tokio::test]
async fn without_a_flusher_sessions_encrypt_their_own() {
    forty_sessions(None).await;
}

#[tokio::test]
async fn a_player_that_does_not_read_holds_its_backend_back_and_nobody_else() {
    tokio::spawn(flusher::run());
    let (player, mut backend) = session(Some(1)).await;
    let mut chunk = Vec::new();
    frame::put(&mut chunk, 0x26, |out| out.extend_from_slice(&bytes(60_000, 1)));
    let mut sent = 0;
    // Until neither the sockets nor the line take more.
    while backend.write(&chunk, Instant::now() + Duration::from_millis(500)).await.is_ok() {
        sent += 1;
        assert!(sent < 2_000, "120 MB went somewhere");
    }
    let (other, other_backend) = session(Some(2)).await;
    exchange(other, other_backend, &[10, 1000], 3).await;
    // It reads again: everything that had been sent whole arrives.
    let mut player = player;
    let deadline = Instant::now() + PATIENCE;
    for _ in 0..sent {
        assert!(player.frame(frame::MAX_FRAME, deadline).await.expect("a frame").payload == bytes(60_000, 1));
    }
}

#[tokio::test]
async fn what_waits_behind_a_close_still_arrives_and_the_close_too() {
    tokio::spawn(flusher::run());
    let (mut player, mut backend) = session(Some(9)).await;
    let deadline = Instant::now() + PATIENCE;
    let mut last = Vec::new();
    frame::put(&mut last, 0x40, |out| out.extend_from_slice(b"bye"));
    backend.write(&last, deadline).await.expect("sent");
    drop(backend);
    assert_eq!(player.frame(100, deadline).await.expect("a frame").payload, b"bye");
    assert!(player.frame(100, deadline).await.is_err(), "the end");
}

#[tokio::test]
async fn the_wire_is_what_the_cipher_makes_of_it() {
    tokio::spawn(flusher::run());
    let (player, player_far) = pair().await;
    let mut near = Conn::new(player);
    near.encrypt(&secret(5));
    let mut link = near.into_link();
    for piece in [&b"one "[..], b"two ", b"three"] {
        link.out.write(|out| out.extend_from_slice(piece));
    }
    assert_eq!(link.out.len(), 13);
    timeout(PATIENCE, poll_fn(|cx| link.out.poll_flush(cx))).await.expect("flushed");
    let (stream, unread, out) = link.into_parts().expect("this thread's");
    assert!(unread.is_empty() && out.is_empty());
    drop(stream);
    let mut expected = b"one two three".to_vec();
    Encryptor::new(&secret(5)).encrypt(&mut expected);
    let (mut wire, mut far) = (Vec::new(), player_far);
    timeout(PATIENCE, far.read_to_end(&mut wire)).await.expect("in time").expect("read");
    assert_eq!(wire, expected);
}

/// Ticks of a busy server: every session's backend sends a burst, every player answers. Counts allocations once warm.
#[test]
fn warm_encrypted_sessions_allocate_nothing() {
    const SESSIONS: usize = 100;
    const ROUNDS: usize = 50;
    let runtime = crate::session::measure::runtime().expect("runtime");
    let mut burst = Vec::new();
    for index in 0..32 {
        frame::put(&mut burst, 0x50, |out| out.extend_from_slice(&bytes(31, index)));
    }
    let (rounds_done, mut done) = tokio::sync::mpsc::channel::<()>(1);
    let (begin_round, mut may_begin) = tokio::sync::mpsc::channel::<()>(1);
    let mut sessions = Vec::new();
    let mut far_ends = Vec::new();
    runtime.block_on(async {
        for number in 0..SESSIONS {
            let (player, player_far) = pair().await;
            let (backend, backend_far) = pair().await;
            let mut near = Conn::new(player);
            near.encrypt(&secret(number));
            sessions.push((near, Conn::new(backend)));
            far_ends.push((player_far.into_std().expect("std"), backend_far.into_std().expect("std")));
        }
    });
    // The far ends are on another thread, whose allocations are not counted.
    let peers = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut far_ends = far_ends;
        for (player, backend) in &far_ends {
            for socket in [player, backend] {
                socket.set_nonblocking(false).expect("blocking");
                socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
            }
        }
        let mut heard = vec![0; burst.len()];
        while may_begin.blocking_recv().is_some() {
            for _ in 0..ROUNDS {
                for (_, backend) in &mut far_ends {
                    backend.write_all(&burst).expect("sent");
                }
                for (player, _) in &mut far_ends {
                    player.read_exact(&mut heard).expect("read");
                    player.write_all(&heard).expect("answered");
                }
                for (_, backend) in &mut far_ends {
                    backend.read_exact(&mut heard).expect("read");
                }
            }
            rounds_done.blocking_send(()).expect("told");
        }
    });
    let counters: Arc<Counters> = Arc::default();
    flusher::set_up(counters.clone(), true);
    runtime.spawn(flusher::run());
    for (player, backend) in sessions {
        runtime.spawn(async { relay(player.into_link(), backend.into_link()).await });
    }
    let mut rounds = || {
        runtime.block_on(async {
            begin_round.send(()).await.expect("told");
            done.recv().await.expect("done");
        });
    };
    rounds();
    let lines = counters.lines.load(Ordering::Relaxed);
    let counted = allocation_counter::measure(&mut rounds);
    let flushed = counters.lines.load(Ordering::Relaxed) - lines;
    assert!(flushed as usize >= SESSIONS * ROUNDS / 2, "{flushed}");
    drop(begin_round);
    runtime.shutdown_background();
    peers.join().expect("peers");
    // The channels between the threads may allocate once each.
    assert!(counted.count_total <= 4, "{ROUNDS} ticks of {SESSIONS} sessions: {counted:?}");
}
