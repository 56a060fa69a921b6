//! What sessions elsewhere have for those of this node: texts for players, messages for the plugins of backends.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use moonbridge_proto::v1::{self, delivery, player_text};
use moonbridge_protocol::text::Text;
use uuid::Uuid;

use super::{Registry, SessionCommand, State};

/// The longest text and the longest message: what fits a packet.
const MAX_BYTES: usize = 32_767;

/// Places of a session's queue that are kept for what an admin wants of it.
const FOR_COMMANDS: usize = 16;

/// Something for a session. There is no outcome: it is done or left out.
#[derive(Debug, Clone)]
pub enum Delivered {
    /// For the player, in chat.
    Text(Arc<Text>),
    /// For the plugins of the backend that the player is on, on the channel `BungeeCord`.
    PluginMessage {
        /// It is meant for this backend and no other; none: for whichever the player is on.
        backend: Option<Arc<str>>,
        /// What the plugins get.
        data: Arc<[u8]>,
    },
}

/// The sessions on each backend; the oldest come first, so that what goes to a backend goes through the same session for long.
#[derive(Default)]
pub(super) struct OnBackends(HashMap<String, BTreeSet<Uuid>>);

impl OnBackends {
    pub(super) fn enter(&mut self, backend: &str, id: Uuid) {
        self.0.entry(backend.to_owned()).or_default().insert(id);
    }

    pub(super) fn leave(&mut self, backend: &str, id: &Uuid) {
        if let Some(sessions) = self.0.get_mut(backend) {
            sessions.remove(id);
            if sessions.is_empty() {
                self.0.remove(backend);
            }
        }
    }

    /// Those on this backend, from the one after `after` on.
    fn after(&self, backend: &str, after: Option<&Uuid>) -> impl Iterator<Item = &Uuid> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.get(backend).into_iter().flat_map(move |sessions| sessions.range((from, Bound::Unbounded)))
    }
}

impl Registry {
    /// Hands over what came from elsewhere; says how many sessions have got it.
    pub(crate) fn deliver(&self, delivery: v1::Delivery) -> usize {
        use delivery::{To, What};
        let v1::Delivery { to, what, .. } = delivery;
        match (to, what) {
            (Some(to), Some(What::Text(text))) => {
                let Some(text) = read(text) else { return 0 };
                let (state, text) = (self.lock(), Delivered::Text(Arc::new(text)));
                match to {
                    To::SessionId(id) => usize::from(state.hand_over(id.parse().ok().as_ref(), &text)),
                    To::Everybody(true) => state.live.keys().filter(|id| state.hand_over(Some(id), &text)).count(),
                    To::Everybody(false) | To::Backend(_) => 0,
                }
            }
            (Some(To::SessionId(id)), Some(What::PluginMessage(data))) if data.len() <= MAX_BYTES => {
                let message = Delivered::PluginMessage { backend: None, data: data.into() };
                usize::from(self.lock().hand_over(id.parse().ok().as_ref(), &message))
            }
            (Some(To::Backend(backend)), Some(What::PluginMessage(data))) if data.len() <= MAX_BYTES => {
                usize::from(self.deliver_to_backend(&backend.into(), &data.into(), None))
            }
            _ => 0,
        }
    }

    /// Hands a message for a backend's plugins to a session that is on it. `not_by`: to one after this, which is there no more.
    pub(crate) fn deliver_to_backend(&self, backend: &Arc<str>, data: &Arc<[u8]>, not_by: Option<&Uuid>) -> bool {
        let message = Delivered::PluginMessage { backend: Some(backend.clone()), data: data.clone() };
        let state = self.lock();
        // Not to another if this one's queue is full: what comes later must not come first.
        let first = state.on_backends.after(backend, not_by).find(|id| state.is_open(id));
        state.hand_over(first, &message)
    }
}

impl State {
    /// Whether the session takes anything.
    fn is_open(&self, id: &Uuid) -> bool {
        self.live.get(id).is_some_and(|live| live.playing.is_some() && live.commands.is_some())
    }

    /// Whether the session is there and had room for it.
    fn hand_over(&self, id: Option<&Uuid>, delivered: &Delivered) -> bool {
        let in_play = id.and_then(|id| self.live.get(id)).filter(|live| live.playing.is_some());
        let commands = in_play.and_then(|live| live.commands.as_ref()).filter(|commands| commands.capacity() > FOR_COMMANDS);
        commands.is_some_and(|commands| commands.try_send(SessionCommand::Deliver(delivered.clone())).is_ok())
    }
}

