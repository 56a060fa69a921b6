//! What a session in play is at a frame boundary, apart from its sockets, and what each frame does to it.

use std::time::Duration;

use moonbridge_protocol::bungeecord;
use moonbridge_protocol::channels::{self, Channels};
use moonbridge_protocol::forge::HANDSHAKE;
use moonbridge_protocol::forge::lead::Lead;
use moonbridge_protocol::forge::phase::ClientPhase;
use moonbridge_protocol::forge::tracker::{Tracker, Way};
use moonbridge_protocol::frame::MAX_FRAME;
use moonbridge_protocol::keep_alive::{Answer, Asker, Ledger};
use moonbridge_protocol::play;
use moonbridge_protocol::tab_list::TabNames;
use moonbridge_protocol::version::{Clientbound, Serverbound, Version};
use moonbridge_protocol::walk::{Empty, HOLD, Verdict, WatchSet, Watched};
use tokio::time::Instant;

use super::completion::Completion;
use super::plugin_channel::PluginChannel;
use super::taken::{Commands, Queue, Taken};
use crate::config;
use crate::relay::Rules;

/// Client Settings and brands are short; longer ones are relayed but not remembered.
const REMEMBERED: usize = 256;

/// A frame with the longest list of mods that is taken.
const LONGEST_MODS: usize = moonbridge_protocol::forge::mods::MAX_BYTES + 1024;

/// The channel on which a client names its make.
const BRAND: &str = "MC|Brand";

/// A session in play: plain data, which no future owns.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) version: &'static Version,
    pub(crate) ledger: Ledger,
    /// The tab list as the player's client shows it.
    pub(crate) tab: TabNames,
    /// The channels that the player has registered.
    pub(crate) channels: Channels,
    /// The last Client Settings payload of the player's.
    settings: Vec<u8>,
    /// What the player last said on MC|Brand.
    brand: Vec<u8>,
    /// Where the player stands in Forge's handshake, and what is known of its client by it.
    pub(crate) forge: Tracker,
    /// The player has been sent a Join Game.
    pub(crate) in_world: bool,
    /// The number of the connection to the current backend.
    pub(crate) number: u32,
    /// Frames of the player's old world are still arriving: the player has not been seen to process the Join Game of the
    /// last cutover.
    pub(crate) fenced: bool,
    /// Join Games that the player was sent and has not answered with Client Settings: those of an earlier one must not lift
    /// the fence of a later.
    unanswered: u32,
    /// The player has sent Client Settings at all. Scripted clients may not; their first ones then answer the last Join Game.
    answers: bool,
    /// The client's own settings or brand came since the last cutover.
    came: Came,
    /// Frames left out at fences, in all.
    pub(crate) dropped: u64,
    /// What was taken off the streams and is to be dealt with.
    pub(super) taken: Queue,
    pub(super) commands: Commands,
    /// Once the player has pressed the tab key.
    pub(super) completion: Option<Box<Completion>>,
    pub(super) plugin_channel: PluginChannel,
    /// From when on the times of pings are counted.
    began: Instant,
    clientbound: WatchSet,
    /// While the backend's plugin messages have to be seen, too.
    with_plugins: WatchSet,
    serverbound: WatchSet,
}

#[derive(Debug, Default, Clone, Copy)]
struct Came {
    settings: bool,
    brand: bool,
}

