//! Kernels for VAES with AVX-512.

use std::arch::x86_64::*;

use super::{Stream, load, store};

/// Whether this CPU has what the functions of this module need.
pub(in super::super) fn available() -> bool {
    super::aesni::available()
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
}

/// Up to 64 bytes as a register, zeros after them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_up_to_64(bytes: &[u8]) -> __m512i {
    // SAFETY: `first` has a bit for every byte of the slice, and no byte whose bit is clear is read.
    unsafe { _mm512_maskz_loadu_epi8(first(bytes.len()), bytes.as_ptr().cast()) }
}

/// A register's first bytes, as many as there is room for.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_up_to_64(bytes: &mut [u8], register: __m512i) {
    // SAFETY: as in `load_up_to_64`; the slice is exclusive.
    unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), first(bytes.len()), register) }
}

/// As [`load_up_to_64`], for 16. (An empty slice points nowhere, and takes the CPU hundreds of cycles to do nothing with.)
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn load_up_to_16(bytes: &[u8]) -> __m128i {
    if bytes.is_empty() {
        return _mm_setzero_si128();
    }
    // SAFETY: as in `load_up_to_64`; a register has 16 bytes.
    unsafe { _mm_maskz_loadu_epi8(first(bytes.len()) as u16, bytes.as_ptr().cast()) }
}

/// As [`store_up_to_64`], for 16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn store_up_to_16(bytes: &mut [u8], register: __m128i) {
    if bytes.is_empty() {
        return;
    }
    // SAFETY: as in `load_up_to_16`; the slice is exclusive.
    unsafe { _mm_mask_storeu_epi8(bytes.as_mut_ptr().cast(), first(bytes.len()) as u16, register) }
}

/// A bit for each of the first `len` bytes of a register.
#[inline]
fn first(len: usize) -> u64 {
    if len >= 64 { u64::MAX } else { (1 << len) - 1 }
}

/// The round keys for four blocks of one stream.
type Keys = [__m512i; 11];

/// Decrypts one stream: as [`super::aesni::decrypt`] does it, four blocks a register and up to 64 bytes a step.
#[target_feature(enable = "aes,avx,avx512f,avx512bw,avx512vl,avx512vbmi,vaes")]
pub(super) fn decrypt(stream: &mut Stream, data: &mut [u8]) {
    let mut keys: Keys = [_mm512_setzero_si512(); 11];
    for (wide, key) in keys.iter_mut().zip(&stream.keys) {
        *wide = _mm512_broadcast_i32x4(load(key));
    }
    keys[9] = _mm512_shuffle_epi32::<0>(keys[9]);
    keys[10] = _mm512_shuffle_epi8(keys[10], _mm512_setzero_si512());

    // The 64 bytes before the step's, of which the last 16 matter.
    let mut last = _mm512_broadcast_i32x4(load(&stream.last));
    let (chunks, rest) = data.as_chunks_mut::<64>();
    for chunk in chunks {
        let cipher = load_up_to_64(chunk);
        let units = [
            unit(&keys, _mm512_alignr_epi64::<6>(cipher, last)),
            unit(&keys, cipher),
            unit(&keys, _mm512_alignr_epi64::<2>(cipher, cipher)),
            unit(&keys, _mm512_alignr_epi64::<4>(cipher, cipher)),
        ];
        store_up_to_64(chunk, _mm512_xor_si512(cipher, key_stream(&keys, units)));
        last = cipher;
    }
    if !rest.is_empty() {
        let cipher = load_up_to_64(rest);
        let nothing = _mm512_setzero_si512();
        let mut units = [unit(&keys, _mm512_alignr_epi64::<6>(cipher, last)), nothing, nothing, nothing];
        if rest.len() > 16 {
            units[1] = unit(&keys, cipher);
        }
        if rest.len() > 32 {
            units[2] = unit(&keys, _mm512_alignr_epi64::<2>(cipher, cipher));
        }
        if rest.len() > 48 {
            units[3] = unit(&keys, _mm512_alignr_epi64::<4>(cipher, cipher));
        }
        let len = rest.len();
        store_up_to_64(rest, _mm512_xor_si512(cipher, key_stream(&keys, units)));
        // The 64 bytes that end with the last of the stream.
        last = _mm512_permutex2var_epi8(last, _mm512_add_epi8(table(&COUNT), _mm512_set1_epi8(len as i8)), cipher);
    }
    store(&mut stream.last, _mm512_extracti32x4_epi32::<3>(last));
}

