//! Encryption and decryption allocate nothing, alone or together.

use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Kernel, Secret, encrypt_together};

#[test]
fn nothing_is_allocated() {
    for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.available()) {
        let secret = Secret::new([3; 16]);
        let mut decryptor = Decryptor::with_kernel(&secret, kernel).expect("available");
        let mut encryptors: Vec<_> = (0..40).map(|_| Encryptor::with_kernel(&secret, kernel).expect("available")).collect();
        let mut data: Vec<_> = (0..40).map(|i| vec![0; i * 9]).collect();
        let counted = allocation_counter::measure(|| {
            for (encryptor, data) in encryptors.iter_mut().zip(&mut data) {
                encryptor.encrypt(data);
                decryptor.decrypt(data);
            }
        });
        assert_eq!(counted.count_total, 0, "{kernel}, alone");
        let mut lanes: Vec<_> = encryptors.iter_mut().zip(data.iter_mut().map(Vec::as_mut_slice)).collect();
        let counted = allocation_counter::measure(|| encrypt_together(&mut lanes));
        assert_eq!(counted.count_total, 0, "{kernel}, together");
    }
}
