//! Many streams at once.

use super::Encryptor;
#[cfg(target_arch = "x86_64")]
use super::{encrypt::Engine, x86};

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
    let mut jobs = lanes.iter_mut().filter_map(|lane| {
        let (encryptor, data) = lane.parts();
        match &mut encryptor.engine {
            _ if data.is_empty() => None,
            #[cfg(target_arch = "x86_64")]
            Engine::Vaes(stream) => Some(x86::Job { stream, data }),
            engine => {
                engine.encrypt(data);
                None
            }
        }
    });
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    unsafe {
        x86::vaes_lanes::encrypt(&mut jobs)
    };
}
