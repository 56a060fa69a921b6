//! What the hot path costs: no allocation, once it is warm.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use moonbridge_proto::snapshot::OnKick;
use moonbridge_protocol::frame;
use tokio::sync::oneshot;

use super::stage::{self, PATIENCE, v5};

/// A burst as in the session benchmark: 32 frames of 32 bytes, and a keep-alive and a message between plugins among them.
fn burst() -> Vec<u8> {
    let mut out = Vec::new();
    for index in 0..32u8 {
        frame::put(&mut out, 0x50, |out| out.extend_from_slice(&[index; 31]));
    }
    moonbridge_protocol::play::put_plugin_message_clientbound(&mut out, v5(), "WECUI", b"s|cuboid");
    moonbridge_protocol::play::put_keep_alive_clientbound(&mut out, v5(), 12345);
    out
}

/// Sends `rounds` bursts in pieces that cut frames apart, and reads what comes back for each.
fn exchange(player: &mut TcpStream, backend: &mut TcpStream, rounds: usize) {
    let burst = burst();
    let mut echo = vec![0; burst.len()];
    for _ in 0..rounds {
        let (head, tail) = burst.split_at(burst.len() / 2 + 3);
        for piece in [head, tail] {
            backend.write_all(piece).expect("written");
        }
        player.read_exact(&mut echo).expect("read");
        player.write_all(&echo).expect("written");
        backend.read_exact(&mut echo).expect("read");
        assert!(echo == burst, "the keep-alive came back with the backend's own id");
    }
}

#[test]
fn a_warm_session_allocates_nothing() {
    const WARM: usize = 50;
    const MEASURED: usize = 500;
    let backend = TcpListener::bind("127.0.0.1:0").expect("bind");
    let front = TcpListener::bind("127.0.0.1:0").expect("bind");
    let front_address = front.local_addr().expect("address");
    let (warm, is_warm) = oneshot::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let (done, is_done) = oneshot::channel();
    let address = backend.local_addr().expect("address").to_string();
    let peers = thread::spawn(move || {
        let mut player = TcpStream::connect(front_address).expect("connect");
        player.set_read_timeout(Some(PATIENCE)).expect("timeout");
        player.set_nodelay(true).expect("no delay");
        let mut hello = Vec::new();
        let greeting = moonbridge_protocol::handshake::Handshake {
            protocol: 5,
            host: "x",
            port: 1,
            next: moonbridge_protocol::handshake::Next::Login,
        };
        moonbridge_protocol::handshake::put(&mut hello, &greeting);
        moonbridge_protocol::login::put_login_start(&mut hello, "Steve");
        player.write_all(&hello).expect("written");
        let (mut backend, _) = backend.accept().expect("accept");
        backend.set_read_timeout(Some(PATIENCE)).expect("timeout");
        backend.set_nodelay(true).expect("no delay");
        let mut heard = vec![0; hello.len()];
        backend.read_exact(&mut heard).expect("read");
        let mut success = Vec::new();
        moonbridge_protocol::login::put_login_success(&mut success, v5(), moonbridge_protocol::name::offline_uuid("Steve"), "Steve");
        backend.write_all(&success).expect("written");
        let mut heard = vec![0; success.len()];
        player.read_exact(&mut heard).expect("read");
        exchange(&mut player, &mut backend, WARM);
        warm.send(()).expect("told");
        may_go_on.recv().expect("told");
        exchange(&mut player, &mut backend, MEASURED);
        done.send((player, backend)).expect("told");
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let (served, player_address) = front.accept().expect("accept");
    served.set_nonblocking(true).expect("nonblocking");
    served.set_nodelay(true).expect("no delay");
    let node = stage::node_with(vec![("lobby".into(), address)], OnKick::Fallback, |_| {});
    stage::plugin_channel(&node, "lobby", true);
    let _in_runtime = runtime.enter();
    let served = tokio::net::TcpStream::from_std(served).expect("registered");
    let place = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().expect("a place");
    let arrival = super::super::Arrival { stream: served, address: player_address, place, authenticator: None };
    let session = runtime.spawn(super::super::serve(node, arrival));
    runtime.block_on(is_warm).expect("warm");
    let mut sockets = None;
    let counted = allocation_counter::measure(|| {
        go_on.send(()).expect("told");
        sockets = Some(runtime.block_on(is_done).expect("done"));
    });
    drop(sockets);
    runtime.block_on(session).expect("ends").expect("without trouble");
    peers.join().expect("peers");
    // The peers live on another thread and are not counted; the channel between may allocate once.
    assert!(counted.count_total <= 2, "{MEASURED} bursts each way: {counted:?}");
}
