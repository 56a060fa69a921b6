//! Tracks: orders of groups that users are promoted and demoted along.

use std::sync::Arc;

use crate::context::Contexts;
use crate::holder::{DEFAULT_GROUP, Groups, NameError, User, name};
use crate::node::Node;

/// The most groups of a track.
pub const MAX_GROUPS: usize = 100;

/// An order of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    name: Arc<str>,
    groups: Vec<Arc<str>>,
}

/// Why there can be no such track.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoTrack {
    /// A name is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A group comes twice.
    #[error("the group {0} is on it twice")]
    Twice(String),
    /// There are too many groups.
    #[error("expected at most {MAX_GROUPS} groups")]
    TooLong,
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
    /// If a name is none, a group comes twice, or there are too many.
    pub fn new<'a>(track: &str, groups: impl IntoIterator<Item = &'a str>) -> Result<Self, NoTrack> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for group in groups {
            let group = name(group)?;
            // So few that no set is needed.
            if names.contains(&group) {
                return Err(NoTrack::Twice(group.to_string()));
            }
            if names.len() == MAX_GROUPS {
                return Err(NoTrack::TooLong);
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
/// A step up from none of the track's groups leads to its first one, a step down from the first one off the track. Who has the default
/// group only because everybody has is on it. Until when the user is on a group stays as it is, and the stored primary group goes along
/// if it was the group that is left and there are no contexts: all as in LuckPerms. Nodes that have expired go on the occasion.
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
    let first = track.groups.first().ok_or_else(|| TrackError::Empty(track.name.to_string()))?;
    let from = current(user, track, contexts, now)?;
    let place = from.as_ref().and_then(|from| track.groups.iter().position(|group| group == from));
    let to = match (direction, place) {
        (Direction::Promote, None) => Some(first),
        (Direction::Promote, Some(place)) => Some(track.groups.get(place + 1).ok_or_else(|| TrackError::End(track.name.to_string()))?),
        (Direction::Demote, None) => return Err(TrackError::NotOnTrack(track.name.to_string())),
        (Direction::Demote, Some(place)) => place.checked_sub(1).and_then(|below| track.groups.get(below)),
    };
    if let Some(missing) = to.filter(|group| !groups.contains_key(&***group)) {
        return Err(TrackError::NoGroup(missing.to_string()));
    }
    user.nodes.retain(|node| !node.has_expired(now));
    if let (None, Some(first)) = (&from, to) {
        user.keep_default_beside(&Node::inheritance(first).within(contexts.clone(), None), now);
    }
    replace_parent(user, from.as_ref(), to, contexts);
    if let (Some(from), Some(to), true) = (&from, to, contexts.is_empty())
        && **from == *user.primary_group.as_deref().unwrap_or(DEFAULT_GROUP)
    {
        user.primary_group = Some(Arc::clone(to));
    }
    Ok(Moved { from, to: to.cloned() })
}

/// The one group of the track that the user is on.
fn current(user: &User, track: &Track, contexts: &Contexts, now: i64) -> Result<Option<Arc<str>>, TrackError> {
    let parents = user.nodes.iter().filter(|node| node.is_parent_in(contexts, now));
    let mut on: Vec<Arc<str>> = parents.filter_map(|node| node.group()).filter(|group| track.groups.contains(group)).cloned().collect();
    if contexts.is_empty() && user.has_default_implied(now) {
        on.extend(track.groups.iter().find(|group| ***group == *DEFAULT_GROUP).cloned());
    }
    on.sort();
    on.dedup();
    match on.len() {
        0 | 1 => Ok(on.pop()),
        _ => Err(TrackError::Ambiguous { track: track.name.to_string(), groups: on.join(", ") }),
    }
}

/// The new parent takes the old one's place, if that is written down, and its expiry; of one that is there for good and for a time, both.
fn replace_parent(user: &mut User, from: Option<&Arc<str>>, to: Option<&Arc<str>>, contexts: &Contexts) {
    let is = |node: &Node, group: Option<&Arc<str>>| group.is_some() && node.group() == group && node.contexts() == contexts;
    let old = user.nodes.iter().position(|node| is(node, from));
    let mut expiries: Vec<Option<i64>> = user.nodes.iter().filter(|node| is(node, from) && node.value()).map(Node::expiry).collect();
    if expiries.is_empty() {
        expiries.push(None);
    }
    // Whatever there is for the new parent is replaced, a denial of it too.
    let place = user.nodes.iter().take(old.unwrap_or(user.nodes.len())).filter(|node| !is(node, to)).count();
    user.nodes.retain(|node| !is(node, from) && !is(node, to));
    let parents = to.into_iter().flat_map(|to| expiries.iter().map(|expiry| Node::inheritance(to).within(contexts.clone(), *expiry)));
    user.nodes.splice(place..place, parents);
}
