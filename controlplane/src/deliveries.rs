//! Deliveries: texts for players and plugins' messages for backends, on their way to the nodes that have them.
//!
//! To a node whose stream is here a delivery goes straight. To another it goes through the store, under the node's lease: every
//! replica watches, and the one that has the node's stream sends it and takes it out ([`store`]). It may be sent twice, the node drops
//! what it has seen. What one replica sends to one node on one way arrives in its order. None is worth a record: what does not fit, or
//! cannot be written, is left out and counted.

mod lane;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moonbridge_proto::v1::{self, delivery};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use lane::Lane;
pub(crate) use store::{Follower, run};

use crate::store::LeaseId;

/// Deliveries that wait for one node, on its stream here or in the store.
const MAX_WAITING: usize = 1_024;
/// Deliveries that wait to be written to the store, for all nodes.
const MAX_UNWRITTEN: usize = 1_024;
/// That some were left out is logged at most so often.
const LOGGED: Duration = Duration::from_secs(1);

/// What is on its way to nodes.
#[derive(Default)]
pub(crate) struct Deliveries {
    state: Mutex<State>,
    /// Something is to be written to the store.
    unwritten: Notify,
    /// Something is to be taken out of it.
    sent: Notify,
}

#[derive(Default)]
struct State {
    /// The nodes whose streams are here.
    lanes: HashMap<String, lane::Queue>,
    /// What the store has, by node and id.
    stored: HashMap<String, BTreeMap<String, Stored>>,
    unwritten: VecDeque<Unwritten>,
    /// Node and id of what is to be taken out of the store.
    sent: VecDeque<(String, String)>,
    left_out: LeftOut,
}

/// A delivery that the store has.
struct Stored {
    /// None once there is nothing to do but to take it out.
    delivery: Option<Arc<v1::Delivery>>,
    /// It is on its node's lane.
    queued: bool,
}

/// A delivery that the store is to have.
struct Unwritten {
    node: String,
    lease: LeaseId,
    delivery: v1::Delivery,
}

/// What was left out.
#[derive(Default)]
struct LeftOut {
    total: u64,
    unlogged: u64,
    logged: Option<Instant>,
}

/// A delivery with an id of its own.
pub(crate) fn delivery(to: delivery::To, what: delivery::What) -> v1::Delivery {
    v1::Delivery { id: Uuid::now_v7().to_string(), to: Some(to), what: Some(what) }
}

impl Deliveries {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Whether the node's stream is here.
    pub(crate) fn has(&self, node: &str) -> bool {
        self.lock().lanes.contains_key(node)
    }

    /// Sends a delivery to a node, whose lease this is. False if it was left out.
    pub(crate) fn send(&self, node: &str, lease: Option<LeaseId>, delivery: v1::Delivery) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let is_on_its_way = match (state.lanes.get(node), lease) {
            (Some(lane), _) => lane.push(Arc::new(delivery), false),
            (None, Some(lease)) => {
                let stored = state.stored.get(node).map_or(0, BTreeMap::len);
                let fits = state.unwritten.len() < MAX_UNWRITTEN && stored < MAX_WAITING;
                if fits {
                    state.unwritten.push_back(Unwritten { node: node.to_owned(), lease, delivery });
                    self.unwritten.notify_one();
                }
                fits
            }
            (None, None) => false,
        };
        if !is_on_its_way {
            state.left_out.count(1);
        }
        is_on_its_way
    }

    /// The node's stream is here from now on: what the store has for it goes first.
    pub(crate) fn attach(self: &Arc<Self>, node: &str) -> Lane {
        let mut guard = self.lock();
        let state = &mut *guard;
        let (lane, queue) = Lane::new(self.clone(), node);
        state.lanes.insert(node.to_owned(), queue);
        for stored in state.stored.get_mut(node).into_iter().flat_map(BTreeMap::values_mut) {
            stored.queued = false;
        }
        self.queue_all(state, node);
        lane
    }

    /// Puts what the store has for a node on its lane, if that is here and has not got it.
    fn queue_all(&self, state: &mut State, node: &str) {
        let ids: Vec<String> = state.stored.get(node).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        for id in ids {
            self.queue(state, node, &id);
        }
    }

    /// Puts one of these on its lane. What does not fit, or cannot be read, is left out: it goes out of the store.
    fn queue(&self, state: &mut State, node: &str, id: &str) {
        let stored = state.stored.get_mut(node).and_then(|stored| stored.get_mut(id)).filter(|stored| !stored.queued);
        let (Some(lane), Some(stored)) = (state.lanes.get(node), stored) else { return };
        stored.queued = stored.delivery.clone().is_some_and(|delivery| lane.push(delivery, true));
        if !stored.queued {
            state.left_out.count(u64::from(stored.delivery.take().is_some()));
            state.sent.push_back((node.to_owned(), id.to_owned()));
            self.sent.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeftOut {
    fn count(&mut self, count: u64) {
        self.total += count;
        self.unlogged += count;
        if self.unlogged > 0 && self.logged.is_none_or(|logged| logged.elapsed() >= LOGGED) {
            let (total, left_out) = (self.total, self.unlogged);
            tracing::warn!(left_out, total, "texts or plugins' messages for nodes that take none, or not so many, are left out");
            self.unlogged = 0;
            self.logged = Some(Instant::now());
        }
    }
}
