//! Span of time that is drawn.

use jiff::tz::TimeZone;

/// The span to draw.
#[derive(Clone, Debug)]
pub struct Scope {
    pub from_ns: i64,
    /// Exclusive.
    pub to_ns: i64,
    /// Where days begin.
    pub zone: TimeZone,
}
