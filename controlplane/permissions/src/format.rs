//! Other systems' files.

pub mod bungeecord;
pub mod luckperms;

use crate::holder::{Group, User};
use crate::track::Track;

/// What a file says.
#[derive(Debug, Default)]
pub struct Imported {
    /// Groups by name, none twice.
    pub groups: Vec<Group>,
    /// Tracks by name, none twice.
    pub tracks: Vec<Track>,
    /// Users sorted by UUID, none twice.
    pub users: Vec<User>,
    /// What cannot be taken over; the rest is.
    pub left_out: Vec<LeftOut>,
}

/// Something in a file that cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Where: `users.6f1f6b0e-….nodes[3] (r=[)`.
    pub path: String,
    /// Why not.
    pub problem: String,
}

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// It is no JSON, or ends too soon, or something in it is of another type; with line and column.
    #[error("not a LuckPerms export: {0}")]
    Json(#[from] serde_json::Error),
    /// The same user, group or track twice, or the like.
    #[error("{path}: {problem}")]
    Invalid {
        /// Where.
        path: String,
        /// What.
        problem: String,
    },
}
