//! Notes: results of experiments that fit no table. A note is an event with the experiment's name as its kind and JSON
//! as its detail.
//!
//! The crate that runs the experiment writes them and the crate that evaluates it reads them; the types are here.

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

/// Note of one kind.
pub trait Noted: Serialize + DeserializeOwned {
    /// Name of the experiment, and kind of the event.
    const KIND: &'static str;

    /// # Panics
    /// Panics if the note is not plain data, which would be a bug in its definition.
    fn event(&self, t_ns: i64, subject: &str) -> Event {
        let detail = serde_json::to_string(self).expect("notes are plain data");
        Event {
            t_ns,
            kind: Self::KIND.into(),
            subject: subject.into(),
            detail: detail.as_str().into(),
        }
    }

    /// Iterates over the subject and note of every event of this kind, in order. Skips events that this version cannot
    /// read.
    fn all_of(recording: &Recording) -> impl Iterator<Item = (&str, Self)> {
        let ours = recording.event.iter().filter(|e| &*e.kind == Self::KIND);
        ours.filter_map(|e| Some((&*e.subject, serde_json::from_str(&e.detail).ok()?)))
    }
}
