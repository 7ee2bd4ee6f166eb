//! Table of figures as one Parquet file, for other programs.

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

/// Values of a column, one for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Words(Vec<String>),
    Counts(Vec<u64>),
    Numbers(Vec<Option<f64>>),
}

/// Returns the bytes of a Parquet file with these columns, which have equal lengths.
///
/// # Errors
/// Columns of different lengths.
pub fn parquet(columns: Vec<(String, Values)>) -> Result<Vec<u8>, ParquetError> {
    let arrays = columns.into_iter().map(|(name, values)| {
        let array: ArrayRef = match values {
            Values::Words(words) => Arc::new(StringArray::from(words)),
            Values::Counts(counts) => Arc::new(UInt64Array::from(counts)),
            Values::Numbers(numbers) => Arc::new(Float64Array::from(numbers)),
        };
        (name, array)
    });
    let batch = RecordBatch::try_from_iter(arrays).map_err(ParquetError::from)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(bytes)
}
