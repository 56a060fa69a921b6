//! Many streams at once.

use super::Encryptor;
#[cfg(target_arch = "x86_64")]
use super::encrypt::Engine;
#[cfg(target_arch = "x86_64")]
use super::x86::{self, Job};

/// What [`encrypt_together`] works on: a stream and its next bytes.
pub trait Lane {
    /// The stream, and the bytes to encrypt in place.
    fn parts(&mut self) -> (&mut Encryptor, &mut [u8]);
}

impl Lane for (&mut Encryptor, &mut [u8]) {
    fn parts(&mut self) -> (&mut Encryptor, &mut [u8]) {
        (self.0, self.1)
    }
}

/// Encrypts every lane's bytes, as if each had been encrypted alone: any number of lanes, of any lengths. Allocates nothing.
pub fn encrypt_together<L: Lane>(lanes: &mut [L]) {
    let mut lanes = lanes.iter_mut().map(Lane::parts).filter(|(_, data)| !data.is_empty());
    // Each kernel takes those of its own; the lanes of a call hardly ever have different ones.
    while let Some((first, data)) = lanes.next() {
        match &mut first.engine {
            Engine::Portable(stream) => stream.encrypt(data),
            #[cfg(target_arch = "x86_64")]
            Engine::AesNi(stream) => {
                let rest = (&mut lanes).filter_map(|(encryptor, data)| match &mut encryptor.engine {
                    Engine::AesNi(stream) => Some(Job { stream, data }),
                    other => other.encrypt_alone(data),
                });
                // SAFETY: an AES-NI stream is only made where the CPU has it.
                #[allow(unsafe_code)]
                unsafe {
                    x86::aesni_lanes::encrypt(&mut std::iter::once(Job { stream, data }).chain(rest));
                }
            }
            #[cfg(target_arch = "x86_64")]
            Engine::Vaes(stream) => {
                let rest = (&mut lanes).filter_map(|(encryptor, data)| match &mut encryptor.engine {
                    Engine::Vaes(stream) => Some(Job { stream, data }),
                    other => other.encrypt_alone(data),
                });
                // SAFETY: a VAES stream is only made where the CPU has it.
                #[allow(unsafe_code)]
                unsafe {
                    x86::vaes_lanes::encrypt(&mut std::iter::once(Job { stream, data }).chain(rest));
                }
            }
        }
    }
}
