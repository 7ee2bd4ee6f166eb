//! The least that a recording must say of itself.

use base::record::Meta;
pub use testkit::TempDir as Scratch;

/// 2026-11-21T12:00:00Z.
pub const NOON: i64 = 1_795_262_400_000_000_000;

pub fn meta() -> Meta {
    Meta {
        writer: "test".into(),
        verb: "test".into(),
        started_ns: NOON,
        ..Meta::default()
    }
}
