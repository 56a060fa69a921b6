//! What an online-mode Minecraft connection is encrypted with. Pure: bytes in, bytes out; no I/O, no clock.
//!
//! - [`cfb8`]: the stream cipher, AES-128-CFB8, in place and stateful; one stream alone, or many together.
//! - [`login`]: the key exchange before it: RSA-1024, verify token, Minecraft's server hash.

pub mod cfb8;
pub mod login;
