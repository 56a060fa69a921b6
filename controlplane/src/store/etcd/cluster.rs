//! The members of an etcd cluster: which of them to ask, and which to ask next when one does not answer.
//!
//! One connection a member and an order of our own, rather than the client's random balancing, which keeps sending a share of the
//! requests to a member that hangs.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::Code;

use super::EtcdOptions;
use crate::store::StoreError;

/// How long a call may take, tries of other members included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one member may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Pings find a dead member on a quiet watch. etcd's `--grpc-keepalive-min-time` of 5 s forbids more of them.
const PING_INTERVAL: Duration = Duration::from_secs(7);
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// Every member is tried so often in one call, if it refuses connections.
const ROUNDS: usize = 2;

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Cluster {
    members: Vec<Member>,
    /// The member that answered last.
    current: AtomicUsize,
    options: ConnectOptions,
}

struct Member {
    url: String,
    client: Mutex<Option<Client>>,
}

/// Whether a call may be sent again when nobody knows what became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, or nothing more the second time.
    Freely,
    /// Only if it surely was not carried out.
    IfNotSent,
}

impl Cluster {
    pub(super) fn new(options: &EtcdOptions) -> Cluster {
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_keep_alive(PING_INTERVAL, PING_TIMEOUT)
            // etcd closes connections that are pinged while nothing is asked of them.
            .with_keep_alive_while_idle(false)
            // A member that is cut off from the others says so at once.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(tls) = &options.tls {
            connect = connect.with_tls(tls.clone());
        }
        if let Some(user) = &options.user {
            connect = connect.with_user(user.name.clone(), user.password.clone());
        }
        let member = |url: &String| Member { url: url.clone(), client: Mutex::new(None) };
        Cluster { members: options.endpoints.iter().map(member).collect(), current: AtomicUsize::new(0), options: connect }
    }

    /// Makes a call within the request timeout. The outer error is that no member answered, the inner one an answer.
    pub(super) async fn call<T, F>(&self, repeat: Repeat, call: impl Fn(Client) -> F) -> Result<Result<T, Error>, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let count = self.members.len();
        let first = self.current.load(Ordering::Relaxed);
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let mut problem = String::from("no endpoint is configured");
        for attempt in 0..ROUNDS * count {
            let index = (first + attempt) % count;
            let member = &self.members[index];
            if attempt > 0 && attempt % count == 0 {
                tokio::time::sleep(PAUSE).await;
            }
            // What can be asked elsewhere leaves time for the others.
            let others = if repeat == Repeat::Freely { count - attempt % count } else { 1 };
            let until = Instant::now() + deadline.saturating_duration_since(Instant::now()) / u32::try_from(others).unwrap_or(1);
            let answer = timeout_at(until, async { call(member.client(&self.options).await?).await }).await;
            let repeatable = match answer {
                Ok(Err(error)) if is_away(&error) => {
                    problem = format!("{}: {}", member.url, plain(&error));
                    repeat == Repeat::Freely || was_not_sent(&error)
                }
                Ok(answer) => {
                    self.current.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(_) => {
                    problem = format!("{} did not answer in time", member.url);
                    // The connection may be dead without knowing it: the next call makes a new one.
                    member.forget();
                    repeat == Repeat::Freely
                }
            };
            self.current.store((index + 1) % count, Ordering::Relaxed);
            if !repeatable || Instant::now() >= deadline {
                break;
            }
        }
        Err(StoreError::Unavailable(format!("etcd at {problem}")))
    }
}

impl Member {
    /// The client of this member. Makes no connection unless a user logs in.
    async fn client(&self, options: &ConnectOptions) -> Result<Client, Error> {
        let mut client = self.client.lock().await;
        match &*client {
            Some(client) => Ok(client.clone()),
            None => Ok(client.insert(Client::connect([&self.url], Some(options.clone())).await?).clone()),
        }
    }

    fn forget(&self) {
        // Locked: someone makes a new one at this moment.
        if let Ok(mut client) = self.client.try_lock() {
            *client = None;
        }
    }
}

/// Whether this is no answer of a working member, so that another one may know better.
fn is_away(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => {
            matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded)
                // Not etcd's words: the connection broke.
                || matches!(status.code(), Code::Unknown | Code::Internal) && !status.message().starts_with("etcdserver:")
        }
        Error::TransportError(_) | Error::IoError(_) | Error::WatchError(_) | Error::Internal(_) => true,
        _ => false,
    }
}

/// Whether the request never reached a member that would carry it out.
fn was_not_sent(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else { return false };
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    status.message() == "etcdserver: no leader"
}

/// An error's own words, without the metadata that a status prints.
pub(super) fn plain(error: &Error) -> String {
    let Error::GRpcStatus(status) = error else { return error.to_string() };
    let mut words = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        source = error.source();
    }
    words
}
