//! The plugin channel `BungeeCord`: what the current backend's plugins want of the node.
//!
//! A walk only takes their messages off ([`PluginChannel::see`]); the turn obeys them ([`requests`]) and answers in the order in
//! which it was asked, as BungeeCord does, wherever the answers come from. What concerns one backend ends with the connection to
//! it: requests, answers and other backends' messages that have not got through by then are left out.

mod requests;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use moonbridge_protocol::bungeecord::{CHANNEL, Request};
use moonbridge_protocol::channels::{self, REGISTER};
use moonbridge_protocol::play as packets;
use moonbridge_protocol::version::Version;
use tokio::time::Instant;

use super::Play;
use crate::commands::pace::Pace;
use crate::node::Node;

/// Requests of one connection in a second, on the average.
const RATE: u32 = 200;

/// Requests of one connection at once.
const BURST: u32 = 400;

/// Most answers that are waited for; further requests wait for those.
const MAX_ANSWERS: usize = 32;

/// Most bytes that wait, of requests and of messages for the backend's plugins each.
const MAX_BYTES: usize = 1 << 20;

/// How long a move that a plugin wants waits for the end of one that has led here.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes waiting for the backend beyond which its requests wait, too.
const HIGH_WATER: usize = 256 << 10;

/// The channel between the node and the current backend.
#[derive(Debug, Default)]
pub(super) struct PluginChannel {
    /// The backend's plugins are obeyed.
    on: bool,
    /// The backend knows that there is somebody on the channel. Bukkit sends nothing before.
    announced: bool,
    /// What of earlier connections' was left out.
    dropped_before: u64,
    /// Once something is said.
    traffic: Option<Box<Traffic>>,
}

/// What is said on one connection.
#[derive(Debug)]
struct Traffic {
    pace: Pace,
    requests: Waiting,
    /// For the backend's plugins.
    messages: Waiting,
    /// Where the player is to go once it has wholly come here; until when that is waited for.
    connect: Option<(String, Instant)>,
    /// What was left out because it was too much.
    dropped: u64,
    /// The operator has been told so.
    reported: bool,
}

impl PluginChannel {
    /// Whether messages on it are the node's.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether there is nothing to do for it, and the backend has been told of it, if it is `in_world` and so may be.
    pub(super) fn is_silent(&self, in_world: bool) -> bool {
        self.traffic.is_none() && (self.announced || !self.on || !in_world)
    }

    /// How many messages were left out because they were too many.
    pub(super) fn left_out(&self) -> u64 {
        self.dropped_before + self.traffic.as_ref().map_or(0, |traffic| traffic.dropped)
    }

    /// Takes in what the backend says.
    pub(super) fn see(&mut self, data: &[u8]) {
        let traffic = self.traffic.get_or_insert_default();
        if !traffic.pace.allows(Instant::now()) || !traffic.requests.push(data) {
            traffic.dropped += 1;
        }
    }

    /// The player gives channels up. Bukkit does not tell its from the node's, which is announced again then.
    pub(super) fn see_unregistered(&mut self, data: &[u8]) {
        self.announced &= !channels::names(data).any(|name| name == CHANNEL.as_bytes());
    }

    /// Another connection begins, to a backend whose channel is on or off.
    pub(super) fn begin(&mut self, on: bool) {
        *self = PluginChannel { on, announced: false, dropped_before: self.left_out(), traffic: None };
    }

    /// Appends what a backend whose channel is on has to be told, once it takes plugin messages.
    pub(super) fn announce(&mut self, out: &mut Vec<u8>, version: &Version) {
        if self.on {
            self.announced = true;
            packets::put_plugin_message_serverbound(out, version, REGISTER, CHANNEL.as_bytes());
        }
    }
}

impl Default for Traffic {
    fn default() -> Self {
        let (requests, messages) = Default::default();
        Traffic { pace: Pace::new(RATE, BURST), requests, messages, connect: None, dropped: 0, reported: false }
    }
}

/// Messages in order, bounded.
#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Waiting {
    /// Whether there was room.
    fn push(&mut self, data: &[u8]) -> bool {
        let bytes = self.bytes + data.len() + size_of::<Box<[u8]>>();
        if bytes <= MAX_BYTES {
            self.bytes = bytes;
            self.messages.push_back(data.into());
        }
        bytes <= MAX_BYTES
    }

    fn pop(&mut self) -> Option<Box<[u8]>> {
        let data = self.messages.pop_front()?;
        self.bytes -= data.len() + size_of::<Box<[u8]>>();
        Some(data)
    }
}

/// An answer that a backend is to get; none if there is none after all.
type Answering = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

/// Answers that a backend waits for, in the order in which it asked.
#[derive(Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answering>,
    /// The number of the connection that asked.
    asker: u32,
    /// The snapshot by which the channel was last seen to be on or off.
    seen: u64,
}

impl Answers {
    /// Whether they are those of this connection.
    pub(super) fn are_of(&self, connection: u32) -> bool {
        self.asker == connection
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let Some(first) = self.waiting.front_mut() else { return Poll::Pending };
        let answer = first.as_mut().poll(cx);
        if answer.is_ready() {
            self.waiting.pop_front();
        }
        answer
    }
}

