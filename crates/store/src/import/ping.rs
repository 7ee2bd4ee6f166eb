//! Output of `ping` (iputils, BusyBox, BSD and macOS) and `fping` (-l, -c, -C; with or without -D).

use super::file::{Fault, Format, Imported, Settings};
use super::lines::{Lines, billionths, int, millis_ns, shown};
use super::out::Out;
use super::train::Train;
use std::collections::BTreeMap;

const UNREACHABLE: &str =
    "error (unreachable, time exceeded) in place of an answer: counted as a loss";

pub fn guess(line: &str) -> Option<Format> {
    let (_, rest) = stamped(line.trim());
    if rest.starts_with("PING ") || rest.contains("icmp_seq=") {
        return Some(Format::Ping);
    }
    fping_line(rest).map(|_| Format::Fping)
}

/// Parses a timestamp: `[1795234883.874717] …` (-D of both), or ISO as in fping 5.2.
fn stamped(line: &str) -> (Option<i64>, &str) {
    let cut = || {
        let (stamp, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let iso = || {
            let time: jiff::Timestamp = stamp.parse().ok()?;
            i64::try_from(time.as_nanosecond()).ok()
        };
        let ns = billionths(stamp.as_bytes()).or_else(iso)?;
        Some((Some(ns), rest))
    };
    cut().unwrap_or((None, line))
}

/// Returns the number after `key`, up to the next blank.
fn after<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    let at = line.find(key)? + key.len();
    let rest = &line[at..];
    Some(&rest[..rest.find([' ', ':', ',']).unwrap_or(rest.len())])
}

pub fn ping(
    mut lines: Lines,
    settings: &Settings,
    out: &mut Out,
    told: &mut Imported,
) -> Result<(), Fault> {
    let mut train: Option<Train> = None;
    let mut wraps = Wraps::default();
    let mut number = 0;
    let mut noise = false;
    while let Some(line) = lines.next()? {
        number += 1;
        let text = String::from_utf8_lossy(line);
        let (at, text) = stamped(&text);
        if let Some(rest) = text.strip_prefix("PING ") {
            if let Some(done) = train.take() {
                done.finish(settings, out, told);
            }
            let name = rest.split_whitespace().next().unwrap_or("ping");
            train = Some(Train::new(name.trim_end_matches(':')));
            (wraps, noise) = (Wraps::default(), false);
            continue;
        }
        let train = train.get_or_insert_with(|| Train::new("ping"));
        let index = ["icmp_seq=", "icmp_seq ", "seq="]
            .iter()
            .find_map(|key| int(after(text, key)?.as_bytes()));
        match index {
            Some(index) if !(0..65_536).contains(&index) => {
                told.wrong(number, format_args!("{index} is no number of 16 bits"));
            }
            Some(index) => {
                let index = wraps.unwrap(index);
                match after(text, "time=").or_else(|| after(text, "time<")) {
                    Some(time) => match millis_ns(time.trim_end_matches("ms").as_bytes()) {
                        Some(rtt_ns) => {
                            train.answer(index, at, rtt_ns, text.contains("DUP!"));
                        }
                        None => told.wrong(number, format_args!("{time:?} is no time in ms")),
                    },
                    None => {
                        // "no answer yet", "Request timeout", "Destination Host Unreachable"
                        if text.starts_with("From ") || text.contains("nreachable") {
                            told.repaired(UNREACHABLE);
                        }
                        train.lost(index, at);
                    }
                }
            }
            None if text.contains("transmitted") => summary(text, train),
            None => {
                let known = text.is_empty()
                    || text.starts_with("---")
                    || text.starts_with("rtt ")
                    || text.starts_with("round-trip ")
                    || text.starts_with("pipe ")
                    || text.starts_with("ping: ");
                // BSD and macOS quote the packet that an error refers to.
                noise |= text.contains("nreachable") || text.contains("Time to live exceeded");
                if !known && !noise {
                    told.wrong(number, format_args!("{} is no line of ping's", shown(line)));
                }
            }
        }
    }
    if let Some(done) = train {
        done.finish(settings, out, told);
    }
    Ok(())
}

/// Parses `3 packets transmitted, 3 received, 0% packet loss, time 408ms`.
fn summary(text: &str, train: &mut Train) {
    let count = |part: &str| int(part.split_whitespace().next()?.as_bytes());
    for part in text.split(", ") {
        if part.contains("transmitted") {
            train.transmitted = count(part);
        } else if part.contains("received") {
            train.received = count(part);
        } else if let Some(ms) = part
            .strip_prefix("time ")
            .and_then(|t| t.strip_suffix("ms"))
            && let (Some(ms), Some(n)) = (int(ms.as_bytes()), train.transmitted)
            && n > 1
        {
            train.interval_ns = ms.checked_mul(1_000_000).map(|ns| ns / (n - 1));
        }
    }
}

/// Unwraps ping's 16-bit probe numbers.
#[derive(Default)]
struct Wraps {
    latest: Option<i64>,
}

