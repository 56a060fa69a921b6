//! The commands that a node answers itself: players type them into the chat line, and they never get to a backend.

pub(crate) mod pace;
mod table;

pub use table::{Kind, Table};
