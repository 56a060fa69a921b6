//! Encryption of several streams side by side with AES-NI.

use std::arch::asm;
use std::arch::x86_64::*;
use std::array;

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

/// `N` streams. Where there is one, the CPU has what this module's functions need: see [`Streams::new`].
pub(super) struct Streams<const N: usize>([Single; N]);

/// One stream.
struct Single {
    /// The last 16 ciphertext bytes, whitened.
    state: __m128i,
    /// Round key 0.
    whitening: __m128i,
    /// Round keys 1 to 9.
    rounds: [__m128i; 9],
    /// Of the last round's key, what is the same for all bytes: see [`aesni::last_round`].
    last_round: __m128i,
}

impl<const N: usize> Streams<N> {
    /// Lanes without streams. Only those who may call this can have any.
    #[target_feature(enable = "aes,avx")]
    fn new() -> Self {
        let zero = _mm_setzero_si128();
        Self(array::from_fn(|_| Single { state: zero, whitening: zero, rounds: [zero; 9], last_round: zero }))
    }
}

impl<const N: usize> Drop for Streams<N> {
    fn drop(&mut self) {
        for Single { state, whitening, rounds, last_round } in &mut self.0 {
            for register in [state, whitening, last_round].into_iter().chain(rounds) {
                register.zeroize();
            }
        }
    }
}

impl<const N: usize> lanes::Lockstep<N> for Streams<N> {
    fn load(&mut self, lane: usize, stream: &Stream) {
        // SAFETY: `Streams::new` was called, so the CPU has what it needs, which is what `load` needs.
        unsafe { self.0[lane].load(stream) }
    }

    fn last(&self, lane: usize) -> [u8; 16] {
        let mut last = [0; 16];
        store(&mut last, self.0[lane].last(self.0[lane].state));
        last
    }

    fn whole_blocks(&mut self, mut data: [&mut [[u8; 16]]; N], blocks: usize) {
        // SAFETY: as in `load`.
        unsafe { whole_blocks(&mut self.0, &mut data, blocks) }
    }

    fn part_of_a_block(&mut self, mut data: [&mut [u8]; N], steps: usize) {
        // SAFETY: as in `load`.
        unsafe { part_of_a_block(&mut self.0, &mut data, steps) }
    }
}

impl Single {
    #[target_feature(enable = "aes,avx")]
    fn load(&mut self, stream: &Stream) {
        self.whitening = load(&stream.keys[0]);
        self.state = _mm_xor_si128(load(&stream.last), self.whitening);
        for (round, key) in self.rounds.iter_mut().zip(&stream.keys[1..]) {
            *round = load(key);
        }
        self.last_round = aesni::last_round(self.whitening, load(&stream.keys[10]));
    }

    /// The last 16 ciphertext bytes in this state.
    #[inline(always)]
    fn last(&self, state: __m128i) -> __m128i {
        // SAFETY: of SSE2, which every x86-64 has.
        unsafe { _mm_xor_si128(state, self.whitening) }
    }
}

#[target_feature(enable = "aes,avx")]
fn whole_blocks<const N: usize>(streams: &mut [Single; N], data: &mut [&mut [[u8; 16]]; N], blocks: usize) {
    let mut states = [_mm_setzero_si128(); N];
    for i in 0..N {
        states[i] = streams[i].state;
    }
    for block in 0..blocks {
        let mut plain = [_mm_setzero_si128(); N];
        for i in 0..N {
            if let Some(bytes) = data[i].get(block) {
                plain[i] = load(bytes);
            }
        }
        run(streams, &mut states, plain, 16);
        for i in 0..N {
            if let Some(bytes) = data[i].get_mut(block) {
                store(bytes, streams[i].last(states[i]));
            }
        }
    }
    for i in 0..N {
        streams[i].state = states[i];
    }
}

#[target_feature(enable = "aes,avx")]
fn part_of_a_block<const N: usize>(streams: &mut [Single; N], data: &mut [&mut [u8]; N], steps: usize) {
    let plain = array::from_fn(|i| {
        let mut bytes = [0; 16];
        bytes[..data[i].len()].copy_from_slice(data[i]);
        load(&bytes)
    });
    let mut states = [_mm_setzero_si128(); N];
    for i in 0..N {
        states[i] = streams[i].state;
    }
    run(streams, &mut states, plain, steps);
    for i in 0..N {
        streams[i].state = states[i];
    }
    for i in 0..N {
        if !data[i].is_empty() {
            let mut bytes = [0; 16];
            store(&mut bytes, streams[i].last(states[i]));
            data[i].copy_from_slice(&bytes[16 - steps..]);
        }
    }
}

/// Encrypts the first `steps` of the 16 bytes in every lane: as [`aesni::encrypt`].
#[inline]
#[target_feature(enable = "aes,avx")]
fn run<const N: usize>(streams: &[Single; N], states: &mut [__m128i; N], mut plain: [__m128i; N], steps: usize) {
    let isolate = aesni::isolate();
    // Indices, since the compiler unrolls nothing else.
    for _ in 0..steps {
        let mut keys = [isolate; N];
        for i in 0..N {
            keys[i] = _mm_xor_si128(_mm_alignr_epi8::<1>(plain[i], states[i]), streams[i].last_round);
            plain[i] = _mm_srli_si128::<1>(plain[i]);
        }
        for round in 0..9 {
            for i in 0..N {
                let state = _mm_aesenc_si128(states[i], streams[i].rounds[round]);
                states[i] = if N > 4 { in_turn(state) } else { state };
            }
        }
        for i in 0..N {
            states[i] = _mm_aesenclast_si128(_mm_shuffle_epi8(states[i], isolate), keys[i]);
        }
    }
}

/// Keeps the compiler from doing all rounds of one stream, then all of the next: the CPU does not look that far ahead.
#[inline(always)]
fn in_turn(mut register: __m128i) -> __m128i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(xmm_reg) register, options(nomem, nostack, preserves_flags)) }
    register
}

#[cfg(test)]
pub(super) mod tests {
    use super::lanes::Lockstep as _;
    use super::*;

    /// Lanes with a stream in each.
    #[target_feature(enable = "aes,avx")]
    pub(in super::super) fn full<const N: usize>(stream: &Stream) -> Streams<N> {
        let mut streams = Streams::new();
        for lane in 0..N {
            streams.load(lane, stream);
        }
        streams
    }
}
