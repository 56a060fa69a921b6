//! Who a player is, in online mode: the key exchange, and the session server's word for it. Source: minecraft.wiki, "Protocol
//! encryption".
//!
//! Sessions live on relay workers, where nothing may take long. RSA runs on threads of the main runtime that may block, and
//! HTTP on the main runtime itself; a worker only waits.

mod profile;
mod refusal;
mod session_server;
#[cfg(test)]
pub(crate) mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context;
use moonbridge_crypto::cfb8::Secret;
use moonbridge_crypto::login::{LoginError, LoginKey, server_hash};
use moonbridge_protocol::login::EncryptionResponse;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::profile::Profile;
pub(crate) use self::refusal::Refusal;
use self::session_server::Client;
use crate::config;

/// What the server calls itself in the key exchange; nothing, since 1.7.
pub(crate) const SERVER_ID: &str = "";

/// Key exchanges at a time. One takes about a millisecond: two serve more logins than there will be, and forged ones cannot
/// take more than two cores.
const OPENERS: usize = 2;

/// What it takes to find out who players are.
pub(crate) struct Authenticator {
    key: Arc<LoginKey>,
    openers: Arc<Semaphore>,
    client: Arc<Client>,
    /// The main runtime.
    runtime: Handle,
}

/// What is wrong with an Encryption Response.
#[derive(Debug)]
pub(crate) enum BadResponse {
    /// Its token; with the secret, if that is one.
    Token(Option<Secret>),
    /// Its secret.
    Secret,
    /// The node could not look at it.
    Unread,
}

impl Authenticator {
    /// Makes a key. To be called on the main runtime.
    pub(crate) async fn start(config: &config::SessionServer) -> anyhow::Result<Authenticator> {
        let key = spawn_blocking(LoginKey::generate).await??;
        Ok(Authenticator {
            key: Arc::new(key),
            openers: Arc::new(Semaphore::new(OPENERS)),
            client: Arc::new(Client::new(config).context("session_server")?),
            runtime: Handle::current(),
        })
    }

    /// The public key, as it goes to the client.
    pub(crate) fn public_der(&self) -> &[u8] {
        self.key.public_der()
    }

    /// The secret of an answer to `token`.
    pub(crate) async fn open(&self, response: EncryptionResponse<'_>, token: [u8; 4]) -> Result<Secret, BadResponse> {
        let Ok(place) = self.openers.clone().acquire_owned().await else { return Err(BadResponse::Unread) };
        let (secret, shown, key) = (response.secret.to_vec(), response.token.to_vec(), self.key.clone());
        let opened = self.runtime.spawn_blocking(move || {
            // Held until the work is done, however long whoever asked for it waits.
            let _place = place;
            key.open(&secret, &shown, &token).map_err(|error| match error {
                LoginError::Token => BadResponse::Token(key.secret_despite_token(&secret, &shown)),
                LoginError::Secret => BadResponse::Secret,
            })
        });
        opened.await.unwrap_or(Err(BadResponse::Unread))
    }

    /// The profile of the account that joined with this secret, if it is one of this name. Takes until `deadline` at most.
    pub(crate) async fn profile(&self, name: &str, secret: &Secret, address: IpAddr, deadline: Instant) -> Result<Profile, Refusal> {
        let hash = server_hash(SERVER_ID, secret, self.key.public_der());
        let (client, name) = (self.client.clone(), name.to_owned());
        let asked = self.runtime.spawn(async move { client.has_joined(&name, &hash, address, deadline).await });
        // Whoever hangs up meanwhile makes room for another.
        AbortOnDropHandle::new(asked).await.unwrap_or(Err(Refusal::Unreachable("the request was given up".to_owned())))
    }
}
