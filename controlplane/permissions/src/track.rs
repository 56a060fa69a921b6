//! Tracks: orders of groups that users are promoted and demoted along.

use std::sync::Arc;

use crate::context::Contexts;
use crate::holder::{Groups, NameError, User, name};

/// An order of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    name: Arc<str>,
    groups: Vec<Arc<str>>,
}

/// A step along a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Up.
    Promote,
    /// Down.
    Demote,
}

/// A step that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The group it was on; `None`: on none of the track's.
    pub from: Option<Arc<str>>,
    /// The group it is on; `None`: it has left the track at its lower end.
    pub to: Option<Arc<str>>,
}

/// Why a step cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrackError {
    /// The track has no group (LuckPerms: fewer than two cannot be moved along).
    #[error("the track {0} has no groups")]
    Empty(String),
    /// The user is on several of the track's groups in these contexts.
    #[error("the user is on several groups of the track {track} in these contexts: {groups}")]
    Ambiguous {
        /// The track.
        track: String,
        /// The groups.
        groups: String,
    },
    /// The user is at the end.
    #[error("the user is at the end of the track {0} already")]
    End(String),
    /// The user is on none of the track's groups, and is to be demoted.
    #[error("the user is on no group of the track {0} in these contexts")]
    NotOnTrack(String),
    /// The next group does not exist.
    #[error("the next group of the track, {0}, does not exist")]
    NoGroup(String),
}

impl Track {
    /// A track of these groups, in this order; none twice.
    ///
    /// # Errors
    /// If a name is none, or a group comes twice.
    pub fn new<'a>(track: &str, groups: impl IntoIterator<Item = &'a str>) -> Result<Self, NameError> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for group in groups {
            let group = name(group)?;
            if names.contains(&group) {
                return Err(NameError(format!("{group} twice")));
            }
            names.push(group);
        }
        Ok(Self { name: name(track)?, groups: names })
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its groups from the lowest up.
    pub fn groups(&self) -> &[Arc<str>] {
        &self.groups
    }
}

/// Moves a user one step along a track, in exactly these contexts; the user is as before if it fails.
///
/// # Errors
/// If there is no step to make.
pub fn step(
    user: &mut User,
    track: &Track,
    groups: &Groups,
    contexts: &Contexts,
    direction: Direction,
    now: i64,
) -> Result<Moved, TrackError> {
    let _ = (user, track, groups, contexts, direction, now);
    todo!("helper A")
}
