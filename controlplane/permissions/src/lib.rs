//! Permissions in LuckPerms' model, pure: values in, values out; no I/O, no clock (`now` is given, in seconds since 1970).
//!
//! A [`User`] or [`Group`] has [`Node`]s; [`resolve`](resolve()) walks a user's holders in the documented order and gives a [`Resolved`]
//! set for one set of [`Contexts`], on which [`Resolved::check`] costs tens of nanoseconds and allocates nothing. [`explain`](explain())
//! answers the same question with the way to the answer. [`edit`] changes nodes, [`track`] promotes, [`format`](mod@format) reads and
//! writes other systems' files. What the rules are and where they are known from: `docs/permissions.md`.

mod budget;
pub mod calendar;
pub mod context;
mod cycle;
pub mod duration;
pub mod edit;
mod explain;
pub mod format;
pub mod holder;
pub mod node;
mod resolve;
pub mod settings;
pub mod track;

pub use budget::{Budget, Exhausted};
pub use context::Contexts;
pub use cycle::{find_cycle, makes_cycle};
pub use explain::{Explained, Explanation, MatchedBy, explain, matching};
pub use holder::{DEFAULT_GROUP, Group, Groups, Tracks, User};
pub use node::{Kind, Node, NodeError};
pub use resolve::{Answer, Resolved, resolve};
pub use settings::Settings;
pub use track::Track;
