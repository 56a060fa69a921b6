//! What disturbs a phase too much to be measured along with the rest, and has phases of its own: which part of a proxy's CPU time is
//! its own code, and how often it allocates.

pub mod allocations;
pub mod perf;

use serde::Serialize;

/// What a phase was disturbed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// The part of the proxy's CPU time in user mode, sampled by perf.
    UserPart,
    /// The proxy's allocations, counted by a library between it and libc.
    Allocations,
}

impl Probe {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Probe::UserPart => "user part",
            Probe::Allocations => "allocations",
        }
    }
}
