//! Where a host leads, in a network of many routes.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::ensure;
use moonbridge_proto::routing::MatchedBy;
use moonbridge_proto::snapshot::{OnKick, Route, Snapshot};

use crate::callgrind::counted_by_callgrind;

const TIMES: u64 = 1000;

/// Decides for this host; how often.
pub(super) fn decide(host: &str, matched_by: MatchedBy) -> anyhow::Result<u64> {
    let mut snapshot = Snapshot::default();
    let hosts = (0..100).map(|n| format!("server{n}.example.net")).chain((0..20).map(|n| format!("*.region{n}.example.net")));
    for host in hosts.chain(["*".to_owned()]) {
        let route = Route { host: host.clone(), backends: vec!["lobby".into(), "hub".into()], on_kick: OnKick::Fallback };
        snapshot.routes.insert(host, Arc::new(route));
    }
    ensure!(snapshot.route(host, |_| true).matched_by == matched_by, "{host} matches otherwise");
    counted_by_callgrind(&mut || {
        for _ in 0..TIMES {
            black_box(snapshot.route(black_box(host), |_| true));
        }
    });
    Ok(TIMES)
}
