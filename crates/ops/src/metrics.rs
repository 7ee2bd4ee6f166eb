//! Metrics for Prometheus: as text, for the textfile collector of node_exporter and for a scrape, and as protobuf, which alone
//! carries native histograms.
//!
//! **Source.** Prometheus, "Exposition formats": text version 0.0.4, and delimited `io.prometheus.client.MetricFamily`;
//! Prometheus, "Native Histograms" (schema 3: eight buckets from one power of two to the next); the base units of its
//! naming conventions: seconds, bits.

use experiment::monitor::SCHEMA;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Media type of the text format.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Media type of the protobuf format.
pub const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Metrics of one name.
pub struct Family {
    pub name: Cow<'static, str>,
    pub help: &'static str,
    pub kind: Kind,
    pub points: Vec<Point>,
}

/// Kind of a family; the numbers are those of the protobuf format.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

/// Value with its labels.
pub struct Point {
    pub labels: Vec<(Cow<'static, str>, String)>,
    pub value: Value,
}

/// Value of a metric.
pub enum Value {
    Number(f64),
    Histogram {
        /// Cumulative counts by their limits, seconds; the last is that of all.
        classic: Vec<(f64, u64)>,
        native: BTreeMap<i32, u64>,
        sum: f64,
    },
}

/// Metrics as text.
pub fn text(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let Family { name, help, .. } = family;
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for point in &family.points {
            point.write(&mut out, name);
        }
    }
    out
}

/// Metrics as protobuf messages, each after its length.
pub fn protobuf(families: &[Family]) -> Vec<u8> {
    let mut out = Vec::new();
    for family in families {
        let mut message = Message::default();
        message.text(1, &family.name);
        message.text(2, family.help);
        message.number(3, family.kind as u64);
        for point in &family.points {
            message.inner(4, &point.message(family.kind));
        }
        varint(&mut out, message.0.len() as u64);
        out.extend(message.0);
    }
    out
}

impl Point {
    fn write(&self, out: &mut String, name: &str) {
        let labels = self.labels.iter();
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = labels.join(",");
        let mut line = |name: &str, labels: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(out, "{name}{{{labels}}} {value}");
        };
        match &self.value {
            Value::Number(n) => line(name, &labels, n),
            Value::Histogram { classic, sum, .. } => {
                for (limit, n) in classic {
                    let limit = match limit.is_finite() {
                        true => limit.to_string(),
                        false => "+Inf".into(),
                    };
                    let labels = format!("{labels},le=\"{limit}\"");
                    line(&format!("{name}_bucket"), &labels, n);
                }
                line(&format!("{name}_sum"), &labels, sum);
                let count = classic.last().map_or(0, |(_, n)| *n);
                line(&format!("{name}_count"), &labels, &count);
            }
        }
    }

    fn message(&self, kind: Kind) -> Message {
        let mut message = Message::default();
        for (name, value) in &self.labels {
            let mut label = Message::default();
            label.text(1, name);
            label.text(2, value);
            message.inner(1, &label);
        }
        match &self.value {
            Value::Number(n) => {
                let mut value = Message::default();
                value.double(1, *n);
                message.inner(if kind == Kind::Counter { 3 } else { 2 }, &value);
            }
            Value::Histogram {
                classic,
                native,
                sum,
            } => message.inner(7, &histogram_message(classic, native, *sum)),
        }
        message
    }
}

/// Histogram with the buckets of both kinds. A native bucket has its count as the difference from the one before it; a span
/// is a run of buckets without a gap.
fn histogram_message(classic: &[(f64, u64)], native: &BTreeMap<i32, u64>, sum: f64) -> Message {
    /// Width of the bucket of zero, 2 to the power of -128: Prometheus' own default.
    const ZERO: f64 = 2.938_735_877_055_719e-39;
    let mut message = Message::default();
    message.number(1, classic.last().map_or(0, |(_, n)| *n));
    message.double(2, sum);
    for (limit, n) in classic.iter().filter(|(limit, _)| limit.is_finite()) {
        let mut bucket = Message::default();
        bucket.number(1, *n);
        bucket.double(2, *limit);
        message.inner(3, &bucket);
    }
    message.number(5, zigzag(i64::from(SCHEMA)));
    message.double(6, ZERO);
    message.number(7, 0);
    let mut spans: Vec<(i64, u64)> = Vec::new();
    let mut deltas = Vec::new();
    let (mut next, mut before) = (0, 0);
    for (index, n) in native {
        let index = i64::from(*index);
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        next = index + 1;
        varint(&mut deltas, zigzag(*n as i64 - before));
        before = *n as i64;
    }
    if spans.is_empty() {
        // A native histogram without a bucket is told from a classic one by a span of no buckets.
        spans.push((0, 0));
    }
    for (offset, length) in spans {
        let mut span = Message::default();
        span.number(1, zigzag(offset));
        span.number(2, length);
        message.inner(12, &span);
    }
    message.bytes(13, &deltas);
    message
}

/// Protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u64, value: u64) {
        varint(&mut self.0, field << 3);
        varint(&mut self.0, value);
    }

    fn double(&mut self, field: u64, value: f64) {
        varint(&mut self.0, field << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, value.len() as u64);
        self.0.extend(value);
    }

    fn text(&mut self, field: u64, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn inner(&mut self, field: u64, value: &Message) {
        self.bytes(field, &value.0);
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

/// Value of a label, escaped as the format asks.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_end_their_quotes() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    /// Bytes of a message by hand: spans -1 (2 buckets), then a gap of 3 and 1 bucket; counts 4, 1, 7.
    #[test]
    fn native_buckets_are_spans_and_differences() {
        let native = BTreeMap::from([(-1, 4), (0, 1), (4, 7)]);
        let bytes = histogram_message(&[(f64::INFINITY, 12)], &native, 0.5).0;
        let spans = [0x62, 4, 0x08, 1, 0x10, 2, 0x62, 4, 0x08, 6, 0x10, 1];
        let deltas = [0x6a, 3, 8, 5, 12];
        assert!(
            bytes.ends_with(&[&spans[..], &deltas].concat()),
            "{bytes:x?}"
        );
        // Count 12 and sum 0.5 come first, then schema 3.
        let head = [0x08, 12, 0x11, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0x28, 6];
        assert!(bytes.starts_with(&head), "{bytes:x?}");
    }
}
