//! One session a player, on this node: a session claims its player, by UUID and by name in any case, before it goes to any
//! backend, and holds the claim until its backends are closed.
//!
//! A later session of the player takes the claim over at once (or is refused, as the network's settings say); the earlier one is
//! told to end, and the later one waits for that. Of several at once the last one wins, and every other one ends. What other
//! nodes' sessions hold is the control plane's to say: [`Registry::ask`].

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use moonbridge_proto::snapshot::DuplicateLogin;
use moonbridge_proto::v1;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::registry::{Registration, Registry};

/// The player has a session here, and the policy is to refuse another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlreadyConnected;

/// A claim that was made.
pub struct Claimed {
    /// The session's entry.
    pub registration: Registration,
    /// One for each session whose end is to be awaited: it ends (with an error) when that one has ended.
    pub displaced: Vec<oneshot::Receiver<()>>,
}

impl Registry {
    /// Claims a player for a session that logs in.
    ///
    /// # Errors
    /// If another session has it and the policy is to refuse.
    pub fn claim(
        self: &Arc<Self>,
        id: Uuid,
        player: &str,
        player_uuid: &Uuid,
        policy: DuplicateLogin,
    ) -> Result<Claimed, AlreadyConnected> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let holders = state.players.holders(player, player_uuid);
        let is_there = |holder: &Uuid| state.live.get(holder).is_some_and(|live| !live.displaced);
        if policy == DuplicateLogin::Refuse && holders.iter().any(is_there) {
            return Err(AlreadyConnected);
        }
        state.newest_claim = now_unix_ms().max(state.newest_claim + 1);
        let mut after = holders.clone();
        for holder in &holders {
            state.displace(holder);
            // What it still waits for itself is waited for here as well: it may be gone sooner.
            after.extend(state.live.get(holder).into_iter().flat_map(|live| &live.after));
        }
        let mut displaced = Vec::new();
        after.retain(|id| match state.live.get_mut(id) {
            Some(live) => {
                let (waiter, ended) = oneshot::channel();
                // Those that gave up waiting leave nothing behind.
                live.waiters.retain(|waiter| !waiter.is_closed());
                live.waiters.push(waiter);
                displaced.push(ended);
                true
            }
            None => false,
        });
        let started = state.newest_claim;
        let registration = self.enter(state, id, (player, *player_uuid), started, after.into_iter().collect());
        Ok(Claimed { registration, displaced })
    }

    /// The session is to end, if it has not: another node's has claimed its player.
    pub(crate) fn displace(&self, id: &Uuid) {
        self.lock().displace(id);
    }

    /// Asks the control plane whether the player is this session's on the whole network; `None` if it is away. The answer never
    /// comes if it goes away meanwhile.
    pub(crate) fn ask(&self, id: &Uuid) -> Option<oneshot::Receiver<v1::ClaimAnswer>> {
        if !self.is_attached() {
            return None;
        }
        let mut state = self.lock();
        let (sender, answer) = oneshot::channel();
        state.live.get_mut(id)?.answer = Some(sender);
        state.asks.push(*id);
        drop(state);
        self.asked.notify_one();
        Some(answer)
    }

    /// The claims to ask about. From here on the end of these sessions is told.
    pub(crate) fn take_asks(&self) -> Vec<v1::Claim> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let told = |id: Uuid| {
            let live = state.live.get_mut(&id)?;
            live.told = true;
            Some(live.claim(&id))
        };
        std::mem::take(&mut state.asks).into_iter().filter_map(told).collect()
    }

    /// The control plane has answered.
    pub(crate) fn answered(&self, mut answer: v1::ClaimAnswer) {
        // First: the login that waits for the answer goes by them.
        if let Some(permissions) = answer.permissions.take() {
            self.set_permissions(permissions);
        }
        let Ok(id) = Uuid::parse_str(&answer.session_id) else { return };
        let waiting = self.lock().live.get_mut(&id).and_then(|live| live.answer.take());
        if let Some(waiting) = waiting {
            // It may wait no longer.
            let _ = waiting.send(answer);
        }
    }

    /// Enters a session in play, as if a player of its own had logged in.
    #[cfg(test)]
    pub(crate) fn register(self: &Arc<Self>, id: Uuid, backend: &str) -> Registration {
        let claimed = self.claim(id, &id.to_string(), &id, DuplicateLogin::Newest);
        let mut registration = claimed.unwrap_or_else(|_| unreachable!("newest refuses nobody")).registration;
        registration.begin(crate::registry::Playing::on(backend));
        // So that tests can tell what they expect of it.
        self.lock().live.get_mut(&id).expect("just entered").started_unix_ms = 0;
        registration
    }
}

