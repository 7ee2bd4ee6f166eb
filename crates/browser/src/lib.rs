//! The test of `tailback test` as a browser runs it. A page's scripts own sockets and clocks; the session of probes, the
//! phases and the analysis are those of every test, compiled to WebAssembly.
//!
//! [`probes`] runs in the worker that sends probes, [`test`](mod@test) in the page. `abi` is what scripts call.
#![deny(clippy::disallowed_methods)]
#![deny(unsafe_code)]

#[cfg(target_family = "wasm")]
mod abi;
pub mod probes;
pub mod test;
