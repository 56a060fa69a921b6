//! AES-128-CFB8 as Minecraft uses it: the shared secret is both key and first IV, and a direction is one endless stream.
//!
//! # What it costs
//! A ciphertext byte is the plaintext byte `^` the first byte of AES over the 16 ciphertext bytes before it. So
//!
//! - **decryption** is parallel: all blocks of a piece are known. [`Decryptor`] does 16 to 64 bytes in one go, and computes the last
//!   two of the ten rounds for several blocks at once, of which it needs a byte each.
//! - **encryption** is serial: ten dependent AES rounds a byte, 30 to 33 cycles on today's x86, are the floor of one stream, and
//!   [`Encryptor::encrypt`] is within a tenth of it. What lies beyond is other streams: AES units take a new block every
//!   cycle or half, whoever's it is. [`encrypt_together`] steps up to 16 streams side by side. A stream that comes to its end makes
//!   room for the next, so there may be any number, of any lengths.
//!
//! Nanoseconds a byte, one core of a Xeon of 2023 at some 4 GHz, pieces of 1500 bytes (`cipher-bench` of MoonBridge's tests measures
//! them all, and the ratios are what to trust on another machine):
//!
//! | | the `cfb8` crate | [`Portable`] | [`AesNi`] | [`Vaes`] |
//! |---|---|---|---|---|
//! | encrypt one stream | 14.9 | 14.9 | 8.6 | 8.6 |
//! | encrypt 4 streams together | – | 14.9 | 2.3 | 2.2 |
//! | encrypt 8 | – | 14.9 | 1.6 | 1.1 |
//! | encrypt 16 or more | – | 14.9 | 1.6 | 0.70 |
//! | decrypt one stream | 14.9 | 1.4 | 1.2 | 0.55 |
//!
//! Entering and leaving a lane costs some 20 ns a piece, so that even two pieces of a few bytes are no slower together than one
//! after the other. One long piece among short ones goes on at the speed of one stream when they are done: give pieces of like
//! length, or many. Nothing is worth waiting for: encrypt together what is there.
//!
//! [`Portable`]: Kernel::Portable
//! [`AesNi`]: Kernel::AesNi
//! [`Vaes`]: Kernel::Vaes
//!
//! # Kernels
//! [`Kernel::best`] is looked up once and used unless told otherwise; all give the same bytes, whatever the splits. Portable code is
//! safe code over the `aes` and `cfb8` crates (which have instructions of their own for AArch64); the other two, in the module
//! `x86`, are the only unsafe code of the workspace.

mod decrypt;
mod encrypt;
mod kernel;
mod portable;
mod secret;
mod together;
// The arguments for each unsafe block stand in it, and above them in the module's documentation.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

pub use decrypt::Decryptor;
pub use encrypt::Encryptor;
pub use kernel::Kernel;
pub use secret::{Secret, WrongLength};
pub use together::{Lane, encrypt_together};
