//! The key exchange of an online-mode login: the server's RSA key, the verify token, and the hash that client and server
//! each show to the session server.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use rsa::pkcs8::EncodePublicKey;
use rsa::{PrivateKey, PublicKey};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::cfb8::Secret;

/// Size of the key in bits. The client takes others too, but this is what every server of this version has.
const KEY_BITS: usize = 1024;

/// The node's RSA key. Made at start and kept in memory only.
pub struct LoginKey {
    private: PrivateKey,
    public_der: Box<[u8]>,
}

/// Why no key could be made: the system's random numbers failed.
#[derive(Debug, thiserror::Error)]
#[error("no RSA key could be made: {0}")]
pub struct KeyError(String);

/// What is wrong with an Encryption Response. Deliberately says no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The verify token is not ours, or was not encrypted with our key.
    #[error("wrong verify token")]
    Token,
    /// The shared secret is not 16 bytes, or was not encrypted with our key.
    #[error("wrong shared secret")]
    Secret,
}

impl LoginKey {
    /// A new key. Takes some 10 ms to 100 ms of one core.
    ///
    /// # Errors
    /// The system's random numbers failed.
    pub fn generate() -> Result<Self, KeyError> {
        let private = PrivateKey::new(&mut getrandom::SysRng, KEY_BITS).map_err(|error| KeyError(error.to_string()))?;
        let public_der = public_der(private.as_public_key())?;
        Ok(Self { private, public_der })
    }

    /// The public key as the Encryption Request carries it: SubjectPublicKeyInfo, DER.
    #[must_use]
    pub fn public_der(&self) -> &[u8] {
        &self.public_der
    }

    /// Opens an Encryption Response: checks that it encrypts `token`, and gives the shared secret. Takes two RSA operations,
    /// some 1 ms: nothing for a thread that relays.
    ///
    /// Padding that is wrong does not show as such (PKCS#1 v1.5 with implicit rejection: garbage decrypts to garbage), so that
    /// nobody learns from it; the token decides.
    ///
    /// # Errors
    /// See [`LoginError`]. The token is looked at first.
    pub fn open(&self, encrypted_secret: &[u8], encrypted_token: &[u8], token: &[u8; 4]) -> Result<Secret, LoginError> {
        let decrypt = |bytes: &[u8]| self.private.pkcs1v15_decrypt(bytes).map(Zeroizing::new);
        let shown = decrypt(encrypted_token).map_err(|_| LoginError::Token)?;
        if !bool::from(shown.as_slice().ct_eq(token)) {
            return Err(LoginError::Token);
        }
        let secret = decrypt(encrypted_secret).map_err(|_| LoginError::Secret)?;
        Secret::try_from(secret.as_slice()).map_err(|_| LoginError::Secret)
    }

    /// The shared secret of a response that [`open`](Self::open) refused for its token. A client has turned encryption on by the
    /// time it is refused, so that it can only read why if that is encrypted. `None` if this is not what a client of ours made.
    #[must_use]
    pub fn secret_despite_token(&self, encrypted_secret: &[u8], encrypted_token: &[u8]) -> Option<Secret> {
        let decrypt = |bytes: &[u8]| self.private.pkcs1v15_decrypt(bytes).map(Zeroizing::new).ok();
        // Garbage seldom has the right length twice.
        decrypt(encrypted_token).filter(|token| token.len() == 4)?;
        Secret::try_from(decrypt(encrypted_secret)?.as_slice()).ok()
    }
}

impl fmt::Debug for LoginKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginKey").finish_non_exhaustive()
    }
}

fn public_der(key: &PublicKey) -> Result<Box<[u8]>, KeyError> {
    let der = key.to_public_key_der().map_err(|error| KeyError(error.to_string()))?;
    Ok(der.as_bytes().into())
}

/// A new verify token: four random bytes.
#[must_use]
pub fn verify_token() -> [u8; 4] {
    let mut token = [0; 4];
    if getrandom::fill(&mut token).is_err() {
        // The system gives none now; what std seeds its hash maps with is as unknown to the client.
        let [.., a, b, c, d] = RandomState::new().hash_one(0).to_be_bytes();
        token = [a, b, c, d];
    }
    token
}

/// What client and server name their connection by at the session server: SHA-1 of server id, secret and public key, written as
/// Java's `new BigInteger(digest).toString(16)`: signed, without leading zeros.
#[must_use]
pub fn server_hash(server_id: &str, secret: &Secret, public_der: &[u8]) -> String {
    signed_hex(&[server_id.as_bytes(), secret.as_bytes(), public_der])
}

fn signed_hex(parts: &[&[u8]]) -> String {
    let mut sha1 = Sha1::new();
    for part in parts {
        sha1.update(part);
    }
    let mut digest: [u8; 20] = sha1.finalize().into();
    let negative = digest[0] & 0x80 != 0;
    if negative {
        // Two's complement, from the last byte up.
        let mut carry = true;
        for byte in digest.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = hex.trim_start_matches('0');
    format!("{}{}", if negative { "-" } else { "" }, if digits.is_empty() { "0" } else { digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three that everybody tests with: digests of the name alone.
    #[test]
    fn known_hashes() {
        assert_eq!(signed_hex(&[b"Notch"]), "4ed1f46bbe04bc756bcb17c0c7ce3e4632f06a48");
        assert_eq!(signed_hex(&[b"jeb_"]), "-7c9d5b0044c130109a5d7b5fb5c317c02b4e28c1");
        assert_eq!(signed_hex(&[b"simon"]), "88e16a1019277b15d58faf0541e11910eb756f6");
        // What is hashed is one run of bytes.
        assert_eq!(signed_hex(&[b"je", b"", b"b_"]), signed_hex(&[b"jeb_"]));
        assert_eq!(server_hash("No", &Secret::new(*b"tch and whatnot."), b"!"), signed_hex(&[b"Notch and whatnot.!"]));
    }
}
