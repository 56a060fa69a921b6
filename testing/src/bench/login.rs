//! A real login of protocol 5, offline: both ends of it, up to and including Join Game.

use anyhow::{Context as _, bail, ensure};
use moonbridge_protocol::frame::{self, Frame};
use moonbridge_protocol::wire::{self, Reader};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Minecraft 1.7.6 to 1.7.10.
const PROTOCOL: i32 = 5;

/// The longest frame of a login here.
const LIMIT: usize = 32 * 1024;

/// Logs in as a player and reads up to Join Game; returns what came after it.
pub async fn player(stream: &mut TcpStream, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    let port = stream.peer_addr()?.port();
    frame::put(&mut out, 0x00, |out| {
        wire::put_varint(out, PROTOCOL);
        wire::put_string(out, "localhost");
        out.extend_from_slice(&port.to_be_bytes());
        wire::put_varint(out, 2);
    });
    frame::put(&mut out, 0x00, |out| wire::put_string(out, name));
    stream.write_all(&out).await?;

    let mut came = Vec::new();
    let (id, payload) = receive(stream, &mut came).await.context("waiting for Login Success")?;
    match id {
        0x02 => {}
        0x00 => bail!("the login was refused: {}", Reader::new(&payload).string(32_767)?),
        id => bail!("packet {id:#04x} where Login Success was due"),
    }
    loop {
        let (id, payload) = receive(stream, &mut came).await.context("waiting for Join Game")?;
        match id {
            0x01 => return Ok(came),
            0x40 => bail!("disconnected before Join Game: {}", Reader::new(&payload).string(32_767)?),
            _ => {}
        }
    }
}

/// Answers a login as a backend does, up to Join Game; returns what the player sent after it.
pub async fn backend(stream: &mut TcpStream) -> anyhow::Result<Vec<u8>> {
    let mut came = Vec::new();
    let (id, handshake) = receive(stream, &mut came).await.context("waiting for the handshake")?;
    ensure!(id == 0x00, "packet {id:#04x} where the handshake was due");
    let mut reader = Reader::new(&handshake);
    let protocol = reader.varint()?;
    ensure!(protocol == PROTOCOL, "protocol {protocol}, only {PROTOCOL} is spoken here");
    reader.string(255)?;
    reader.u16()?;
    ensure!(reader.varint()? == 2, "only logins are answered here");
    let (id, start) = receive(stream, &mut came).await.context("waiting for Login Start")?;
    ensure!(id == 0x00, "packet {id:#04x} where Login Start was due");
    let name = Reader::new(&start).string(16)?.to_owned();

    let mut out = Vec::new();
    frame::put(&mut out, 0x02, |out| {
        wire::put_string(out, &uuid::Uuid::from_u128(1).hyphenated().to_string());
        wire::put_string(out, &name);
    });
    frame::put(&mut out, 0x01, |out| {
        out.extend_from_slice(&1i32.to_be_bytes());
        // Survival, overworld, peaceful, 100 players.
        out.extend_from_slice(&[0, 0, 0, 100]);
        wire::put_string(out, "default");
    });
    stream.write_all(&out).await?;
    Ok(came)
}

/// The next frame; `came` holds what was read beyond it.
async fn receive(stream: &mut TcpStream, came: &mut Vec<u8>) -> anyhow::Result<(i32, Vec<u8>)> {
    loop {
        if let Some(Frame { id, payload, whole }) = frame::first(came, LIMIT)? {
            let frame = (id, payload.to_vec());
            let whole = whole.len();
            came.drain(..whole);
            return Ok(frame);
        }
        ensure!(stream.read_buf(came).await? > 0, "the connection was closed");
    }
}
