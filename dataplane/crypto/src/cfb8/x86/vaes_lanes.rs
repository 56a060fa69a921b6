//! Encryption of several streams side by side with VAES.

use std::arch::x86_64::*;
use std::array;

use zeroize::Zeroize;

use super::lanes::{Job, Jobs, Lanes};
use super::vaes::{load_up_to_16, store_up_to_16};
use super::{Stream, aesni, load, store};

/// Encrypts every job's bytes.
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl,avx512vbmi,vaes")]
pub(in super::super) fn encrypt<'a>(jobs: Jobs<'_, 'a>) {
    let mut lanes = Lanes::fill(jobs);
    if lanes.used > 8 {
        side_by_side::<4>(&mut lanes, jobs, 8);
    }
    if lanes.used > 1 {
        side_by_side::<2>(&mut lanes, jobs, 1);
    }
    for Job { stream, data } in lanes.jobs.iter_mut().flatten() {
        aesni::encrypt(stream, data);
    }
}

/// Encrypts in `4 * QUADS` lanes until no job waits and no more than `leave` lanes are in use.
#[target_feature(enable = "avx,avx512f,avx512bw,avx512vl,vaes")]
fn side_by_side<'a, const QUADS: usize>(lanes: &mut Lanes<'a>, jobs: Jobs<'_, 'a>, leave: usize) {
    let mut quads: [Quad; QUADS] = array::from_fn(|_| Quad::new());
    for (i, job) in lanes.jobs.iter().enumerate() {
        if let Some(job) = job {
            quads[i / 4].load(i % 4, job.stream);
        }
    }
    while lanes.used > leave {
        let common = lanes.common();
        if common >= 16 {
            whole_blocks(&mut quads, lanes, common / 16);
        } else {
            part_of_a_block(&mut quads, lanes, common);
        }
        for (i, lane) in lanes.jobs.iter_mut().enumerate() {
            let Some(job) = lane.take_if(|job| job.data.is_empty()) else { continue };
            let quad = &mut quads[i / 4];
            store(&mut job.stream.last, quad.last()[i % 4]);
            *lane = jobs.next();
            match lane {
                Some(job) => quad.load(i % 4, job.stream),
                None => lanes.used -= 1,
            }
        }
    }
    for (quad, lanes) in quads.iter_mut().zip(lanes.jobs.chunks_mut(4)) {
        for (job, last) in lanes.iter_mut().zip(quad.last()) {
            if let Some(job) = job {
                store(&mut job.stream.last, last);
            }
        }
        quad.zeroize();
    }
    lanes.close_up();
}

/// Encrypts the next `16 * blocks` bytes in every lane.
#[inline]
#[target_feature(enable = "avx,avx512f,avx512bw,avx512vl,vaes")]
fn whole_blocks<const QUADS: usize>(quads: &mut [Quad; QUADS], lanes: &mut Lanes<'_>, blocks: usize) {
    let mut data: [[&mut [[u8; 16]]; 4]; QUADS] = array::from_fn(|_| Default::default());
    for (data, lane) in data.as_flattened_mut().iter_mut().zip(&mut lanes.jobs) {
        *data = lane.as_mut().map_or(&mut [], |job| job.next(16 * blocks).as_chunks_mut().0);
    }
    for block in 0..blocks {
        let plain = array::from_fn(|quad| {
            gather(array::from_fn(|lane| data[quad][lane].get(block).map_or(_mm_setzero_si128(), load)))
        });
        run(quads, plain, 16);
        for (data, quad) in data.iter_mut().zip(&*quads) {
            for (data, last) in data.iter_mut().zip(quad.last()) {
                if let Some(bytes) = data.get_mut(block) {
                    store(bytes, last);
                }
            }
        }
    }
}

/// Encrypts the next bytes in every lane, fewer than 16.
#[inline(never)]
#[target_feature(enable = "avx,avx512f,avx512bw,avx512vl,vaes")]
fn part_of_a_block<const QUADS: usize>(quads: &mut [Quad; QUADS], lanes: &mut Lanes<'_>, steps: usize) {
    let mut data: [[&mut [u8]; 4]; QUADS] = array::from_fn(|_| Default::default());
    for (data, lane) in data.as_flattened_mut().iter_mut().zip(&mut lanes.jobs) {
        *data = lane.as_mut().map_or(&mut [], |job| job.next(steps));
    }
    let plain = array::from_fn(|quad| gather(array::from_fn(|lane| load_up_to_16(data[quad][lane]))));
    run(quads, plain, steps);
    let front = _mm_add_epi8(load(&COUNT), _mm_set1_epi8(16 - steps as i8));
    for (data, quad) in data.iter_mut().zip(&*quads) {
        for (data, last) in data.iter_mut().zip(quad.last()) {
            store_up_to_16(data, _mm_shuffle_epi8(last, front));
        }
    }
}

/// Four streams' bytes in one register.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather([a, b, c, d]: [__m128i; 4]) -> __m512i {
    let ab = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
    _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(ab, c), d)
}

/// The numbers 0 to 15.
static COUNT: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

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

impl Quad {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let zero = _mm512_setzero_si512();
        Self { state: zero, whitening: zero, rounds: [zero; 9], last_round: zero }
    }

    /// Puts a stream into a lane.
    #[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl")]
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

    /// The last 16 ciphertext bytes of each stream.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn last(&self) -> [__m128i; 4] {
        let last = _mm512_xor_si512(self.state, self.whitening);
        [
            _mm512_castsi512_si128(last),
            _mm512_extracti32x4_epi32::<1>(last),
            _mm512_extracti32x4_epi32::<2>(last),
            _mm512_extracti32x4_epi32::<3>(last),
        ]
    }

    fn zeroize(&mut self) {
        let Self { state, whitening, rounds, last_round } = self;
        for register in [state, whitening, last_round].into_iter().chain(rounds) {
            register.zeroize();
        }
    }
}

/// Encrypts the first `steps` of the 16 bytes in every lane: as [`aesni::encrypt`].
#[inline]
#[target_feature(enable = "avx,avx512f,avx512bw,vaes")]
fn run<const QUADS: usize>(quads: &mut [Quad; QUADS], mut plain: [__m512i; QUADS], steps: usize) {
    let isolate = _mm512_broadcast_i32x4(load(&ISOLATE));
    let mut states: [__m512i; QUADS] = array::from_fn(|i| quads[i].state);
    // Indices, since the compiler unrolls nothing else.
    for _ in 0..steps {
        let mut x = states;
        for round in 0..9 {
            for i in 0..QUADS {
                x[i] = _mm512_aesenc_epi128(x[i], quads[i].rounds[round]);
            }
        }
        for i in 0..QUADS {
            let key = _mm512_xor_si512(_mm512_alignr_epi8::<1>(plain[i], states[i]), quads[i].last_round);
            states[i] = _mm512_aesenclast_epi128(_mm512_shuffle_epi8(x[i], isolate), key);
            plain[i] = _mm512_bsrli_epi128::<1>(plain[i]);
        }
    }
    for (quad, state) in quads.iter_mut().zip(states) {
        quad.state = state;
    }
}

static ISOLATE: [u8; 16] = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x80, 0x80, 0x80, 0x80];
