//! Bounds of the integers in a recording. Recordings may come from strangers, and arithmetic on a time in the year 2262
//! or a count of 2^63 overflows. Every integer is therefore checked on reading. A row with one out of range is skipped
//! and counted; no figure uses it.
//!
//! The unit at the end of a column's name gives the range. An instant lies between 1970 and 2096, so that two of them
//! can be subtracted. A span lies within one year, and the difference of two clocks within those 126 years. Everything
//! else is a number from 0 to 2^53, which a floating-point number holds exactly.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use base::record::{Column, Kind, TableSpec};
use std::ops::RangeInclusive;

/// Last permitted instant, UNIX ns.
const LAST_NS: i64 = 4_000_000_000_000_000_000;
/// Longest permitted span, ns: 366 days.
const SPAN_NS: i64 = 366 * 86_400 * 1_000_000_000;
const LARGEST: i64 = 1 << 53;

/// Columns that hold instants.
const INSTANTS: [&str; 10] = [
    "t_ns",
    "sent_ns",
    "received_ns",
    "remote_rx_ns",
    "remote_tx_ns",
    "first_ns",
    "last_ns",
    "before_ns",
    "course_ns",
    "started_ns",
];
/// Columns that hold the difference of two clocks.
const BETWEEN_CLOCKS: [&str; 2] = ["owd_up_ns", "owd_down_ns"];
/// Columns whose spans may be negative.
const EITHER_SIGN: [&str; 5] = [
    "late_send_ns",
    "host_ns",
    "rtt_ns",
    "data_age_ns",
    "answer_age_ns",
];

fn range(column: &Column) -> RangeInclusive<i64> {
    let name = column.name;
    if INSTANTS.contains(&name) {
        0..=LAST_NS
    } else if BETWEEN_CLOCKS.contains(&name) {
        -LAST_NS..=LAST_NS
    } else if EITHER_SIGN.contains(&name) {
        -SPAN_NS..=SPAN_NS
    } else if name.ends_with("_ns") {
        0..=SPAN_NS
    } else {
        0..=LARGEST
    }
}

/// True if this instant of `meta.json` is within bounds.
pub(crate) fn is_instant(ns: i64) -> bool {
    (0..=LAST_NS).contains(&ns)
}

/// True if all values are within a range.
fn are_within(values: &[i64], range: &RangeInclusive<i64>) -> bool {
    let above = |v: i64| v.wrapping_sub(*range.start()).cast_unsigned();
    // All bits together are at least as large as each value, and the processor joins several values at once.
    let bits = values.iter().fold(0, |bits, v| bits | above(*v));
    bits <= above(*range.end()) || values.iter().all(|v| range.contains(v))
}

/// Returns the rows of a batch that are within bounds as runs of consecutive rows: start and length.
fn runs(table: &TableSpec, batch: &RecordBatch) -> Vec<(usize, usize)> {
    let rows = batch.num_rows();
    let mut bad: Option<Vec<bool>> = None;
    for column in table.columns.iter().filter(|c| c.kind == Kind::Int) {
        let Some(array) = batch.column_by_name(column.name) else {
            continue;
        };
        let Some(array) = array.as_primitive_opt::<Int64Type>() else {
            continue;
        };
        let range = range(column);
        // Nulls hold any value, mostly zero. A fully valid batch costs one or two passes without branches.
        if are_within(array.values(), &range) {
            continue;
        }
        let bad = bad.get_or_insert_with(|| vec![false; rows]);
        for (row, bad) in bad.iter_mut().enumerate() {
            *bad |= array.is_valid(row) && !range.contains(&array.value(row));
        }
    }
    let Some(bad) = bad else {
        return vec![(0, rows)];
    };
    let mut runs = Vec::new();
    let mut from = 0;
    for run in bad.chunk_by(|a, b| a == b) {
        if !run[0] {
            runs.push((from, run.len()));
        }
        from += run.len();
    }
    runs
}

/// Passes on the rows of a batch that are within bounds; returns the number of rows that are not.
///
/// # Errors
/// The errors of `take`.
pub(crate) fn within(
    table: &TableSpec,
    batch: RecordBatch,
    take: &mut dyn FnMut(RecordBatch) -> Result<(), String>,
) -> Result<u64, String> {
    let mut left_out = batch.num_rows();
    let runs = runs(table, &batch);
    if let [(0, all)] = runs[..]
        && all == batch.num_rows()
    {
        take(batch)?;
        return Ok(0);
    }
    for (from, len) in runs {
        take(batch.slice(from, len))?;
        left_out -= len;
    }
    Ok(left_out as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::schema;
    use arrow_array::{ArrayRef, Int64Array};
    use base::record::TableId;
    use std::sync::Arc;

    #[test]
    fn every_column_of_integers_has_a_range_and_its_time_is_an_instant() {
        for table in TableId::ALL {
            let spec = table.spec();
            let time = spec.columns.iter().find(|c| c.name == spec.time);
            let time = time.expect("a table has its time");
            assert_eq!(range(time), 0..=LAST_NS, "{}", spec.name);
            for column in spec.columns.iter().filter(|c| c.kind == Kind::Int) {
                let range = range(column);
                let widest = range.end().checked_sub(*range.start());
                assert!(widest.is_some(), "{}.{}", spec.name, column.name);
            }
        }
    }

    #[test]
    fn rows_out_of_bounds_are_left_out_and_counted_and_their_neighbours_stay() {
        let schema = schema(TableId::HostLoad);
        let spec = TableId::HostLoad.spec();
        let times = [5, i64::MAX, 6, -1, i64::MIN, 7, LAST_NS, LAST_NS + 1];
        let columns: Vec<ArrayRef> = schema
            .fields()
            .iter()
            .map(|f| match f.name().as_str() {
                "t_ns" => Arc::new(Int64Array::from(times.to_vec())) as ArrayRef,
                _ => arrow_array::new_null_array(f.data_type(), times.len()),
            })
            .collect();
        let batch = RecordBatch::try_new(schema, columns).expect("it fits");
        let mut kept = Vec::new();
        let left_out = within(spec, batch, &mut |part| {
            let times = part.column_by_name("t_ns").expect("it is there");
            kept.extend(times.as_primitive::<Int64Type>().values().to_vec());
            Ok(())
        });
        assert_eq!(left_out, Ok(4));
        assert_eq!(kept, [5, 6, 7, LAST_NS]);
    }
}
