//! Many streams at once.

use super::Encryptor;

/// What [`encrypt_together`] works on: a stream and its next bytes.
pub trait Lane {
    /// The stream, and the bytes to encrypt in place. Asked more than once within a call, it must name the same two.
    fn parts(&mut self) -> (&mut Encryptor, &mut [u8]);
}

impl Lane for (&mut Encryptor, &mut [u8]) {
    fn parts(&mut self) -> (&mut Encryptor, &mut [u8]) {
        (self.0, self.1)
    }
}

/// Encrypts every lane's bytes, as if each had been encrypted alone: any number of lanes, of any lengths. Allocates nothing.
pub fn encrypt_together<L: Lane>(lanes: &mut [L]) {
    for lane in lanes {
        let (encryptor, data) = lane.parts();
        encryptor.encrypt(data);
    }
}
