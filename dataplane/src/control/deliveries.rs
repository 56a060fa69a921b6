//! Deliveries from the replica. The same may come twice, from one replica and then from another: what was seen is done once.

use std::collections::{HashSet, VecDeque};

use moonbridge_proto::v1;

use crate::registry::Registry;

/// Deliveries that are remembered.
const REMEMBERED: usize = 4_096;

/// The longest id that a delivery may have, in bytes.
const MAX_ID: usize = 64;

/// The deliveries that this node has seen.
#[derive(Default)]
pub(super) struct Deliveries {
    seen: HashSet<String>,
    /// The same, the oldest first.
    order: VecDeque<String>,
}

impl Deliveries {
    /// Hands a delivery to whom it is for, unless it has been seen before.
    pub(super) fn deliver(&mut self, registry: &Registry, delivery: v1::Delivery) {
        if !self.is_new(&delivery.id) {
            return;
        }
        let id = delivery.id.clone();
        if registry.deliver(delivery) == 0 {
            tracing::debug!(delivery = id, "nobody here takes what came for this node's sessions");
        }
    }

    fn is_new(&mut self, id: &str) -> bool {
        if id.len() > MAX_ID || !self.seen.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_remembered() {
        let mut deliveries = Deliveries::default();
        for id in 0..=REMEMBERED {
            assert!(deliveries.is_new(&id.to_string()));
        }
        assert_eq!((deliveries.seen.len(), deliveries.order.len()), (REMEMBERED, REMEMBERED));
        assert!(!deliveries.is_new("1"));
        assert!(deliveries.is_new("0"), "the oldest is forgotten");
        assert!(!deliveries.is_new(&"x".repeat(MAX_ID + 1)));
    }
}
