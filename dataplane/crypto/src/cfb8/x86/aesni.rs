//! Kernels for AES-NI with AVX: one stream, eight streams, and decryption.

use std::arch::x86_64::*;

use super::{Stream, load, store};

/// Whether this CPU has what the functions of this module need.
pub(in super::super) fn available() -> bool {
    is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx")
}

/// The key schedule of AES-128.
#[target_feature(enable = "aes,avx")]
pub(super) fn expand(key: &[u8; 16], keys: &mut [[u8; 16]; 11]) {
    #[target_feature(enable = "aes,avx")]
    fn next<const RCON: i32>(key: __m128i) -> __m128i {
        let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<RCON>(key));
        let key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
        let key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
        _mm_xor_si128(key, word)
    }
    let k0 = load(key);
    let k1 = next::<0x01>(k0);
    let k2 = next::<0x02>(k1);
    let k3 = next::<0x04>(k2);
    let k4 = next::<0x08>(k3);
    let k5 = next::<0x10>(k4);
    let k6 = next::<0x20>(k5);
    let k7 = next::<0x40>(k6);
    let k8 = next::<0x80>(k7);
    let k9 = next::<0x1b>(k8);
    let k10 = next::<0x36>(k9);
    for (bytes, key) in keys.iter_mut().zip([k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10]) {
        store(bytes, key);
    }
}

/// Where the first byte of the ninth round's result must stand for the last round to move it to byte 15; zero elsewhere.
#[target_feature(enable = "aes,avx")]
pub(super) fn isolate() -> __m128i {
    _mm_set_epi8(-1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)
}

/// What the last round's key has for all bytes of a stream: see [`encrypt`].
#[target_feature(enable = "aes,avx")]
pub(super) fn last_round(k0: __m128i, k10: __m128i) -> __m128i {
    // The S-box of the zeros that `isolate` leaves.
    let zeros = _mm_srli_si128::<1>(_mm_set1_epi8(0x63));
    let whitening = _mm_xor_si128(k0, _mm_srli_si128::<1>(k0));
    _mm_xor_si128(_mm_xor_si128(zeros, whitening), _mm_slli_si128::<15>(k10))
}

/// Encrypts one stream: ten dependent rounds a byte and one instruction between them.
///
/// The state is `z = s ^ k0`, where `s` is the last 16 ciphertext bytes, oldest first. Nine rounds give, in their first byte, what
/// the last round makes the key stream of. That byte alone goes into the last round, at the place which ends up last; the round's
/// key does everything else: it has the old state, moved on by a byte, the whitening of the next block's state, and the plaintext
/// byte. So the last round's result *is* the next `z`, and after 16 bytes `z ^ k0` is what to write.
#[target_feature(enable = "aes,avx")]
pub(super) fn encrypt(stream: &mut Stream, data: &mut [u8]) {
    let [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10] = stream.keys.each_ref().map(load);
    let isolate = isolate();
    let last_round = last_round(k0, k10);
    let step = |z: __m128i, plain: __m128i| {
        let key = _mm_xor_si128(_mm_alignr_epi8::<1>(plain, z), last_round);
        let mut x = z;
        for key in [k1, k2, k3, k4, k5, k6, k7, k8, k9] {
            x = _mm_aesenc_si128(x, key);
        }
        _mm_aesenclast_si128(_mm_shuffle_epi8(x, isolate), key)
    };

    let mut z = _mm_xor_si128(load(&stream.last), k0);
    let (chunks, rest) = data.as_chunks_mut::<16>();
    for chunk in chunks {
        let mut plain = load(chunk);
        for _ in 0..16 {
            z = step(z, plain);
            plain = _mm_srli_si128::<1>(plain);
        }
        store(chunk, _mm_xor_si128(z, k0));
    }
    let mut bytes = [0; 16];
    if !rest.is_empty() {
        bytes[..rest.len()].copy_from_slice(rest);
        let mut plain = load(&bytes);
        for _ in 0..rest.len() {
            z = step(z, plain);
            plain = _mm_srli_si128::<1>(plain);
        }
        store(&mut bytes, _mm_xor_si128(z, k0));
        rest.copy_from_slice(&bytes[16 - rest.len()..]);
    }
    store(&mut stream.last, _mm_xor_si128(z, k0));
}

