//! A MoonBridge node: logs players in, relays their frames, moves them between backends.
pub mod config;
pub mod control;
pub mod node;
pub mod registry;
