//! Protocol of iperf3: the messages of its control connection.
//!
//! **Protocol.** The client sends a cookie of 37 bytes, on the control connection and again on each stream. States are
//! single bytes from either end; parameters and results are JSON after a length of four bytes. A server takes one test at
//! a time.
//!
//! **Source.** esnet/iperf, `iperf_api.h`, `iperf_api.c`, `iperf_client_api.c` and `iperf_server_api.c`, versions 3.0 to 3.21.

use base::BitsPerSec;
use serde_json::Value;

/// Length of the cookie, its final zero included.
pub const COOKIE: usize = 37;
/// Longest test that a server takes (MAX_TIME of iperf.h).
pub const MOST_SECONDS: u64 = 86_400;
/// Longest warm-up that is left out of the results (MAX_OMIT_TIME of iperf.h).
const MOST_OMITTED: u64 = 60;
/// Greatest number of streams of one direction (MAX_STREAMS of iperf.h).
const MOST_STREAMS: u64 = 128;

// States of a test, iperf_api.h.
pub const TEST_START: i8 = 1;
pub const TEST_RUNNING: i8 = 2;
pub const TEST_END: i8 = 4;
pub const PARAM_EXCHANGE: i8 = 9;
pub const CREATE_STREAMS: i8 = 10;
pub const SERVER_TERMINATE: i8 = 11;
pub const CLIENT_TERMINATE: i8 = 12;
pub const EXCHANGE_RESULTS: i8 = 13;
pub const DISPLAY_RESULTS: i8 = 14;
pub const IPERF_DONE: i8 = 16;
pub const ACCESS_DENIED: i8 = -1;
pub const SERVER_ERROR: i8 = -2;

/// Reason why a server does not run a test, by the number that iperf3 has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// IEDURATION: a test that is too long.
    Duration = 5,
    /// IENUMSTREAMS: too many streams.
    Streams = 6,
    /// IEUNIMP: an option that the server does not have.
    Unknown = 13,
    /// IERECVPARAMS: parameters that are none.
    Parameters = 114,
    /// IESETCONGESTION: a congestion control that the kernel does not have.
    Congestion = 134,
}

/// Parameters of a test, as a client asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Streams towards the server, and from it.
    pub up: u32,
    pub down: u32,
    /// Length of the test without its warm-up, s; none if the client ends it after an amount of data.
    pub seconds: Option<u64>,
    /// Warm-up, s, which the results leave out.
    pub omitted: u64,
    /// Congestion control of the server's streams.
    pub congestion: Option<String>,
    /// Rate of each of the server's streams.
    pub rate: Option<BitsPerSec>,
}

impl Parameters {
    /// Reads the JSON of a client.
    ///
    /// # Errors
    /// The fault that the client is told.
    pub fn read(text: &[u8]) -> Result<Parameters, Fault> {
        let json: Value = serde_json::from_slice(text).map_err(|_| Fault::Parameters)?;
        let is = |key: &str| match &json[key] {
            Value::Bool(is) => *is,
            other => other.as_f64().is_some_and(|n| n != 0.0),
        };
        let number = |key: &str| match &json[key] {
            Value::Null => Ok(0),
            n => n.as_u64().ok_or(Fault::Parameters),
        };
        // Datagrams could be sent to an address that never asked: the protocol does not prove it.
        if !json.is_object() || is("udp") || is("sctp") || !is("tcp") || is("zerocopy_receive") {
            return Err(if json.is_object() {
                Fault::Unknown
            } else {
                Fault::Parameters
            });
        }
        let streams = number("parallel")?.max(1);
        if streams > MOST_STREAMS {
            return Err(Fault::Streams);
        }
        let (seconds, omitted) = (number("time")?, number("omit")?);
        if seconds > MOST_SECONDS || omitted > MOST_OMITTED {
            return Err(Fault::Duration);
        }
        let streams = streams as u32;
        let both = is("bidirectional");
        Ok(Parameters {
            up: if both || !is("reverse") { streams } else { 0 },
            down: if both || is("reverse") { streams } else { 0 },
            seconds: Some(seconds).filter(|s| *s > 0),
            omitted,
            congestion: match &json["congestion"] {
                Value::Null => None,
                Value::String(name) => Some(name.clone()),
                _ => return Err(Fault::Parameters),
            },
            rate: Some(number("bandwidth")?)
                .filter(|rate| *rate > 0)
                .map(BitsPerSec::new),
        })
    }

