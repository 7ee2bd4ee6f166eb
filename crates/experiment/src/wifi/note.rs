//! Notes of the experiment `wifi`.

use base::noted::Noted;
use serde::{Deserialize, Serialize};

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Without load.
    Idle,
    /// Download.
    Down,
    /// Upload.
    Up,
}

/// State of the radio and of the round trips at one time. What is not known is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Time, UNIX ns.
    pub t_ns: i64,
    /// Latest round trip to the gateway, ms.
    pub gateway_ms: Option<f64>,
    /// Address of the access point.
    pub bssid: String,
    /// Frequency, MHz.
    pub mhz: Option<u32>,
    /// Signal, dBm.
    pub signal_dbm: Option<i8>,
    /// Bit rate of the last packet sent, bit/s.
    pub tx_bps: Option<u64>,
    /// Bit rate of the last packet received, bit/s.
    pub rx_bps: Option<u64>,
    /// Packets sent since the station was joined.
    pub tx_packets: Option<u64>,
    /// Packets sent again.
    pub tx_retries: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: Option<u64>,
    /// Bytes that wait in this host's queue for the station.
    pub backlog_bytes: Option<u64>,
    /// Time that the radio listened on the channel, ms.
    pub active_ms: Option<u64>,
    /// Part of it in which the channel was busy, ms.
    pub busy_ms: Option<u64>,
    /// Part of it in which this host sent, ms.
    pub own_ms: Option<u64>,
    /// True if power save is on.
    pub power_save: Option<bool>,
}

/// Notes of a run of `wifi`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum WifiNote {
    /// Reason why nothing was measured.
    Untried {
        /// Reason in words.
        why: String,
    },
    /// Interface of the run.
    Interface {
        /// Name.
        name: String,
    },
    /// Samples of a phase.
    Phase {
        /// Phase that is over.
        phase: Phase,
        /// Samples in order.
        samples: Vec<Sample>,
    },
}

impl Noted for WifiNote {
    const KIND: &'static str = "wifi";
}