impl State {
    /// A session that begins play. `marked`: the client's host had Forge's mark.
    pub(crate) fn new(version: &'static Version, marked: bool, channels: usize, commands: &config::Commands) -> State {
        use {Clientbound as C, Serverbound as S};
        let commands = Commands::new(commands);
        let mut clientbound = vec![C::KeepAlive, C::JoinGame, C::PlayerListItem, C::Disconnect];
        let mut serverbound = vec![S::KeepAlive, S::PluginMessage, S::ClientSettings];
        if commands.are_on() {
            clientbound.push(C::TabComplete);
            serverbound.extend([S::Chat, S::TabComplete]);
        }
        let with_plugins = [&clientbound[..], &[C::PluginMessage]].concat();
        State {
            version,
            ledger: Ledger::default(),
            tab: TabNames::default(),
            channels: Channels::bounded(channels),
            settings: Vec::new(),
            brand: Vec::new(),
            forge: Tracker::new(marked),
            in_world: false,
            number: 0,
            fenced: false,
            unanswered: 0,
            answers: false,
            came: Came::default(),
            dropped: 0,
            taken: Queue::default(),
            completion: None,
            plugin_channel: PluginChannel::default(),
            began: Instant::now(),
            clientbound: version.watch_clientbound(&clientbound),
            with_plugins: version.watch_clientbound(&with_plugins),
            serverbound: version.watch_serverbound(&serverbound),
            commands,
        }
    }

    /// Whether the player's backend owes it the first world. Forge's handshake comes before that and may take long.
    pub(crate) fn awaits_first_world(&self) -> bool {
        !self.in_world && !self.forge.is_handshaking()
    }

    /// What the clientbound direction is walked with.
    pub(crate) fn clientbound_rules(&self) -> Rules {
        match self.forge.watches_clientbound() {
            false if self.plugin_channel.is_on() => Rules { watch: self.with_plugins, empty: Empty::Pass, hold: HOLD },
            false => Rules { watch: self.clientbound, empty: Empty::Pass, hold: HOLD },
            // The ids of a modded server's blocks and items come in one frame of any length.
            true => Rules { watch: self.with_plugins, empty: Empty::Pass, hold: MAX_FRAME },
        }
    }

    /// What the serverbound direction is walked with.
    pub(crate) fn serverbound_rules(&self) -> Rules {
        let watch = if self.fenced { WatchSet::ALL } else { self.serverbound };
        // The mods of a client in its handshake.
        let hold = if self.forge.client() == ClientPhase::Done { HOLD } else { LONGEST_MODS };
        Rules { watch, empty: Empty::Drop, hold }
    }

    /// A frame of the current backend's.
    pub(crate) fn see_clientbound(&mut self, frame: Watched<'_>) -> Verdict {
        match self.version.clientbound(frame.id) {
            Clientbound::KeepAlive => {
                // One that cannot be read is none; it passes as it is.
                if let Ok(id) = play::read_keep_alive(self.version, frame.payload) {
                    let ours = self.ledger.ask(Asker::Backend(self.number), id);
                    play::write_keep_alive(self.version, frame.payload, ours);
                }
                Verdict::Pass
            }
            Clientbound::JoinGame => {
                self.joined();
                Verdict::Pass
            }
            Clientbound::PlayerListItem => {
                self.tab.note(frame.payload);
                Verdict::Pass
            }
            Clientbound::PluginMessage => self.see_plugin_message(frame.payload),
            Clientbound::TabComplete => self.completion.as_mut().map_or(Verdict::Pass, |completion| completion.see_answer(frame.payload)),
            Clientbound::Disconnect => Verdict::Stop,
            _ => Verdict::Pass,
        }
    }

    /// A plugin message of the current backend's.
    fn see_plugin_message(&mut self, payload: &[u8]) -> Verdict {
        let Ok(message) = play::PluginMessage::read_clientbound(payload) else { return Verdict::Pass };
        match message.channel {
            HANDSHAKE if self.forge.watches_clientbound() => self.forge.clientbound(message.data),
            bungeecord::CHANNEL if self.plugin_channel.is_on() => {
                self.plugin_channel.see(message.data);
                return Verdict::Drop;
            }
            _ => {}
        }
        Verdict::Pass
    }

