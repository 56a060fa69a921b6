//! AES-128-CFB8 as Minecraft uses it: the shared secret is both key and first IV, and a direction is one endless stream.

mod decrypt;
mod encrypt;
mod kernel;
mod portable;
mod secret;
mod together;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

pub use decrypt::Decryptor;
pub use encrypt::Encryptor;
pub use kernel::Kernel;
pub use secret::{Secret, WrongLength};
pub use together::{Lane, encrypt_together};
