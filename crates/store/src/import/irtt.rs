//! `irtt client -o FILE`, JSON format 1.

use super::file::{Fault, Imported};
use super::out::Out;
use base::record::{Delay, Status, Text};
use serde::Deserialize;

#[derive(Deserialize)]
struct Irtt {
    config: Config,
    stats: Stats,
    #[serde(default)]
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct Config {
    remote_address: String,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    interval: i64,
}

#[derive(Deserialize)]
struct Stats {
    start_time: String,
    packets_sent: i64,
    packets_received: i64,
    #[serde(default)]
    duplicates: i64,
}

#[derive(Deserialize)]
struct RoundTrip {
    seqno: i64,
    lost: String,
    #[serde(default)]
    timestamps: Timestamps,
    #[serde(default)]
    delay: Delays,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Timestamps {
    client: Ends,
    server: Ends,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ends {
    send: Stamp,
    receive: Stamp,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stamp {
    wall: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delays {
    rtt: Option<i64>,
    send: Option<i64>,
    receive: Option<i64>,
}

pub fn read(bytes: &[u8], out: &mut Out, told: &mut Imported) -> Result<(), Fault> {
    let irtt: Irtt = serde_json::from_slice(bytes).map_err(|e| Fault::Unreadable(e.to_string()))?;
    let target: Text = format!("irtt {}", irtt.config.remote_address).into();
    let start: Option<jiff::Timestamp> = irtt.stats.start_time.parse().ok();
    let start_ns = start.and_then(|t| i64::try_from(t.as_nanosecond()).ok());
    let mut answered = 0;
    for (place, trip) in (1..).zip(irtt.round_trips) {
        let status = match &*trip.lost {
            "false" if trip.delay.rtt.is_some() => Status::Ok,
            "true" => Status::Lost,
            "true_up" => Status::LostUp,
            "true_down" => Status::LostDown,
            other => {
                told.wrong(
                    place,
                    format_args!("round trip {}: lost is {other:?}", trip.seqno),
                );
                continue;
            }
        };
        let reckoned =
            || start_ns?.checked_add(trip.seqno.checked_mul(irtt.config.params.interval)?);
        let Some(sent_ns) = trip.timestamps.client.send.wall.or_else(reckoned) else {
            told.wrong(place, format_args!("round trip {} has no time", trip.seqno));
            continue;
        };
        let ok = status == Status::Ok;
        answered += i64::from(ok);
        let positive = |t: Option<i64>| t.filter(|t| ok && *t > 0);
        out.push(&Delay {
            rtt_ns: trip.delay.rtt.filter(|_| ok),
            owd_up_ns: trip.delay.send.filter(|_| ok),
            owd_down_ns: trip.delay.receive.filter(|_| ok),
            remote_rx_ns: positive(trip.timestamps.server.receive.wall),
            remote_tx_ns: positive(trip.timestamps.server.send.wall),
            status,
            ..Delay::unanswered(sent_ns, trip.seqno, target.clone())
        });
    }
    if out.rows() as i64 != irtt.stats.packets_sent || answered != irtt.stats.packets_received {
        told.notes.push(format!(
            "{} probes and {answered} answers stand in the file, its own summary counts {} and {}",
            out.rows(),
            irtt.stats.packets_sent,
            irtt.stats.packets_received
        ));
    }
    if irtt.stats.duplicates > 0 {
        told.notes.push(format!(
            "{} duplicates were counted by irtt, which keeps nothing else of them",
            irtt.stats.duplicates
        ));
    }
    Ok(())
}
