//! The kernels for x86-64, and what they share.
//!
//! A kernel is a safe function with `#[target_feature]`. What is unsafe is
//!
//! - to call one: the CPU must have the features that it names. An [`AesNi`] or a [`Vaes`] is only made where it has, and is what
//!   all calls from outside go through;
//! - to go from bytes to registers and back: [`load`], [`store`] and their masked kin in [`vaes`] take references and slices, so
//!   that the bounds are the borrow checker's business and not arithmetic's.
//!
//! Miri knows none of the AES intrinsics, so it cannot vouch for this. Tests do: they compare every byte with the `cfb8` crate's,
//! and let the kernels work at the edges of memory that may not be touched.

use std::arch::x86_64::*;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Secret;

mod aesni;
mod aesni_lanes;
mod lanes;
mod vaes;
mod vaes_lanes;

pub(super) use aesni::available as aesni_available;
pub(super) use vaes::available as vaes_available;

use lanes::Job;

/// A stream on a CPU that has what the modules [`aesni`] and [`aesni_lanes`] need.
pub(super) struct AesNi(Stream);

/// A stream on a CPU that has what all modules here need.
pub(super) struct Vaes(Stream);

impl AesNi {
    /// The start of a stream, if the CPU can.
    pub(super) fn new(secret: &Secret) -> Option<Self> {
        // SAFETY: the CPU has what `Stream::new` needs, which is what `aesni_available` looks for.
        aesni_available().then(|| Self(unsafe { Stream::new(secret) }))
    }

    pub(super) fn encrypt(&mut self, data: &mut [u8]) {
        // SAFETY: `self` was made, so the CPU has what this needs.
        unsafe { aesni::encrypt(&mut self.0, data) }
    }

    pub(super) fn decrypt(&mut self, data: &mut [u8]) {
        // SAFETY: as in `encrypt`.
        unsafe { aesni::decrypt(&mut self.0, data) }
    }

    /// Encrypts the bytes of this stream and those of others.
    pub(super) fn encrypt_with<'a>(&'a mut self, data: &'a mut [u8], others: impl Iterator<Item = (&'a mut Self, &'a mut [u8])>) {
        let mut jobs = std::iter::once((self, data)).chain(others).map(|(stream, data)| Job { stream: &mut stream.0, data });
        // SAFETY: as in `encrypt`.
        unsafe { aesni_lanes::encrypt(&mut jobs) }
    }
}

impl Vaes {
    /// The start of a stream, if the CPU can.
    pub(super) fn new(secret: &Secret) -> Option<Self> {
        // SAFETY: the CPU has what `Stream::new` needs, which is some of what `vaes_available` looks for.
        vaes_available().then(|| Self(unsafe { Stream::new(secret) }))
    }

    pub(super) fn encrypt(&mut self, data: &mut [u8]) {
        // SAFETY: `self` was made, so the CPU has what this needs: wider registers are no help to one stream.
        unsafe { aesni::encrypt(&mut self.0, data) }
    }

    pub(super) fn decrypt(&mut self, data: &mut [u8]) {
        // SAFETY: `self` was made, so the CPU has what this needs.
        unsafe { vaes::decrypt(&mut self.0, data) }
    }

    /// Encrypts the bytes of this stream and those of others.
    pub(super) fn encrypt_with<'a>(&'a mut self, data: &'a mut [u8], others: impl Iterator<Item = (&'a mut Self, &'a mut [u8])>) {
        let mut jobs = std::iter::once((self, data)).chain(others).map(|(stream, data)| Job { stream: &mut stream.0, data });
        // SAFETY: as in `decrypt`.
        unsafe { vaes_lanes::encrypt(&mut jobs) }
    }
}

/// Round keys, and the last 16 ciphertext bytes (at the start, the IV).
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(align(64))]
struct Stream {
    keys: [[u8; 16]; 11],
    last: [u8; 16],
}

impl Stream {
    #[target_feature(enable = "aes,avx")]
    fn new(secret: &Secret) -> Self {
        let mut stream = Self { keys: [[0; 16]; 11], last: *secret.as_bytes() };
        aesni::expand(secret.as_bytes(), &mut stream.keys);
        stream
    }
}

/// Bytes as a register.
#[inline(always)]
fn load(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference is valid for 16 bytes; the instruction asks for no alignment and is of SSE2, which every x86-64 has.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// A register as bytes.
#[inline(always)]
fn store(bytes: &mut [u8; 16], register: __m128i) {
    // SAFETY: as in `load`; the reference is exclusive.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), register) }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;

    /// What a value leaves where it was, when it is dropped.
    fn left_by<T>(value: T) -> Vec<u8> {
        let mut place = Box::new(MaybeUninit::new(value));
        // SAFETY: `place` holds a value, which is not used after this.
        unsafe { place.assume_init_drop() };
        // SAFETY: the types of this test have no padding: every byte was written, and stays readable in the box.
        unsafe { std::slice::from_raw_parts(place.as_ptr().cast::<u8>(), size_of::<T>()) }.to_vec()
    }

    #[test]
    fn nothing_is_left_of_keys_and_states() {
        let secret = Secret::new([0x5a; 16]);
        assert_eq!(size_of::<Stream>(), 12 * 16, "no padding");
        let Some(AesNi(stream)) = AesNi::new(&secret) else { return };
        assert!(stream.keys.iter().chain([&stream.last]).all(|bytes| *bytes != [0; 16]));
        // SAFETY: `AesNi` was made.
        let streams = unsafe { aesni_lanes::tests::full::<4>(&stream) };
        assert!(left_by(streams).iter().all(|byte| *byte == 0));
        if vaes_available() {
            // SAFETY: looked for in the line before.
            let quads = unsafe { vaes_lanes::tests::full::<2>(&stream) };
            assert!(left_by(quads).iter().all(|byte| *byte == 0));
        }
        assert!(left_by(stream).iter().all(|byte| *byte == 0));
        assert!(left_by(secret).iter().all(|byte| *byte == 0));
    }
}