impl Registration {
    /// Whether the session is to end because another one has claimed its player.
    pub fn is_displaced(&self) -> bool {
        self.registry.lock().live.get(&self.id).is_some_and(|live| live.displaced)
    }

    /// Waits until a session that still logs in is to end: it is displaced, or the node shuts down.
    pub async fn to_end(&mut self) {
        while self.commands.recv().await.is_some() {}
    }
}

fn now_unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::registry::Playing;

    const NEWEST: DuplicateLogin = DuplicateLogin::Newest;

    fn claim(registry: &Arc<Registry>, player: &str, uuid: u128) -> Claimed {
        registry.claim(Uuid::now_v7(), player, &Uuid::from_u128(uuid), NEWEST).map_err(|_| "refused").expect("newest")
    }

    fn in_play(registry: &Arc<Registry>, player: &str, uuid: u128) -> Registration {
        let mut registration = claim(registry, player, uuid).registration;
        registration.begin(Playing::on("lobby"));
        registration
    }

    fn ended(claimed: &mut Claimed) -> Vec<bool> {
        claimed.displaced.iter_mut().map(|ended| ended.try_recv() == Err(oneshot::error::TryRecvError::Closed)).collect()
    }

    #[test]
    fn a_later_login_displaces_the_holder_and_waits_for_its_end() {
        let registry = Arc::new(Registry::default());
        for (name, uuid) in [("Ann", 1), ("ANN", 2), ("Other", 1)] {
            let mut old = in_play(&registry, "Ann", 1);
            assert_eq!(registry.len(), 1);
            let mut new = claim(&registry, name, uuid);
            assert!(old.is_displaced() && !new.registration.is_displaced(), "{name}");
            assert!(matches!(old.commands.recv().now_or_never(), Some(None)), "it is to end");
            assert_eq!((ended(&mut new), registry.len()), (vec![false], 0));
            drop(old);
            assert_eq!(ended(&mut new), [true]);
            new.registration.begin(Playing::on("lobby"));
            assert_eq!(registry.len(), 1, "the end of the old one took nothing of the new one's");
            drop(new);
            assert!(registry.is_empty() && registry.lock().players.is_empty());
        }
    }

    #[test]
    fn one_login_can_displace_two_players() {
        let registry = Arc::new(Registry::default());
        let (by_name, by_uuid) = (in_play(&registry, "Ann", 1), in_play(&registry, "Bob", 2));
        let mut new = claim(&registry, "ann", 2);
        assert!(by_name.is_displaced() && by_uuid.is_displaced());
        drop(by_uuid);
        assert_eq!(ended(&mut new).iter().filter(|ended| **ended).count(), 1);
        // What they held beside it can be had, once they have ended.
        let beside = registry.claim(Uuid::now_v7(), "Bob", &Uuid::from_u128(1), DuplicateLogin::Refuse);
        let mut beside = beside.map_err(|_| "refused").expect("nobody is to stay");
        assert_eq!(ended(&mut beside), [false]);
        assert!(registry.claim(Uuid::now_v7(), "Ann", &Uuid::from_u128(3), DuplicateLogin::Refuse).is_err());
        drop(by_name);
        assert_eq!(ended(&mut beside), [true]);
        drop((beside, new));
        assert!(registry.lock().players.is_empty());
    }

    #[test]
    fn of_many_at_once_the_last_wins_and_waits_for_all_that_are_left() {
        let registry = Arc::new(Registry::default());
        let first = in_play(&registry, "Ann", 1);
        let middle = claim(&registry, "Ann", 1);
        let mut last = claim(&registry, "Ann", 1);
        assert!(first.is_displaced() && middle.registration.is_displaced());
        // The middle one goes before the one that it waits for itself.
        drop(middle);
        let left = ended(&mut last).iter().filter(|ended| !**ended).count();
        assert_eq!(left, 1, "the first one is still there");
        drop(first);
        assert!(ended(&mut last).iter().all(|ended| *ended));
        let started = |registration: &Registration| registry.lock().live[&registration.id].started_unix_ms;
        let later = claim(&registry, "Bob", 2).registration;
        assert!(started(&later) > started(&last.registration), "the later one has the larger number");
    }

    #[test]
    fn refuse_refuses_until_the_holder_has_gone() {
        let registry = Arc::new(Registry::default());
        let holder = in_play(&registry, "Ann", 1);
        let again =
            || registry.claim(Uuid::now_v7(), "ann", &Uuid::from_u128(1), DuplicateLogin::Refuse).map(|claimed| claimed.registration);
        assert!(again().is_err() && !holder.is_displaced());
        drop(holder);
        assert!(again().is_ok());
    }

    #[test]
    fn the_control_plane_is_asked_only_while_it_is_there_and_hears_the_end_of_whom_it_was_asked_about() {
        let registry = Arc::new(Registry::default());
        let claimed = claim(&registry, "Ann", 1);
        let id = claimed.registration.id;
        assert!(registry.ask(&id).is_none());
        registry.subscribe();
        registry.set_attached(true);
        // Came and went unseen.
        let unseen = claim(&registry, "Bob", 2);
        assert!(registry.ask(&unseen.registration.id).is_some());
        drop(unseen);
        let mut answer = registry.ask(&id).expect("attached");
        let asked = registry.take_asks();
        assert_eq!(asked.iter().map(|claim| claim.player.as_str()).collect::<Vec<_>>(), ["Ann"]);
        let held = v1::ClaimAnswer { session_id: id.to_string(), held: true, players_elsewhere: 3, permissions: None };
        registry.answered(held.clone());
        assert_eq!(answer.try_recv(), Ok(held.clone()));
        // A second answer, and one to nobody.
        registry.answered(held);
        registry.answered(v1::ClaimAnswer { session_id: Uuid::now_v7().to_string(), ..v1::ClaimAnswer::default() });
        drop(claimed);
        let ends: Vec<_> = registry.take_changes().into_iter().filter_map(|change| change.event).collect();
        let v1::session_event::Event::Ended(end) = &ends[0] else { panic!("expected an end, got {ends:?}") };
        assert_eq!((end.id.as_str(), ends.len()), (id.to_string().as_str(), 1));
        // An answer never comes from a stream that is gone.
        let claimed = claim(&registry, "Ann", 1);
        let mut answer = registry.ask(&claimed.registration.id).expect("attached");
        registry.unsubscribe();
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert!(registry.take_asks().is_empty());
    }

    #[test]
    fn another_nodes_session_displaces_ours() {
        let registry = Arc::new(Registry::default());
        let mut ours = in_play(&registry, "Ann", 1);
        // It may be told twice, and of one that is not there.
        for id in [ours.id, ours.id, Uuid::now_v7()] {
            registry.displace(&id);
        }
        assert!(ours.is_displaced() && matches!(ours.commands.recv().now_or_never(), Some(None)));
        assert_eq!(registry.len(), 0);
        assert!(registry.claim(Uuid::now_v7(), "Ann", &Uuid::from_u128(1), DuplicateLogin::Refuse).is_ok(), "it holds nothing any more");
    }
}
