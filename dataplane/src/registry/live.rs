//! What a node's registry knows of one session: in little room, for there are thousands of them, and none of it is looked at often.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use moonbridge_proto::telemetry::trace::TraceId;
use moonbridge_proto::v1;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::SessionCommand;
use super::mailbox::Sender;
use crate::permissions::Slot;

/// A session, from the moment that it claims its player.
pub(crate) struct Live {
    pub(crate) player: Box<str>,
    pub(crate) player_uuid: Uuid,
    /// When it claimed its player, in milliseconds since 1970.
    pub(crate) started_unix_ms: i64,
    /// Once it is in play.
    pub(crate) playing: Option<Playing>,
    /// None once the session is to end.
    pub(crate) commands: Option<Sender<SessionCommand>>,
    /// Another session has claimed its player.
    pub(crate) displaced: bool,
    /// Whoever takes the changes has been told of it.
    pub(crate) told: bool,
    /// Whose end its login waits for.
    pub(crate) after: Vec<Uuid>,
    /// Dropped when this session has ended.
    pub(crate) waiters: Vec<oneshot::Sender<()>>,
    /// What its player has, as the control plane tells it.
    pub(super) permissions: Slot,
    /// Gets what the control plane says to its claim.
    pub(crate) answer: Option<oneshot::Sender<v1::ClaimAnswer>>,
}

/// What is known of a session in play beside its player.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Playing {
    /// The backend that the player is on.
    pub backend: Arc<str>,
    /// The host that the player asked for.
    pub host: Box<str>,
    /// Where the player connects from.
    pub address: SocketAddr,
    /// The number of the protocol that it speaks.
    pub protocol: u32,
    /// The session's trace.
    pub trace: TraceId,
}

impl Playing {
    /// On this backend, with nothing else known: for tests and measurements.
    pub fn on(backend: &str) -> Playing {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Playing { backend: backend.into(), host: Box::default(), address, protocol: 0, trace: TraceId::INVALID }
    }
}

/// The node as its sessions name it.
#[derive(Debug, Clone, Default)]
pub(super) struct Home {
    pub(super) id: String,
    pub(super) name: String,
}

impl Live {
    /// Whether it is one of the node's players.
    pub(super) fn is_counted(&self) -> bool {
        self.playing.is_some() && !self.displaced
    }

    /// The claim as the control plane is asked about it.
    pub(crate) fn claim(&self, id: &Uuid) -> v1::Claim {
        let (player, player_uuid) = (self.player.to_string(), self.player_uuid.to_string());
        v1::Claim { session_id: id.to_string(), player, player_uuid, started_unix_ms: self.started_unix_ms }
    }

    /// The session as the control plane is told of it, once it is in play.
    pub(super) fn session(&self, id: &Uuid, home: &Home) -> Option<v1::Session> {
        let Playing { backend, host, address, protocol, trace } = self.playing.as_ref()?;
        Some(v1::Session {
            id: id.to_string(),
            node_id: home.id.clone(),
            node_name: home.name.clone(),
            player: self.player.to_string(),
            player_uuid: self.player_uuid.to_string(),
            backend: backend.to_string(),
            host: host.to_string(),
            address: address.to_string(),
            protocol: *protocol,
            started_unix_ms: self.started_unix_ms,
            trace_id: trace.to_string(),
            ..v1::Session::default()
        })
    }
}
