//! A player of an online-mode server: Encryption Request and Response, the shared secret, the cipher.

use std::net::SocketAddr;

use aes::Aes128;
use aes::cipher::KeyIvInit as _;
use anyhow::{Context as _, ensure};
use moonbridge_protocol::wire::Reader;
use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey as _;
use sha1::{Digest as _, Sha1};

use super::{Wire, string};
use crate::session_server::{Account, SessionServer};

/// Both directions of a connection under one secret, which is key and first vector in one.
pub(super) struct Ciphers {
    encryptor: cfb8::Encryptor<Aes128>,
    decryptor: cfb8::Decryptor<Aes128>,
}

impl Ciphers {
    fn new(secret: &[u8; 16]) -> Ciphers {
        let secret = secret.into();
        Ciphers { encryptor: cfb8::Encryptor::new(secret, secret), decryptor: cfb8::Decryptor::new(secret, secret) }
    }

    pub(super) fn encrypt(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        self.encryptor.encrypt(&mut bytes);
        bytes
    }

    pub(super) fn decrypt(&mut self, bytes: &mut [u8]) {
        self.decryptor.decrypt(bytes);
    }
}

/// An Encryption Request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Empty since 1.7; part of the hash all the same.
    pub server_id: String,
    /// The server's key: SubjectPublicKeyInfo, DER.
    pub public_der: Vec<u8>,
    /// To be sent back encrypted.
    pub token: Vec<u8>,
}

impl Request {
    fn read(payload: &[u8]) -> anyhow::Result<Request> {
        let mut reader = Reader::new(payload);
        let server_id = reader.string(20)?.to_owned();
        let mut rest = reader.rest();
        let (public_der, token) = (array(&mut rest)?, array(&mut rest)?);
        ensure!(rest.is_empty(), "{} bytes after the verify token", rest.len());
        Ok(Request { server_id, public_der, token })
    }

    /// These bytes as a client encrypts them for the server.
    pub fn seal(&self, bytes: &[u8]) -> Vec<u8> {
        let key = PublicKey::from_public_key_der(&self.public_der).expect("a public key in DER");
        key.pkcs1v15_encrypt(bytes).expect("at most 117 bytes")
    }

    /// What client and server call this connection at the session server.
    pub fn hash(&self, secret: &[u8; 16]) -> String {
        self.hash_of(secret)
    }

    fn hash_of(&self, secret: &[u8]) -> String {
        let digest: [u8; 20] =
            Sha1::new().chain_update(&self.server_id).chain_update(secret).chain_update(&self.public_der).finalize().into();
        // A signed number of 160 bits: the top 32 with the sign, the rest below.
        let high = i64::from(i32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]));
        let low = u128::from_be_bytes(digest[4..].try_into().expect("16 bytes"));
        let (sign, high, low) = match (high < 0, low) {
            (false, _) => ("", high, low),
            (true, 0) => ("-", -high, 0),
            (true, _) => ("-", -high - 1, low.wrapping_neg()),
        };
        if high == 0 { format!("{sign}{low:x}") } else { format!("{sign}{high:x}{low:032x}") }
    }
}

/// The payload of an Encryption Response.
pub fn response(secret: &[u8], token: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    for block in [secret, token] {
        payload.extend_from_slice(&i16::try_from(block.len()).expect("at most 32,767 bytes").to_be_bytes());
        payload.extend_from_slice(block);
    }
    payload
}

fn array(rest: &mut &[u8]) -> anyhow::Result<Vec<u8>> {
    let (length, after) = rest.split_first_chunk().context("no length")?;
    let length = usize::try_from(i16::from_be_bytes(*length))?;
    ensure!(after.len() >= length, "{length} bytes are announced, {} come", after.len());
    let (array, after) = after.split_at(length);
    *rest = after;
    Ok(array.to_vec())
}

impl Wire {
    /// From here on everything is encrypted, both ways.
    pub fn encrypt(&mut self, secret: &[u8; 16]) {
        let mut ciphers = Ciphers::new(secret);
        ciphers.decrypt(&mut self.came);
        self.ciphers = Some(ciphers);
    }

    /// As a player of protocol 5: up to the server's Encryption Request.
    pub async fn begin_online(address: SocketAddr, host: &str, name: &str) -> anyhow::Result<(Wire, Request)> {
        let mut player = Wire::connect(address).await?;
        player.handshake(5, host, 2).await?;
        player.send(0, &string(name)).await?;
        let (id, payload) = player.receive().await.context("waiting for Encryption Request")?;
        ensure!(id == 1, "packet {id:#04x} instead of Encryption Request: {}", String::from_utf8_lossy(&payload));
        Ok((player, Request::read(&payload)?))
    }

    /// As a player: a good answer to the request. Encrypted from here on.
    pub async fn answer(&mut self, request: &Request, secret: &[u8; 16]) -> anyhow::Result<()> {
        self.send(1, &response(&request.seal(secret), &request.seal(&request.token))).await?;
        self.encrypt(secret);
        Ok(())
    }

    /// As the player with this account: the whole login up to Join Game, whose payload is returned.
    pub async fn join_online(address: SocketAddr, sessions: &SessionServer, account: &Account) -> anyhow::Result<(Wire, Vec<u8>)> {
        let (mut player, request) = Wire::begin_online(address, "localhost", &account.name).await?;
        let secret = new_secret();
        sessions.join(account, &request.hash(&secret));
        player.answer(&request, &secret).await?;
        let (id, payload) = player.receive().await.context("waiting for Login Success")?;
        ensure!(id == 2, "packet {id:#04x} instead of Login Success: {}", String::from_utf8_lossy(&payload));
        let join = player.receive_id(1).await?;
        Ok((player, join))
    }
}

/// What a client that reads nothing but its own cipher sees in these bytes.
pub fn decrypted(secret: &[u8; 16], bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    Ciphers::new(secret).decrypt(&mut bytes);
    bytes
}

/// A shared secret as a client makes it.
pub fn new_secret() -> [u8; 16] {
    uuid::Uuid::new_v4().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known hashes: minecraft.wiki, "Protocol encryption".
    #[test]
    fn the_hash_is_signed() {
        for (text, hash) in [
            ("Notch", "4ed1f46bbe04bc756bcb17c0c7ce3e4632f06a48"),
            ("jeb_", "-7c9d5b0044c130109a5d7b5fb5c317c02b4e28c1"),
            ("simon", "88e16a1019277b15d58faf0541e11910eb756f6"),
        ] {
            let request = Request { server_id: text.to_owned(), public_der: Vec::new(), token: Vec::new() };
            assert_eq!(request.hash_of(&[]), hash);
        }
    }
}
