//! Tables in formats that other programs read.

mod csv;
mod json;
mod text;
mod whole;

pub use csv::CsvWriter;
pub use json::JsonWriter;
pub use whole::write_parquet;
