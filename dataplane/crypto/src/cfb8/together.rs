//! Many streams at once.

use super::Encryptor;
use super::encrypt::Engine;

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
    // A kernel takes those that are its own from the rest; hardly ever is one not.
    while let Some((first, data)) = lanes.next() {
        match &mut first.engine {
            Engine::Portable(stream) => stream.encrypt(data),
            #[cfg(target_arch = "x86_64")]
            Engine::AesNi(stream) => {
                let others = lanes.by_ref().filter_map(|(encryptor, data)| match &mut encryptor.engine {
                    Engine::AesNi(stream) => Some((stream, data)),
                    other => other.encrypt_alone(data),
                });
                stream.encrypt_with(data, others);
            }
            #[cfg(target_arch = "x86_64")]
            Engine::Vaes(stream) => {
                let others = lanes.by_ref().filter_map(|(encryptor, data)| match &mut encryptor.engine {
                    Engine::Vaes(stream) => Some((stream, data)),
                    other => other.encrypt_alone(data),
                });
                stream.encrypt_with(data, others);
            }
        }
    }
}
