//! The key exchange, with RustCrypto's other half of it as the client.

use moonbridge_crypto::cfb8::Secret;
use moonbridge_crypto::login::{LoginError, LoginKey, server_hash, verify_token};
use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey;
use rsa::traits::PublicKeyParts;

fn client(key: &LoginKey) -> impl Fn(&[u8]) -> Vec<u8> {
    let public = PublicKey::from_public_key_der(key.public_der()).expect("SubjectPublicKeyInfo");
    assert_eq!(public.n().bit_width(), 1024);
    move |bytes| public.pkcs1v15_encrypt(bytes).expect("encrypts")
}

#[test]
fn a_login_gives_the_clients_secret() {
    let key = LoginKey::generate().expect("random numbers");
    let (encrypt, token) = (client(&key), verify_token());
    let secret = key.open(&encrypt(b"sixteen secrets!"), &encrypt(&token), &token).expect("opens");
    assert_eq!(secret.as_bytes(), b"sixteen secrets!");
}

#[test]
fn a_wrong_token_is_refused() {
    let key = LoginKey::generate().expect("random numbers");
    let encrypt = client(&key);
    let secret = encrypt(&[1; 16]);
    for wrong in [&b"tokeN"[..4], b"toke", b"token!", b"", b"tok", b"\0\0\0\0"] {
        assert_eq!(key.open(&secret, &encrypt(wrong), b"tokE").err(), Some(LoginError::Token), "{wrong:?}");
    }
    // The right one, but not encrypted, or with another's key.
    assert_eq!(key.open(&secret, b"tokE", b"tokE").err(), Some(LoginError::Token));
    let other = client(&LoginKey::generate().expect("random numbers"))(b"tokE");
    assert_eq!(key.open(&secret, &other, b"tokE").err(), Some(LoginError::Token));
}

#[test]
fn a_secret_of_another_length_is_refused() {
    let key = LoginKey::generate().expect("random numbers");
    let (encrypt, token) = (client(&key), verify_token());
    for len in [0, 1, 15, 17, 32, 117] {
        let opened = key.open(&encrypt(&vec![9; len]), &encrypt(&token), &token);
        assert_eq!(opened.err(), Some(LoginError::Secret), "{len} bytes");
    }
}

#[test]
fn garbage_is_refused_and_nothing_panics() {
    let key = LoginKey::generate().expect("random numbers");
    let (encrypt, token) = (client(&key), verify_token());
    for len in [0, 1, 16, 127, 129, 256, 1000] {
        for byte in [0, 1, 0x7f, 0xff] {
            let garbage = vec![byte; len];
            assert_eq!(key.open(&garbage, &encrypt(&token), &token).err(), Some(LoginError::Secret), "{len} of {byte}");
            assert_eq!(key.open(&encrypt(&[1; 16]), &garbage, &token).err(), Some(LoginError::Token), "{len} of {byte}");
        }
    }
    // Of the right length: decrypts to garbage, which may by chance be 16 bytes, but never to anybody's secret.
    for byte in 0..64 {
        let garbage = vec![byte; 128];
        assert_eq!(key.open(&encrypt(&[1; 16]), &garbage, &token).err(), Some(LoginError::Token));
        match key.open(&garbage, &encrypt(&token), &token) {
            Ok(secret) => assert_ne!(secret.as_bytes(), &[1; 16]),
            Err(error) => assert_eq!(error, LoginError::Secret),
        }
    }
}

#[test]
fn tokens_differ_and_hashes_depend_on_everything() {
    let tokens: std::collections::HashSet<_> = (0..64).map(|_| verify_token()).collect();
    assert!(tokens.len() > 60, "{} different tokens of 64", tokens.len());
    let hashes = [("", [1; 16], b"key"), ("a", [1; 16], b"key"), ("", [2; 16], b"key"), ("", [1; 16], b"kex")]
        .map(|(id, secret, key)| server_hash(id, &Secret::new(secret), key));
    for (i, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..i].contains(hash));
    }
}

#[test]
fn the_key_is_not_printed() {
    let key = LoginKey::generate().expect("random numbers");
    assert_eq!(format!("{key:?}"), "LoginKey { .. }");
}
