//! From a backend's Login Success to its Join Game: what it sends is held, its keep-alives are answered at once, and Forge's
//! handshake is had, by the node in the client's stead or with the client itself.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use moonbridge_protocol::channels::Channels;
use moonbridge_protocol::forge::HANDSHAKE;
use moonbridge_protocol::forge::candidate::{Candidate, ClientFacts, Rejection};
use moonbridge_protocol::frame::MAX_FRAME;
use moonbridge_protocol::play::{self, JoinGame, PluginMessage};
use moonbridge_protocol::text::Text;
use moonbridge_protocol::version::{Clientbound, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::{BUDGET_UNIT, Limits, Refusal};
use crate::conn::{Conn, OwnFrame};
use crate::timer::{sleep_until, timeout_at};

/// How long a client that is not known to have Forge may take to say its first word in a handshake. A vanilla client says
/// nothing.
const FIRST_WORD: Duration = Duration::from_secs(5);

/// Handshake messages under way to a client: each may have 2 MiB.
const TO_CLIENT: usize = 2;

/// And from it: there are six in all, the longest with 256 KiB.
const FROM_CLIENT: usize = 16;

/// Who has Forge's handshake with a backend, if it wants one.
#[derive(Debug)]
pub(crate) enum Handshake {
    /// The node, with what the client has said before: the client hears of it when it is certain to succeed.
    Node(Box<Candidate>),
    /// The client itself: nobody knows its mods yet.
    Client(BackendEnd),
}

impl Handshake {
    /// A handshake in the stead of a client of which these things are known.
    pub(crate) fn by_node(facts: ClientFacts) -> Handshake {
        Handshake::Node(Box::new(Candidate::new(facts)))
    }

    /// A handshake with the client itself, and the client's end of it.
    pub(crate) fn by_client(version: &Version, channels: &Channels) -> (Handshake, ClientEnd) {
        let (to_client, from_backend) = mpsc::channel(TO_CLIENT);
        let (to_backend, from_client) = mpsc::channel(FROM_CLIENT);
        let mut register = Vec::new();
        channels.put_register(&mut register, version);
        (Handshake::Client(BackendEnd { to_client, from_client, unsaid: Some(register) }), ClientEnd { from_backend, to_backend })
    }
}

/// The backend's end of a handshake that the client has itself: what is said on `FML|HS`, message by message.
#[derive(Debug)]
pub(crate) struct BackendEnd {
    to_client: mpsc::Sender<Vec<u8>>,
    from_client: mpsc::Receiver<Vec<u8>>,
    /// The client's channels, framed, which precede its first word, until it has said that.
    unsaid: Option<Vec<u8>>,
}

/// The client's end of it. Dropped, the backend is given up.
pub(crate) struct ClientEnd {
    pub(crate) from_backend: mpsc::Receiver<Vec<u8>>,
    pub(crate) to_backend: mpsc::Sender<Vec<u8>>,
}

/// Whole frames that wait for a cutover, and the memory reserved for them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) frames: Vec<u8>,
    reserved: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// Appends a frame, waiting for memory if the node has none left.
    async fn push(&mut self, frame: &[u8], budget: &Arc<Semaphore>) {
        let needed = (self.frames.len() + frame.len()).div_ceil(BUDGET_UNIT);
        let reserved = self.reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if needed > reserved
            // The semaphore is never closed.
            && let Ok(more) = budget.clone().acquire_many_owned((needed - reserved) as u32).await
        {
            match &mut self.reserved {
                Some(reserved) => reserved.merge(more),
                None => self.reserved = Some(more),
            }
        }
        self.frames.extend_from_slice(frame);
    }
}

