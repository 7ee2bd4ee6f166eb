//! Faults of a measuring host, to test the analysis: the packets are unchanged, their rows are not.
//!
//! **Source.** O.-H. Borlaug, *Real-Time Applications in Smart Grids Using Internet Communications: Latency Issues and
//! Mitigations*, NTNU 2014: a crashed monitor (table 5), and one that takes the send times of earlier packets, so that
//! round trips grow by multiples of the interval (sections 5.2.6 and 6.1.1, figures 38 and 44).

use base::Duration;
use base::record::Row;
use serde::{Deserialize, Serialize};

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// No measured row is recorded in this time.
    Silent,
    /// Send times are `by` too early, and delays too long by the same amount.
    Stale,
}

/// Time range of the run in which the measuring host has a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Begin, since the start of the run.
    pub from: Duration,
    /// End, since the start of the run.
    pub to: Duration,
    /// Error of the send times, for stale ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Duration>,
}

impl Fault {
    /// # Errors
    /// Invalid values.
    pub fn check(&self, run: Duration) -> Result<(), String> {
        let name = format!("{:?}", self.kind).to_lowercase();
        if self.from >= self.to || self.to > run {
            return Err(format!(
                "fault \"{name}\": from {} to {} does not lie within the run of {run}",
                self.from, self.to
            ));
        }
        match (self.kind, self.by) {
            (FaultKind::Stale, None) => Err(
                "fault \"stale\": say by how much send times are too early, such as by = \"100 ms\"".into(),
            ),
            (FaultKind::Silent, Some(by)) => Err(format!(
                "fault \"silent\": by = \"{by}\" has no meaning: nothing is recorded then"
            )),
            _ => Ok(()),
        }
    }
}

/// Row as the host records it; `None` if it records none. `began_ns` is the start of the run.
pub fn recorded(faults: &[Fault], began_ns: i64, row: Row) -> Option<Row> {
    let measured = matches!(row, Row::Delay(_) | Row::Traffic(_));
    let since =
        u64::try_from(row.time_ns() - began_ns).map_or(Duration::ZERO, Duration::from_nanos);
    let mut at_work = faults.iter().filter(|f| f.from <= since && since < f.to);
    if !measured {
        return Some(row);
    }
    at_work.try_fold(row, |row, fault| match (fault.kind, row) {
        (FaultKind::Silent, _) => None,
        (FaultKind::Stale, Row::Delay(mut d)) => {
            let by = fault.by.map_or(0, |by| by.as_nanos() as i64);
            d.sent_ns -= by;
            d.rtt_ns = d.rtt_ns.map(|rtt| rtt + by);
            d.owd_up_ns = d.owd_up_ns.map(|up| up + by);
            Some(Row::Delay(d))
        }
        (FaultKind::Stale, row) => Some(row),
    })
}
