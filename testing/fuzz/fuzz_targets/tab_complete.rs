#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| moonbridge_fuzz::tab_complete(data));
