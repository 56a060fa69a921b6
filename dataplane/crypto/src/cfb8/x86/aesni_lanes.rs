//! Encryption of several streams side by side with AES-NI.

// The compiler unrolls these loops over indices, and neither zips nor maps.
#![allow(clippy::needless_range_loop)]

use std::arch::asm;
use std::arch::x86_64::*;

use zeroize::Zeroize;

use super::lanes::{self, Job, Jobs, Lanes};
use super::{Stream, aesni, load, store};

/// Encrypts every job's bytes.
#[target_feature(enable = "aes,avx")]
pub(super) fn encrypt(jobs: Jobs<'_, '_>) {
    let mut lanes = Lanes::fill(8, jobs);
    if lanes.used() > 4 {
        lanes.encrypt(&mut Streams::<8>::new(), jobs, 4);
    }
    if lanes.used() > 1 {
        lanes.encrypt(&mut Streams::<4>::new(), jobs, 1);
    }
    for Job { stream, data } in lanes.into_jobs() {
        aesni::encrypt(stream, data);
    }
}

/// `N` streams. Where there are any, the CPU has what this module's functions need: see [`Streams::new`].
pub(super) struct Streams<const N: usize> {
    /// The last 16 ciphertext bytes, whitened.
    states: [__m128i; N],
    /// Round key 0.
    whitening: [__m128i; N],
    /// Round keys 1 to 9.
    rounds: [[__m128i; N]; 9],
    /// Of the last round's key, what is the same for all bytes: see [`aesni::last_round`].
    last_round: [__m128i; N],
}

impl<const N: usize> Streams<N> {
    /// Lanes without streams. Only those who may call this can have any.
    #[target_feature(enable = "aes,avx")]
    fn new() -> Self {
        let zero = [_mm_setzero_si128(); N];
        Self { states: zero, whitening: zero, rounds: [zero; 9], last_round: zero }
    }
}

impl<const N: usize> Drop for Streams<N> {
    fn drop(&mut self) {
        let Self { states, whitening, rounds, last_round } = self;
        for registers in [states, whitening, last_round].into_iter().chain(rounds) {
            registers.zeroize();
        }
    }
}

impl<const N: usize> lanes::Lockstep<N> for Streams<N> {
    fn load(&mut self, lane: usize, stream: &Stream) {
        // SAFETY: `Streams::new` was called, so the CPU has what it needs, which is what this needs.
        unsafe { self.put(lane, stream) }
    }

    fn last(&self, lane: usize) -> [u8; 16] {
        let mut last = [0; 16];
        // SAFETY: as in `load`.
        store(&mut last, unsafe { _mm_xor_si128(self.states[lane], self.whitening[lane]) });
        last
    }

    fn whole_blocks(&mut self, mut data: [&mut [[u8; 16]]; N], blocks: usize) {
        // SAFETY: as in `load`.
        unsafe { self.encrypt_blocks(&mut data, blocks) }
    }

    fn part_of_a_block(&mut self, mut data: [&mut [u8]; N], steps: usize) {
        // SAFETY: as in `load`.
        unsafe { self.encrypt_part(&mut data, steps) }
    }
}

impl<const N: usize> Streams<N> {
    #[target_feature(enable = "aes,avx")]
    fn put(&mut self, lane: usize, stream: &Stream) {
        let whitening = load(&stream.keys[0]);
        self.whitening[lane] = whitening;
        self.states[lane] = _mm_xor_si128(load(&stream.last), whitening);
        for (round, key) in self.rounds.iter_mut().zip(&stream.keys[1..]) {
            round[lane] = load(key);
        }
        self.last_round[lane] = aesni::last_round(whitening, load(&stream.keys[10]));
    }

    #[target_feature(enable = "aes,avx")]
    fn encrypt_blocks(&mut self, data: &mut [&mut [[u8; 16]]; N], blocks: usize) {
        for block in 0..blocks {
            let mut plain = [[0; PLAIN]; N];
            for i in 0..N {
                if let Some(bytes) = data[i].get(block) {
                    plain[i][..16].copy_from_slice(bytes);
                }
            }
            self.step(&plain, 16);
            for i in 0..N {
                if let Some(bytes) = data[i].get_mut(block) {
                    store(bytes, _mm_xor_si128(self.states[i], self.whitening[i]));
                }
            }
        }
    }

    #[target_feature(enable = "aes,avx")]
    fn encrypt_part(&mut self, data: &mut [&mut [u8]; N], steps: usize) {
        let mut plain = [[0; PLAIN]; N];
        for i in 0..N {
            plain[i][..data[i].len()].copy_from_slice(data[i]);
        }
        self.step(&plain, steps);
        for i in 0..N {
            if !data[i].is_empty() {
                let mut bytes = [0; 16];
                store(&mut bytes, _mm_xor_si128(self.states[i], self.whitening[i]));
                data[i].copy_from_slice(&bytes[16 - steps..]);
            }
        }
    }

    /// Encrypts the first `steps` of the 16 bytes in every lane: as [`aesni::encrypt`].
    #[inline]
    #[target_feature(enable = "aes,avx")]
    fn step(&mut self, plain: &[[u8; PLAIN]; N], steps: usize) {
        let isolate = aesni::isolate();
        let mut states = self.states;
        for step in 0..steps {
            let mut keys = [isolate; N];
            for i in 0..N {
                // The plaintext byte and three more, by a load that repeats them: shuffles are what the CPU has least time for.
                let next = _mm_set1_epi32(i32::from_le_bytes(plain[i][step..step + 4].try_into().unwrap_or_default()));
                keys[i] = _mm_xor_si128(_mm_alignr_epi8::<1>(next, states[i]), self.last_round[i]);
            }
            for round in &self.rounds {
                for i in 0..N {
                    let state = _mm_aesenc_si128(states[i], round[i]);
                    states[i] = if N > 4 { in_turn(state) } else { state };
                }
            }
            for i in 0..N {
                states[i] = _mm_aesenclast_si128(_mm_shuffle_epi8(states[i], isolate), keys[i]);
            }
        }
        self.states = states;
    }
}

/// Bytes of a block, and as many more as are read after a byte.
const PLAIN: usize = 16 + 3;

/// Keeps the compiler from doing all rounds of one stream, then all of the next: the CPU does not look that far ahead.
#[inline(always)]
fn in_turn(mut register: __m128i) -> __m128i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(xmm_reg) register, options(nomem, nostack, preserves_flags)) }
    register
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Lanes with a stream in each.
    #[target_feature(enable = "aes,avx")]
    pub(in super::super) fn full<const N: usize>(stream: &Stream) -> Streams<N> {
        let mut streams = Streams::new();
        for lane in 0..N {
            streams.put(lane, stream);
        }
        streams
    }
}
