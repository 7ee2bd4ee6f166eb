//! Many measuring points, and the one hub that keeps what they measure.
//!
//! A point runs the *agent* (the Measurement Agent of RFC 7594, A Framework for Large-Scale Measurement of Broadband
//! Performance (LMAP)). It follows the hub's signed plan, writes recordings into its spool, and uploads each closed one.
//! It deletes a recording only when it has the hub's signed receipt. The *hub* checks what arrives, keeps it as
//! recordings that every verb of Tailback reads, and writes one row of its ledger for each.
//!
//! The invariant is: every recording with a receipt is in the store exactly once. See `docs/decisions/0026-a-recording-is-the-unit.md`.

#![forbid(unsafe_code)]

pub mod agent;
mod consent;
mod durable;
mod http;
pub mod hub;
mod identity;
mod invitation;
mod manifest;
pub mod operator;
mod order;
pub mod plan;
mod release;
mod schedule;
pub mod share;
mod task;
mod token;
mod wire;

pub use consent::{CONSENT, SHARING};
pub use identity::{Identity, PublicKey, Signature};
pub use invitation::Invitation;
pub use manifest::{Manifest, ManifestError, Part};
pub use order::{Look, Order, Subject, Told};
pub use release::{Label, ReleaseKey, Version};
pub use schedule::{Due, next_start};
pub use task::{ReadTask, Task};
pub use wire::{Receipt, Verdict};

/// Seconds since 1970 by this machine's clock.
fn unix_s() -> i64 {
    live::clock::wall_ns().div_euclid(1_000_000_000)
}
