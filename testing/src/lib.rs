//! MoonBridge's harness, end-to-end tests and benchmarks
pub mod bench;
