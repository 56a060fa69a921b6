//! Permissions from outside: replicas, nodes and etcd as processes, players that know nothing of it, and what other systems wrote.

mod away;
mod bad_input;
mod benchmark;
mod conflicts;
mod documented;
mod imports;
mod python;
mod restricted;
mod round_trip;
mod sessions;
mod support;
