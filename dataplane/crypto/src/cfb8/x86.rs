//! The kernels for x86-64, and what they share: a stream's key schedule and last ciphertext, and registers to and from bytes.
//!
//! A kernel is a safe function with `#[target_feature]`. What is unsafe is to call one, which asks for the CPU features it
//! names, and to go from bytes to registers and back, which [`load`], [`store`] and their masked kin in [`vaes`] do for
//! references and slices, so that the bounds are the borrow checker's business. Miri knows none of the AES intrinsics: what
//! holds these kernels up are their types, and tests that compare every byte with the `cfb8` crate's and watch the bytes around.

use std::arch::x86_64::*;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Secret;

pub(super) mod aesni;
pub(super) mod aesni_lanes;
mod lanes;
pub(super) mod vaes;
pub(super) mod vaes_lanes;

pub(super) use lanes::Job;

/// A stream: round keys and the last 16 ciphertext bytes (at the start, the IV).
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(align(64))]
pub(super) struct Stream {
    keys: [[u8; 16]; 11],
    last: [u8; 16],
}

impl Stream {
    /// The start of a stream. `None` if the CPU lacks AES-NI.
    pub(super) fn new(secret: &Secret) -> Option<Self> {
        if !aesni::available() {
            return None;
        }
        let mut stream = Self { keys: [[0; 16]; 11], last: *secret.as_bytes() };
        // SAFETY: `expand` needs what `aesni::available` has just found.
        unsafe { aesni::expand(secret.as_bytes(), &mut stream.keys) };
        Some(stream)
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
