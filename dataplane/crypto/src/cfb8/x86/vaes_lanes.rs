//! Encryption of several streams side by side with VAES.

// The compiler unrolls these loops over indices, and neither zips nor maps.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::array;

use zeroize::Zeroize;

use super::lanes::{self, Job, Jobs, Lanes};
use super::vaes::{load_up_to_16, store_up_to_16};
use super::{Stream, aesni, load, store};

/// Encrypts every job's bytes.
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl,avx512vbmi,vaes")]
pub(super) fn encrypt(jobs: Jobs<'_, '_>) {
    let mut lanes = Lanes::fill(16, jobs);
    if lanes.used() > 8 {
        lanes.encrypt(&mut Quads::<4>::new(), jobs, 8);
    }
    if lanes.used() > 1 {
        lanes.encrypt(&mut Quads::<2>::new(), jobs, 1);
    }
    for Job { stream, data } in lanes.into_jobs() {
        aesni::encrypt(stream, data);
    }
}

/// `N` times four streams. Where there is one, the CPU has what this module's functions need: see [`Quads::new`].
pub(super) struct Quads<const N: usize>([Quad; N]);

/// Four streams, in the 128-bit lanes of one register.
struct Quad {
    /// The last 16 ciphertext bytes of each stream, whitened.
    state: __m512i,
    /// Round key 0.
    whitening: __m512i,
    /// Round keys 1 to 9.
    rounds: [__m512i; 9],
    /// Of the last round's key, what is the same for all bytes: see [`aesni::last_round`].
    last_round: __m512i,
}

impl<const N: usize> Quads<N> {
    /// Lanes without streams. Only those who may call this can have any.
    #[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl,avx512vbmi,vaes")]
    fn new() -> Self {
        let zero = _mm512_setzero_si512();
        Self(array::from_fn(|_| Quad { state: zero, whitening: zero, rounds: [zero; 9], last_round: zero }))
    }
}

impl<const N: usize> Drop for Quads<N> {
    fn drop(&mut self) {
        for Quad { state, whitening, rounds, last_round } in &mut self.0 {
            for register in [state, whitening, last_round].into_iter().chain(rounds) {
                register.zeroize();
            }
        }
    }
}

macro_rules! kernel {
    ($quads:literal, $lanes:literal) => {
        impl lanes::Lockstep<$lanes> for Quads<$quads> {
            fn load(&mut self, lane: usize, stream: &Stream) {
                // SAFETY: `Quads::new` was called, so the CPU has what it needs, which is what `load` needs.
                unsafe { self.0[lane / 4].load(lane % 4, stream) }
            }

            fn last(&self, lane: usize) -> [u8; 16] {
                let mut last = [0; 16];
                // SAFETY: as in `load`.
                store(&mut last, unsafe { self.0[lane / 4].last(self.0[lane / 4].state) }[lane % 4]);
                last
            }

            fn whole_blocks(&mut self, mut data: [&mut [[u8; 16]]; $lanes], blocks: usize) {
                // SAFETY: as in `load`.
                unsafe { whole_blocks(&mut self.0, data.as_chunks_mut().0, blocks) }
            }

            fn part_of_a_block(&mut self, mut data: [&mut [u8]; $lanes], steps: usize) {
                // SAFETY: as in `load`.
                unsafe { part_of_a_block(&mut self.0, data.as_chunks_mut().0, steps) }
            }
        }
    };
}

kernel!(2, 8);
kernel!(4, 16);

impl Quad {
    /// Puts a stream into a lane.
    #[target_feature(enable = "aes,avx,avx512f")]
    fn load(&mut self, lane: usize, stream: &Stream) {
        let put = |register: &mut __m512i, value: __m128i| {
            *register = _mm512_mask_broadcast_i32x4(*register, 0xf << (4 * lane), value);
        };
        let whitening = load(&stream.keys[0]);
        put(&mut self.whitening, whitening);
        put(&mut self.state, _mm_xor_si128(load(&stream.last), whitening));
        for (round, key) in self.rounds.iter_mut().zip(&stream.keys[1..]) {
            put(round, load(key));
        }
        put(&mut self.last_round, aesni::last_round(whitening, load(&stream.keys[10])));
    }

