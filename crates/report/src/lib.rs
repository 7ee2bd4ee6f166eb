//! Presentation of an answer: text for a terminal, static plots, and a self-contained page. Everything here is a
//! function of its input, an `Answer` with its recording or plain curves; nothing is measured or judged.
//!
//! A figure that could not be measured shows the reason. It is never drawn as zero.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod again;
pub mod browser;
pub mod compared;
pub mod counted;
mod curves;
pub mod data;
pub mod film;
pub mod hidden_queue;
mod host;
pub mod html;
pub mod inside;
pub mod layout;
mod modem;
pub mod over_days;
pub mod packets;
pub mod plot;
pub mod plots;
pub mod points;
pub mod probe;
mod radio;
pub mod sheet;
mod stability;
pub mod statistics;
pub mod svg;
pub mod table;
mod tables;
pub mod tail;
pub mod terminal;
pub mod test_plots;
pub mod tidy;
pub mod traffic;
mod verdict;
mod words;

pub use table::Table;
pub use verdict::verdict;
pub use words::when;
