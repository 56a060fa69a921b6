//! LuckPerms' exports (`/lp export`), and the data of its web editor.

use std::io::{self, Read, Write};

use super::{FormatError, Imported};
use crate::holder::{Group, User};
use crate::track::Track;

/// Reads an export, uncompressed.
///
/// # Errors
/// If it is none. What of it alone cannot be used is left out and named.
pub fn read(json: impl Read) -> Result<Imported, FormatError> {
    let _ = json;
    todo!("helper B")
}

/// Writes an export, uncompressed; users as they come. `generated_at` is `yyyy-MM-dd HH:mm:ss z`.
///
/// # Errors
/// If it cannot be written.
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W, generated_at: &str, groups: &[Group], tracks: &[Track]) -> io::Result<Self> {
        let _ = (generated_at, groups, tracks);
        Ok(Self { out })
    }

    /// Writes a user.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn user(&mut self, user: &User) -> io::Result<()> {
        let _ = user;
        todo!("helper B")
    }

    /// Ends.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<W> {
        Ok(self.out)
    }
}
