//! Histograms of delays in the format of HdrHistogram.

use crate::record::Distribution;
use crate::sketch::Sketch;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// Histogram of delays in microseconds, three significant digits from 1 µs to 1 h, in HdrHistogram's own format.
/// Histograms of different phases, days or hosts can be added. Percentiles of the sum are those of all values;
/// averages of percentiles are not.
///
/// Values are kept as the middle of their step, so that a histogram read back from its text equals the one written.
///
/// **Source.** HdrHistogram, format V2 without compression, base64 (RFC 4648 section 4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(Steps);

/// Sketch with HdrHistogram's steps of three digits.
type Steps = Sketch<10>;

/// Reason why bytes are no histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    #[error(
        "a histogram of {length} characters cannot be read: {why}. It must be HdrHistogram V2, uncompressed, in base64"
    )]
    Unreadable { length: usize, why: String },
    #[error(
        "the row claims {claimed} probes in {interval_ns} ns and {rtts} round trips: more round trips than probes that were sent, \
         or more than one probe a microsecond"
    )]
    Implausible {
        claimed: u64,
        rtts: u64,
        interval_ns: i64,
    },
}

impl Distribution {
    /// Reads the histogram of a row, which may come from a stranger.
    ///
    /// # Errors
    /// The text is no histogram; it holds more round trips than the row says were sent; the row claims more than one
    /// probe per microsecond.
    pub fn rtts(&self) -> Result<Histogram, HistogramError> {
        let histogram = Histogram::from_base64(&self.histogram)?;
        let count = |n: i64| n.max(0) as u64;
        let fates = [
            self.ok_packets,
            self.late_packets,
            self.lost_packets,
            self.invalid_packets,
            self.not_sent_packets,
        ];
        let due = fates
            .iter()
            .fold(0, |sum: u64, n| sum.saturating_add(count(*n)));
        let claimed = due.max(count(self.sent_packets));
        let most = count(self.interval_ns) / 1000 + 1;
        if histogram.len() > count(self.sent_packets) || claimed > most {
            return Err(HistogramError::Implausible {
                claimed,
                rtts: histogram.len(),
                interval_ns: self.interval_ns,
            });
        }
        Ok(histogram)
    }
}

/// Largest value kept, 1 h in µs; longer delays count as 1 h.
const MOST_US: u64 = 3_600_000_000;

/// Makes an HdrHistogram with the same steps, for the text form.
fn hdr() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, MOST_US, 3)
        .expect("1 µs to 1 h at 3 digits is valid")
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    fn record_us(&mut self, us: u64, times: u64) {
        self.0
            .add_many(Steps::representative(us.min(MOST_US)), times);
    }

    /// Records one delay in ms. A negative value, possible when the base delay is uncertain, counts as zero.
    pub fn record_ms(&mut self, ms: f64) {
        if ms.is_finite() {
            self.record_us((ms * 1e3).round().clamp(0.0, MOST_US as f64) as u64, 1);
        }
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    /// True if it has no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the delay at quantile `p`, in ms; `None` for an empty histogram.
    pub fn quantile_ms(&self, p: f64) -> Option<f64> {
        self.0.quantile(p).map(|us| us / 1e3)
    }

    /// Adds all values of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.0.merge(&other.0);
    }

    /// Iterates over the recorded values, in µs to three digits, each with its count.
    pub fn counts_us(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.counts()
    }

    /// Writes the text form. Counts above 2^63 − 1, which the form cannot hold, are written as that.
    pub fn to_base64(&self) -> String {
        let mut text = hdr();
        for (us, times) in self.0.counts() {
            text.saturating_record_n(us, times.min(i64::MAX as u64));
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&text, &mut bytes)
            .expect("writing to memory does not fail");
        STANDARD.encode(bytes)
    }

    /// Reads the text form. Values above 1 h, which other programs may have written, count as 1 h.
    ///
    /// # Errors
    /// Fails if the text is not base64 or not an uncompressed HdrHistogram V2.
    pub fn from_base64(text: &str) -> Result<Histogram, HistogramError> {
        let unreadable = |why: String| HistogramError::Unreadable {
            length: text.len(),
            why,
        };
        let bytes = STANDARD
            .decode(text)
            .map_err(|e| unreadable(e.to_string()))?;
        bounded(&bytes).map_err(|why| unreadable(why.into()))?;
        let read: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| unreadable(e.to_string()))?;
        let mut histogram = Histogram::new();
        for step in read.iter_recorded() {
            let middle = read.median_equivalent(step.value_iterated_to());
            histogram.record_us(middle, step.count_at_value());
        }
        Ok(histogram)
    }
}

/// Length of the header of HdrHistogram V2.
const HEADER: usize = 40;
const COOKIE_V2: u32 = 0x1c84_9313;
/// Largest range and finest resolution that are read: half a megabyte of counts.
const MOST_HIGH: u64 = 1 << 53;
const MOST_DIGITS: u32 = 3;