    /// JSON as a client sends it.
    pub fn json(&self, block: usize) -> Value {
        let mut json = serde_json::json!({
            "tcp": true,
            "omit": self.omitted,
            "time": self.seconds.unwrap_or(0).clamp(1, MOST_SECONDS),
            "num": 0,
            "blockcount": 0,
            "parallel": self.up.max(self.down),
            "len": block,
            "pacing_timer": 1000,
            "client_version": "3.12",
        });
        match (self.up, self.down) {
            (0, _) => json["reverse"] = true.into(),
            (_, 0) => {}
            _ => json["bidirectional"] = true.into(),
        }
        if let Some(name) = &self.congestion {
            json["congestion"] = name.as_str().into();
        }
        json
    }
}

/// Load that one stream has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Carried {
    /// Payload, the warm-up left out.
    pub bytes: u64,
    /// Retransmissions of the sender, if this end sends.
    pub retransmits: Option<u64>,
    /// Time for which it was carried, s.
    pub seconds: f64,
}

/// Results of one end, which sends or not: its streams in the order of their numbers.
pub fn results(carried: &[Carried], sends: bool, congestion: Option<&str>) -> Value {
    // iperf3 numbers its streams 1, 3, 4, 5 and so on.
    let stream = |(k, c): (usize, &Carried)| {
        serde_json::json!({
            "id": if k == 0 { 1 } else { k + 2 },
            "bytes": c.bytes,
            "retransmits": c.retransmits.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX)),
            "jitter": 0,
            "errors": 0,
            "omitted_errors": 0,
            "packets": 0,
            "omitted_packets": 0,
            "start_time": 0,
            "end_time": c.seconds,
        })
    };
    let counts = carried.iter().any(|c| c.retransmits.is_some());
    let mut json = serde_json::json!({
        "cpu_util_total": 0.0,
        "cpu_util_user": 0.0,
        "cpu_util_system": 0.0,
        "sender_has_retransmits": if sends { i64::from(counts) } else { -1 },
        "streams": carried.iter().enumerate().map(stream).collect::<Vec<_>>(),
    });
    if let Some(name) = congestion {
        json["congestion_used"] = name.into();
    }
    json
}

/// JSON as it goes over the control connection.
pub fn framed(json: &Value) -> Vec<u8> {
    let text = json.to_string();
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_a_client_sends_are_read_as_they_were_meant() {
        for (up, down) in [(1, 0), (0, 4), (2, 2)] {
            let sent = Parameters {
                up,
                down,
                seconds: Some(7),
                omitted: 2,
                congestion: Some("cubic".into()),
                rate: None,
            };
            let text = sent.json(128 << 10).to_string();
            assert_eq!(Parameters::read(text.as_bytes()), Ok(sent));
        }
    }

    #[test]
    fn what_a_server_cannot_do_has_its_number_and_what_is_no_json_has_one() {
        let told = |text: &str| Parameters::read(text.as_bytes());
        assert_eq!(told(r#"{"udp":true}"#), Err(Fault::Unknown));
        assert_eq!(told("{}"), Err(Fault::Unknown));
        assert_eq!(told(r#"{"tcp":true,"time":86401}"#), Err(Fault::Duration));
        assert_eq!(told(r#"{"tcp":true,"parallel":129}"#), Err(Fault::Streams));
        for text in [
            "",
            "[1]",
            "{",
            r#"{"tcp":true,"time":-1}"#,
            r#"{"tcp":true,"omit":1.5}"#,
        ] {
            assert_eq!(told(text), Err(Fault::Parameters), "{text}");
        }
        // iperf3 3.0 sends numbers where later ones send truth values, and no number of streams for one.
        let old = told(r#"{"tcp":1,"time":10,"reverse":1}"#).expect("it is fine");
        assert_eq!((old.up, old.down, old.seconds), (0, 1, Some(10)));
    }
}
