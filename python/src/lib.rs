//! Native part of the Python package `tailback`: verbs run by the command's own parser, and tables of recordings as
//! Arrow streams. The package's Python files give both their names and types.

#![forbid(unsafe_code)]

mod news;
mod plugins;
mod sweeps;
mod tables;
mod verbs;

use pyo3::prelude::*;

/// Native part of `tailback`: verbs and tables.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::plugins::add;
    #[pymodule_export]
    use super::plugins::queue::{PyPacket, check_qdisc};
    #[pymodule_export]
    use super::sweeps::{columns_schema, columns_stream, estimate};
    #[pymodule_export]
    use super::tables::{Losses, table_files, table_names, table_rows, table_schema, table_stream};
    #[pymodule_export]
    use super::verbs::{main, run, settle};
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Error of the package's tree, by the name of its class.
fn error(py: Python<'_>, class: &str, message: &str, hint: Option<&str>) -> PyErr {
    let raised = py
        .import("tailback._errors")
        .and_then(|errors| errors.getattr(class)?.call1((message, hint)));
    match raised {
        Ok(error) => PyErr::from_value(error),
        Err(e) => e,
    }
}
