//! Moments that a user marked in a recording, such as the begin of a call: rows of the table `event` of the kind
//! [`MOMENT`], drawn on every plot over time.
//!
//! **Source.** Borlaug 2014, sections 4.7.1 and 5.2.5: figures 35 and 37 have marked points. **Limits.** A text is cut at
//! [`LONGEST`] characters. It comes from outside: characters that command a terminal are written out.

use base::record::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of the event; its subject is the text.
pub const MOMENT: &str = "moment";
/// Longest text, in characters.
pub const LONGEST: usize = 120;

/// Moment that a user marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// Time of the mark, UNIX ns.
    pub t_ns: i64,
    /// Text of the user.
    pub text: String,
}

impl Moment {
    /// Makes a moment with a text of one line; `None` if nothing is left of the text.
    pub fn new(t_ns: i64, text: &str) -> Option<Moment> {
        let text: String = base::text::clean(text.trim())
            .chars()
            .take(LONGEST)
            .collect();
        (!text.is_empty()).then_some(Moment { t_ns, text })
    }

    /// Row of the moment.
    pub fn event(&self) -> Event {
        Event {
            t_ns: self.t_ns,
            kind: MOMENT.into(),
            subject: self.text.as_str().into(),
            detail: "".into(),
        }
    }
}

/// Returns the moments among the events, in the order of time.
pub fn moments(events: &[Event]) -> Vec<Moment> {
    let marked = events.iter().filter(|e| &*e.kind == MOMENT);
    let mut all: Vec<Moment> = marked
        .filter_map(|e| Moment::new(e.t_ns, &e.subject))
        .collect();
    all.sort_by_key(|m| m.t_ns);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_line_and_bounded_and_others_are_no_moments() {
        let event = |t_ns, kind: &str, subject: &str| Event {
            t_ns,
            kind: kind.into(),
            subject: subject.into(),
            detail: "".into(),
        };
        let found = moments(&[
            event(5, MOMENT, " call ends\n"),
            event(2, "run", "monitor"),
            event(1, MOMENT, "call \u{1b}[2J begins"),
            event(3, MOMENT, "  "),
            event(4, MOMENT, &"é".repeat(500)),
        ]);
        let texts: Vec<&str> = found.iter().map(|m| m.text.as_str()).collect();
        assert_eq!(
            texts,
            ["call \\u{1b}[2J begins", &"é".repeat(LONGEST), "call ends"]
        );
        for m in &found {
            assert_eq!(moments(&[m.event()]).first(), Some(m));
        }
    }
}