/// Checks the size that a histogram's header declares, because the library allocates that much memory.
fn bounded(bytes: &[u8]) -> Result<(), &'static str> {
    let word = |at: usize| -> Option<u32> {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(word.try_into().ok()?))
    };
    let high = bytes.get(24..32).and_then(|b| b.try_into().ok());
    let (Some(cookie), Some(payload), Some(digits), Some(high)) =
        (word(0), word(4), word(12), high.map(u64::from_be_bytes))
    else {
        return Err("it is cut short");
    };
    if cookie != COOKIE_V2 {
        return Err("it is of another form");
    }
    if payload as usize > bytes.len().saturating_sub(HEADER) {
        return Err("it is shorter than it says");
    }
    if high > MOST_HIGH || digits > MOST_DIGITS {
        return Err("its range or its resolution is too large");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn says_what_is_wrong_with_a_text_that_is_no_histogram() {
        let e = Histogram::from_base64("AAAA").unwrap_err();
        assert!(
            e.to_string()
                .starts_with("a histogram of 4 characters cannot be read"),
            "{e}"
        );
        assert!(Histogram::from_base64("###").is_err());
    }

    /// Fuzzing found a few bytes that declared 4 GB and made the library allocate it.
    #[test]
    fn a_text_that_promises_more_than_it_holds_is_refused_at_once() {
        let mut bytes = STANDARD.decode(Histogram::new().to_base64()).unwrap();
        bytes[4..8].copy_from_slice(&[0xff; 4]);
        let e = Histogram::from_base64(&STANDARD.encode(&bytes)).unwrap_err();
        assert!(e.to_string().contains("shorter than it says"), "{e}");
        let mut fine = STANDARD.decode(Histogram::new().to_base64()).unwrap();
        fine[12..16].copy_from_slice(&5u32.to_be_bytes());
        fine[24..32].copy_from_slice(&u64::MAX.to_be_bytes());
        let e = Histogram::from_base64(&STANDARD.encode(&fine)).unwrap_err();
        assert!(e.to_string().contains("too large"), "{e}");
    }

    /// A row with these counts of probes, and this many round trips of 20 ms.
    fn row(interval_ns: i64, sent: i64, ok: i64, rtts: u64) -> Distribution {
        let mut histogram = Histogram::new();
        histogram.record_us(20_000, rtts);
        Distribution {
            t_ns: 0,
            interval_ns,
            target: "udp".into(),
            sent_packets: sent,
            ok_packets: ok,
            late_packets: 0,
            lost_packets: sent.saturating_sub(ok),
            invalid_packets: 0,
            not_sent_packets: 0,
            histogram: histogram.to_base64().into(),
        }
    }

    /// A stranger's row of 2^64 round trips made `analyse` allocate as much memory.
    #[test]
    fn a_row_that_claims_more_than_can_be_is_refused() {
        assert_eq!(
            row(60_000_000_000, 600, 590, 590).rtts().unwrap().len(),
            590
        );
        // RRDtool mixes rounds: there may be more delays than whole pings that were answered.
        assert!(row(300_000_000_000, 20, 19, 20).rtts().is_ok());
        for (interval_ns, sent, ok, rtts) in [
            (60_000_000_000, 600, 590, 601),
            (60_000_000_000, 600, 590, u64::MAX),
            (60_000_000_000, 1 << 53, 1 << 53, 10),
            (60_000_000_000, i64::MAX, i64::MAX, u64::MAX),
            (0, 2, 2, 2),
            (-5, 600, 590, 590),
            (i64::MIN, i64::MIN, i64::MIN, 1),
        ] {
            let refused = row(interval_ns, sent, ok, rtts).rtts();
            assert!(
                matches!(refused, Err(HistogramError::Implausible { .. })),
                "{interval_ns} {sent} {ok} {rtts}"
            );
        }
    }

    proptest! {
        #[test]
        fn adding_two_histograms_equals_recording_both(
            a in prop::collection::vec(0.0f64..5e6, 0..200),
            b in prop::collection::vec(0.0f64..5e6, 0..200),
        ) {
            let (mut one, mut two, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
            a.iter().for_each(|v| one.record_ms(*v));
            b.iter().for_each(|v| two.record_ms(*v));
            a.iter().chain(&b).for_each(|v| both.record_ms(*v));
            // Round trip through the text that `--json` carries.
            let mut sum = Histogram::from_base64(&one.to_base64()).unwrap();
            sum.add(&Histogram::from_base64(&two.to_base64()).unwrap());
            prop_assert_eq!(&sum, &both);
            prop_assert_eq!(sum.len(), (a.len() + b.len()) as u64);
        }

        #[test]
        fn a_quantile_is_within_a_thousandth(
            v in prop::collection::vec(1.0f64..1e5, 1..300),
            p in 0.0f64..=1.0,
        ) {
            let mut h = Histogram::new();
            v.iter().for_each(|x| h.record_ms(*x));
            let mut s = v.clone();
            s.sort_by(f64::total_cmp);
            let truth = crate::sketch::quantile(s.len() as u64, p, |k| s[k as usize]).unwrap();
            let above = s[(p * (s.len() - 1) as f64).ceil() as usize];
            let got = h.quantile_ms(p).unwrap();
            // Half a step, and half the microsecond to which a delay is rounded.
            prop_assert!((got - truth).abs() <= above * 4.9e-4 + 6e-4, "{} {}", got, truth);
        }

        #[test]
        fn its_text_is_what_the_hdrhistogram_library_writes(
            v in prop::collection::vec(0.0f64..5e6, 0..200),
        ) {
            let (mut ours, mut theirs) = (Histogram::new(), hdr());
            for ms in &v {
                ours.record_ms(*ms);
                theirs.saturating_record(((ms * 1e3).round() as u64).min(MOST_US));
            }
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&theirs, &mut bytes).unwrap();
            prop_assert_eq!(ours.to_base64(), STANDARD.encode(bytes));
        }
    }

    #[test]
    fn a_wider_and_coarser_histogram_of_another_program_is_read() {
        let mut theirs = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 50, 2).unwrap();
        theirs.record_n(20_000, 7).unwrap();
        theirs.record_n(1 << 49, 1).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&theirs, &mut bytes).unwrap();
        let h = Histogram::from_base64(&STANDARD.encode(bytes)).unwrap();
        assert_eq!(h.len(), 8);
        assert!((h.quantile_ms(0.5).unwrap() - 20.0).abs() < 0.2);
        assert!((h.quantile_ms(1.0).unwrap() - 3_600_000.0).abs() < 3_600.0);
    }
}
