//! Two replicas and two nodes: what is one network to its players.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use moonbridge_proto::v1;
use moonbridge_proto::v1::permission_service_client::PermissionServiceClient;
use serde_json::Value;

use super::Plane;
use crate::etcd::Etcd;

/// Two replicas on one etcd, and a node on each of them alone.
pub struct Net {
    /// A replica.
    pub a: Plane,
    /// The other.
    pub b: Plane,
    /// The node on `a`.
    pub first: Plane,
    /// The node on `b`.
    pub second: Plane,
    _etcd: Etcd,
    marks: AtomicU32,
}

/// What its nodes are given beside what makes them find their replicas.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nodes<'a> {
    /// Of both nodes' configuration.
    pub config: &'a str,
    /// The first node's variables.
    pub environment: &'a [(&'a str, &'a str)],
}

impl Net {
    /// Starts it with these backends, in this order on the route `*`.
    pub async fn start(backends: &[(&str, SocketAddr)]) -> Net {
        Net::start_with(backends, Nodes::default()).await
    }

    /// The same with something more for the nodes.
    pub async fn start_with(backends: &[(&str, SocketAddr)], nodes: Nodes<'_>) -> Net {
        let etcd = Etcd::start().await.expect("etcd");
        let a = Plane::replica("a", &on_etcd(&etcd)).await;
        let b = Plane::replica("b", &on_etcd(&etcd)).await;
        for (name, address) in backends {
            a.cli().ok(&["backend", "set", name, "--address", &address.to_string()]).await;
        }
        let names: Vec<_> = backends.iter().map(|(name, _)| *name).collect();
        a.cli().ok(&["route", "set", "*", "--backends", &names.join(",")]).await;
        let first = Plane::start("dataplane", "first", &node_of(&a, nodes.config), nodes.environment).await;
        let second = Plane::node("second", &node_of(&b, nodes.config)).await;
        let net = Net { a, b, first, second, _etcd: etcd, marks: AtomicU32::new(0) };
        net.in_force().await;
        net
    }

    /// Waits until both nodes run on everything that was changed so far: on a group, made for this, that has come after it.
    pub async fn in_force(&self) {
        let name = format!("mark-{}", self.marks.fetch_add(1, Ordering::Relaxed));
        let mut permissions = PermissionServiceClient::connect(self.a.url()).await.expect("a replica");
        let made = permissions.create_group(v1::CreateGroupRequest { name }).await.expect("a new group");
        let revision = made.into_inner().revision;
        let there = |rows: &[Value]| {
            let on_it = |row: &&Value| row["revision"].as_u64().is_some_and(|at| at >= revision);
            rows.iter().filter(on_it).filter(|row| row["name"] == "first" || row["name"] == "second").count() == 2
        };
        self.b.cli().until(&["node", "list"], there).await;
    }

    /// Waits until both replicas know that these players are online.
    pub async fn known(&self, players: &[&str]) {
        for replica in [&self.a, &self.b] {
            let all = |rows: &[Value]| players.iter().all(|player| rows.iter().any(|row| row["name"] == *player));
            replica.cli().until(&["player", "list"], all).await;
        }
    }
}

/// A replica's configuration.
pub fn on_etcd(etcd: &Etcd) -> String {
    format!("lease = \"3s\"\n[store.etcd]\nendpoints = [\"{}\"]\nprefix = \"/test/\"\n", etcd.url())
}

fn node_of(replica: &Plane, config: &str) -> String {
    format!("control = [\"{}\"]\nworkers = 2\n{config}", replica.url())
}
