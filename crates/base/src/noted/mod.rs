//! What kinds of probe saw that no table has a column for: events of the kind's name, whose detail is JSON.
//!
//! The room that sends writes them and the one that answers reads them; the shapes in between are here.

pub mod check;
pub mod collapse;
pub mod dns;
pub mod ipv6;
pub mod middlebox;
pub mod nat;
pub mod own;
pub mod page;
pub mod ports;
pub mod throughput;

use crate::record::{Event, Recording};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A note of one kind.
pub trait Noted: Serialize + DeserializeOwned {
    /// The kind of probe, which is the kind of the event too.
    const KIND: &'static str;

    /// # Panics
    /// When the note is not plain data, which would be a fault of its definition.
    fn event(&self, t_ns: i64, subject: &str) -> Event {
        let detail = serde_json::to_string(self).expect("notes are plain data");
        Event {
            t_ns,
            kind: Self::KIND.into(),
            subject: subject.into(),
            detail: detail.as_str().into(),
        }
    }

    /// Every note of this kind with what it is about, in order. What this version cannot read is left out.
    fn all_of(recording: &Recording) -> impl Iterator<Item = (&str, Self)> {
        let ours = recording.event.iter().filter(|e| &*e.kind == Self::KIND);
        ours.filter_map(|e| Some((&*e.subject, serde_json::from_str(&e.detail).ok()?)))
    }
}
