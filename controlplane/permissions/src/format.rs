//! Other systems' files.

pub mod bungeecord;
pub mod luckperms;

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::holder::{Group, User};
use crate::track::Track;

/// The most characters of a file's own words that a [`LeftOut`] repeats.
const SHOWN: usize = 60;

/// The most that a file's import leaves out by name; what more there is, is counted.
const MAX_LEFT_OUT: usize = 100_000;

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
    /// It is no JSON, or ends too soon, or something in it is of another type, or there is too much of it; with line and column.
    #[error("not a LuckPerms export: {0}")]
    Json(#[from] serde_json::Error),
    /// The same user, group or track twice.
    #[error("{path}: {problem}")]
    Invalid {
        /// Where.
        path: String,
        /// What.
        problem: String,
    },
}

/// What has been read of a file so far.
#[derive(Default)]
struct Gathered {
    groups: BTreeMap<Arc<str>, Group>,
    tracks: BTreeMap<Arc<str>, Track>,
    users: BTreeMap<Uuid, User>,
    left_out: Vec<LeftOut>,
    more_left_out: usize,
}

impl Gathered {
    fn leave_out(&mut self, path: impl Into<String>, problem: impl ToString) {
        match self.left_out.len() < MAX_LEFT_OUT {
            true => self.left_out.push(LeftOut { path: path.into(), problem: problem.to_string() }),
            false => self.more_left_out += 1,
        }
    }
}

impl From<Gathered> for Imported {
    fn from(gathered: Gathered) -> Self {
        let Gathered { groups, tracks, users, mut left_out, more_left_out } = gathered;
        if more_left_out > 0 {
            left_out.push(LeftOut { path: "elsewhere".to_owned(), problem: format!("{more_left_out} more, which are not listed") });
        }
        Self {
            groups: groups.into_values().collect(),
            tracks: tracks.into_values().collect(),
            users: users.into_values().collect(),
            left_out,
        }
    }
}

/// The file's own words, cut short.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
