//! Span of time that is drawn.

use jiff::tz::TimeZone;

/// Span to draw.
#[derive(Clone, Debug)]
pub struct Scope {
    pub from_ns: i64,
    /// End of the span, UNIX ns, exclusive.
    pub to_ns: i64,
    /// Time zone that determines the start of days.
    pub zone: TimeZone,
}
