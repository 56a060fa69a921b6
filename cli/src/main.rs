//! The `moonbridge` command.
fn main() {}