/// Decrypts one stream. A byte's key stream depends on ciphertext only, so 16 bytes are 16 independent blocks: every window of 16
/// bytes that begins in the 16 before them.
///
/// Of a block only the first byte is wanted, and it depends on one column of the ninth round, so the ninth round is computed for
/// four blocks at once and the last one for all 16: 133 rounds instead of 160.
#[target_feature(enable = "aes,avx")]
pub(super) fn decrypt(stream: &mut Stream, data: &mut [u8]) {
    let keys = stream.keys.each_ref().map(load);
    let mut last = load(&stream.last);
    let (chunks, rest) = data.as_chunks_mut::<16>();
    for chunk in chunks {
        let cipher = load(chunk);
        store(chunk, _mm_xor_si128(cipher, key_stream(&keys, last, cipher)));
        last = cipher;
    }
    store(&mut stream.last, last);
    if !rest.is_empty() {
        let mut window = [0; 32];
        window[..16].copy_from_slice(&stream.last);
        window[16..16 + rest.len()].copy_from_slice(rest);
        let mut bytes = [0; 16];
        bytes[..rest.len()].copy_from_slice(rest);
        let cipher = load(&bytes);
        store(&mut bytes, _mm_xor_si128(cipher, key_stream(&keys, last, cipher)));
        stream.last.copy_from_slice(&window[rest.len()..rest.len() + 16]);
        rest.copy_from_slice(&bytes[..rest.len()]);
    }
}

/// The key stream of the 16 bytes `cipher`, which follow the 16 bytes `last`.
#[inline]
#[target_feature(enable = "aes,avx")]
fn key_stream(keys: &[__m128i; 11], last: __m128i, cipher: __m128i) -> __m128i {
    // Block 4 r + c goes into row r of column c.
    let rows = [
        columns(keys, [last, window::<1>(last, cipher), window::<2>(last, cipher), window::<3>(last, cipher)]),
        columns(keys, [window::<4>(last, cipher), window::<5>(last, cipher), window::<6>(last, cipher), window::<7>(last, cipher)]),
        columns(keys, [window::<8>(last, cipher), window::<9>(last, cipher), window::<10>(last, cipher), window::<11>(last, cipher)]),
        columns(keys, [window::<12>(last, cipher), window::<13>(last, cipher), window::<14>(last, cipher), window::<15>(last, cipher)]),
    ];
    // Wanted are bytes 0, 4, 8 and 12 of each.
    let low = _mm_set1_epi32(0xff);
    let [a, b, c, d] = rows.map(|row| _mm_and_si128(row, low));
    let packed = _mm_packus_epi16(_mm_packus_epi32(a, b), _mm_packus_epi32(c, d));
    // In the order of the blocks now; what the last round moves is moved the other way before.
    let unshift = _mm_set_epi8(3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0);
    _mm_aesenclast_si128(_mm_shuffle_epi8(packed, unshift), _mm_set1_epi8(_mm_extract_epi8::<0>(keys[10]) as i8))
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn window<const AT: i32>(last: __m128i, cipher: __m128i) -> __m128i {
    _mm_alignr_epi8::<AT>(cipher, last)
}

/// Nine rounds of four blocks: the column of each that its first byte is in.
#[inline]
#[target_feature(enable = "aes,avx")]
fn columns(keys: &[__m128i; 11], blocks: [__m128i; 4]) -> __m128i {
    let mut blocks = blocks.map(|block| _mm_xor_si128(block, keys[0]));
    for key in &keys[1..9] {
        blocks = blocks.map(|block| _mm_aesenc_si128(block, *key));
    }
    // The ninth round makes the first column of bytes 0, 5, 10 and 15, the second of 4, 9, 14 and 3, and so on.
    let [a, b, c, d] = blocks;
    let a = _mm_shuffle_epi8(a, _mm_set_epi8(15, -1, -1, -1, -1, 10, -1, -1, -1, -1, 5, -1, -1, -1, -1, 0));
    let b = _mm_shuffle_epi8(b, _mm_set_epi8(-1, 10, -1, -1, -1, -1, 5, -1, -1, -1, -1, 0, 15, -1, -1, -1));
    let c = _mm_shuffle_epi8(c, _mm_set_epi8(-1, -1, 5, -1, -1, -1, -1, 0, 15, -1, -1, -1, -1, 10, -1, -1));
    let d = _mm_shuffle_epi8(d, _mm_set_epi8(-1, -1, -1, 0, 15, -1, -1, -1, -1, 10, -1, -1, -1, -1, 5, -1));
    let packed = _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d));
    _mm_aesenc_si128(packed, _mm_shuffle_epi32::<0>(keys[9]))
}
