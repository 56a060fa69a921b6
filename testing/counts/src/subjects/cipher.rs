//! CFB8 by the AES-NI kernel, whatever this machine has beyond that: callgrind knows no wider one.

use std::hint::black_box;

use anyhow::Context as _;
use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Kernel, Secret, encrypt_together};

use crate::callgrind::counted_by_callgrind;

const TIMES: usize = 50;

const LACKING: &str = "this CPU (as callgrind shows it) has no AES-NI";

/// Frames of so many bytes of one stream, each by itself; how many bytes.
pub(super) fn encrypt(bytes: usize) -> anyhow::Result<u64> {
    let mut cipher = encryptor(0)?;
    let mut frame = vec![7; bytes];
    counted_by_callgrind(&mut || {
        for _ in 0..TIMES {
            cipher.encrypt(black_box(&mut frame));
        }
    });
    Ok((bytes * TIMES) as u64)
}

/// A frame of each of so many streams, together; how many bytes.
pub(super) fn encrypt_many(streams: usize, bytes: usize) -> anyhow::Result<u64> {
    let mut ciphers = (0..streams).map(encryptor).collect::<anyhow::Result<Vec<_>>>()?;
    let mut frames = vec![vec![7; bytes]; streams];
    let mut lanes: Vec<_> = ciphers.iter_mut().zip(frames.iter_mut().map(Vec::as_mut_slice)).collect();
    counted_by_callgrind(&mut || {
        for _ in 0..TIMES {
            encrypt_together(black_box(&mut lanes));
        }
    });
    Ok((streams * bytes * TIMES) as u64)
}

/// Frames of so many bytes of one stream; how many bytes.
pub(super) fn decrypt(bytes: usize) -> anyhow::Result<u64> {
    let mut cipher = Decryptor::with_kernel(&Secret::new([7; 16]), Kernel::AesNi).context(LACKING)?;
    let mut frame = vec![7; bytes];
    counted_by_callgrind(&mut || {
        for _ in 0..TIMES {
            cipher.decrypt(black_box(&mut frame));
        }
    });
    Ok((bytes * TIMES) as u64)
}

fn encryptor(number: usize) -> anyhow::Result<Encryptor> {
    Encryptor::with_kernel(&Secret::new([number as u8; 16]), Kernel::AesNi).context(LACKING)
}
