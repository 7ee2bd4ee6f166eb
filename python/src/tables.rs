//! Tables of recordings as Arrow streams (the Arrow PyCapsule interface).

use crate::error;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use base::record::TableId;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use store::{Batches, StoreError};

/// Names of all tables that a recording can have.
#[pyfunction]
pub fn table_names() -> Vec<&'static str> {
    TableId::ALL.iter().map(|t| t.spec().name).collect()
}

/// Losses of the files of a stream, as far as it has been read.
#[pyclass(frozen)]
pub struct Losses(store::Notes);

#[pymethods]
impl Losses {
    /// Returns a sentence for each loss.
    fn list(&self) -> Vec<String> {
        told(&self.0)
    }
}

fn told(notes: &store::Notes) -> Vec<String> {
    notes.list().iter().map(ToString::to_string).collect()
}

/// Capsule of a new Arrow stream of a table's rows, with these columns, or all if none are named; and the losses of the
/// files, which are known once the stream has been read.
#[pyfunction]
pub fn table_stream<'py>(
    py: Python<'py>,
    path: PathBuf,
    table: &str,
    columns: Vec<String>,
) -> PyResult<(Bound<'py, PyCapsule>, Losses)> {
    let batches = py_batches(py, &path, table, &columns)?;
    let losses = Losses(batches.notes());
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    let capsule = PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?;
    Ok((capsule, losses))
}

/// Capsule of a table's Arrow schema.
#[pyfunction]
pub fn table_schema<'py>(
    py: Python<'py>,
    table: &str,
    columns: Vec<String>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (_, schema) = found(py, table, &columns)?;
    let schema = FFI_ArrowSchema::try_from(schema.as_ref())
        .map_err(|e| error(py, "Error", &e.to_string(), None))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// Number of a table's rows that can be read, and the losses of its files.
#[pyfunction]
pub fn table_rows(
    py: Python<'_>,
    path: PathBuf,
    table: &str,
    columns: Vec<String>,
) -> PyResult<(u64, Vec<String>)> {
    let mut batches = py_batches(py, &path, table, &columns)?;
    let rows = py.detach(|| {
        let counted = batches.by_ref().map(|b| b.map(|b| b.num_rows() as u64));
        counted.sum::<Result<u64, _>>()
    });
    let rows = rows.map_err(|e| error(py, "RecordingError", &e.to_string(), None))?;
    Ok((rows, told(&batches.notes())))
}

/// Names of a table's columns, and its files: Parquet, or Arrow streams while a recording is open.
#[pyfunction]
pub fn table_files(
    py: Python<'_>,
    path: PathBuf,
    table: &str,
    columns: Vec<String>,
) -> PyResult<(Vec<String>, Vec<PathBuf>)> {
    let (id, schema) = found(py, table, &columns)?;
    let files = store::table_files(&path, id).map_err(|e| unread(py, &e))?;
    let names = schema.fields().iter().map(|f| f.name().clone()).collect();
    Ok((names, files))
}

fn found(py: Python<'_>, name: &str, columns: &[String]) -> PyResult<(TableId, SchemaRef)> {
    let id = TableId::ALL.iter().find(|t| t.spec().name == name);
    let id = *id.ok_or_else(|| {
        let hint = format!("the tables are {}", table_names().join(", "));
        error(
            py,
            "UsageError",
            &format!("there is no table {name:?}"),
            Some(&hint),
        )
    })?;
    let schema = store::table_schema(id, columns);
    let schema = schema.map_err(|e| error(py, "UsageError", &e, Some("see Table.columns")))?;
    Ok((id, schema))
}

fn py_batches(
    py: Python<'_>,
    path: &std::path::Path,
    table: &str,
    columns: &[String],
) -> PyResult<Batches> {
    let (id, schema) = found(py, table, columns)?;
    let batches = py.detach(|| store::batches(path, id, schema));
    batches.map_err(|e| unread(py, &e))
}

fn unread(py: Python<'_>, e: &StoreError) -> PyErr {
    let hint = match e {
        StoreError::NotARecording { .. } => Some("give the directory that holds meta.json"),
        _ => None,
    };
    error(py, "RecordingError", &e.to_string(), hint)
}
