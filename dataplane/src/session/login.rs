//! Who the player is, and whether it may come in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use moonbridge_proto::snapshot::Snapshot;
use moonbridge_protocol::login;
use moonbridge_protocol::name::{offline_uuid, valid_name};
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{ENCRYPTION_RESPONSE, LOGIN_START, Version};
use moonbridge_protocol::wire::WireError;
use tokio::time::Instant;

use super::STRANGER_FRAME;
use super::authenticate::{prove, unasked_response};
use super::handshake::Hello;
use crate::authenticate::{Authenticator, Profile};
use crate::backend::Player;
use crate::conn::Conn;
use crate::error::{Kind, Phase, SessionError, Side, Trouble};
use crate::node::Node;

/// How long a player who is turned away gets to read why: a client whose connection ends at once shows "connection reset".
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// A player who is turned away: what it is told, and what is logged.
pub(super) struct Turned {
    pub(super) text: Option<Text>,
    pub(super) error: SessionError,
}

impl Turned {
    pub(super) fn new(phase: Phase, side: Side, kind: Kind, text: &str) -> Turned {
        Turned { text: Some(Text::legacy(text)), error: SessionError::new(phase, side, kind, text) }
    }

    /// The player's own packets were at fault; what they may still take is a reason.
    pub(super) fn trouble(phase: Phase, trouble: Trouble) -> Turned {
        let text = match trouble.kind() {
            Kind::Closed | Kind::Network => None,
            Kind::TimedOut => Some("Login took too long."),
            _ => Some("Your client sent a login that cannot be read."),
        };
        Turned { text: text.map(Text::legacy), error: SessionError::player(phase, trouble) }
    }
}

/// Reads the login and finds out who the player is: by the authenticator in online mode. In offline mode there is none, and the
/// UUID is derived from the name.
pub(super) async fn identify(
    conn: &mut Conn,
    hello: Hello,
    address: SocketAddr,
    authenticator: Option<&Authenticator>,
    deadline: Instant,
) -> Result<Player, Turned> {
    let trouble = |trouble| Turned::trouble(Phase::Login, trouble);
    let Some(version) = Version::of(hello.protocol) else {
        let text = format!("This network supports Minecraft {}; your version is another one.", Version::supported());
        return Err(Turned::new(Phase::Login, Side::Player, Kind::Version, &text));
    };
    let frame = conn.frame(STRANGER_FRAME, deadline).await.map_err(trouble)?;
    if frame.id == ENCRYPTION_RESPONSE {
        return Err(unasked_response());
    }
    if frame.id != LOGIN_START {
        return Err(trouble(Trouble::Unexpected { id: frame.id, expected: "Login Start" }));
    }
    let name = match login::read_login_start(&frame.payload) {
        Ok(name) => name,
        Err(WireError::BadLength { .. }) => {
            let text = format!("Your name is not valid: it is longer than {} characters.", login::MAX_NAME);
            return Err(Turned::new(Phase::Login, Side::Player, Kind::Refused, &text));
        }
        Err(error) => return Err(trouble(Trouble::Field { packet: "Login Start", error })),
    };
    valid_name(name)
        .map_err(|error| Turned::new(Phase::Login, Side::Player, Kind::Refused, &format!("Your name is not valid: {error}.")))?;
    let Profile { uuid, name, properties } = match authenticator {
        Some(authenticator) => prove(conn, authenticator, name, address.ip(), deadline).await?,
        None => Profile { uuid: offline_uuid(name), name: name.to_owned(), properties: Arc::new([]) },
    };
    Ok(Player { name, uuid, properties, address, version, host: hello.host, port: hello.port })
}

/// Whether the node takes players now; gives what they are routed by.
pub(super) fn admit(node: &Node) -> Result<Arc<Snapshot>, Turned> {
    let refused = |text| Turned::new(Phase::Connect, Side::Control, Kind::Refused, text);
    if node.shutdown.is_cancelled() || node.drained.load(Ordering::Relaxed) {
        return Err(refused("This proxy takes no new players at the moment. Please join again."));
    }
    let snapshot = node.snapshot.load_full().ok_or_else(|| refused("This proxy is just starting. Please join again in a moment."))?;
    if !node.config.admit_without_control && !node.registry.is_attached() {
        return Err(refused("This network takes no new players at the moment: its control plane is away."));
    }
    Ok(snapshot)
}
