//! The leases of the embedded store: which keys end with which lease, and when. They live in memory only.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::store::LeaseId;

/// All leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: HashMap<LeaseId, Lease>,
    ends: BTreeSet<(Instant, LeaseId)>,
}

#[derive(Debug)]
struct Lease {
    ttl: Duration,
    end: Instant,
    keys: BTreeSet<String>,
}

impl Leases {
    /// A new lease. Ids are random, so that a lease from before a restart never means another one after it.
    pub(super) fn grant(&mut self, ttl: Duration, now: Instant) -> LeaseId {
        let id = loop {
            let id = fastrand::i64(1..);
            if !self.leases.contains_key(&id) {
                break id;
            }
        };
        let end = now + ttl;
        self.leases.insert(id, Lease { ttl, end, keys: BTreeSet::new() });
        self.ends.insert((end, id));
        id
    }

    /// Lets it live for its whole time again; `false` if it has ended.
    pub(super) fn keep_alive(&mut self, id: LeaseId, now: Instant) -> bool {
        let Some(lease) = self.leases.get_mut(&id) else { return false };
        self.ends.remove(&(lease.end, id));
        lease.end = now + lease.ttl;
        self.ends.insert((lease.end, id));
        true
    }

    /// Whether it lives.
    pub(super) fn contains(&self, id: LeaseId) -> bool {
        self.leases.contains_key(&id)
    }

    /// Moves a key from one lease to another; 0 is none.
    pub(super) fn moved(&mut self, key: &str, from: LeaseId, to: LeaseId) {
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            lease.keys.insert(key.to_owned());
        }
    }

    /// Ends a lease: the keys to remove, or `None` if there is no such lease.
    pub(super) fn end(&mut self, id: LeaseId) -> Option<BTreeSet<String>> {
        let lease = self.leases.remove(&id)?;
        self.ends.remove(&(lease.end, id));
        Some(lease.keys)
    }

    /// When the next lease ends, if it is not kept alive.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The lease that ended first, if one has.
    pub(super) fn ended(&self, now: Instant) -> Option<LeaseId> {
        self.ends.first().filter(|(end, _)| *end <= now).map(|(_, id)| *id)
    }
}
