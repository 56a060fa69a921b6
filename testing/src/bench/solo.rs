//! The smallest network: a replica with an embedded store, a node, one backend.

use std::net::SocketAddr;

use tempfile::TempDir;

use crate::network::{Plane, folder};

/// A replica and its node, which leads everybody to one backend.
pub(super) struct Solo {
    pub(super) node: Plane,
    replica: Plane,
    _store: TempDir,
}

impl Solo {
    /// Starts both and waits until they have found each other; `config` is the node's, beside where its replica is.
    pub(super) async fn start(backend: SocketAddr, config: &str) -> Solo {
        let store = folder();
        let replica = Plane::replica("bench", &format!("[store]\nembedded = {{ data_dir = {:?} }}\n", store.path())).await;
        replica.cli().ok(&["backend", "set", "bench", "--address", &backend.to_string()]).await;
        replica.cli().ok(&["route", "set", "*", "--backends", "bench"]).await;
        let node = Plane::node("bench", &format!("control = [\"{}\"]\n{config}", replica.url())).await;
        replica.cli().until(&["node", "list"], |rows| rows.len() == 1).await;
        Solo { node, replica, _store: store }
    }

    /// Waits until all players have left.
    pub(super) async fn emptied(&self) {
        self.replica.cli().until(&["player", "list"], |rows| rows.is_empty()).await;
    }
}