    /// A frame that a candidate sent before its Join Game, on its way to the player after all.
    pub(crate) fn see_held_back(&mut self, frame: Watched<'_>, lead: Lead) -> Verdict {
        if self.version.clientbound(frame.id) == Clientbound::PluginMessage {
            let Ok(message) = play::PluginMessage::read_clientbound(frame.payload) else { return Verdict::Pass };
            return match message.channel {
                HANDSHAKE if !lead.see(message.data, &mut self.forge) => Verdict::Drop,
                // It had not the player yet of whom its plugins speak.
                bungeecord::CHANNEL if self.plugin_channel.is_on() => Verdict::Drop,
                _ => Verdict::Pass,
            };
        }
        self.see_clientbound(frame)
    }

    /// A frame of the player's, on its way to the current backend.
    pub(crate) fn see_serverbound(&mut self, frame: Watched<'_>) -> Verdict {
        match self.version.serverbound(frame.id) {
            Serverbound::KeepAlive => {
                let Ok(id) = play::read_keep_alive(self.version, frame.payload) else { return Verdict::Pass };
                let Some(id) = self.answer(id) else { return Verdict::Drop };
                play::write_keep_alive(self.version, frame.payload, id);
                Verdict::Pass
            }
            Serverbound::ClientSettings => {
                let _ = self.remember(frame.payload, Serverbound::ClientSettings);
                self.answered();
                if self.unanswered == 0 {
                    self.came.settings = true;
                    self.fenced = false;
                    self.forge.entered();
                }
                Verdict::Pass
            }
            Serverbound::PluginMessage => self.remember(frame.payload, Serverbound::PluginMessage),
            Serverbound::Chat => self.commands.see(frame.payload, &mut self.taken),
            Serverbound::OldWorld | Serverbound::TabComplete if self.fenced => {
                self.dropped += 1;
                Verdict::Drop
            }
            Serverbound::TabComplete if self.commands.are_on() => {
                let completion = self.completion.get_or_insert_with(|| Box::new(Completion::new()));
                completion.see_request(frame.payload, self.commands.table())
            }
            _ => Verdict::Pass,
        }
    }

    /// The player answers a keep-alive: with which id that goes to the current backend, if it does.
    fn answer(&mut self, id: i64) -> Option<i64> {
        match self.ledger.answer(id) {
            Answer::To(Asker::Backend(number), id) => (number == self.number).then_some(id),
            Answer::To(Asker::Ping, asked) => {
                self.taken.push(Taken::Pong(Duration::from_micros(self.micros().saturating_sub(asked).unsigned_abs())));
                None
            }
            Answer::To(Asker::Node, _) | Answer::Late => None,
            Answer::Unasked => Some(id),
        }
    }

    /// Asks the player for a sign of life, to see how long that takes: [`Taken::Pong`] tells.
    pub(super) fn put_ping(&mut self, out: &mut Vec<u8>) {
        let id = self.ledger.ask(Asker::Ping, self.micros());
        play::put_keep_alive_clientbound(out, self.version, id);
    }