/// A text for a player; none if it is too long, or none at all.
fn read(text: v1::PlayerText) -> Option<Text> {
    match text.text? {
        player_text::Text::Legacy(text) => Some(Text::legacy(&text)).filter(|_| text.len() <= MAX_BYTES),
        player_text::Text::Json(json) if json.len() <= MAX_BYTES => Text::from_json(&json).ok(),
        player_text::Text::Json(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{QUEUE, Registration};

    fn begin(registry: &Arc<Registry>, backend: &str) -> (Uuid, Registration) {
        let id = Uuid::now_v7();
        (id, registry.register(id, backend))
    }

    fn text(to: delivery::To, text: &str) -> v1::Delivery {
        let text = v1::PlayerText { text: Some(player_text::Text::Legacy(text.to_owned())) };
        v1::Delivery { to: Some(to), what: Some(delivery::What::Text(text)), ..v1::Delivery::default() }
    }

    fn message(to: delivery::To, data: &[u8]) -> v1::Delivery {
        v1::Delivery { to: Some(to), what: Some(delivery::What::PluginMessage(data.to_vec())), ..v1::Delivery::default() }
    }

    /// What a session has got.
    fn got(registration: &mut Registration) -> Vec<String> {
        let mut got = Vec::new();
        while let Some(command) = registration.commands.try_recv() {
            got.push(match command {
                SessionCommand::Deliver(Delivered::Text(text)) => text.plain(),
                SessionCommand::Deliver(Delivered::PluginMessage { backend, data }) => {
                    format!("{}: {}", backend.as_deref().unwrap_or("any"), String::from_utf8_lossy(&data))
                }
                other => panic!("{other:?}"),
            });
        }
        got
    }

    #[test]
    fn texts_reach_one_player_or_everybody_and_messages_one_session_of_the_backend() {
        let registry = Arc::new(Registry::default());
        let ((ann, mut by_ann), (_, mut by_bob)) = (begin(&registry, "lobby"), begin(&registry, "lobby"));
        let to_ann = || delivery::To::SessionId(ann.to_string());
        let to_lobby = || delivery::To::Backend("lobby".to_owned());
        assert_eq!(registry.deliver(text(to_ann(), "hello")), 1);
        assert_eq!(registry.deliver(text(delivery::To::Everybody(true), "all")), 2);
        assert_eq!(registry.deliver(message(to_ann(), b"here")), 1);
        assert_eq!(registry.deliver(message(to_lobby(), b"one")), 1);
        assert_eq!(got(&mut by_ann), ["hello", "all", "any: here", "lobby: one"]);
        assert_eq!(got(&mut by_bob), ["all"]);

        by_ann.moved("arena");
        assert_eq!(registry.deliver(message(to_lobby(), b"two")), 1);
        assert_eq!((got(&mut by_ann), got(&mut by_bob)), (vec![], vec!["lobby: two".to_owned()]));
        drop(by_ann);
        by_bob.moved("arena");
        assert_eq!(registry.deliver(message(to_lobby(), b"three")), 0);
        assert_eq!(registry.deliver(text(to_ann(), "late")), 0);
        assert_eq!(registry.deliver(message(delivery::To::Backend("arena".to_owned()), b"four")), 1);
        drop(by_bob);
        assert!(registry.lock().on_backends.0.is_empty());
    }

    #[test]
    fn a_session_that_is_not_there_any_more_passes_a_message_on_until_there_is_none_left() {
        let registry = Arc::new(Registry::default());
        let (lobby, data): (Arc<str>, Arc<[u8]>) = ("lobby".into(), (*b"hello").into());
        let (mut ann, mut bob) = (begin(&registry, "lobby"), begin(&registry, "lobby"));
        assert!(registry.deliver_to_backend(&lobby, &data, Some(&ann.0)));
        assert_eq!((got(&mut ann.1), got(&mut bob.1)), (vec![], vec!["lobby: hello".to_owned()]));
        assert!(!registry.deliver_to_backend(&lobby, &data, Some(&bob.0)));
        registry.displace(&ann.0);
        assert!(registry.deliver_to_backend(&lobby, &data, None), "one that is to end is passed over");
        assert_eq!(got(&mut bob.1).len(), 1);
    }

    #[test]
    fn nonsense_is_left_out() {
        let registry = Arc::new(Registry::default());
        let (ann, mut by_ann) = begin(&registry, "lobby");
        let to_ann = || delivery::To::SessionId(ann.to_string());
        let json = v1::PlayerText { text: Some(player_text::Text::Json("{".to_owned())) };
        let nonsense = [
            v1::Delivery::default(),
            v1::Delivery { to: Some(to_ann()), ..v1::Delivery::default() },
            v1::Delivery { to: Some(to_ann()), what: Some(delivery::What::Text(json)), ..v1::Delivery::default() },
            text(delivery::To::SessionId("ann".to_owned()), "hello"),
            text(delivery::To::Everybody(false), "hello"),
            text(delivery::To::Backend("lobby".to_owned()), "hello"),
            text(to_ann(), &"x".repeat(MAX_BYTES + 1)),
            message(to_ann(), &[0; MAX_BYTES + 1]),
            message(delivery::To::Everybody(true), b"hello"),
        ];
        for delivery in nonsense {
            assert_eq!(registry.deliver(delivery.clone()), 0, "{delivery:?}");
        }
        assert_eq!(got(&mut by_ann), Vec::<String>::new());
    }

    #[test]
    fn a_session_that_does_not_come_to_it_gets_no_more_but_still_takes_commands() {
        let registry = Arc::new(Registry::default());
        let (ann, mut by_ann) = begin(&registry, "lobby");
        let delivered = (0..QUEUE).filter(|_| registry.deliver(text(delivery::To::SessionId(ann.to_string()), "hello")) == 1).count();
        assert_eq!(delivered, QUEUE - FOR_COMMANDS);
        let kick = SessionCommand::Kick { reason: Text::default(), reply: tokio::sync::oneshot::channel().0 };
        assert!(registry.command(&ann, kick).is_ok());
        for _ in 0..delivered {
            assert!(matches!(by_ann.commands.try_recv(), Some(SessionCommand::Deliver(_))));
        }
        assert!(matches!(by_ann.commands.try_recv(), Some(SessionCommand::Kick { .. })));
    }
}
