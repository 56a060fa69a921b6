//! A node's configuration.
/// How a node is set up.
#[derive(Debug, Clone)]
pub struct Config {}
