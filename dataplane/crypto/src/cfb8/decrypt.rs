//! One direction's decryption.

use std::fmt;

use super::{Kernel, Secret, portable};

/// Decrypts one stream, in pieces of any length.
pub struct Decryptor {
    engine: Box<portable::Decrypt>,
}

impl Decryptor {
    /// The start of a stream, with the best kernel of this machine.
    #[must_use]
    pub fn new(secret: &Secret) -> Self {
        Self { engine: Box::new(portable::Decrypt::new(secret)) }
    }

    /// The start of a stream with this kernel; `None` if the machine does not have it.
    #[must_use]
    pub fn with_kernel(secret: &Secret, kernel: Kernel) -> Option<Self> {
        kernel.available().then(|| Self::new(secret))
    }

    /// Decrypts the stream's next bytes in place.
    pub fn decrypt(&mut self, data: &mut [u8]) {
        self.engine.decrypt(data);
    }
}

impl fmt::Debug for Decryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decryptor").finish_non_exhaustive()
    }
}
