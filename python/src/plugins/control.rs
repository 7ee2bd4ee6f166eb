//! Congestion controllers in Python: the object's `cwnd` and `pacing_rate` are read after each event.

use super::queue::ns;
use super::{Instance, broken, numbers};
use base::words::Words;
use base::{BitsPerSec, Bytes, Duration, Time};
use congestion::{Ack, Congestion, Controller, ControllerState, Sent, Setup};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Controller whose law is a Python object.
pub struct Control {
    law: Instance,
    mss: Bytes,
    cwnd: Bytes,
    pacing_rate: Option<BitsPerSec>,
}

impl Control {
    pub fn new(class: &Py<PyType>, words: &Words, setup: &Setup, seed: u64) -> Control {
        let law = Instance::new(class, words, seed, &|object| {
            object.setattr("mss", setup.mss.get())?;
            object.setattr("cwnd", setup.initial_window.get())?;
            object.setattr("pacing_rate", None::<u64>)
        });
        let mut control = Control {
            law,
            mss: setup.mss,
            cwnd: setup.initial_window,
            pacing_rate: None,
        };
        control.tell(|_| Ok(()));
        control
    }

    /// Tells the law of an event, and takes its window and rate.
    fn tell(&mut self, event: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        let most = 1e18;
        let known = self.law.call(|law| {
            event(law)?;
            let py = law.py();
            let cwnd: f64 = law.getattr(intern!(py, "cwnd"))?.extract()?;
            let rate: Option<f64> = law.getattr(intern!(py, "pacing_rate"))?.extract()?;
            match cwnd.is_finite() && rate.is_none_or(f64::is_finite) {
                true => Ok((cwnd, rate)),
                false => Err(broken(py, "cwnd and pacing_rate must be finite numbers")),
            }
        });
        let Some((cwnd, rate)) = known else { return };
        self.cwnd = Bytes::new(cwnd.clamp(0.0, most) as u64).max(self.mss);
        self.pacing_rate = rate.map(|rate| BitsPerSec::new(rate.clamp(1.0, most) as u64));
    }
}

fn whole(time: Option<Duration>) -> Option<u64> {
    time.map(Duration::as_nanos)
}

impl Controller for Control {
    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        self.tell(|law| {
            let py = law.py();
            let fields = numbers(
                py,
                &[
                    ("newly_acked", Some(ack.newly_acked.get())),
                    ("inflight", Some(ack.inflight.get())),
                    ("delivered", Some(ack.delivered.get())),
                    ("rtt_ns", whole(ack.rtt)),
                    ("min_rtt_ns", whole(ack.min_rtt)),
                    ("srtt_ns", whole(ack.srtt)),
                    ("rate_bps", ack.rate.map(|r| r.rate().get())),
                ],
            )?;
            fields.set_item("cwnd_limited", ack.cwnd_limited)?;
            fields.set_item("in_recovery", ack.in_recovery)?;
            law.call_method1(intern!(py, "on_ack"), (ns(now), fields))?;
            Ok(())
        });
    }

    fn on_congestion(&mut self, now: Time, congestion: &Congestion) {
        let (kind, flight) = match *congestion {
            Congestion::Loss { flight } => ("loss", flight),
            Congestion::Ecn { flight } => ("ecn", flight),
            Congestion::Rto { flight, .. } => ("timeout", flight),
            Congestion::Spurious => ("spurious", Bytes::ZERO),
        };
        self.tell(|law| {
            let method = intern!(law.py(), "on_congestion");
            law.call_method1(method, (ns(now), kind, flight.get()))?;
            Ok(())
        });
    }

    fn cwnd(&self) -> Bytes {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<BitsPerSec> {
        self.pacing_rate
    }

    fn state(&self) -> ControllerState {
        ControllerState {
            cwnd: self.cwnd,
            ssthresh: None,
            pacing_rate: self.pacing_rate,
            phase: "python",
            variables: [None; 3],
        }
    }
}
