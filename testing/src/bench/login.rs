//! A real login of protocol 5: both ends of it, up to and including Join Game, the player's online if it is asked to.

use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Secret};
use moonbridge_crypto::login::server_hash;
use moonbridge_protocol::frame::{self, Frame};
use moonbridge_protocol::play;
use moonbridge_protocol::version::Version;
use moonbridge_protocol::wire::{self, Reader};
use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::session_server::SessionServer;

/// Minecraft 1.7.6 to 1.7.10.
const PROTOCOL: i32 = 5;

/// What a client says of itself: its language, and how it shows the world.
const SETTINGS: &[u8] = b"\x05en_US\x08\x00\x01\x01\x01";

/// The longest frame of a login here.
const LIMIT: usize = 32 * 1024;

/// A player that has come to Join Game, and answered it.
pub struct Playing {
    /// Its connection.
    pub stream: TcpStream,
    /// What came after Join Game, decrypted.
    pub came: Vec<u8>,
    /// For all that comes from here on.
    pub decrypt: Decrypt,
    /// For all that it says from here on.
    pub encrypt: Encrypt,
}

/// What decrypts a connection, if it is encrypted.
#[derive(Default)]
pub struct Decrypt(Option<Decryptor>);

/// What encrypts a connection, if it is to be.
#[derive(Default)]
pub struct Encrypt(Option<Encryptor>);

impl Decrypt {
    /// Makes these bytes, the next that came, readable in place.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        if let Some(decryptor) = &mut self.0 {
            decryptor.decrypt(bytes);
        }
    }
}

impl Encrypt {
    /// Makes these bytes, the next to go, ready in place.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        if let Some(encryptor) = &mut self.0 {
            encryptor.encrypt(bytes);
        }
    }
}

/// Logs in as a player and reads up to Join Game.
pub async fn player(target: SocketAddr, name: &str, session_server: Option<&SessionServer>) -> anyhow::Result<Playing> {
    let mut stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let mut out = Vec::new();
    frame::put(&mut out, 0x00, |out| {
        wire::put_varint(out, PROTOCOL);
        wire::put_string(out, "localhost");
        out.extend_from_slice(&target.port().to_be_bytes());
        wire::put_varint(out, 2);
    });
    frame::put(&mut out, 0x00, |out| wire::put_string(out, name));
    stream.write_all(&out).await?;

    let mut login = Login { stream, came: Vec::new(), decrypt: Decrypt::default(), encrypt: Encrypt::default() };
    loop {
        let (id, payload) = login.receive().await.context("waiting for Login Success")?;
        match (id, session_server) {
            (0x02, _) => break,
            (0x01, Some(server)) => login.authenticate(&payload, name, server).await.context("authenticating")?,
            (0x01, None) => bail!("the proxy asks for encryption, and this is an offline load"),
            (0x00, _) => bail!("the login was refused: {}", Reader::new(&payload).string(32_767)?),
            (id, _) => bail!("packet {id:#04x} where Login Success was due"),
        }
    }
    ensure!(session_server.is_none() || login.encrypt.0.is_some(), "the proxy let an online player in without asking who it is");
    let Login { stream, came, decrypt, encrypt } = login;
    let mut playing = Playing { stream, came, decrypt, encrypt };
    playing.join().await?;
    Ok(playing)
}

impl Playing {
    /// Reads up to the next Join Game, and answers it as the game does, with its settings.
    pub async fn join(&mut self) -> anyhow::Result<()> {
        loop {
            let (id, payload) = self.receive().await.context("waiting for Join Game")?;
            match id {
                0x01 => break,
                0x40 => bail!("disconnected before Join Game: {}", Reader::new(&payload).string(32_767)?),
                _ => {}
            }
        }
        let mut out = Vec::new();
        play::put_client_settings(&mut out, Version::newest(), SETTINGS);
        self.send(&mut out).await
    }

