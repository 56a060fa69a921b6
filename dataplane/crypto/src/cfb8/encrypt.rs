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
    AesNi(x86::AesNi),
    #[cfg(target_arch = "x86_64")]
    Vaes(x86::Vaes),
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
        let engine = match kernel {
            Kernel::Portable => Engine::Portable(Box::new(portable::Encrypt::new(secret))),
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
        Self { engine: Engine::Portable(Box::new(portable::Encrypt::new(secret))) }
    }

    /// The kernel that this stream is encrypted with.
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

    /// Encrypts the stream's next bytes in place.
    pub fn encrypt(&mut self, data: &mut [u8]) {
        self.engine.encrypt(data);
    }
}

impl Engine {
    pub(super) fn encrypt(&mut self, data: &mut [u8]) {
        match self {
            Self::Portable(stream) => stream.encrypt(data),
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(stream) => stream.encrypt(data),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes(stream) => stream.encrypt(data),
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
        f.debug_struct("Encryptor").field("kernel", &self.kernel()).finish_non_exhaustive()
    }
}
