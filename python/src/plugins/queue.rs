//! Queue disciplines in Python. The simulator's packets stay here: a packet that the class loses, invents or marks
//! without right ends the run.

use super::{Instance, broken, raised};
use base::plugged;
use base::rng::Streams;
use base::words::Words;
use base::{Bytes, Duration, Ecn, Packet, PacketId, Time};
use link::qdisc::check::{check, random_ops};
use link::qdisc::registry::QdiscSpec;
use link::qdisc::{Backlog, Fates, Qdisc, Reason};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};
use std::collections::BTreeMap;

/// Packet as a discipline sees it: a size and marks, without content.
#[pyclass(frozen, name = "Packet", module = "tailback")]
pub struct PyPacket(Packet);

#[pymethods]
impl PyPacket {
    /// Number of the packet in the run.
    #[getter]
    fn id(&self) -> u64 {
        self.0.id.0
    }
    /// Number of its flow.
    #[getter]
    fn flow(&self) -> u64 {
        self.0.flow.0
    }
    /// Length of the IP packet in bytes, header included.
    #[getter]
    fn length(&self) -> u64 {
        self.0.len.get()
    }
    /// True if it may be marked instead of dropped.
    #[getter]
    fn ecn_capable(&self) -> bool {
        self.0.ecn.is_capable()
    }
    /// DSCP, 0 to 63.
    #[getter]
    fn dscp(&self) -> u8 {
        self.0.dscp
    }
    /// Time of its arrival in the queue, ns.
    #[getter]
    fn enqueued_ns(&self) -> u64 {
        ns(self.0.enqueued)
    }
    fn __repr__(&self) -> String {
        let (id, flow, length) = (self.id(), self.flow(), self.length());
        format!("Packet(id={id}, flow={flow}, length={length})")
    }
}

pub(super) fn ns(time: Time) -> u64 {
    time.saturating_since(Time::ZERO).as_nanos()
}

/// Discipline whose law is a Python object.
pub struct Queue {
    law: Instance,
    fates: Py<PyList>,
    inside: BTreeMap<PacketId, Packet>,
    bytes: Bytes,
    wakes: bool,
}

impl Queue {
    pub fn new(class: &Py<PyType>, words: &Words, seed: u64) -> Queue {
        let fates = Python::attach(|py| PyList::empty(py).unbind());
        let law = Instance::new(class, words, seed, &|object| {
            object.setattr("_fates", &fates)
        });
        Queue {
            wakes: law.has("next_wakeup"),
            law,
            fates,
            inside: BTreeMap::new(),
            bytes: Bytes::ZERO,
        }
    }

    fn take(&mut self, id: PacketId) -> Option<Packet> {
        let packet = self.inside.remove(&id)?;
        self.bytes -= packet.len;
        Some(packet)
    }

