//! Play: the relay runs, and the player moves between backends.
//!
//! [`Play::run`] is the loop: a *turn* ([`turn`]) moves bytes until something happens that is not bytes, and the loop deals
//! with that. What the session *is* stands in [`state::State`]; how it moves is in [`transfer`], [`cutover`] and [`fallback`].

#[cfg(test)]
pub(crate) use self::leaving::LINGER;

mod alarm;
mod asks;
mod clocks;
mod commands;
mod completion;
mod cutover;
mod fallback;
mod leaving;
pub mod measure;
mod plugin_channel;
mod state;
mod taken;
mod talk;
mod transfer;
mod turn;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use moonbridge_protocol::forge::live::Live;
use moonbridge_protocol::host::VirtualHost;
use moonbridge_protocol::text::Text;
use moonbridge_protocol::{frame, play as packets};
use tokio::time::Instant;

use self::alarm::Alarm;
use self::asks::Asks;
use self::clocks::{Quiet, TICK};
use self::leaving::Leaving;
use self::state::State;
use self::taken::Taken;
use self::transfer::{Moving, Wish};
use super::claim::DISPLACED;
use crate::backend::Player;
use crate::conn::{self, Conn};
use crate::error::{Kind, Phase, SessionError, Side, hung_up};
use crate::node::Node;
use crate::recording::{Direction, Recording, already_recording};
use crate::registry::{Delivered, Outcome, Registration, SessionCommand};
use crate::relay::Halt;
use crate::relay::buffer::Buffer;
use crate::relay::link::Link;
use crate::trace::{LeftOut, SessionContext};

/// A 1.7 client that is disconnected in the same instant as it gets Login Success may crash (docs/protocol.md).
const SETTLE: Duration = Duration::from_millis(500);

/// How long a peer gets to read the last thing it is sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// A backend that the player is on.
struct Current {
    name: String,
    link: Link,
    quiet: Quiet,
}

/// A session in play.
pub(crate) struct Play {
    node: Arc<Node>,
    facts: Player,
    registration: Registration,
    context: SessionContext,
    state: State,
    player: Link,
    quiet: Quiet,
    current: Option<Current>,
    moving: Moving,
    /// The player's frames while they have nowhere to go.
    held: Buffer,
    holding: bool,
    leaving: Vec<Leaving>,
    /// Until when the fence waits for the client's sign.
    fence: Option<Instant>,
    /// Outcomes that are told once the player's socket has taken the cutover.
    replaying: Option<Box<cutover::Replaying>>,
    /// A handshake with a candidate that is gone; it ends at the next boundary.
    unended: Option<Live>,
    /// Why the player lost its backend, until it has another.
    lost: Option<Text>,
    /// When it last lost one.
    lost_at: Option<Instant>,
    /// Backends that have lost this player lately.
    unstable: Option<fallback::Unstable>,
    /// When the current backend was entered.
    entered: Instant,
    empty: EmptyFrames,
    /// Answers that commands of the player's wait for.
    command_asks: Asks<commands::Answered>,
    /// When the player was last told that it types commands too fast.
    slowed: Option<Instant>,
    /// What a completion waits for.
    naming: Option<completion::Naming>,
    /// What the current backend's plugins wait for.
    plugin_answers: plugin_channel::Answers,
    /// When play began, right after Login Success.
    began: Instant,
    /// When the clocks were last looked at.
    looked: Instant,
    alarm: Alarm,
}

/// Empty frames in the second that began at `since`.
struct EmptyFrames {
    since: Instant,
    count: u32,
    /// Of all seconds.
    total: u64,
}

/// What a turn comes to.
enum Event {
    /// The player's stream needs attention.
    Player(Halt),
    /// The backend's stream does.
    Backend(Halt),
    /// The player sends empty frames without end.
    Flood,
    /// An admin asks something.
    Command(SessionCommand),
    /// What a transfer waited for is over.
    Waited,
    /// A backend was entered, or none could be.
    Arrived(transfer::Arrival),
    /// The pause has been reached: the cutover may be written.
    Paused,
    /// The cutover has been written.
    Replayed,
    /// A clock is due.
    Timer,
    /// The session is to end: the node shuts down, or the player has logged in elsewhere.
    Over,
}

/// How a session in play ends.
pub(crate) struct End {
    /// One of a bounded set, fit for a label.
    pub(crate) reason: &'static str,
    /// Shown to the player, if it is still there.
    text: Option<Text>,
    /// If it was trouble.
    pub(crate) error: Option<SessionError>,
}

impl End {
    fn quiet(reason: &'static str) -> End {
        End { reason, text: None, error: None }
    }

    fn told(reason: &'static str, text: Text) -> End {
        End { reason, text: Some(text), error: None }
    }

