//! Files of the delay monitor and the traffic monitor that ran on two home routers in 2014.
//!
//! **Source.** O.-H. Borlaug, *Real-Time Applications in Smart Grids Using Internet Communications: Latency Issues and
//! Mitigations*, NTNU 2014: sections 4.5.1 and 4.5.2 (columns), appendix C.2 (known bugs), D.1 and D.2 (the lines that
//! print them), table 15 (what a full buffer does to the times).

use super::file::{Fault, Format, Imported, Settings};
use super::lines::{Lines, Local, billionths, int, shown};
use super::numbers::Numbers;
use super::out::Out;
use base::record::{Delay, Status, Text, Traffic};

/// Delay above which an answer is late, 10 s; the monitor was meant to give up then, but slept too long (bug 1).
const LATE_NS: i64 = 10_000_000_000;
/// Excess RTT, 10 ms, over the preceding packet that shows that a packet with the same send millisecond was not sent
/// then.
const STALE_NS: i64 = 10_000_000;
/// Largest difference between timestamps and RTT, ns: timestamps are truncated to milliseconds.
const STAMPS_AGREE_NS: u64 = 1_500_000;

const UNPADDED: &str = "time stamp with milliseconds that lack leading zeros";
const STALE: &str = "send time of an earlier packet, the buffer having been full: send time reckoned from the numbers, delay left out";
const BACKWARDS: &str =
    "answer received before it was sent, the clock having been set: delay left out";
const REPEATED: &str = "rate repeated across a wrap of the counter: bytes left out";
const DISAGREE: &str = "time stamps that disagree with the round trip beside them: round trip kept";

pub fn guess(line: &str) -> Option<Format> {
    let fields: Vec<&str> = line.trim().split(',').map(str::trim).collect();
    let stamp = |s: &str| {
        let b = s.as_bytes();
        b.len() >= 21 && b[4] == b'-' && b[7] == b'-' && b[10] == b' ' && b[13] == b':'
    };
    match &*fields {
        [_, sent, "-1", "-1", "-1", ..] if stamp(sent) => Some(Format::Dropped),
        [_, sent, received, _, _, _] if stamp(sent) && stamp(received) => Some(Format::Delay),
        [_, _, _, t] if stamp(t) => Some(Format::Traffic),
        _ => None,
    }
}

/// Splits a line into exactly `N` fields without surrounding blanks; a comma at the end starts no field.
fn fields<const N: usize>(line: &[u8]) -> Option<[&[u8]; N]> {
    let mut fields = [&b""[..]; N];
    let mut parts = line
        .strip_suffix(b",")
        .unwrap_or(line)
        .split(|c| *c == b',');
    for field in &mut fields {
        *field = parts.next()?.trim_ascii();
    }
    parts.next().is_none().then_some(fields)
}

/// Parses `yyyy-mm-dd HH:MM:SS:F` with one to three digits that are a number of milliseconds (bug 3): `:5` is 5 ms.
fn stamp(text: &[u8], local: &mut Local, told: &mut Imported) -> Option<i64> {
    let (seconds, millis) = text.split_at_checked(19)?;
    let millis = millis.strip_prefix(b":")?;
    let value = int(millis).filter(|ms| (0..1000).contains(ms) && millis.len() <= 3)?;
    let seconds = local.seconds_ns(seconds)?;
    if millis.len() < 3 {
        told.repaired(UNPADDED);
    }
    seconds.checked_add(value * 1_000_000)
}

/// True if a line is the header, which only the first line may be.
fn is_header(line: &[u8], number: u64) -> bool {
    number == 1
        && !line
            .first()
            .is_some_and(|c| c.is_ascii_digit() || *c == b'-')
}

/// Answers with the send time of an earlier packet, until the next valid one shows when they were sent.
struct Stale {
    seq: i64,
    received_ns: i64,
}

/// Packet number, send time, receive time and round trip of a line, the last three in ns; otherwise the fault.
fn parsed(
    line: &[u8],
    [send, receive]: [&mut Local; 2],
    told: &mut Imported,
) -> Result<(i64, i64, i64, i64), String> {
    let [seq, sent, received, rtt, _, _] =
        fields(line).ok_or_else(|| format!("{} has not the six fields of a delay", shown(line)))?;
    let wrong = |text: &[u8], what: &str| format!("{} is no {what}", shown(text));
    let number = int(seq).ok_or_else(|| wrong(seq, "packet number"))?;
    let rtt_ns = billionths(rtt).ok_or_else(|| wrong(rtt, "round trip in seconds"))?;
    let sent_ns = stamp(sent, send, told).ok_or_else(|| wrong(sent, "time"))?;
    let received_ns = stamp(received, receive, told).ok_or_else(|| wrong(received, "time"))?;
    Ok((number, sent_ns, received_ns, rtt_ns))
}