    /// Carries out what the law did with packets during its call.
    fn judge(&mut self, fates: &mut Fates) {
        let told = Python::attach(|py| {
            let list = self.fates.bind(py);
            if list.is_empty() {
                return Ok(Vec::new());
            }
            let told: Vec<(PyRef<'_, PyPacket>, bool, String)> = list.extract()?;
            let told: Vec<_> = told
                .into_iter()
                .map(|(p, mark, why)| (p.0.id, mark, why))
                .collect();
            list.del_slice(0, list.len())?;
            Ok(told)
        });
        for (id, mark, why) in self.law.kept(told).unwrap_or_default() {
            let done = self.fate(id, mark, &why, fates);
            let done = done.map_err(|what| Python::attach(|py| broken(py, &what)));
            self.law.kept(done);
        }
    }

    fn fate(
        &mut self,
        id: PacketId,
        mark: bool,
        why: &str,
        fates: &mut Fates,
    ) -> Result<(), String> {
        let reason = Reason::ALL.into_iter().find(|r| r.word() == why);
        let reason = reason.ok_or_else(|| {
            let known = Reason::ALL.map(Reason::word).join(", ");
            format!("there is no reason {why:?}: the reasons are {known}")
        })?;
        if !mark {
            let packet = self.take(id);
            let packet = packet.ok_or("a packet was dropped that is not in the queue")?;
            fates.dropped(packet, reason);
            return Ok(());
        }
        let packet = self.inside.get_mut(&id);
        let packet = packet.ok_or("a packet was marked that is not in the queue")?;
        if !packet.ecn.is_capable() {
            return Err("a packet was marked that is not capable of ECN".into());
        }
        packet.ecn = Ecn::Ce;
        fates.marked(*packet, reason);
        Ok(())
    }

    /// Packet that the law gives out.
    fn given(&mut self, given: Option<PacketId>, now: Time) -> Option<Packet> {
        let waits = !self.inside.is_empty();
        let what = match given {
            None if waits && self.next_wakeup().is_none_or(|t| t <= now) => {
                "dequeue returned nothing although packets wait, and no later wake-up"
            }
            None => return None,
            Some(id) => match self.take(id) {
                Some(packet) => return Some(packet),
                None => "dequeue returned a packet that is not in the queue",
            },
        };
        let error: PyResult<()> = Err(Python::attach(|py| broken(py, what)));
        self.law.kept(error);
        None
    }

    /// Next packet once the law has failed: the run is about to end, and nothing may be lost until then.
    fn first(&mut self) -> Option<Packet> {
        let id = *self.inside.keys().next()?;
        self.take(id)
    }
}

impl Qdisc for Queue {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        let packet = Packet {
            enqueued: now,
            ..packet
        };
        self.inside.insert(packet.id, packet);
        self.bytes += packet.len;
        self.law.call(|law| {
            let method = intern!(law.py(), "enqueue");
            law.call_method1(method, (ns(now), PyPacket(packet)))?;
            Ok(())
        });
        self.judge(fates);
    }

    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        if self.inside.is_empty() {
            return None;
        }
        let given = self.law.call(|law| {
            let given = law.call_method1(intern!(law.py(), "dequeue"), (ns(now),))?;
            let given: Option<PyRef<'_, PyPacket>> = given.extract()?;
            Ok(given.map(|packet| packet.0.id))
        });
        self.judge(fates);
        match given.filter(|_| self.law.object.is_some()) {
            Some(given) => self.given(given, now),
            None => self.first(),
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.bytes,
            packets: self.inside.len() as u64,
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        let law = self.law.object.as_ref().filter(|_| self.wakes)?;
        let asked = Python::attach(|py| {
            let asked = law.bind(py).call_method0(intern!(py, "next_wakeup"))?;
            asked.extract::<Option<u64>>()
        });
        match asked {
            Ok(asked) => asked.map(|ns| Time::ZERO + Duration::from_nanos(ns)),
            Err(e) => {
                plugged::fail(plugged::Failure(std::sync::Arc::new(e)));
                None
            }
        }
    }
}

/// Runs random operations through a discipline, by its text in a scenario, and checks its contract.
#[pyfunction]
pub fn check_qdisc(py: Python<'_>, text: &str, seed: u64, cases: u64) -> PyResult<()> {
    let spec: QdiscSpec = text.parse().map_err(|e: base::words::WordsError| {
        crate::error(py, "UsageError", &e.to_string(), None)
    })?;
    for case in seed..seed.saturating_add(cases) {
        py.check_signals()?;
        let streams = Streams::new(case);
        let ops = random_ops(&mut streams.stream("check/ops"));
        plugged::take_failure();
        let run = || check(&mut spec.build(&streams, "check"), spec.limits(), &ops);
        let (once, again) = (run(), run());
        if let Some(e) = plugged::take_failure().and_then(|f| raised(py, &f)) {
            return Err(e);
        }
        let told = match (once, again) {
            (Err(why), _) | (_, Err(why)) => why,
            (once, again) if once == again => continue,
            _ => "the same seed gave another result: draw from self.random alone".into(),
        };
        let told = format!("{text}, seed {case}: {told}");
        return Err(crate::error(py, "Error", &told, None));
    }
    Ok(())
}
