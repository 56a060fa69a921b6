//! The control plane over real gRPC on loopback, with nodes played by the test: on the embedded store, and two replicas on a
//! real etcd.

mod asks;
mod audit;
mod claims;
mod commands;
mod disk;
mod nodes;
mod permissions;
mod replicas;
mod resources;
mod security;
mod support;
mod tokens;
