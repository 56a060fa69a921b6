//! The ways to compute the cipher, and which of them this machine has.

use std::fmt;
use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
use super::x86;

/// A way to compute the cipher. All give the same bytes; they differ in what they ask of the CPU and in speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// Safe code over the `aes` and `cfb8` crates, everywhere. (`aes` itself uses AES instructions where there are any.)
    Portable,
    /// x86-64 with AES-NI and AVX.
    AesNi,
    /// x86-64 with VAES and AVX-512.
    Vaes,
}

impl Kernel {
    /// From the slowest to the fastest.
    pub const ALL: [Self; 3] = [Self::Portable, Self::AesNi, Self::Vaes];

    /// The fastest that this machine has; looked up once.
    #[must_use]
    pub fn best() -> Self {
        static BEST: LazyLock<Kernel> = LazyLock::new(|| {
            let found = Kernel::ALL.into_iter().rev().find(|kernel| kernel.available());
            found.unwrap_or(Kernel::Portable)
        });
        *BEST
    }

    /// Whether this machine has what the kernel needs.
    #[must_use]
    pub fn available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::AesNi => x86::aesni_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes => x86::vaes_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::AesNi | Self::Vaes => false,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Portable => "portable",
            Self::AesNi => "AES-NI",
            Self::Vaes => "VAES",
        })
    }
}
