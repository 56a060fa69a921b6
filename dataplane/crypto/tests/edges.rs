//! No kernel reads or writes a byte outside what it was given: here that byte is in memory that nobody may touch.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::slice;

use moonbridge_crypto::cfb8::{Decryptor, Encryptor, Kernel, Secret, encrypt_together};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

/// Some pages between two that may not be touched.
struct Walled {
    start: *mut c_void,
    len: usize,
}

impl Walled {
    fn new(len: usize) -> Self {
        let page = page_size();
        let len = len.next_multiple_of(page);
        // SAFETY: a new mapping, at a place that the kernel chooses; its inner pages are opened up, and nothing else.
        unsafe {
            let start = mmap_anonymous(ptr::null_mut(), len + 2 * page, ProtFlags::empty(), MapFlags::PRIVATE).expect("mmap");
            mprotect(start.byte_add(page), len, MprotectFlags::READ | MprotectFlags::WRITE).expect("mprotect");
            Self { start, len }
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the inner pages may be read and written, were zeroed by the kernel, and live as long as `self`.
        unsafe { slice::from_raw_parts_mut(self.start.byte_add(page_size()).cast(), self.len) }
    }
}

impl Drop for Walled {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, of which no borrow is left.
        unsafe { munmap(self.start, self.len + 2 * page_size()) }.expect("munmap");
    }
}

/// The first and the last `len` bytes between the walls.
fn at_both_walls(memory: &mut Walled, len: usize, mut run: impl FnMut(&mut [u8])) {
    let bytes = memory.bytes();
    let whole = bytes.len();
    run(&mut bytes[..len]);
    run(&mut bytes[whole - len..]);
}

#[test]
fn kernels_stay_between_the_walls() {
    let mut memory = Walled::new(8192);
    let secret = Secret::new([7; 16]);
    for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.available()) {
        let mut encryptor = Encryptor::with_kernel(&secret, kernel).expect("available");
        let mut decryptor = Decryptor::with_kernel(&secret, kernel).expect("available");
        for len in (0..330).chain([1500, 4095, 4096]) {
            at_both_walls(&mut memory, len, |bytes| encryptor.encrypt(bytes));
            at_both_walls(&mut memory, len, |bytes| decryptor.decrypt(bytes));
        }
    }
}

#[test]
fn lanes_stay_between_the_walls() {
    for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.available()) {
        for streams in [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 20] {
            let mut memories: Vec<_> = (0..streams).map(|_| Walled::new(4096)).collect();
            let mut encryptors: Vec<_> =
                (0..streams).map(|i| Encryptor::with_kernel(&Secret::new([i; 16]), kernel).expect("available")).collect();
            for len in (0..70).chain([199, 1500]) {
                for at_end in [false, true] {
                    let mut lanes: Vec<_> = encryptors
                        .iter_mut()
                        .zip(memories.iter_mut().map(Walled::bytes))
                        .enumerate()
                        .map(|(i, (encryptor, bytes))| {
                            // Lengths that let lanes end at different times.
                            let (len, whole) = (len + i * 5 % 23, bytes.len());
                            (encryptor, if at_end { &mut bytes[whole - len..] } else { &mut bytes[..len] })
                        })
                        .collect();
                    encrypt_together(&mut lanes);
                }
            }
        }
    }
}
