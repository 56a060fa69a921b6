//! MoonBridge's harness, end-to-end tests and benchmarks.
//!
//! The end-to-end tests start what an operator would start, as processes: the `moonbridge` binary ([`network`]), players and backends
//! written by others ([`peer`]), etcd. Beside those stand a client and a server of our own that fail a test where the real ones would throw or hang
//! ([`model`]). What only a broken or hostile peer would do is done over raw frames ([`wire`]).
pub mod admin;
pub mod bench;
pub mod certificates;
pub mod collector;
pub mod etcd;
pub mod model;
pub mod network;
pub mod paper_node;
pub mod peer;
pub mod process;
pub mod session_server;
pub mod wire;