    fn saying(self, text: &str) -> End {
        End { text: Some(Text::legacy(text)), ..self }
    }

    fn trouble(reason: &'static str, side: Side, kind: Kind, detail: impl std::fmt::Display) -> End {
        End { reason, text: None, error: Some(SessionError::new(Phase::Play, side, kind, detail)) }
    }
}

/// What a session begins play with.
pub(crate) struct Start {
    pub(crate) node: Arc<Node>,
    pub(crate) facts: Player,
    pub(crate) registration: Registration,
    pub(crate) context: SessionContext,
    pub(crate) player: Conn,
    pub(crate) backend: String,
    pub(crate) connection: Conn,
}

impl Play {
    pub(crate) fn new(start: Start) -> Play {
        let Start { node, facts, registration, context, player, backend, connection } = start;
        let marked = VirtualHost::of(&facts.host).forge_marker;
        let mut state = State::new(facts.version, marked, node.config.limits.channels, &node.config.commands);
        state.plugin_channel.begin(plugin_channel::is_on(&node, &backend));
        Play {
            state,
            player: player.into_link(),
            quiet: Quiet::default(),
            current: Some(Current { name: backend, link: connection.into_link(), quiet: Quiet::default() }),
            moving: Moving::Nowhere,
            held: Buffer::default(),
            holding: false,
            leaving: Vec::new(),
            fence: None,
            replaying: None,
            unended: None,
            lost: None,
            lost_at: None,
            unstable: None,
            entered: Instant::now(),
            empty: EmptyFrames { since: Instant::now(), count: 0, total: 0 },
            command_asks: Asks::default(),
            slowed: None,
            naming: None,
            plugin_answers: plugin_channel::Answers::default(),
            began: Instant::now(),
            looked: Instant::now(),
            alarm: Alarm::roughly_in(TICK),
            node,
            facts,
            registration,
            context,
        }
    }

    /// Runs the session to its end; says how it ended.
    pub(crate) async fn run(mut self: Box<Self>) -> End {
        self.set_timer(Instant::now());
        let end = loop {
            let event = poll_fn(|cx| self.poll_turn(cx)).await;
            if let Some(end) = self.handle(event) {
                break end;
            }
        };
        // Boxed, so that a session in play does not keep the room for it.
        Box::pin(self.end(end)).await
    }

    /// Tells the player why, and lets go of it everywhere.
    async fn end(mut self: Box<Self>, mut end: End) -> End {
        self.state.dropped += self.leaving.iter().map(|leaving| leaving.dropped).sum::<u64>();
        let boundary = self.may_inject();
        let Play { state, context, mut registration, mut player, current, moving, leaving, empty, began, .. } = *self;
        context.ended(
            end.reason,
            LeftOut {
                fenced: state.dropped,
                empty: empty.total,
                tab_names: state.tab.left_out(),
                channels: state.channels.left_out(),
                plugin_messages: state.plugin_channel.left_out(),
            },
        );
        registration.ending(end.reason);
        let text = end.text.take().filter(|_| boundary);
        let player_told = async {
            if let Some(text) = text {
                crate::timer::sleep_until(began + SETTLE).await;
                player.out.write(|out| packets::put_disconnect(out, state.version, &text));
            }
            farewell(Some(player)).await;
        };
        let backends_closed = async {
            let left = join_all(leaving.into_iter().map(|leaving| leaving.close(FAREWELL)));
            tokio::join!(farewell(current.map(|current| current.link)), moving.abandon(), left);
            // Only now may another session of the player go to a backend: none is to see it twice.
            drop(registration);
        };
        tokio::join!(player_told, backends_closed);
        end
    }

    fn handle(&mut self, event: Event) -> Option<End> {
        match event {
            Event::Player(halt) => Some(player_end(halt)),
            Event::Backend(halt) => self.backend_halted(halt),
            Event::Flood => {
                let end = End::trouble("empty_frames", Side::Player, Kind::Malformed, "too many empty frames in one second");
                Some(end.saying("Your client sent too many empty packets."))
            }
            Event::Command(command) => self.command(command),
            Event::Arrived(arrival) => self.arrived(arrival),
            Event::Waited => {
                self.waited();
                None
            }
            Event::Paused => self.paused(),
            Event::Replayed => {
                self.replayed();
                None
            }
            Event::Timer => self.clocks(),
            Event::Over if self.registration.is_displaced() => Some(End::told("displaced", Text::legacy(DISPLACED))),
            Event::Over => Some(End::told("node_shutdown", Text::legacy("The proxy is restarting. Please join again."))),
        }
    }

