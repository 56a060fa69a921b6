//! How a command ends when it does not end well: an exit code and a message for people.

use std::fmt;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// What happened and what to do next; empty if everything has been said already.
    pub(crate) message: String,
}

/// What commands return.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Refused or failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Failure { code: 1, message: message.into() }
    }

    /// The arguments or a configuration file are wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure { code: 2, message: message.into() }
    }

    /// No control plane answered.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Failure { code: 3, message: message.into() }
    }

    /// Failed, and the output has said so.
    pub(crate) fn said() -> Self {
        Failure { code: 1, message: String::new() }
    }

    /// Whoever read our output has seen enough: end, quietly.
    pub(crate) fn output_closed() -> Self {
        Failure { code: 0, message: String::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
