//! What is counted.

mod session;

use self::session::{Part, Past};

/// Something that is counted.
pub(crate) struct Subject {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What one is of what is done again and again.
    pub(crate) unit: &'static str,
    /// Does it, most of it under [`crate::callgrind::counted_by_callgrind`], and gives how many units were counted.
    pub(crate) run: fn() -> anyhow::Result<u64>,
}

const fn subject(name: &'static str, unit: &'static str, run: fn() -> anyhow::Result<u64>) -> Subject {
    Subject { name, unit, run }
}

/// All of it.
pub(crate) const SUBJECTS: &[Subject] = &[
    subject("session: w1", ECHO, || session::echo(Part::Session, Past::Initial, 1, 1024)),
    subject("session: burst32", ECHO, || session::echo(Part::Session, Past::Initial, 32, 32)),
    subject("session: burst32, moved", ECHO, || session::echo(Part::Session, Past::Moved, 32, 32)),
    subject("worker: w1", ECHO, || session::echo(Part::Worker, Past::Initial, 1, 1024)),
    subject("worker: burst32", ECHO, || session::echo(Part::Worker, Past::Initial, 32, 32)),
];

/// A frame that goes through the session both ways.
const ECHO: &str = "frame and its echo";