pub fn delay(
    mut lines: Lines,
    settings: &Settings,
    out: &mut Out,
    told: &mut Imported,
    numbers: &mut Numbers,
) -> Result<(), Fault> {
    let target: Text = "udp".into();
    let (mut send, mut receive) = (Local::new(&settings.zone), Local::new(&settings.zone));
    let mut sound: Option<(i64, i64, i64)> = None;
    let mut stale: Vec<Stale> = Vec::new();
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        if line.is_empty() || is_header(line, number) {
            continue;
        }
        let (seq, sent_ns, received_ns, rtt_ns) =
            match parsed(line, [&mut send, &mut receive], told) {
                Ok(read) => read,
                Err(why) => {
                    told.wrong(number, why);
                    continue;
                }
            };
        numbers.answered(seq);
        let mut row = Delay::unanswered(sent_ns, seq, target.clone());
        if let Some((sound_seq, sound_ns, sound_rtt)) = sound
            && sent_ns == sound_ns
            && seq != sound_seq
            && rtt_ns > sound_rtt.saturating_add(STALE_NS)
        {
            told.repaired(STALE);
            stale.push(Stale { seq, received_ns });
            continue;
        }
        if rtt_ns < 0 {
            told.repaired(BACKWARDS);
            row.status = Status::Invalid;
        } else {
            if received_ns.abs_diff(sent_ns.saturating_add(rtt_ns)) > STAMPS_AGREE_NS {
                told.repaired(DISAGREE);
            }
            row.rtt_ns = Some(rtt_ns);
            row.status = if rtt_ns >= LATE_NS {
                Status::Late
            } else {
                Status::Ok
            };
        }
        release(&mut stale, sound, Some((seq, sent_ns)), &target, out);
        sound = Some((seq, sent_ns, rtt_ns));
        out.push(&row);
        if out.broken() {
            return Ok(());
        }
    }
    release(&mut stale, sound, None, &target, out);
    Ok(())
}

/// Releases stale answers with the send time interpolated by number between the valid packets around them, but not
/// later than their answer.
fn release(
    stale: &mut Vec<Stale>,
    before: Option<(i64, i64, i64)>,
    after: Option<(i64, i64)>,
    target: &Text,
    out: &mut Out,
) {
    for s in stale.drain(..) {
        let reckoned = before.zip(after).and_then(|((n0, t0, _), (n1, t1))| {
            let share = i128::from(s.seq - n0) * (i128::from(t1) - i128::from(t0));
            let within = n0 < s.seq && s.seq < n1 && t0 <= t1;
            within.then(|| t0 + (share / i128::from(n1 - n0)) as i64)
        });
        let sent_ns = reckoned.unwrap_or(s.received_ns).min(s.received_ns);
        out.push(&Delay {
            status: Status::Invalid,
            ..Delay::unanswered(sent_ns, s.seq, target.clone())
        });
    }
}

pub fn dropped(
    mut lines: Lines,
    settings: &Settings,
    out: &mut Out,
    told: &mut Imported,
    numbers: &mut Numbers,
) -> Result<(), Fault> {
    let target: Text = "udp".into();
    let mut local = Local::new(&settings.zone);
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        if line.is_empty() || is_header(line, number) {
            continue;
        }
        let parsed = fields(line).and_then(|[seq, sent, a, b, c]| {
            let none = [a, b, c].iter().all(|f| **f == *b"-1");
            Some((int(seq)?, stamp(sent, &mut local, told)?)).filter(|_| none)
        });
        let Some((seq, sent_ns)) = parsed else {
            told.wrong(
                number,
                format_args!("{} is not `number,time,-1,-1,-1,`", shown(line)),
            );
            continue;
        };
        numbers.dropped();
        out.push(&Delay::unanswered(sent_ns, seq, target.clone()));
    }
    Ok(())
}

pub fn traffic(
    mut lines: Lines,
    settings: &Settings,
    out: &mut Out,
    told: &mut Imported,
) -> Result<(), Fault> {
    let interface: Text = "wan".into();
    let mut local = Local::new(&settings.zone);
    let mut before: Option<(i64, [i64; 2])> = None;
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        if line.is_empty() || is_header(line, number) {
            continue;
        }
        let parsed = fields(line).and_then(|[interval, tx, rx, t]| {
            let interval_ns = billionths(interval).filter(|i| *i > 0)?;
            let rates = [billionths(tx)?, billionths(rx)?];
            let sound = rates.iter().all(|r| *r >= 0);
            Some((interval_ns, rates, stamp(t, &mut local, told)?)).filter(|_| sound)
        });
        let Some((interval_ns, rates, t_ns)) = parsed else {
            told.wrong(
                number,
                format_args!("{} is not `seconds,rate,rate,time`", shown(line)),
            );
            continue;
        };
        // If a counter went backwards the monitor repeated the rate of the preceding interval. Two intervals of
        // different length do not have equal rates to the fourth decimal.
        let mut bytes = |i: usize| {
            let repeated = rates[i] != 0
                && before.is_some_and(|(length, b)| b[i] == rates[i] && length != interval_ns);
            if repeated {
                told.repaired(REPEATED);
                return None;
            }
            let bits = rates[i] as f64 / 1e9 * settings.rate_unit * (interval_ns as f64 / 1e9);
            Some((bits / 8.0).round() as i64)
        };
        let (tx_bytes, rx_bytes) = (bytes(0), bytes(1));
        before = Some((interval_ns, rates));
        out.push(&Traffic {
            t_ns,
            interval_ns,
            interface: interface.clone(),
            rx_bytes,
            tx_bytes,
        });
    }
    told.notes.push(format!(
        "rates are taken in units of {} bit/s, 1000 being what the thesis ran the monitor with (-p k); the file does not say",
        settings.rate_unit
    ));
    Ok(())
}
