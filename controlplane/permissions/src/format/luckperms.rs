//! LuckPerms' exports (`/lp export`), and the data of its web editor.
//!
//! ```json
//! {"groups": {"mod": {"nodes": [{"key": "a.b", "value": true, "expiry": 1790000000, "context": {"world": ["lobby", "hub"]}}]}},
//!  "tracks": {"staff": {"groups": ["mod"]}},
//!  "users": {"6f1f6b0e-3f0e-4d3a-9d55-0a4f6a0f1c11": {"username": "Ada", "primaryGroup": "mod", "nodes": []}}}
//! ```
//! The web editor has a list `permissionHolders` (`type`, `id`, `displayName`, `nodes`) instead of groups and users, and a list of
//! tracks, each with its `id`.

mod read;
mod write;

pub use read::read;
pub use write::Writer;
