//! The target that FUZZ_TARGET names: `FUZZ_TARGET=capture cargo +nightly fuzz run any fuzz/corpus/capture`.
#![no_main]

// Seeds and weights serve the ordinary tests.
#[allow(dead_code)]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target of fuzz/targets.rs");
    let target = targets::all().find(|t| t.name == name);
    (target.expect("a target of fuzz/targets.rs").run)(bytes);
});
