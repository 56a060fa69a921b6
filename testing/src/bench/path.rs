//! The ways that frames can go, compared side by side in one run.

use std::fmt;

use serde::{Serialize, Serializer};

/// Which way the frames of a phase go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// Player to backend.
    Direct,
    /// Through the node.
    Proxied,
    /// Through a node whose workers are scheduled as any other thread (`batch_scheduling = false`).
    Unbatched,
    /// Through a node that encrypts each session alone (online mode).
    Alone,
    /// Through a relay that only copies bytes.
    Raw,
    /// Through the node's relay alone, that looks into no frame.
    Framed,
    /// Through the node's relay alone, that rewrites keep-alives.
    Bridged,
    /// Through nginx's `stream` module.
    Nginx,
    /// Through haproxy in TCP mode.
    Haproxy,
    /// Through another proxy, started by the user's command.
    Peer(String),
}

impl Path {
    /// The path that is called so; any name but the benchmark's own is a user's peer.
    pub fn named(name: &str) -> Path {
        let mut own =
            [Path::Direct, Path::Proxied, Path::Unbatched, Path::Alone, Path::Raw, Path::Framed, Path::Bridged, Path::Nginx, Path::Haproxy]
                .into_iter();
        own.find(|path| path.name() == name).unwrap_or_else(|| Path::Peer(name.to_owned()))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        match self {
            Path::Direct => "direct",
            Path::Proxied => "proxied",
            Path::Unbatched => "unbatched",
            Path::Alone => "alone",
            Path::Raw => "raw",
            Path::Framed => "framed",
            Path::Bridged => "bridged",
            Path::Nginx => "nginx",
            Path::Haproxy => "haproxy",
            Path::Peer(name) => name,
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The order of `paths` in a repeat, the first of which is 0. What grows warm, or slow, over time must not always hit the same path:
/// the order rotates, and every other repeat goes back the way that the one before came.
pub fn order(paths: &[Path], repeat: usize) -> Vec<&Path> {
    let mut order: Vec<&Path> = paths.iter().collect();
    if !order.is_empty() {
        order.rotate_left(repeat / 2 % paths.len());
    }
    if repeat % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_first_and_last_as_often_as_the_others() {
        for count in 2..6 {
            let paths: Vec<Path> = (0..count).map(|index| Path::Peer(index.to_string())).collect();
            let orders: Vec<Vec<&Path>> = (0..2 * count).map(|repeat| order(&paths, repeat)).collect();
            for path in &paths {
                assert_eq!(orders.iter().filter(|order| order.first() == Some(&path)).count(), 2, "{path} of {count}");
                assert_eq!(orders.iter().filter(|order| order.last() == Some(&path)).count(), 2, "{path} of {count}");
                assert!(orders.iter().all(|order| order.contains(&path)));
            }
        }
    }

    #[test]
    fn repeats_go_there_and_back() {
        let paths = [Path::Direct, Path::Proxied, Path::Nginx];
        assert_eq!(order(&paths, 0), [&Path::Direct, &Path::Proxied, &Path::Nginx]);
        assert_eq!(order(&paths, 1), [&Path::Nginx, &Path::Proxied, &Path::Direct]);
        assert_eq!(order(&paths, 2), [&Path::Proxied, &Path::Nginx, &Path::Direct]);
    }

    #[test]
    fn a_name_that_is_not_ours_is_a_peers() {
        assert_eq!(Path::named("haproxy"), Path::Haproxy);
        assert_eq!(Path::named("velocity"), Path::Peer("velocity".to_owned()));
    }
}