    fn command(&mut self, command: SessionCommand) -> Option<End> {
        match command {
            SessionCommand::Transfer { to, as_player, traceparent, deadline, reply } => {
                self.start_transfer(Wish { to, as_player }, &traceparent, deadline, reply);
                None
            }
            SessionCommand::Check { permission, reply } => {
                let _ = reply.send(self.check(&permission));
                None
            }
            SessionCommand::Record { recording, reply } => {
                let _ = reply.send(self.record(recording));
                None
            }
            SessionCommand::Kick { reason, reply } => {
                let _ = reply.send(Outcome::ok());
                Some(End::told("kicked", reason))
            }
            SessionCommand::Deliver(delivered) => {
                self.deliver(delivered);
                None
            }
            SessionCommand::Message { text, reply } => {
                // Inside a long frame nothing can be put; it ends soon or the backend is given up.
                let outcome = if self.may_inject() {
                    self.say(&Text::legacy(&text));
                    Outcome::ok()
                } else {
                    Outcome::failed("frame_in_flight", "the player is just being sent a very long packet: try again")
                };
                let _ = reply.send(outcome);
                None
            }
        }
    }

    /// From here on sizes and times of what comes are told to `recording`.
    fn record(&mut self, recording: Recording) -> Outcome {
        if self.player.recording().is_some() {
            return already_recording();
        }
        self.player.record(recording.tap(Direction::Serverbound));
        if let Some(current) = &mut self.current {
            current.link.record(recording.tap(Direction::Clientbound));
        }
        Outcome::ok()
    }

    /// Takes in what a session elsewhere has for the player or its backend's plugins.
    fn deliver(&mut self, delivered: Delivered) {
        match delivered {
            Delivered::Text(text) => {
                // What does not fit is for a player who has not read for long.
                self.state.taken.push(Taken::Told(text));
            }
            Delivered::PluginMessage { backend: Some(backend), data } if self.current.as_ref().is_none_or(|at| *at.name != *backend) => {
                self.node.registry.deliver_to_backend(&backend, &data, Some(&self.registration.id));
            }
            Delivered::PluginMessage { data, .. } => self.tell_plugins(&data),
        }
    }

    /// The answer to a check, and the contexts that it was made in.
    fn check(&mut self, permission: &str) -> Outcome {
        let answer = self.registration.permissions.check(&self.node, permission);
        let contexts = self.registration.permissions.contexts(&self.node);
        let contexts: Vec<_> = contexts.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut outcome = Outcome::ok();
        outcome.result.set_answer(answer.into());
        outcome.result.detail = contexts.join(" ");
        outcome
    }

    /// Whether frames of the node's own may be put into the player's stream now.
    fn may_inject(&self) -> bool {
        self.current.as_ref().is_none_or(|current| current.link.walker.at_boundary())
    }

    fn say(&mut self, text: &Text) {
        let version = self.state.version;
        self.player.out.write(|out| packets::put_chat(out, version, text));
    }

    /// A backend's stream has stopped: it hung up, kicked, or cannot be read.
    fn backend_halted(&mut self, halt: Halt) -> Option<End> {
        match halt {
            Halt::Stopped => {
                let current = self.current.as_ref()?;
                let text = match frame::first(current.link.unread(), frame::MAX_FRAME) {
                    Ok(Some(kick)) => packets::read_disconnect(kick.payload),
                    _ => Text::legacy("kicked"),
                };
                self.lose_backend("backend_kicked", text)
            }
            Halt::Ended => self.lose_backend("backend_closed", Text::legacy("The server closed the connection.")),
            Halt::SourceFailed(error) => {
                self.lose_backend("backend_closed", Text::legacy(&format!("The server's connection failed: {error}")))
            }
            Halt::Malformed(error) => self.lose_backend("backend_garbage", Text::legacy(&format!("The server sent {error}."))),
        }
    }
}

/// Closes a link so that its peer gets to read what is under way.
async fn farewell(link: Option<Link>) {
    let Some(mut link) = link else { return };
    let _ = crate::timer::timeout(FAREWELL, poll_fn(|cx| link.out.poll_flush(cx))).await;
    if let Some((stream, ..)) = link.into_parts() {
        conn::close(stream, FAREWELL).await;
    }
}

fn player_end(halt: Halt) -> End {
    match halt {
        Halt::Ended => End::quiet("player_left"),
        Halt::SourceFailed(error) if hung_up(&error) => End::quiet("player_left"),
        Halt::SourceFailed(error) => End::trouble("player_network", Side::Player, Kind::Network, error),
        Halt::Malformed(error) => End {
            reason: "player_garbage",
            text: Some(Text::legacy("Your client sent a packet that cannot be read.")),
            error: Some(SessionError::new(Phase::Play, Side::Player, Kind::Malformed, error)),
        },
        // The player's frames stop no walk.
        Halt::Stopped => End::quiet("player_left"),
    }
}
