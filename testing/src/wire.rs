//! A player and a backend of protocol 5 that do exactly what a test tells them, bad things above all.
//!
//! Written over frames alone, so that it shares no packet code with what it tests; in online mode ([`online`]) over the ciphers of RustCrypto.

pub mod online;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use moonbridge_protocol::wire::Reader;
use moonbridge_protocol::{frame, wire};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use self::online::Ciphers;
use crate::process::SOON;

/// A connection and what has come on it beyond the last frame taken.
pub struct Wire {
    stream: TcpStream,
    /// Decrypted.
    came: Vec<u8>,
    ciphers: Option<Ciphers>,
}

/// How a connection ended, seen from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Closed or reset, after these bytes.
    Closed(Vec<u8>),
    /// Still open when the time was over.
    Open,
}

impl Wire {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> anyhow::Result<Wire> {
        Ok(Wire::over(TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?))
    }

    /// Takes the next connection.
    pub async fn accept(listener: &TcpListener) -> anyhow::Result<Wire> {
        let (stream, _) = tokio::time::timeout(SOON, listener.accept()).await.context("nobody connected")??;
        Ok(Wire::over(stream))
    }

    /// Takes the next connection, whenever it comes.
    pub async fn accept_any(listener: &TcpListener) -> anyhow::Result<Wire> {
        Ok(Wire::over(listener.accept().await?.0))
    }

    fn over(stream: TcpStream) -> Wire {
        Wire { stream, came: Vec::new(), ciphers: None }
    }

    /// Writes these bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(ciphers) = &mut self.ciphers else { return Ok(self.stream.write_all(bytes).await?) };
        let encrypted = ciphers.encrypt(bytes);
        Ok(self.stream.write_all(&encrypted).await?)
    }

    /// Writes a frame.
    pub async fn send(&mut self, id: i32, payload: &[u8]) -> anyhow::Result<()> {
        let mut out = Vec::new();
        frame::put(&mut out, id, |out| out.extend_from_slice(payload));
        self.write(&out).await
    }

    /// The next frame's id and payload.
    pub async fn receive(&mut self) -> anyhow::Result<(i32, Vec<u8>)> {
        tokio::time::timeout(SOON, self.next()).await.context("no frame came")?
    }

    /// Waits until so many bytes have come, without taking them.
    pub async fn peek(&mut self, bytes: usize) -> anyhow::Result<()> {
        while self.came.len() < bytes {
            let read = tokio::time::timeout(SOON, self.read()).await.context("no bytes came")??;
            ensure!(read > 0, "the connection was closed");
        }
        Ok(())
    }

    /// Reads up to the next frame with this id, past any other.
    pub async fn receive_id(&mut self, wanted: i32) -> anyhow::Result<Vec<u8>> {
        loop {
            let (id, payload) = self.receive().await.with_context(|| format!("waiting for packet {wanted:#04x}"))?;
            if id == wanted {
                return Ok(payload);
            }
        }
    }

    async fn next(&mut self) -> anyhow::Result<(i32, Vec<u8>)> {
        loop {
            if let Some(frame) = frame::first(&self.came, frame::MAX_FRAME)? {
                let (taken, whole) = ((frame.id, frame.payload.to_vec()), frame.whole.len());
                self.came.drain(..whole);
                return Ok(taken);
            }
            ensure!(self.read().await? > 0, "the connection was closed");
        }
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        let read = self.stream.read_buf(&mut self.came).await?;
        if let Some(ciphers) = &mut self.ciphers {
            let before = self.came.len() - read;
            ciphers.decrypt(&mut self.came[before..]);
        }
        Ok(read)
    }

    /// Waits for the other side to close, reading all that comes before.
    pub async fn ending(&mut self, within: Duration) -> Ending {
        let read = async {
            loop {
                match self.read().await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        match tokio::time::timeout(within, read).await {
            Ok(()) => Ending::Closed(std::mem::take(&mut self.came)),
            Err(_) => Ending::Open,
        }
    }

    /// As a player: the handshake.
    pub async fn handshake(&mut self, protocol: i32, host: &str, next: i32) -> anyhow::Result<()> {
        let port = self.stream.peer_addr()?.port();
        self.send(0, &handshake(protocol, host, port, next)).await
    }

    /// As a player: handshake and Login Start of protocol 5, up to Join Game, whose payload is returned.
    pub async fn join(address: SocketAddr, host: &str, name: &str) -> anyhow::Result<(Wire, Vec<u8>)> {
        let mut player = Wire::connect(address).await?;
        player.handshake(5, host, 2).await?;
        player.send(0, &string(name)).await?;
        let (id, payload) = player.receive().await.context("waiting for Login Success")?;
        ensure!(id == 2, "packet {id:#04x} instead of Login Success: {}", String::from_utf8_lossy(&payload));
        let join = player.receive_id(1).await?;
        Ok((player, join))
    }

    /// As a backend: reads handshake and Login Start; returns the handshake's host and the player's name.
    pub async fn login(&mut self) -> anyhow::Result<(String, String)> {
        let (_, handshake) = self.receive().await?;
        let mut reader = Reader::new(&handshake);
        reader.varint()?;
        let host = reader.string(32_767)?.to_owned();
        let (_, start) = self.receive().await?;
        Ok((host, Reader::new(&start).string(32_767)?.to_owned()))
    }

    /// As a backend: Login Success.
    pub async fn login_success(&mut self, name: &str) -> anyhow::Result<()> {
        let uuid = string("00000000-0000-3000-8000-000000000000");
        self.send(2, &[uuid, string(name)].concat()).await
    }

    /// As a backend: Join Game and a position.
    pub async fn join_game(&mut self, entity: i32, dimension: i8) -> anyhow::Result<()> {
        self.send(1, &join_game(entity, dimension)).await
    }
}

/// A string as it is on the wire.
pub fn string(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_string(&mut out, text);
    out
}

/// The payload of a handshake.
pub fn handshake(protocol: i32, host: &str, port: u16, next: i32) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_varint(&mut out, protocol);
    wire::put_string(&mut out, host);
    out.extend_from_slice(&port.to_be_bytes());
    wire::put_varint(&mut out, next);
    out
}

/// The payload of a Join Game.
pub fn join_game(entity: i32, dimension: i8) -> Vec<u8> {
    let mut out = entity.to_be_bytes().to_vec();
    out.extend_from_slice(&[0, dimension.to_be_bytes()[0], 1, 20]);
    wire::put_string(&mut out, "default");
    out
}

/// The reason in a Disconnect that ends these bytes, if there is one.
pub fn reason(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    let mut found = None;
    while let Ok(Some(frame)) = frame::first(rest, frame::MAX_FRAME) {
        if matches!(frame.id, 0x00 | 0x40) {
            found = Reader::new(frame.payload).string(32_767).ok().map(str::to_owned).or(found);
        }
        rest = rest.get(frame.whole.len()..)?;
    }
    found
}
