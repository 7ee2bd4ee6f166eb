//! The binary `tailback`.

fn main() -> std::process::ExitCode {
    cli::main()
}
