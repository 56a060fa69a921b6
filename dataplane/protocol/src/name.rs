//! Player names, and the UUIDs that names have in offline mode.

use md5::{Digest, Md5};
use uuid::Uuid;

use crate::login::MAX_NAME;

/// Why something is no player name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty or too long.
    #[error("a name has 1 to 16 characters, not {0}")]
    Length(usize),
    /// It has a character that no name has.
    #[error("a name has letters (a-z), digits and _ only, not {0:?}")]
    Character(char),
}

/// Checks that `name` is 1 to 16 of `A-Z a-z 0-9 _`.
pub fn valid_name(name: &str) -> Result<(), NameError> {
    if let Some(wrong) = name.chars().find(|&c| !c.is_ascii_alphanumeric() && c != '_') {
        return Err(NameError::Character(wrong));
    }
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(NameError::Length(name.len()));
    }
    Ok(())
}

/// The UUID that a server in offline mode gives this name: Java's `UUID.nameUUIDFromBytes` of `OfflinePlayer:` and the name,
/// which is an MD5 without a namespace, marked as version 3.
pub fn offline_uuid(name: &str) -> Uuid {
    let digest = Md5::new().chain_update("OfflinePlayer:").chain_update(name).finalize();
    uuid::Builder::from_md5_bytes(digest.into()).into_uuid()
}
