//! Sources in Python: transfers over one TCP connection, each a pause after the one before was acknowledged.

use super::queue::ns;
use super::{Instance, broken};
use base::words::Words;
use base::{Duration, Time};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;
use sim::source::{Application, Ask, Done, Opening, Span, THERE, Told};

/// Source whose pauses and sizes come from a Python object.
pub struct Traffic {
    law: Instance,
    stop: Time,
    /// Start and size of the next transfer.
    next: Option<(Time, u64)>,
    /// Start and size of the transfer in flight.
    current: Option<(Time, u64)>,
}

impl Traffic {
    pub fn new(class: &Py<PyType>, words: &Words, span: Span, seed: u64) -> Traffic {
        let mut traffic = Traffic {
            law: Instance::new(class, words, seed, &|_| Ok(())),
            stop: span.stop,
            next: None,
            current: None,
        };
        traffic.ask(span.start);
        traffic
    }

    /// Asks the law for the next transfer.
    fn ask(&mut self, now: Time) {
        let asked = self.law.call(|law| {
            let py = law.py();
            let asked = law.call_method1(intern!(py, "next_transfer"), (ns(now),))?;
            match asked.extract::<Option<(u64, u64)>>()? {
                Some((_, 0)) => Err(broken(py, "a transfer has at least one byte")),
                asked => Ok(asked),
            }
        });
        let due = |(pause, bytes)| (now + Duration::from_nanos(pause), bytes);
        let next = asked.flatten().map(due);
        self.next = next.filter(|(at, _)| *at < self.stop);
    }
}

impl Application for Traffic {
    fn openings(&self) -> Vec<Opening> {
        vec![THERE]
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match what {
            Told::Due => {
                let (_, bytes) = self.next.take()?;
                self.current = Some((now, bytes));
                asks.push(Ask::Write(0, bytes));
                None
            }
            Told::Acknowledged(_) => {
                let (began, bytes) = self.current.take()?;
                self.ask(now);
                Some(Done {
                    what: "transfer",
                    began,
                    bytes,
                })
            }
            Told::Arrived(_) => None,
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.next.map(|(at, _)| at)
    }

    fn is_over(&self) -> bool {
        self.next.is_none() && self.current.is_none()
    }
}
