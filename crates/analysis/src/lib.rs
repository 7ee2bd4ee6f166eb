//! What a recording says: statistics, where the queue is and how large, which kind, and what to do.
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

pub mod answer;
