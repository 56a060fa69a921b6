//! The mods of a Forge backend in the server list: some Forge clients join as such only if the answer to their ping names
//! them. They are asked of the backend and kept for a while, or set by configuration.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use moonbridge_proto::snapshot::{Backend, Snapshot};
use moonbridge_protocol::handshake::{self, Handshake, Next};
use moonbridge_protocol::status::{self, ModInfo};
use moonbridge_protocol::version::{STATUS, Version};
use tokio::time::Instant;

use crate::backend::{self, Limits};
use crate::config::ShownMods;
use crate::conn::Conn;
use crate::node::Node;
use crate::timer::timeout_at;

/// How long an answer is good for, no answer included.
const FRESH: Duration = Duration::from_secs(30);

/// How long a player's ping waits for a backend.
const PATIENCE: Duration = Duration::from_secs(1);

/// An answer has 32,767 characters at most.
const ANSWER: usize = 128 * 1024;

/// What the backends say, by name: at most one of each is asked at a time, however many ask here.
#[derive(Default)]
pub(crate) struct ModInfos(Mutex<HashMap<String, Arc<Slot>>>);

type Slot = tokio::sync::Mutex<Option<Known>>;

#[derive(Clone)]
struct Known {
    since: Instant,
    mods: Option<Arc<ModInfo>>,
}

impl ModInfos {
    /// The mods to show to a player who asks about `host`.
    pub(crate) async fn shown(&self, node: &Node, host: &str) -> Option<Arc<ModInfo>> {
        match &node.config.forge.shown_mods {
            ShownMods::None => return None,
            ShownMods::These(mods) => return Some(mods.clone()),
            ShownMods::Backends => {}
        }
        let snapshot = node.snapshot.load_full()?;
        // Who pings is not known, so not where it may go: the first that somebody may.
        let backend = snapshot.route(host, |_| true).usable().next().cloned()?;
        let slot = self.slot(&snapshot, &backend.name);
        let deadline = Instant::now() + PATIENCE;
        let mut known = timeout_at(deadline, slot.lock()).await.ok()?;
        if let Some(known) = known.as_ref().filter(|known| known.since.elapsed() < FRESH) {
            return known.mods.clone();
        }
        let mods = ask(node, &backend, deadline).await.map(Arc::new);
        *known = Some(Known { since: Instant::now(), mods: mods.clone() });
        mods
    }

    fn slot(&self, snapshot: &Snapshot, name: &str) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() > snapshot.backends.len() {
            slots.retain(|name, _| snapshot.backends.contains_key(name));
        }
        slots.entry(name.to_owned()).or_default().clone()
    }
}

/// Pings a backend.
async fn ask(node: &Node, backend: &Backend, deadline: Instant) -> Option<ModInfo> {
    let limits = Limits { connect: PATIENCE, deadline, held: 0, budget: node.transfer_budget.clone() };
    let mut conn = Conn::new(backend::dial(&backend.address, &limits).await.ok()?);
    let mut request = Vec::new();
    let (host, port) = (backend.address.host.as_str(), backend.address.port);
    handshake::put(&mut request, &Handshake { protocol: Version::newest().protocol, host, port, next: Next::Status });
    status::put_request(&mut request);
    conn.write(&request, deadline).await.ok()?;
    let answer = conn.frame(ANSWER, deadline).await.ok().filter(|answer| answer.id == STATUS)?;
    status::read_response(&answer.payload).ok()?.modinfo
}
