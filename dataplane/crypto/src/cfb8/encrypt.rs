//! One direction's encryption.

use std::fmt;

use super::{Kernel, Secret, portable};

/// Encrypts one stream, in pieces of any length.
pub struct Encryptor {
    engine: Box<portable::Encrypt>,
}

impl Encryptor {
    /// The start of a stream, with the best kernel of this machine.
    #[must_use]
    pub fn new(secret: &Secret) -> Self {
        Self { engine: Box::new(portable::Encrypt::new(secret)) }
    }

    /// The start of a stream with this kernel; `None` if the machine does not have it.
    #[must_use]
    pub fn with_kernel(secret: &Secret, kernel: Kernel) -> Option<Self> {
        kernel.available().then(|| Self::new(secret))
    }

    /// Encrypts the stream's next bytes in place.
    pub fn encrypt(&mut self, data: &mut [u8]) {
        self.engine.encrypt(data);
    }
}

impl fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryptor").finish_non_exhaustive()
    }
}
