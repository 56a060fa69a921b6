//! In the game: what players type and complete, and what plugins say on the channel "BungeeCord", over two nodes and two replicas.
//!
//! Players and backends are npm minecraft-protocol's. Alice is on the first node and asks; Bob is on the second, and it is done to him.

mod away;
mod bad_input;
mod benchmark;
mod channel;
mod clients;
mod commands;
mod completion;
mod configured;
mod crowd;
mod permitted;
mod support;