/// Nine rounds of the 16 blocks that begin in the first 16 bytes of `bytes`: block w's column in column w.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vaes")]
fn unit(keys: &Keys, bytes: __m512i) -> __m512i {
    let mut blocks = [0, 1, 2, 3].map(|k| _mm512_permutexvar_epi8(table(&WINDOWS[k]), bytes));
    blocks = blocks.map(|block| _mm512_xor_si512(block, keys[0]));
    for key in &keys[1..9] {
        blocks = blocks.map(|block| _mm512_aesenc_epi128(block, *key));
    }
    let [mut packed, b, c, d] = blocks;
    packed = _mm512_mask_shuffle_epi8(packed, 0x4218_4218_4218_4218, b, table(&DIAGONALS[0]));
    packed = _mm512_mask_shuffle_epi8(packed, 0x2184_2184_2184_2184, c, table(&DIAGONALS[1]));
    packed = _mm512_mask_shuffle_epi8(packed, 0x1842_1842_1842_1842, d, table(&DIAGONALS[2]));
    _mm512_aesenc_epi128(packed, keys[9])
}

/// The last round of 64 blocks: their key stream.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,vaes")]
fn key_stream(keys: &Keys, units: [__m512i; 4]) -> __m512i {
    let [mut packed, b, c, d] = units;
    packed = _mm512_mask_shuffle_epi8(packed, 0x2222_2222_2222_2222, b, table(&FIRST_ROW));
    packed = _mm512_mask_shuffle_epi8(packed, 0x4444_4444_4444_4444, c, table(&FIRST_ROW));
    packed = _mm512_mask_shuffle_epi8(packed, 0x8888_8888_8888_8888, d, table(&FIRST_ROW));
    _mm512_permutexvar_epi8(table(&IN_ORDER), _mm512_aesenclast_epi128(packed, keys[10]))
}

/// A constant as a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn table(bytes: &Table) -> __m512i {
    // SAFETY: the reference is valid for 64 bytes, and aligned to 64.
    unsafe { _mm512_load_si512(bytes.0.as_ptr().cast()) }
}

#[repr(align(64))]
struct Table([u8; 64]);

macro_rules! table {
    (|$i:ident| $byte:expr) => {{
        let mut bytes = [0; 64];
        let mut $i = 0;
        while $i < 64 {
            bytes[$i] = ($byte) as u8;
            $i += 1;
        }
        Table(bytes)
    }};
}

/// The numbers 0 to 63.
static COUNT: Table = table!(|i| i);

/// Block `4 lane + k`, for the lanes of 16 bytes of register k.
static WINDOWS: [Table; 4] = [windows(0), windows(1), windows(2), windows(3)];

const fn windows(k: usize) -> Table {
    table!(|i| 4 * (i / 16) + k + i % 16)
}

/// Bytes 0, 5, 10 and 15 to where the next round makes column 1, 2 or 3 of them.
static DIAGONALS: [Table; 3] = [diagonal(1), diagonal(2), diagonal(3)];

const fn diagonal(column: usize) -> Table {
    table!(|i| (i % 16 + 16 - 4 * column) % 16)
}

/// Row 0 in every row.
static FIRST_ROW: Table = table!(|i| (i % 16) - i % 4);

/// Byte `16 unit + block` from where the last round has put it.
static IN_ORDER: Table = table!(|i| {
    let (unit, block) = (i / 16, i % 16);
    16 * (block / 4) + 4 * ((block % 4 + 4 - unit) % 4) + unit
});