/// Goes on to the backend's Join Game.
pub(super) async fn reach(
    conn: &mut Conn,
    version: &Version,
    handshake: &mut Handshake,
    held: &mut Held,
    limits: &Limits,
) -> Result<JoinGame, Refusal> {
    // Until when the client must have said something on FML|HS.
    let mut first_word = None;
    loop {
        let said = tokio::select! {
            frame = conn.frame(MAX_FRAME, limits.deadline) => Ok(frame),
            message = from_client(handshake, version) => Err(message),
            () = until(first_word) => return Err(Rejection::NoForge.into()),
        };
        let frame = match said {
            Ok(frame) => frame.map_err(|trouble| stalled(trouble.into(), handshake))?,
            Err(message) => {
                first_word = None;
                say(conn, &message, limits).await;
                continue;
            }
        };
        let OwnFrame { id, payload, whole } = frame;
        match u8::try_from(id).map_or(Clientbound::Other, |id| version.clientbound(id)) {
            Clientbound::JoinGame => {
                let join = JoinGame::read(version, &payload).map_err(Refusal::field("Join Game"))?;
                if let Handshake::Node(candidate) = handshake {
                    candidate.joined()?;
                }
                return Ok(join);
            }
            Clientbound::Disconnect => return Err(refused(play::read_disconnect(&payload), handshake)),
            Clientbound::KeepAlive => {
                let asked = play::read_keep_alive(version, &payload).map_err(Refusal::field("Keep Alive"))?;
                let mut answer = Vec::new();
                play::put_keep_alive_serverbound(&mut answer, version, asked);
                say(conn, &answer, limits).await;
            }
            _ if held.frames.len() + whole.len() > limits.held => {
                // Unread, the backend feels the pressure; it cannot reach its Join Game, so the deadline decides.
                sleep_until(limits.deadline).await;
                return Err(Refusal::new("login_stalled", format!("it sent {} bytes without a Join Game", held.frames.len())));
            }
            kind => {
                if kind == Clientbound::PluginMessage
                    && let Ok(PluginMessage { channel: HANDSHAKE, data }) = PluginMessage::read_clientbound(&payload)
                {
                    match handshake {
                        Handshake::Node(candidate) => {
                            let mut answer = Vec::new();
                            candidate.see(data, &mut answer)?;
                            say(conn, &answer, limits).await;
                        }
                        Handshake::Client(end) => {
                            let told = timeout_at(limits.deadline, end.to_client.send(data.to_vec())).await;
                            if !matches!(told, Ok(Ok(()))) {
                                return Err(Refusal::new("forge_stalled", "the client did not take what it said in Forge's handshake"));
                            }
                            if end.unsaid.is_some() {
                                first_word.get_or_insert(Instant::now() + FIRST_WORD);
                            }
                            continue;
                        }
                    }
                }
                if timeout_at(limits.deadline, held.push(&whole, &limits.budget)).await.is_err() {
                    let detail = "the node's memory for transfers is in use: fewer at a time, or a larger limits.node_buffers";
                    return Err(Refusal::new("no_buffer", detail));
                }
            }
        }
    }
}

/// A backend that is gone may have said why before: that shows when it is read, so a failed write is not the end.
async fn say(conn: &mut Conn, frames: &[u8], limits: &Limits) {
    let _ = conn.write(frames, limits.deadline).await;
}

/// What the client has to say to the backend, if it has the handshake itself: frames.
async fn from_client(handshake: &mut Handshake, version: &Version) -> Vec<u8> {
    let Handshake::Client(end) = handshake else { return pending().await };
    // The session gives the backend up when it drops its end.
    let Some(message) = end.from_client.recv().await else { return pending().await };
    let mut frames = end.unsaid.take().unwrap_or_default();
    play::put_long_plugin_message_serverbound(&mut frames, version, HANDSHAKE, &message);
    frames
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

/// A backend that disconnects in its handshake says where it was.
fn refused(said: Text, handshake: &Handshake) -> Refusal {
    match handshake {
        Handshake::Node(candidate) if candidate.is_forge() => Refusal { text: Some(said.clone()), ..candidate.refused(said).into() },
        _ => Refusal::said(said),
    }
}

/// A backend that goes away or falls silent in its handshake says where it was.
fn stalled(refusal: Refusal, handshake: &Handshake) -> Refusal {
    match handshake {
        Handshake::Node(candidate) if candidate.is_forge() => {
            let reason = if refusal.reason == "login_stalled" { "forge_stalled" } else { refusal.reason };
            let detail = format!("{} in Forge's handshake ({})", refusal.detail, candidate.server().name());
            Refusal { reason, detail, ..refusal }
        }
        _ => refusal,
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Refusal {
        Refusal::new(rejection.reason(), rejection.to_string())
    }
}
