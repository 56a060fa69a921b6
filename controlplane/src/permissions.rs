//! Permissions: users, groups, tracks and settings in the store, and the service that asks and changes them.
//!
//! All of them lie below a *generation* ([`head`]), so that an import writes a whole new one unseen and then makes it visible with one
//! compare-and-put. Groups, tracks and settings are part of the snapshot ([`crate::snapshots`]); users are too many for that: they
//! are read when they are asked for, and their changes are followed ([`users`]).

mod apart;
pub(crate) mod ask;
mod bounds;
mod changes;
mod commit;
mod edits;
mod feed;
mod head;
mod import;
mod journal;
mod list;
mod pages;
pub(crate) mod players;
mod service;
mod stream;
pub(crate) mod sweep;
mod unreadable;
pub(crate) mod users;
mod watch;

pub(crate) use head::FIRST as FIRST_GENERATION;
pub(crate) use service::Permissions;
