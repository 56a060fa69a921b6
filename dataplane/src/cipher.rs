//! The encryption of a player's connection.

use std::fmt;

use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Secret};

/// Both directions of a player's connection, each a stream of its own.
pub(crate) struct Ciphers {
    /// What goes to the player.
    pub(crate) encryptor: Encryptor,
    /// What comes from it.
    pub(crate) decryptor: Decryptor,
}

impl Ciphers {
    /// The streams that this secret begins.
    pub(crate) fn new(secret: &Secret) -> Ciphers {
        Ciphers { encryptor: Encryptor::new(secret), decryptor: Decryptor::new(secret) }
    }
}

impl fmt::Debug for Ciphers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ciphers").finish_non_exhaustive()
    }
}
