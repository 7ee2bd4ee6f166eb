//! Span of time that is drawn.

use analysis::moments::Moment;
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

impl Scope {
    /// Moments within the span: s since its start, and the text.
    pub(super) fn marked(&self, moments: &[Moment]) -> Vec<(f64, String)> {
        let inside = moments.iter();
        let inside = inside.filter(|m| (self.from_ns..self.to_ns).contains(&m.t_ns));
        let since = |m: &Moment| (m.t_ns - self.from_ns) as f64 / 1e9;
        inside.map(|m| (since(m), m.text.clone())).collect()
    }
}
