//! The `moonbridge` command; see the library of this crate.

fn main() -> std::process::ExitCode {
    moonbridge_cli::main()
}
