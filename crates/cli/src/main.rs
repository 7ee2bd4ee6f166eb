//! The binary `tailback`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    cli::main()
}
