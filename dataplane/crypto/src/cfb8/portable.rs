//! The cipher without a line of unsafe code.

use aes::Aes128Enc;
use aes::cipher::consts::U16;
use aes::cipher::{Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, KeyIvInit, ParBlocks};
use zeroize::ZeroizeOnDrop;

use super::Secret;

/// Encrypts as the `cfb8` crate does: with it.
pub(super) struct Encrypt(::cfb8::Encryptor<Aes128Enc>);

impl Encrypt {
    pub(super) fn new(secret: &Secret) -> Self {
        let bytes = secret.as_bytes().into();
        Self(::cfb8::Encryptor::new(bytes, bytes))
    }

    pub(super) fn encrypt(&mut self, data: &mut [u8]) {
        self.0.encrypt(data);
    }
}

/// Decrypts many bytes at once: a byte's key stream is the first byte of the encrypted 16 ciphertext bytes before it, and
/// those are all there already.
#[derive(ZeroizeOnDrop)]
pub(super) struct Decrypt {
    cipher: Aes128Enc,
    /// The last 16 ciphertext bytes.
    last: [u8; 16],
}

impl Decrypt {
    pub(super) fn new(secret: &Secret) -> Self {
        Self { cipher: Aes128Enc::new(secret.as_bytes().into()), last: *secret.as_bytes() }
    }

    pub(super) fn decrypt(&mut self, data: &mut [u8]) {
        self.cipher.encrypt_with_backend(Decryption { last: &mut self.last, data });
    }
}

/// Bytes whose key stream is computed before they are overwritten.
const CHUNK: usize = 256;

/// What is done inside `aes`'s choice of instructions.
struct Decryption<'a> {
    last: &'a mut [u8; 16],
    data: &'a mut [u8],
}

impl BlockSizeUser for Decryption<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Decryption<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut key_stream = [0; CHUNK];
        for chunk in self.data.chunks_mut(CHUNK) {
            // The window that byte i depends on begins 16 bytes before it: those of the first 16 reach back to the last chunk.
            let first = chunk.len().min(16);
            let mut seam = [0; 32];
            seam[..16].copy_from_slice(self.last);
            seam[16..16 + first].copy_from_slice(&chunk[..first]);
            let (early, late) = key_stream[..chunk.len()].split_at_mut(first);
            encrypt_windows(backend, &seam[..15 + first], early);
            encrypt_windows(backend, &chunk[..chunk.len() - 1], late);

            self.last.copy_from_slice(chunk.last_chunk::<16>().map_or(&seam[first..first + 16], |last| last));
            for (byte, key) in chunk.iter_mut().zip(&key_stream) {
                *byte ^= key;
            }
        }
    }
}

/// The first byte of every window of 16 bytes, encrypted.
#[inline(always)]
fn encrypt_windows<B: BlockCipherEncBackend<BlockSize = U16>>(backend: &B, bytes: &[u8], key_stream: &mut [u8]) {
    if aes::hardware_accelerated() {
        // The CPU overlaps them by itself, and faster than what `aes` spends on collecting blocks into registers.
        for (key, window) in key_stream.iter_mut().zip(bytes.windows(16)) {
            let mut block = Block::<B>::default();
            block.copy_from_slice(window);
            backend.encrypt_block((&mut block).into());
            *key = block[0];
        }
        return;
    }
    // In software as many blocks as there are bits in a word cost what one does.
    let mut blocks = ParBlocks::<B>::default();
    let width = blocks.len();
    for (i, keys) in key_stream.chunks_mut(width).enumerate() {
        for (block, window) in blocks.iter_mut().zip(bytes[i * width..].windows(16)) {
            block.copy_from_slice(window);
        }
        backend.encrypt_par_blocks((&mut blocks).into());
        for (key, block) in keys.iter_mut().zip(&blocks) {
            *key = block[0];
        }
    }
}