impl Wraps {
    fn unwrap(&mut self, index: i64) -> i64 {
        let Some(latest) = self.latest else {
            self.latest = Some(index);
            return index;
        };
        // Of all numbers with these 16 bits, the nearest to the latest.
        let ahead = (index - latest).rem_euclid(65_536);
        let whole = latest
            + if ahead < 32_768 {
                ahead
            } else {
                ahead - 65_536
            };
        self.latest = Some(latest.max(whole));
        whole
    }
}

enum Said<'l> {
    Answer {
        index: i64,
        rtt_ns: i64,
        duplicate: bool,
    },
    Lost {
        index: i64,
    },
    Error,
    /// `host : 0.1 - 0.2` (-C -q).
    All(Vec<Option<i64>>),
    /// `host : xmt/rcv/%loss = 3/3/0%, …`.
    Counts {
        sent: i64,
        received: i64,
    },
    Other(&'l str),
}

/// Parses `HOST : [0], 64 bytes, 0.019 ms (0.019 avg, 0% loss)` and similar lines.
fn fping_line(text: &str) -> Option<(&str, Said<'_>)> {
    if text.starts_with("ICMP ") && text.contains("for ICMP Echo sent to ") {
        let (_, host) = text.split_once("sent to ")?;
        return Some((host.split_whitespace().next()?, Said::Error));
    }
    let (host, said) = text.split_once(" : ").or_else(|| text.split_once(": "))?;
    let host = host.trim_end();
    if host.is_empty() || host.contains(' ') && !host.contains('(') {
        return None;
    }
    let duplicate = said.strip_prefix("duplicate for ");
    if let Some(rest) = duplicate.unwrap_or(said).strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        let index = int(index.as_bytes())?;
        let time = rest.split(", ").find_map(|p| {
            p.strip_suffix(" ms")
                .or(p.split_once(" ms (").map(|(t, _)| t))
        });
        if rest.contains("timed out") {
            return Some((host, Said::Lost { index }));
        }
        let rtt_ns = millis_ns(time?.as_bytes())?;
        let duplicate = duplicate.is_some();
        return Some((
            host,
            Said::Answer {
                index,
                rtt_ns,
                duplicate,
            },
        ));
    }
    if let Some(counts) = said.strip_prefix("xmt/rcv/%loss = ") {
        let mut parts = counts.split('/');
        let mut next = || int(parts.next()?.as_bytes());
        let (sent, received) = (next()?, next()?);
        return Some((host, Said::Counts { sent, received }));
    }
    let all = said.split_whitespace().map(|word| match word {
        "-" => Some(None),
        word => word
            .contains('.')
            .then(|| millis_ns(word.as_bytes()).map(Some))?,
    });
    match all.collect::<Option<Vec<_>>>() {
        Some(all) if !all.is_empty() => Some((host, Said::All(all))),
        _ => Some((host, Said::Other(said))),
    }
}

/// Adds the statement of a line to its train.
fn taken(said: Said, at: Option<i64>, number: u64, train: &mut Train, told: &mut Imported) {
    match said {
        Said::Answer {
            index,
            rtt_ns,
            duplicate,
        } => train.answer(index, at, rtt_ns, duplicate),
        Said::Lost { index } => train.lost(index, at),
        Said::Error => told.repaired(UNREACHABLE),
        Said::Counts { sent, received } => {
            (train.transmitted, train.received) = (Some(sent), Some(received));
        }
        // The summary follows the lines of -C.
        Said::All(_) if train.last().is_some() => {}
        Said::All(all) => {
            for (index, rtt) in (0..).zip(all) {
                match rtt {
                    Some(rtt_ns) => train.answer(index, None, rtt_ns, false),
                    None => train.lost(index, None),
                }
            }
        }
        Said::Other(said) => {
            told.wrong(
                number,
                format_args!("{said:?} says nothing of one probe (use -l, -c or -C)"),
            );
        }
    }
}

pub fn fping(
    mut lines: Lines,
    settings: &Settings,
    out: &mut Out,
    told: &mut Imported,
) -> Result<(), Fault> {
    let mut trains: BTreeMap<String, Train> = BTreeMap::new();
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        let text = String::from_utf8_lossy(line);
        let (at, text) = stamped(&text);
        // `-Q` puts a timestamp on its summaries: `[12:34:56]`.
        if text.is_empty() || text.starts_with('[') {
            continue;
        }
        let Some((host, said)) = fping_line(text) else {
            told.wrong(
                number,
                format_args!("{} is no line of fping's", shown(line)),
            );
            continue;
        };
        let train = trains.entry(host.to_owned()).or_insert_with(|| {
            let mut train = Train::new(host);
            train.first = Some(0);
            train
        });
        if let Said::Answer { index, .. } | Said::Lost { index } = said
            && !train.follows(index)
        {
            told.wrong(
                number,
                format_args!("{index} does not follow {:?}", train.last()),
            );
            continue;
        }
        taken(said, at, number, train, told);
    }
    for (_, train) in trains {
        if !train.is_empty() {
            train.finish(settings, out, told);
        }
    }
    Ok(())
}
