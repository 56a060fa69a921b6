//! Every kernel gives, byte for byte, what the `cfb8` crate gives.

use aes::Aes128;
use aes::cipher::KeyIvInit;
use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Kernel, Lane, Secret, WrongLength, encrypt_together};
use proptest::prelude::*;

type TheirEncryptor = cfb8::Encryptor<Aes128>;

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.available())
}

/// Bytes with no pattern that a wrong index could hide in.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn key(seed: u64) -> [u8; 16] {
    noise(seed ^ 0x5eed, 16).try_into().expect("16 bytes")
}

/// What the `cfb8` crate makes of a whole stream.
fn reference(key: &[u8; 16], plain: &[u8]) -> Vec<u8> {
    let mut bytes = plain.to_vec();
    TheirEncryptor::new(key.into(), key.into()).encrypt(&mut bytes);
    bytes
}

/// The lengths that the issue names: every short one, and those around the powers of two.
fn lengths() -> impl Iterator<Item = usize> {
    (0..200).chain([255, 256, 257, 511, 513, 1023, 1024, 1025, 1500, 2047, 2049, 4095, 4096, 4097, 4099])
}

/// NIST SP 800-38A, F.3.7 and F.3.8. The IV is not the key there; a stream whose last 16 ciphertext bytes are that IV goes on alike.
#[test]
fn nists_known_answers() {
    let key = *b"\x2b\x7e\x15\x16\x28\xae\xd2\xa6\xab\xf7\x15\x88\x09\xcf\x4f\x3c";
    let iv: Vec<u8> = (0..16).collect();
    let plain = *b"\x6b\xc1\xbe\xe2\x2e\x40\x9f\x96\xe9\x3d\x7e\x11\x73\x93\x17\x2a\xae\x2d";
    let cipher = *b"\x3b\x79\x42\x4c\x9c\x0d\xd4\x36\xba\xce\x9e\x0e\xd4\x58\x6a\x4f\x32\xb9";
    for kernel in kernels() {
        let mut encryptor = Encryptor::with_kernel(&Secret::new(key), kernel).expect("available");
        let mut decryptor = Decryptor::with_kernel(&Secret::new(key), kernel).expect("available");
        let mut start = iv.clone();
        decryptor.decrypt(&mut start);
        encryptor.encrypt(&mut start);
        assert_eq!(start, iv, "{kernel}");
        let mut bytes = plain;
        encryptor.encrypt(&mut bytes);
        assert_eq!(bytes, cipher, "{kernel} encrypts");
        decryptor.decrypt(&mut bytes);
        assert_eq!(bytes, plain, "{kernel} decrypts");
    }
}

#[test]
fn a_kernel_is_there_or_not() {
    assert!(Kernel::Portable.available() && Kernel::best().available());
    for kernel in Kernel::ALL {
        let secret = Secret::new(key(1));
        assert_eq!(Encryptor::with_kernel(&secret, kernel).is_some(), kernel.available(), "{kernel}");
        assert_eq!(Decryptor::with_kernel(&secret, kernel).is_some(), kernel.available(), "{kernel}");
    }
    assert!(kernels().all(|kernel| kernel <= Kernel::best()));
}

#[test]
fn nothing_secret_is_printed() {
    let secret = Secret::new(*b"unspoken secret!");
    let printed = format!("{secret:?} {:?} {:?}", Encryptor::new(&secret), Decryptor::new(&secret));
    assert_eq!(
        printed,
        "Secret(16 bytes) Encryptor { kernel: KERNEL, .. } Decryptor { kernel: KERNEL, .. }"
            .replace("KERNEL", &format!("{:?}", Kernel::best()))
    );
    assert_eq!(Secret::try_from(&[0; 15][..]).err(), Some(WrongLength));
    assert_eq!(Secret::try_from(&[0; 17][..]).err(), Some(WrongLength));
    assert_eq!(Secret::try_from(&b"unspoken secret!"[..]).expect("16 bytes").as_bytes(), secret.as_bytes());
}

#[test]
fn one_stream_at_every_length_and_alignment() {
    for len in lengths() {
        let plain = noise(len as u64, len);
        let key = key(len as u64);
        let cipher = reference(&key, &plain);
        for kernel in kernels() {
            // Inside a larger buffer, at an odd place, so that nothing around is touched.
            let at = len % 67;
            let mut buffer = vec![0xa5; at + len + 80];
            buffer[at..at + len].copy_from_slice(&plain);
            Encryptor::with_kernel(&Secret::new(key), kernel).expect("available").encrypt(&mut buffer[at..at + len]);
            assert_eq!(buffer[at..at + len], cipher, "{kernel} encrypts {len} bytes");
            Decryptor::with_kernel(&Secret::new(key), kernel).expect("available").decrypt(&mut buffer[at..at + len]);
            assert_eq!(buffer[at..at + len], plain, "{kernel} decrypts {len} bytes");
            let around = buffer[..at].iter().chain(&buffer[at + len..]);
            assert!(around.copied().all(|byte| byte == 0xa5), "{kernel} wrote outside {len} bytes");
        }
    }
}