    /// The next frame, its id and its payload.
    pub async fn receive(&mut self) -> anyhow::Result<(i32, Vec<u8>)> {
        receive(&mut self.stream, &mut self.came, &mut self.decrypt).await
    }

    /// Sends frames, which are encrypted in place if they are to be.
    pub async fn send(&mut self, frames: &mut [u8]) -> anyhow::Result<()> {
        self.encrypt.apply(frames);
        Ok(self.stream.write_all(frames).await?)
    }
}

/// Answers a login as a backend does, up to Join Game; returns the player's name and what it sent after it.
pub async fn backend(stream: &mut TcpStream) -> anyhow::Result<(String, Vec<u8>)> {
    let mut came = Vec::new();
    let (id, handshake) = receive(stream, &mut came, &mut Decrypt::default()).await.context("waiting for the handshake")?;
    ensure!(id == 0x00, "packet {id:#04x} where the handshake was due");
    let mut reader = Reader::new(&handshake);
    let protocol = reader.varint()?;
    ensure!(protocol == PROTOCOL, "protocol {protocol}, only {PROTOCOL} is spoken here");
    reader.string(32_767)?;
    reader.u16()?;
    ensure!(reader.varint()? == 2, "only logins are answered here");
    let (id, start) = receive(stream, &mut came, &mut Decrypt::default()).await.context("waiting for Login Start")?;
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
    Ok((name, came))
}

/// The number at the end of a player's name, behind the `_`; both ends make its pattern from it.
pub fn number(name: &str) -> usize {
    name.rsplit_once('_').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// A player that is logging in.
struct Login {
    stream: TcpStream,
    came: Vec<u8>,
    decrypt: Decrypt,
    encrypt: Encrypt,
}

impl Login {
    async fn receive(&mut self) -> anyhow::Result<(i32, Vec<u8>)> {
        receive(&mut self.stream, &mut self.came, &mut self.decrypt).await
    }

    /// Answers an Encryption Request (of protocol 5: lengths are i16) as the game does: it tells the session server first.
    async fn authenticate(&mut self, request: &[u8], name: &str, server: &SessionServer) -> anyhow::Result<()> {
        let mut reader = Reader::new(request);
        let server_id = reader.string(20)?;
        let mut field = || {
            let length = reader.u16()?;
            reader.bytes(length.into())
        };
        let (public_der, token) = (field()?, field()?);
        let key = PublicKey::from_public_key_der(public_der).context("the public key")?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let sealed = [key.pkcs1v15_encrypt(&secret)?, key.pkcs1v15_encrypt(token)?];
        let secret = Secret::new(secret);
        server.join(&server.account(name), &server_hash(server_id, &secret, public_der));

        let mut out = Vec::new();
        frame::put(&mut out, 0x01, |out| {
            for sealed in &sealed {
                // An RSA-1024 block has 128 bytes.
                out.extend_from_slice(&(sealed.len() as u16).to_be_bytes());
                out.extend_from_slice(sealed);
            }
        });
        self.stream.write_all(&out).await?;
        ensure!(self.came.is_empty(), "something plain came behind the Encryption Request");
        self.decrypt = Decrypt(Some(Decryptor::new(&secret)));
        self.encrypt = Encrypt(Some(Encryptor::new(&secret)));
        Ok(())
    }
}

/// The next frame; `came` holds what was read beyond it.
async fn receive(stream: &mut TcpStream, came: &mut Vec<u8>, decrypt: &mut Decrypt) -> anyhow::Result<(i32, Vec<u8>)> {
    loop {
        if let Some(Frame { id, payload, whole }) = frame::first(came, LIMIT)? {
            let frame = (id, payload.to_vec());
            let whole = whole.len();
            came.drain(..whole);
            return Ok(frame);
        }
        let known = came.len();
        ensure!(stream.read_buf(came).await? > 0, "the connection was closed");
        decrypt.apply(&mut came[known..]);
    }
}
