//! One direction's encryption.

use std::fmt;

#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{Kernel, Secret, portable};

/// Encrypts one stream, in pieces of any length.
pub struct Encryptor {
    pub(super) engine: Engine,
}

pub(super) enum Engine {
    Portable(Box<portable::Encrypt>),
    #[cfg(target_arch = "x86_64")]
    AesNi(x86::Stream),
    #[cfg(target_arch = "x86_64")]
    Vaes(x86::Stream),
}

impl Encryptor {
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
        Self { engine: Engine::Portable(Box::new(portable::Encrypt::new(secret))) }
    }

    /// Encrypts the stream's next bytes in place.
    pub fn encrypt(&mut self, data: &mut [u8]) {
        self.engine.encrypt(data);
    }
}

impl Engine {
    pub(super) fn encrypt(&mut self, data: &mut [u8]) {
        match self {
            Self::Portable(stream) => stream.encrypt(data),
            // SAFETY: a stream is made with this engine only where `Kernel::available` said that the CPU has AES-NI and AVX (VAES
            // includes them).
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)]
            Self::AesNi(stream) | Self::Vaes(stream) => unsafe { x86::aesni::encrypt(stream, data) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Engine {
    /// Encrypts what a kernel of another kind has come across, which is then nothing for it.
    pub(super) fn encrypt_alone<T>(&mut self, data: &mut [u8]) -> Option<T> {
        self.encrypt(data);
        None
    }
}

impl fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryptor").finish_non_exhaustive()
    }
}