#[test]
fn one_stream_in_two_pieces_at_every_cut() {
    let key = key(7);
    for len in [16, 33, 64, 81, 130] {
        let plain = noise(3, len);
        let cipher = reference(&key, &plain);
        for (kernel, cut) in kernels().flat_map(|kernel| (0..=len).map(move |cut| (kernel, cut))) {
            let mut bytes = plain.clone();
            let (a, b) = bytes.split_at_mut(cut);
            let mut encryptor = Encryptor::with_kernel(&Secret::new(key), kernel).expect("available");
            encryptor.encrypt(a);
            encryptor.encrypt(b);
            assert_eq!(bytes, cipher, "{kernel}, {len} bytes cut at {cut}");
            let (a, b) = bytes.split_at_mut(cut);
            let mut decryptor = Decryptor::with_kernel(&Secret::new(key), kernel).expect("available");
            decryptor.decrypt(a);
            decryptor.decrypt(b);
            assert_eq!(bytes, plain, "{kernel}, {len} bytes cut at {cut}");
        }
    }
}

/// A stream of a batch: how far it is, and what its bytes are to become.
struct Stream {
    encryptor: Encryptor,
    bytes: Vec<u8>,
    want: Vec<u8>,
    done: usize,
    now: usize,
}

impl Stream {
    fn new(seed: u64, kernel: Kernel, len: usize) -> Self {
        let (key, bytes) = (key(seed), noise(seed, len));
        let want = reference(&key, &bytes);
        Self { encryptor: Encryptor::with_kernel(&Secret::new(key), kernel).expect("available"), bytes, want, done: 0, now: 0 }
    }
}

impl Lane for Stream {
    fn parts(&mut self) -> (&mut Encryptor, &mut [u8]) {
        (&mut self.encryptor, &mut self.bytes[self.done..self.done + self.now])
    }
}

/// Takes every stream's next piece at once; `pieces` says how many bytes of which stream in which round.
fn check_together(kernel: impl Fn(usize) -> Kernel, pieces: &[Vec<usize>]) {
    let mut streams: Vec<_> = pieces.iter().enumerate().map(|(i, pieces)| Stream::new(i as u64, kernel(i), pieces.iter().sum())).collect();
    for round in 0..pieces.iter().map(Vec::len).max().unwrap_or(0) {
        for (stream, pieces) in streams.iter_mut().zip(pieces) {
            stream.now = pieces.get(round).copied().unwrap_or(0);
        }
        encrypt_together(&mut streams);
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.done += stream.now;
            let untouched = noise(i as u64, stream.bytes.len());
            assert_eq!(stream.bytes[..stream.done], stream.want[..stream.done], "stream {i}, round {round} of {pieces:?}");
            assert_eq!(stream.bytes[stream.done..], untouched[stream.done..], "stream {i}, round {round} of {pieces:?}");
        }
    }
}

#[test]
fn together_any_number_of_streams() {
    for kernel in kernels() {
        for streams in 0..70 {
            // Two rounds, so that the state after the first counts.
            check_together(|_| kernel, &vec![vec![33, 40]; streams]);
            let uneven: Vec<_> = (0..streams).map(|i| vec![i * 7 % 61, (i * 37 + streams) % 90]).collect();
            check_together(|_| kernel, &uneven);
        }
    }
}

#[test]
fn together_every_length() {
    for kernel in kernels() {
        for len in lengths() {
            check_together(|_| kernel, &[vec![len, 5], vec![200 - len.min(200)], vec![len], vec![3, len], vec![0, 1]]);
            check_together(|_| kernel, &vec![vec![len, 17]; 19]);
        }
    }
}

#[test]
fn together_one_long_among_short_ones() {
    for kernel in kernels() {
        for streams in [2, 3, 8, 9, 16, 17, 33, 64] {
            for long in [0, streams / 2, streams - 1] {
                let pieces: Vec<_> = (0..streams).map(|i| vec![if i == long { 3000 } else { 33 }, 21]).collect();
                check_together(|_| kernel, &pieces);
            }
        }
    }
}

#[test]
fn together_with_different_kernels() {
    let all: Vec<_> = kernels().collect();
    let pieces: Vec<_> = (0..40).map(|i| vec![i * 11 % 130, 50]).collect();
    check_together(|i| all[i % all.len()], &pieces);
}

proptest! {
    #[test]
    fn one_stream_at_any_split(seed: u64, pieces in prop::collection::vec(0usize..300, 1..30)) {
        let plain = noise(seed, pieces.iter().sum());
        let key = key(seed);
        let cipher = reference(&key, &plain);
        for kernel in kernels() {
            let mut bytes = plain.clone();
            let mut encryptor = Encryptor::with_kernel(&Secret::new(key), kernel).expect("available");
            let mut decryptor = Decryptor::with_kernel(&Secret::new(key), kernel).expect("available");
            let mut rest = &mut bytes[..];
            for piece in &pieces {
                let (now, later) = rest.split_at_mut(*piece);
                encryptor.encrypt(now);
                rest = later;
            }
            prop_assert_eq!(&bytes, &cipher);
            // Cut in another way.
            let mut rest = &mut bytes[..];
            for piece in pieces.iter().rev() {
                let (now, later) = rest.split_at_mut(*piece);
                decryptor.decrypt(now);
                rest = later;
            }
            prop_assert_eq!(&bytes, &plain);
        }
    }

    #[test]
    fn together_any_streams(pieces in prop::collection::vec(prop::collection::vec(prop_oneof![0usize..40, 0usize..400, 0usize..2000], 1..4), 0..80)) {
        for kernel in kernels() {
            check_together(|_| kernel, &pieces);
        }
    }
}
