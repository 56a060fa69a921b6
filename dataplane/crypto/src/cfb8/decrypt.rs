//! One direction's decryption.

use std::fmt;

#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{Kernel, Secret, portable};

/// Decrypts one stream, in pieces of any length.
pub struct Decryptor {
    engine: Engine,
}

enum Engine {
    Portable(Box<portable::Decrypt>),
    #[cfg(target_arch = "x86_64")]
    AesNi(x86::AesNi),
    #[cfg(target_arch = "x86_64")]
    Vaes(x86::Vaes),
}

impl Decryptor {
    /// The start of a stream, with the best kernel of this machine.
    #[must_use]
    pub fn new(secret: &Secret) -> Self {
        Self::with_kernel(secret, Kernel::best()).unwrap_or_else(|| Self::portable(secret))
    }

    /// The start of a stream with this kernel; `None` if the machine does not have it.
    #[must_use]
    pub fn with_kernel(secret: &Secret, kernel: Kernel) -> Option<Self> {
        let engine = match kernel {
            Kernel::Portable => Engine::Portable(Box::new(portable::Decrypt::new(secret))),
            #[cfg(target_arch = "x86_64")]
            Kernel::AesNi => Engine::AesNi(x86::AesNi::new(secret)?),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes => Engine::Vaes(x86::Vaes::new(secret)?),
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::AesNi | Kernel::Vaes => return None,
        };
        Some(Self { engine })
    }

    fn portable(secret: &Secret) -> Self {
        Self { engine: Engine::Portable(Box::new(portable::Decrypt::new(secret))) }
    }

    /// The kernel that this stream is decrypted with.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        match self.engine {
            Engine::Portable(_) => Kernel::Portable,
            #[cfg(target_arch = "x86_64")]
            Engine::AesNi(_) => Kernel::AesNi,
            #[cfg(target_arch = "x86_64")]
            Engine::Vaes(_) => Kernel::Vaes,
        }
    }

    /// Decrypts the stream's next bytes in place.
    pub fn decrypt(&mut self, data: &mut [u8]) {
        match &mut self.engine {
            Engine::Portable(stream) => stream.decrypt(data),
            #[cfg(target_arch = "x86_64")]
            Engine::AesNi(stream) => stream.decrypt(data),
            #[cfg(target_arch = "x86_64")]
            Engine::Vaes(stream) => stream.decrypt(data),
        }
    }
}

impl fmt::Debug for Decryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decryptor").field("kernel", &self.kernel()).finish_non_exhaustive()
    }
}
