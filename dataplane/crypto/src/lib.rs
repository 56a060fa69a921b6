//! What an online-mode Minecraft connection is encrypted with. Pure: bytes in, bytes out; no I/O, no clock.
//!
//! - [`cfb8`]: the stream cipher, AES-128-CFB8, in place and stateful: one stream alone, or many together.
//! - [`login`]: the key exchange before it: RSA-1024, the verify token, and Minecraft's server hash.
//!
//! ```
//! use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Secret, encrypt_together};
//! use moonbridge_crypto::login::{LoginError, LoginKey, server_hash, verify_token};
//!
//! // Once, at the start. The key goes into every Encryption Request, with a token that is new each time.
//! let key = LoginKey::generate()?;
//! let (server_id, token) = ("", verify_token());
//! # use rsa::{PublicKey, pkcs8::DecodePublicKey};
//! # let client = PublicKey::from_public_key_der(key.public_der())?;
//! # let encrypted_secret = client.pkcs1v15_encrypt(b"sixteen secrets!")?;
//! # let encrypted_token = client.pkcs1v15_encrypt(&token)?;
//!
//! // The Encryption Response gives these two. Not on a thread that relays: RSA takes about a millisecond.
//! let secret = key.open(&encrypted_secret, &encrypted_token, &token)?;
//! let for_the_session_server = server_hash(server_id, &secret, key.public_der());
//! # assert!(for_the_session_server.trim_start_matches('-').len() <= 40);
//!
//! // From here on, in both directions, for as long as the connection lasts.
//! let (mut to_client, mut from_client) = (Encryptor::new(&secret), Decryptor::new(&secret));
//! let mut bytes = *b"a frame";
//! to_client.encrypt(&mut bytes);
//! # from_client.decrypt(&mut bytes);
//! # assert_eq!(&bytes, b"a frame");
//!
//! // What is ready for several clients at the same time costs a fraction when it is encrypted in one call.
//! let mut to_another = Encryptor::new(&Secret::new([7; 16]));
//! let (mut one, mut other) = (b"a frame".to_vec(), b"somewhat more than a frame".to_vec());
//! encrypt_together(&mut [(&mut to_client, &mut one[..]), (&mut to_another, &mut other[..])]);
//! # from_client.decrypt(&mut one);
//! # assert_eq!(one, b"a frame");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Secrets, round keys and cipher states are overwritten when they are dropped, those that [`encrypt_together`] copies into lanes
//! too; nothing secret is in a `Debug` output or an error. The cipher has no branch and no address that depends on a secret.
//! CFB8 does not authenticate: whoever can change bytes on the way can change what is decrypted. It is what the client speaks.
//!
//! [`encrypt_together`]: cfb8::encrypt_together

pub mod cfb8;
pub mod login;
