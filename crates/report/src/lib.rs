//! What a person sees of an answer: text for a terminal, static plots, and one self-contained page.
//! Everything here is a function of an `Answer` and the recording behind it; nothing is measured or judged.
//!
//! A figure that could not be had shows its reason. It is never drawn as zero.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod curves;
mod data;
pub mod html;
pub mod svg;
mod tables;
pub mod terminal;
mod verdict;
mod words;

pub use verdict::verdict;
