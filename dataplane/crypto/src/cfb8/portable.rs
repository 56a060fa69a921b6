//! The cipher without a line of unsafe code.

use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit, KeyIvInit};
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

/// Blocks that are encrypted at once while decrypting.
const BLOCKS: usize = 32;

/// Decrypts many bytes at once: a byte's key stream is the first byte of the encrypted 16 ciphertext bytes before it, and
/// those are all there already.
#[derive(ZeroizeOnDrop)]
pub(super) struct Decrypt {
    cipher: Aes128Enc,
    /// The last 16 ciphertext bytes.
    iv: [u8; 16],
}

impl Decrypt {
    pub(super) fn new(secret: &Secret) -> Self {
        Self { cipher: Aes128Enc::new(secret.as_bytes().into()), iv: *secret.as_bytes() }
    }

    pub(super) fn decrypt(&mut self, data: &mut [u8]) {
        let mut blocks = [Array([0; 16]); BLOCKS];
        for chunk in data.chunks_mut(BLOCKS) {
            // The 16 ciphertext bytes before the chunk and the chunk's own: window i is what byte i was made with.
            let mut window = [0; 16 + BLOCKS];
            window[..16].copy_from_slice(&self.iv);
            window[16..16 + chunk.len()].copy_from_slice(chunk);
            let blocks = &mut blocks[..chunk.len()];
            for (block, bytes) in blocks.iter_mut().zip(window.windows(16)) {
                block.copy_from_slice(bytes);
            }
            self.cipher.encrypt_blocks(blocks);
            for (byte, block) in chunk.iter_mut().zip(blocks) {
                *byte ^= block[0];
            }
            self.iv.copy_from_slice(&window[chunk.len()..chunk.len() + 16]);
        }
    }
}
