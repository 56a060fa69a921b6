//! What a node tells a metrics collector. Nothing is counted for it on the way of a frame: it is read off when it is to be sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use moonbridge_proto::telemetry::metrics::{KeyValue, Meter, meter};
use moonbridge_proto::telemetry::names;

use crate::error::SessionError;
use crate::node::Node;
use crate::relay::flusher::Counters;

/// Sizes of [`Counters::batches_by_lines`], as labels.
const STREAMS: [&str; 6] = ["1", "2", "3-4", "5-8", "9-16", "17+"];

/// What became of connections, since the start.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    began: AtomicU64,
    resolved: AtomicU64,
    /// By phase, side and kind: bounded sets.
    failed: Mutex<BTreeMap<[&'static str; 3], u64>>,
}

impl Tally {
    /// A session came to play.
    pub(crate) fn began(&self) {
        self.began.fetch_add(1, Ordering::Relaxed);
    }

    /// A set of permissions was worked out.
    pub(crate) fn resolved(&self) {
        self.resolved.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were.
    #[cfg(test)]
    pub(crate) fn resolved_in_all(&self) -> u64 {
        self.resolved.load(Ordering::Relaxed)
    }

    /// A connection ended by trouble.
    pub(crate) fn failed(&self, error: &SessionError) {
        *self.failures().entry([error.phase.as_str(), error.side.as_str(), error.kind.as_str()]).or_default() += 1;
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<[&'static str; 3], u64>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the node's instruments. They keep what was counted, not the node: its last totals are read when it has ended.
pub(crate) fn export(node: &Arc<Node>, cipher: Vec<Arc<Counters>>) {
    let meter = meter();
    sessions(&meter, node);
    permissions(&meter, node.tally.clone());
    connections(&meter, node.tally.clone());
    encryption(&meter, cipher.into());
}

fn sessions(meter: &Meter, node: &Arc<Node>) {
    let registry = node.registry.clone();
    let now = meter.u64_observable_gauge(names::SESSIONS).with_unit("{session}").with_description("Sessions of this node now");
    now.with_callback(move |observer| observer.observe(registry.len() as u64, &[])).build();

    let tally = node.tally.clone();
    let began = meter.u64_observable_counter(names::SESSIONS_BEGAN).with_unit("{session}").with_description("Sessions that came to play");
    began.with_callback(move |observer| observer.observe(tally.began.load(Ordering::Relaxed), &[])).build();

    let node = Arc::downgrade(node);
    let network = meter.u64_observable_gauge(names::NETWORK_PLAYERS).with_unit("{player}");
    network
        .with_description("Players on the whole network, as the server list shows them")
        .with_callback(move |observer| {
            if let Some(node) = node.upgrade() {
                observer.observe(node.players().into(), &[]);
            }
        })
        .build();
}

fn permissions(meter: &Meter, tally: Arc<Tally>) {
    let resolved = meter.u64_observable_counter(names::PERMISSIONS_RESOLVED).with_unit("{set}");
    resolved
        .with_description("Sets of permissions that were worked out, each for one or more players")
        .with_callback(move |observer| observer.observe(tally.resolved.load(Ordering::Relaxed), &[]))
        .build();
}

fn connections(meter: &Meter, tally: Arc<Tally>) {
    let counter = meter.u64_observable_counter(names::CONNECTIONS_FAILED).with_unit("{connection}");
    let counter = counter.with_description("Connections that ended by trouble, or by a peer's hanging up before play");
    counter
        .with_callback(move |observer| {
            for ([phase, side, kind], count) in tally.failures().clone() {
                let labels = [(names::PHASE, phase), (names::SIDE, side), (names::KIND, kind)];
                observer.observe(count, &labels.map(|(name, value)| KeyValue::new(name, value)));
            }
        })
        .build();
}

fn encryption(meter: &Meter, workers: Arc<[Arc<Counters>]>) {
    type Counter = fn(&Counters) -> &AtomicU64;
    let counters: [(&'static str, &'static str, &'static str, Counter); 3] = [
        (names::CIPHER_BYTES, "By", "Bytes encrypted for players", |counters| &counters.bytes),
        (names::CIPHER_TIME, "ns", "Time that encrypting for players took", |counters| &counters.nanoseconds),
        (names::CIPHER_STREAMS, "{stream}", "Streams that were encrypted, all batches together", |counters| &counters.lines),
    ];
    for (name, unit, description, counter) in counters {
        let workers = workers.clone();
        let total = meter.u64_observable_counter(name).with_unit(unit).with_description(description);
        total.with_callback(move |observer| observer.observe(sum(&workers, counter), &[])).build();
    }
    let batches = meter.u64_observable_counter(names::CIPHER_BATCHES).with_unit("{batch}");
    batches
        .with_description("How often the cipher was run, by the number of streams it had side by side")
        .with_callback(move |observer| {
            for (index, streams) in STREAMS.into_iter().enumerate() {
                let count = sum(&workers, |counters| &counters.batches_by_lines[index]);
                observer.observe(count, &[KeyValue::new(names::STREAMS, streams)]);
            }
        })
        .build();
}

fn sum(workers: &[Arc<Counters>], counter: impl Fn(&Counters) -> &AtomicU64) -> u64 {
    workers.iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
}
