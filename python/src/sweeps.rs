//! Results of sweeps: intervals over seeds, and columns as an Arrow table.

use crate::error;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Values of a column.
#[derive(FromPyObject)]
pub enum Column {
    Texts(Vec<String>),
    Numbers(Vec<Option<f64>>),
}

/// Mean of independent values, and half of its 95 % confidence interval if there are at least two.
#[pyfunction]
pub fn estimate(values: Vec<f64>) -> Option<(f64, Option<f64>)> {
    sim::Estimate::of(&values).map(|e| (e.mean, e.half))
}

/// Capsule of an Arrow stream with these columns.
#[pyfunction]
pub fn columns_stream(
    py: Python<'_>,
    columns: Vec<(String, Column)>,
) -> PyResult<Bound<'_, PyCapsule>> {
    let batch = batch(py, columns)?;
    let schema = batch.schema();
    let stream = RecordBatchIterator::new([Ok(batch)], schema);
    let stream = FFI_ArrowArrayStream::new(Box::new(stream));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// Capsule of the Arrow schema of these columns.
#[pyfunction]
pub fn columns_schema(
    py: Python<'_>,
    columns: Vec<(String, Column)>,
) -> PyResult<Bound<'_, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(batch(py, columns)?.schema().as_ref())
        .map_err(|e| error(py, "Error", &e.to_string(), None))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn batch(py: Python<'_>, columns: Vec<(String, Column)>) -> PyResult<RecordBatch> {
    let array = |column: Column| -> ArrayRef {
        match column {
            Column::Texts(texts) => Arc::new(StringArray::from(texts)),
            Column::Numbers(numbers) => Arc::new(Float64Array::from(numbers)),
        }
    };
    let arrays = columns
        .into_iter()
        .map(|(name, column)| (name, array(column), true));
    RecordBatch::try_from_iter_with_nullable(arrays)
        .map_err(|e| error(py, "UsageError", &e.to_string(), None))
}