/// Whether a backend's plugins are obeyed.
pub(super) fn is_on(node: &Node, backend: &str) -> bool {
    let snapshot = node.snapshot.load();
    let backend = snapshot.as_ref().and_then(|snapshot| snapshot.backends.get(backend));
    backend.is_some_and(|backend| !backend.plugin_channel_off)
}

impl Play {
    /// Gives a message to the plugins of the current backend.
    pub(super) fn tell_plugins(&mut self, data: &[u8]) {
        let channel = &mut self.state.plugin_channel;
        if !channel.on || self.current.is_none() {
            return;
        }
        let traffic = channel.traffic.get_or_insert_default();
        if !traffic.messages.push(data) {
            traffic.dropped += 1;
        }
    }

    /// Sees whether the channel has been switched on or off while the player is there.
    pub(super) fn follow_plugin_channel(&mut self) {
        let snapshots = self.node.snapshots.load(Ordering::Acquire);
        if self.plugin_answers.seen != snapshots {
            self.plugin_answers.seen = snapshots;
            let on = self.current.as_ref().is_some_and(|current| is_on(&self.node, &current.name));
            if on != self.state.plugin_channel.on {
                self.state.plugin_channel.begin(on);
                self.plugin_answers.waiting.clear();
            }
        }
    }

    /// Goes on with what waits on the channel.
    pub(super) fn poll_plugin_channel(&mut self, cx: &mut Context<'_>) {
        let number = self.state.number;
        if self.plugin_answers.asker != number {
            self.plugin_answers.asker = number;
            self.plugin_answers.waiting.clear();
        }
        self.connect_if_due();
        if !self.state.plugin_channel.on || !self.state.in_world || !self.may_tell_backend() {
            return;
        }
        let version = self.state.version;
        if let Some(current) = self.current.as_mut().filter(|_| !self.state.plugin_channel.announced) {
            current.link.out.write(|out| self.state.plugin_channel.announce(out, version));
        }
        while self.backend_takes_more(cx) {
            let Some(traffic) = &mut self.state.plugin_channel.traffic else { return };
            if let Some(message) = traffic.messages.pop() {
                self.say_to_plugins(&message);
            } else if self.plugin_answers.waiting.len() < MAX_ANSWERS
                && let Some(request) = traffic.requests.pop()
            {
                self.obey(&request);
            } else if let Poll::Ready(answer) = self.plugin_answers.poll_next(cx) {
                answer.iter().for_each(|answer| self.say_to_plugins(answer));
            } else {
                break;
            }
        }
        self.report_dropped();
    }

    /// Moves the player for a plugin: once the cutover that has led here has gone, for plugins ask as soon as they see the player.
    fn connect(&mut self, to: String) {
        if self.replaying.is_none() {
            return self.go(to, false);
        }
        let now = Instant::now();
        self.state.plugin_channel.traffic.get_or_insert_default().connect = Some((to, now + PATIENCE));
        self.set_timer(now);
    }

    fn connect_if_due(&mut self) {
        let is_here = self.replaying.is_none();
        let Some(traffic) = &mut self.state.plugin_channel.traffic else { return };
        if let Some((to, _)) = traffic.connect.take_if(|(_, until)| is_here || *until <= Instant::now()) {
            self.go(to, false);
        }
    }

    /// Until when such a move is waited for.
    pub(super) fn connect_deadline(&self) -> Option<Instant> {
        self.state.plugin_channel.traffic.as_ref()?.connect.as_ref().map(|(_, until)| *until)
    }

    /// Whether frames of the node's own may be put into the backend's stream now.
    pub(super) fn may_tell_backend(&self) -> bool {
        self.current.is_some() && (self.holding || self.player.walker.at_boundary())
    }

    /// Whether it reads what it is told; if not, the task is woken when it does.
    fn backend_takes_more(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(current) = &mut self.current else { return false };
        if current.link.out.len() >= HIGH_WATER {
            current.link.out.push(cx);
        }
        current.link.out.len() < HIGH_WATER
    }

    fn obey(&mut self, data: &[u8]) {
        match Request::read(data) {
            Ok(request) => {
                let answer = self.request(request);
                self.plugin_answers.waiting.extend(answer);
            }
            Err(error) => {
                let backend = self.current.as_ref().map(|current| current.name.as_str()).unwrap_or_default();
                tracing::debug!(session = %self.context.id, backend, %error, "a plugin's message is ignored");
            }
        }
    }

    fn say_to_plugins(&mut self, data: &[u8]) {
        let version = self.state.version;
        if let Some(current) = &mut self.current {
            current.link.out.write(|out| {
                packets::put_plugin_message_serverbound(out, version, CHANNEL, data);
            });
        }
    }

    /// Says once a connection that plugins ask too much.
    fn report_dropped(&mut self) {
        if let Some(traffic) = self.state.plugin_channel.traffic.as_mut().filter(|traffic| traffic.dropped > 0 && !traffic.reported) {
            traffic.reported = true;
            let backend = self.current.as_ref().map(|current| current.name.as_str()).unwrap_or_default();
            tracing::warn!(
                session = %self.context.id, backend,
                "plugins on the channel BungeeCord say more than the node takes ({RATE} requests a second over one player's connection): some are left out"
            );
        }
    }
}
