//! Disciplines, controllers and sources written in Python. Each instance is called by the simulator with the time, holds
//! its own random numbers, and ends the run with the exception that it raises.

use crate::error;
use base::plugged::{self, Failure};
use base::rng::Streams;
use base::words::{Entry, Parameter, Unit, Value, Words};
use link::qdisc::{Limits, registry};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use rand::Rng as _;
use std::sync::Arc;

pub mod control;
pub mod queue;
pub mod traffic;

/// Name, default as text, and kind of a parameter: `int`, `float`, `bool` or `str`.
type Declared = (String, String, String);

/// Makes a class usable in scenarios by this name.
///
/// `kind` is "qdisc", "controller" or "source". `parameters` are names with default texts and kinds.
#[pyfunction]
#[pyo3(signature = (class, kind, name, summary, parameters, /))]
pub fn add(
    class: Bound<'_, PyType>,
    kind: &str,
    name: &str,
    summary: &str,
    parameters: Vec<Declared>,
) -> PyResult<()> {
    let py = class.py();
    let entry = entry(name, summary, parameters);
    let class = class.unbind();
    let added = match kind {
        "qdisc" => registry::add(
            entry,
            |_| Limits::default(),
            move |words, streams, place| {
                let seed = seed(streams, &format!("link/{place}"), words);
                Box::new(queue::Queue::new(&class, words, seed))
            },
        ),
        "controller" => congestion::registry::add(entry, move |words, made| {
            let seed = made.rng(words.entry().name).next_u64();
            Box::new(control::Control::new(&class, words, made.setup, seed))
        }),
        _ => sim::source::registry::add(entry, move |words, span, streams, place| {
            let seed = seed(streams, place, words);
            Box::new(traffic::Traffic::new(&class, words, span, seed))
        }),
    };
    added.map_err(|why| error(py, "UsageError", &why, Some("set the class's `name`")))
}

fn seed(streams: &Streams, place: &str, words: &Words) -> u64 {
    let name = words.entry().name;
    streams.stream(&format!("{place}/{name}")).next_u64()
}

/// Entry of the table. Its texts stay until the process ends, as the table does.
fn entry(name: &str, summary: &str, parameters: Vec<Declared>) -> Entry {
    let keep = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let parameters = parameters.into_iter().map(|(name, default, kind)| {
        let (unit, min, max) = match kind.as_str() {
            "int" => (Unit::Count, "0", "18446744073709551615"),
            "float" => (Unit::Number, "-1e300", "1e300"),
            "bool" => (Unit::Switch, "false", "true"),
            _ => (Unit::Text, "", ""),
        };
        Parameter {
            name: keep(name),
            unit,
            default: Some(keep(default)),
            min,
            max,
            section: "its author",
            doc: "",
            required: false,
        }
    });
    Entry {
        name: keep(name.to_owned()),
        summary: keep(summary.to_owned()),
        sources: &[],
        parameters: Box::leak(parameters.collect::<Vec<_>>().into_boxed_slice()),
    }
}

/// Instance of a class, and the end of its calls once one of them failed.
pub struct Instance {
    object: Option<Py<PyAny>>,
}

impl Instance {
    /// Creates an instance whose attributes are the parameters, `random` and `more`, before `__init__` runs.
    fn new(
        class: &Py<PyType>,
        words: &Words,
        seed: u64,
        more: &dyn Fn(&Bound<'_, PyAny>) -> PyResult<()>,
    ) -> Instance {
        let made = Python::attach(|py| {
            let class = class.bind(py);
            let object = class.call_method1("__new__", (class,))?;
            for (parameter, value) in words.all() {
                set(&object, parameter.name, value)?;
            }
            let random = py.import("random")?.call_method1("Random", (seed,))?;
            object.setattr("random", random)?;
            more(&object)?;
            object.call_method0("__init__")?;
            Ok(object.unbind())
        });
        let mut instance = Instance { object: None };
        instance.object = instance.kept(made);
        instance
    }

    /// Calls the instance; none if this call or one before failed.
    fn call<T>(&mut self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        let object = self.object.as_ref()?;
        let done = Python::attach(|py| work(object.bind(py)));
        self.kept(done)
    }

    /// Result without its exception, which ends the run.
    fn kept<T>(&mut self, done: PyResult<T>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(e) => {
                self.object = None;
                plugged::fail(Failure(Arc::new(e)));
                None
            }
        }
    }

    /// True if the class has this method.
    fn has(&self, method: &str) -> bool {
        let Some(object) = &self.object else {
            return false;
        };
        Python::attach(|py| object.bind(py).hasattr(method).unwrap_or(false))
    }
}

fn set(object: &Bound<'_, PyAny>, name: &str, value: Option<&Value>) -> PyResult<()> {
    match value {
        Some(Value::Count(n)) => object.setattr(name, n),
        Some(Value::Real(r)) => object.setattr(name, r),
        Some(Value::Switch(s)) => object.setattr(name, s),
        Some(other) => object.setattr(name, other.to_string()),
        None => Ok(()),
    }
}

/// Exception of the package for a broken contract.
fn broken(py: Python<'_>, what: &str) -> PyErr {
    error(
        py,
        "UsageError",
        what,
        Some("see tailback.testing.check_qdisc"),
    )
}

/// Exception that ended a run, if one of Python's did.
pub fn raised(py: Python<'_>, failure: &Failure) -> Option<PyErr> {
    let raised = failure.0.downcast_ref::<PyErr>();
    raised.map(|e| e.clone_ref(py))
}

/// Dictionary of numbers for an event.
fn numbers<'py>(py: Python<'py>, of: &[(&str, Option<u64>)]) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, value) in of {
        dictionary.set_item(name, value)?;
    }
    Ok(dictionary)
}