    fn micros(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// The locale of the player's client, once that has said it.
    pub(super) fn locale(&self) -> Option<&str> {
        play::ClientSettings::read(self.version, &self.settings).ok().map(|settings| settings.locale)
    }

    /// The player was sent a Join Game.
    pub(crate) fn joined(&mut self) {
        self.in_world = true;
        self.forge.joined();
        self.unanswered = if self.answers { self.unanswered.saturating_add(1) } else { 1 };
    }

    /// The player sent Client Settings, which answer the oldest Join Game that is not answered.
    fn answered(&mut self) {
        self.answers = true;
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// A frame of the player's that came while it was to go nowhere: it is held, but a keep-alive goes to `answer` if it is
    /// for the current backend.
    pub(crate) fn see_held(&mut self, frame: Watched<'_>, answer: impl FnOnce(i64)) -> Verdict {
        match self.version.serverbound(frame.id) {
            Serverbound::KeepAlive => {}
            Serverbound::ClientSettings => {
                // It is counted when it is released; but a client that sends it has come into its world.
                if self.unanswered <= 1 {
                    self.forge.entered();
                }
                return Verdict::Pass;
            }
            Serverbound::PluginMessage if self.forge.is_owed() => {
                let message = play::PluginMessage::read_serverbound(frame.payload).ok();
                let answer = message.filter(|message| message.channel == HANDSHAKE);
                return match answer.map(|answer| self.forge.serverbound(answer.data)) {
                    Some(Way::Nowhere) => Verdict::Drop,
                    Some(Way::On) | None => Verdict::Pass,
                };
            }
            Serverbound::Chat => return self.commands.see(frame.payload, &mut self.taken),
            _ => return Verdict::Pass,
        }
        if let Some(id) = play::read_keep_alive(self.version, frame.payload).ok().and_then(|id| self.answer(id)) {
            answer(id);
        }
        Verdict::Drop
    }

    /// A held frame on its way to a new backend: of the old world whatever it is, so nothing of it lifts the fence.
    pub(crate) fn see_released(&mut self, frame: Watched<'_>) -> Verdict {
        match self.version.serverbound(frame.id) {
            Serverbound::OldWorld | Serverbound::TabComplete | Serverbound::KeepAlive => {
                self.dropped += 1;
                Verdict::Drop
            }
            kind @ (Serverbound::ClientSettings | Serverbound::PluginMessage) => {
                if kind == Serverbound::ClientSettings {
                    self.answered();
                }
                self.remember(frame.payload, kind)
            }
            _ => Verdict::Pass,
        }
    }

    /// Keeps what the next backend has to be told again. What answers the node itself goes nowhere.
    fn remember(&mut self, payload: &[u8], kind: Serverbound) -> Verdict {
        if kind == Serverbound::ClientSettings {
            remember(&mut self.settings, payload);
            return Verdict::Pass;
        }
        let Ok(message) = play::PluginMessage::read_serverbound(payload) else { return Verdict::Pass };
        match message.channel {
            channels::REGISTER => {
                self.channels.register(message.data);
                if self.channels.has(HANDSHAKE) {
                    self.forge.is_forge_client();
                }
            }
            channels::UNREGISTER => {
                self.channels.unregister(message.data);
                self.plugin_channel.see_unregistered(message.data);
            }
            BRAND => {
                remember(&mut self.brand, message.data);
                self.came.brand = true;
            }
            HANDSHAKE if self.forge.serverbound(message.data) == Way::Nowhere => return Verdict::Drop,
            // The backend's plugins take what is on it for the node's.
            bungeecord::CHANNEL if self.plugin_channel.is_on() => return Verdict::Drop,
            _ => {}
        }
        Verdict::Pass
    }

    /// The current backend is another one from here on: what the player is still asked in the name of the old one is the
    /// node's from now on. Appends the answers that the old one still waits for to `old`.
    pub(crate) fn change_backend(&mut self, old: &mut Vec<u8>) {
        for id in self.ledger.take_over(Asker::Backend(self.number)) {
            play::put_keep_alive_serverbound(old, self.version, id);
        }
        self.number += 1;
        self.came = Came::default();
        self.plugin_channel.begin(false);
        if let Some(completion) = &mut self.completion {
            completion.new_backend();
        }
    }

    /// The fence falls while there is no backend to tell what the client has not sent.
    pub(crate) fn forget_fence(&mut self) {
        self.fenced = false;
        self.unanswered = 0;
        self.forge.entered();
    }

    /// Lifts the fence for want of the client's own sign: appends what the client has not sent by itself.
    pub(crate) fn lift_fence(&mut self, out: &mut Vec<u8>) {
        self.forget_fence();
        if !self.came.settings && !self.settings.is_empty() {
            play::put_client_settings(out, self.version, &self.settings);
        }
        if !self.came.brand && !self.brand.is_empty() {
            play::put_plugin_message_serverbound(out, self.version, BRAND, &self.brand);
        }
    }
}

fn remember(place: &mut Vec<u8>, payload: &[u8]) {
    place.clear();
    if payload.len() <= REMEMBERED {
        place.extend_from_slice(payload);
    }
}
