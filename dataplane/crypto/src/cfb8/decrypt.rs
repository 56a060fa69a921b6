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
    AesNi(x86::Stream),
    #[cfg(target_arch = "x86_64")]
    Vaes(x86::Stream),
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
        if !kernel.available() {
            return None;
        }
        match kernel {
            Kernel::Portable => Some(Self::portable(secret)),
            #[cfg(target_arch = "x86_64")]
            Kernel::AesNi => Some(Self { engine: Engine::AesNi(x86::Stream::new(secret)?) }),
            #[cfg(target_arch = "x86_64")]
            Kernel::Vaes => Some(Self { engine: Engine::Vaes(x86::Stream::new(secret)?) }),
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::AesNi | Kernel::Vaes => None,
        }
    }

    fn portable(secret: &Secret) -> Self {
        Self { engine: Engine::Portable(Box::new(portable::Decrypt::new(secret))) }
    }

    /// Decrypts the stream's next bytes in place.
    pub fn decrypt(&mut self, data: &mut [u8]) {
        match &mut self.engine {
            Engine::Portable(stream) => stream.decrypt(data),
            // SAFETY: the stream was made with this engine, so `Kernel::available` has said that the CPU has what the kernel needs.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Engine::AesNi(stream) => unsafe { x86::aesni::decrypt(stream, data) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Engine::Vaes(stream) => unsafe { x86::vaes::decrypt(stream, data) },
        }
    }
}

impl fmt::Debug for Decryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decryptor").finish_non_exhaustive()
    }
}