    /// The last 16 ciphertext bytes of each stream in this state.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn last(&self, state: __m512i) -> [__m128i; 4] {
        let last = _mm512_xor_si512(state, self.whitening);
        [
            _mm512_castsi512_si128(last),
            _mm512_extracti32x4_epi32::<1>(last),
            _mm512_extracti32x4_epi32::<2>(last),
            _mm512_extracti32x4_epi32::<3>(last),
        ]
    }
}

#[target_feature(enable = "avx,avx512f,avx512bw,avx512vl,vaes")]
fn whole_blocks<const N: usize>(quads: &mut [Quad; N], data: &mut [[&mut [[u8; 16]]; 4]], blocks: usize) {
    let mut states = [_mm512_setzero_si512(); N];
    for i in 0..N {
        states[i] = quads[i].state;
    }
    for block in 0..blocks {
        let mut plain = [_mm512_setzero_si512(); N];
        for i in 0..N {
            let mut lanes = [_mm_setzero_si128(); 4];
            for lane in 0..4 {
                if let Some(bytes) = data[i][lane].get(block) {
                    lanes[lane] = load(bytes);
                }
            }
            plain[i] = gather(lanes);
        }
        run(quads, &mut states, plain, 16);
        for i in 0..N {
            for (data, last) in data[i].iter_mut().zip(quads[i].last(states[i])) {
                if let Some(bytes) = data.get_mut(block) {
                    store(bytes, last);
                }
            }
        }
    }
    for i in 0..N {
        quads[i].state = states[i];
    }
}

#[target_feature(enable = "avx,avx512f,avx512bw,avx512vl,vaes")]
fn part_of_a_block<const N: usize>(quads: &mut [Quad; N], data: &mut [[&mut [u8]; 4]], steps: usize) {
    let mut plain = [_mm512_setzero_si512(); N];
    for i in 0..N {
        let [a, b, c, d] = &data[i];
        plain[i] = gather([load_up_to_16(a), load_up_to_16(b), load_up_to_16(c), load_up_to_16(d)]);
    }
    let mut states = [_mm512_setzero_si512(); N];
    for i in 0..N {
        states[i] = quads[i].state;
    }
    run(quads, &mut states, plain, steps);
    for i in 0..N {
        quads[i].state = states[i];
    }
    let front = _mm_add_epi8(load(&COUNT), _mm_set1_epi8(16 - steps as i8));
    for i in 0..N {
        for (data, last) in data[i].iter_mut().zip(quads[i].last(states[i])) {
            store_up_to_16(data, _mm_shuffle_epi8(last, front));
        }
    }
}

/// The numbers 0 to 15.
static COUNT: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Four streams' bytes in one register.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather([a, b, c, d]: [__m128i; 4]) -> __m512i {
    let ab = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(ab, c), d)
}

/// Encrypts the first `steps` of the 16 bytes in every lane: as [`aesni::encrypt`].
#[inline]
#[target_feature(enable = "avx,avx512f,avx512bw,vaes")]
fn run<const N: usize>(quads: &[Quad; N], states: &mut [__m512i; N], mut plain: [__m512i; N], steps: usize) {
    let isolate = _mm512_broadcast_i32x4(aesni::isolate());
    for _ in 0..steps {
        let mut x = *states;
        for round in 0..9 {
            for i in 0..N {
                x[i] = _mm512_aesenc_epi128(x[i], quads[i].rounds[round]);
            }
        }
        for i in 0..N {
            let key = _mm512_xor_si512(_mm512_alignr_epi8::<1>(plain[i], states[i]), quads[i].last_round);
            states[i] = _mm512_aesenclast_epi128(_mm512_shuffle_epi8(x[i], isolate), key);
            plain[i] = _mm512_bsrli_epi128::<1>(plain[i]);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Lanes with a stream in each.
    #[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl,avx512vbmi,vaes")]
    pub(in super::super) fn full<const N: usize>(stream: &Stream) -> Quads<N> {
        let mut quads = Quads::new();
        for lane in 0..4 * N {
            quads.0[lane / 4].load(lane % 4, stream);
        }
        quads
    }
}
