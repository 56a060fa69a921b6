//! The snapshot: validated once, then only read.
/// TODO(helper)
#[derive(Debug, Clone)]
pub struct Snapshot {}
