//! A MoonBridge control-plane replica: the store, the nodes' streams, the admin API.
pub mod store;
