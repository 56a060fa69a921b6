//! The shared secret.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// The 16 bytes that client and proxy share: key and first IV of both directions. Overwritten when dropped; never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 16]);

/// A shared secret has 16 bytes; these had another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a shared secret has 16 bytes")]
pub struct WrongLength;

impl Secret {
    /// A secret of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for whoever must put them into a cipher or a hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl TryFrom<&[u8]> for Secret {
    type Error = WrongLength;

    fn try_from(bytes: &[u8]) -> Result<Self, WrongLength> {
        bytes.try_into().map(Self).map_err(|_| WrongLength)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(16 bytes)")
    }
}
