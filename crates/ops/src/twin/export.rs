//! Files of a link for other emulators: mahimahi, TheaterQ, Rattan, and Linux `tc`.
//!
//! **Source.** mahimahi, `mm-link(1)`: a line for each opportunity of 1504 B, in ms; M. Ottens, TheaterQ, README (2026): CSV
//! of `keep,latency,rate,loss,limit` in µs, ns, bit/s, 2⁻³² and packets or bytes; Rattan, `config.example.toml`;
//! `tc-tbf(8)`, `tc-netem(8)`.
//!
//! **Limits.** A file says in its first lines which parts of the link its format cannot express.

use base::framing::FramingSpec;
use link::{DirectionSpec, LinkSpec, RateSpec};
use std::fmt::Write;

/// File of an export.
pub struct File {
    /// Name.
    pub name: &'static str,
    /// Content.
    pub text: String,
}

/// Size of an opportunity of mahimahi, bytes.
const OPPORTUNITY: f64 = 1504.0;
/// Length of a trace of a fixed rate, s: long enough for 0.01 % of 1 Mbit/s.
const FIXED_S: f64 = 60.0;
/// Most opportunities of a trace.
const MOST_LINES: f64 = 2e6;

/// Levels of a rate, and the time each of them lasts.
struct Level {
    bps: u64,
    lasts_s: f64,
}

/// Exports a link to all formats.
pub fn files(link: &LinkSpec) -> Vec<File> {
    vec![
        file("up.trace", trace(&link.up)),
        file("down.trace", trace(&link.down)),
        file("mahimahi.sh", mahimahi(link)),
        file("theaterq-up.csv", theaterq(&link.up)),
        file("theaterq-down.csv", theaterq(&link.down)),
        file("rattan.toml", rattan(link)),
        file("tc-up.sh", tc(&link.up, "up")),
        file("tc-down.sh", tc(&link.down, "down")),
    ]
}

fn file(name: &'static str, text: String) -> File {
    File { name, text }
}

/// Levels of a direction's rate over its period; a single one if it is fixed.
fn levels(spec: &DirectionSpec) -> Vec<Level> {
    let fixed = |bps: u64| {
        vec![Level {
            bps,
            lasts_s: FIXED_S,
        }]
    };
    match &spec.rate {
        RateSpec::Fixed(rate) => fixed(rate.get()),
        RateSpec::Steps { steps, repeat } => {
            let end = repeat.map_or(f64::NAN, |r| r.as_secs_f64());
            let ends = steps.iter().skip(1).map(|s| s.at.as_secs_f64());
            let level = |(s, end): (&link::Step, f64)| Level {
                bps: s.rate.get(),
                // A last step without repetition lasts for ever: a minute stands for it.
                lasts_s: match end.is_nan() {
                    true => FIXED_S,
                    false => end - s.at.as_secs_f64(),
                },
            };
            steps.iter().zip(ends.chain([end])).map(level).collect()
        }
        RateSpec::Opportunities(millis) => by_tenths(millis),
        RateSpec::TraceFile { .. } => fixed(spec.params().map_or(0, |p| p.rate.mean().get())),
    }
}

/// Rates of opportunities in windows of 100 ms.
fn by_tenths(millis: &[u64]) -> Vec<Level> {
    let end = millis.last().copied().unwrap_or(0);
    let mut from = 0;
    let mut all = Vec::new();
    while from < end {
        let to = (from + 100).min(end);
        let first = millis.partition_point(|m| *m <= from);
        let last = millis.partition_point(|m| *m <= to);
        let lasts_s = (to - from) as f64 / 1e3;
        all.push(Level {
            bps: ((last - first) as f64 * OPPORTUNITY * 8.0 / lasts_s).round() as u64,
            lasts_s,
        });
        from = to;
    }
    all
}

/// Opportunities of mahimahi, a line each.
fn trace(spec: &DirectionSpec) -> String {
    if let RateSpec::Opportunities(millis) = &spec.rate {
        return lines(millis.iter().copied());
    }
    let levels = levels(spec);
    let count: f64 = levels.iter().map(|l| l.bps as f64 * l.lasts_s).sum();
    let count = count / 8.0 / OPPORTUNITY;
    // A fixed rate may have a shorter trace; a table has its own length.
    let shorten = match (&levels[..], count > MOST_LINES) {
        ([_], true) => MOST_LINES / count,
        _ => 1.0,
    };
    let (mut owed, mut at_ms) = (0.0, 0.0);
    let mut millis = Vec::new();
    for level in &levels {
        let per_ms = level.bps as f64 / 8e3 / OPPORTUNITY;
        let end_ms = at_ms + level.lasts_s * shorten * 1e3;
        while at_ms < end_ms - 1e-9 {
            let next_ms = (at_ms + 1e-9).floor() + 1.0;
            let next_ms = next_ms.min(end_ms);
            owed += per_ms * (next_ms - at_ms);
            at_ms = next_ms;
            while owed >= 1.0 - 1e-9 {
                owed -= 1.0;
                millis.push((at_ms - 1e-9).ceil().max(1.0) as u64);
            }
        }
    }
    // The trace repeats after its last line, so the last line closes the period. An opportunity at least is there.
    let end = (at_ms - 1e-9).ceil().max(1.0) as u64;
    if let Some(last) = millis.last_mut() {
        *last = end;
    } else {
        millis.push(end);
    }
    lines(millis.into_iter())
}

fn lines(millis: impl Iterator<Item = u64>) -> String {
    let mut text = String::new();
    for ms in millis {
        let _ = writeln!(text, "{ms}");
    }
    text
}

/// Limit of a plain queue, if it is one: bytes and packets.
fn plain_limit(spec: &DirectionSpec) -> (Option<u64>, Option<u64>) {
    let limits = spec.queue.limits();
    match spec.queue.name() {
        "fifo" => (limits.bytes.map(|b| b.get()), limits.packets),
        _ => (None, None),
    }
}

/// Share of packets that the link loses at random, if it does.
fn random_loss(spec: &DirectionSpec) -> f64 {
    let text = spec.loss.as_ref().map(ToString::to_string);
    let share = text
        .as_deref()
        .and_then(|t| t.strip_prefix("random:probability="));
    share.and_then(|s| s.parse().ok()).unwrap_or(0.0)
}

/// Parts of a direction that most formats cannot express, one sentence each.
fn left_out(spec: &DirectionSpec, queue_told: bool) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |what: &str, of: Option<String>| {
        if let Some(of) = of {
            all.push(format!("{what} is left out: {of}"));
        }
    };
    let text = |x: Option<String>| x;
    if !queue_told {
        say("the queue", Some(spec.queue.to_string()));
    }
    if random_loss(spec) == 0.0 {
        say("loss", text(spec.loss.as_ref().map(ToString::to_string)));
    }
    say(
        "jitter",
        text(spec.jitter.as_ref().map(ToString::to_string)),
    );
    say("drift", text(spec.drift.as_ref().map(ToString::to_string)));
    say(
        "reordering",
        text(spec.reorder.as_ref().map(ToString::to_string)),
    );
    say("sleep", text(spec.sleep.as_ref().map(ToString::to_string)));
    say(
        "the policer",
        text(spec.policer.as_ref().map(ToString::to_string)),
    );
    say(
        "the shaper",
        text(spec.shaper.as_ref().map(ToString::to_string)),
    );
    say(
        "framing",
        text(spec.framing.as_ref().map(FramingSpec::to_string)),
    );
    say(
        "duplication",
        (spec.duplicate > 0.0).then(|| spec.duplicate.to_string()),
    );
    all
}

fn comments(spec: &DirectionSpec, direction: &str, queue_told: bool) -> String {
    let each = left_out(spec, queue_told);
    each.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "# {direction}: {line}");
        text
    })
}

/// Command of mahimahi.
fn mahimahi(link: &LinkSpec) -> String {
    let known = |spec: &DirectionSpec| matches!(spec.queue.name(), "fifo");
    let queue = |spec: &DirectionSpec, key: &str| match plain_limit(spec) {
        (Some(bytes), _) => {
            format!(" \\\n  --{key}-queue=droptail --{key}-queue-args=\"bytes={bytes}\"")
        }
        (None, Some(packets)) => {
            format!(" \\\n  --{key}-queue=droptail --{key}-queue-args=\"packets={packets}\"")
        }
        (None, None) => String::new(),
    };
    let loss = |spec: &DirectionSpec, way: &str| match random_loss(spec) {
        0.0 => String::new(),
        share => format!("mm-loss {way} {share:.6} \\\n  "),
    };
    // mm-delay takes whole milliseconds, the same in both directions.
    let delay_ms = link.propagation_rtt().as_millis_f64() / 2.0;
    format!(
        "#!/bin/sh\n# {}\n{}{}exec mm-delay {:.0} \\\n  {}{}mm-link up.trace down.trace{}{} \\\n  -- \"$@\"\n",
        one_line(&link.title),
        comments(&link.up, "up", known(&link.up)),
        comments(&link.down, "down", known(&link.down)),
        delay_ms,
        loss(&link.up, "uplink"),
        loss(&link.down, "downlink"),
        queue(&link.up, "uplink"),
        queue(&link.down, "downlink"),
    )
}

/// Text without line breaks, for a comment.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// Table of TheaterQ in its simple form.
fn theaterq(spec: &DirectionSpec) -> String {
    let (bytes, packets) = plain_limit(spec);
    let limit = bytes.or(packets).unwrap_or(1000);
    let unit = match bytes {
        Some(_) => "byteqlen",
        None => "pktqlen",
    };
    let mut text = format!(
        "# keep_us,latency_ns,rate_bps,loss,limit; for: theaterq stage RUN cont LOOP {unit}\n{}",
        comments(spec, "this direction", bytes.or(packets).is_some())
    );
    let loss = (random_loss(spec) * f64::from(u32::MAX)).round() as u64;
    for level in levels(spec) {
        let keep_us = (level.lasts_s * 1e6).round().max(1.0) as u64;
        let _ = writeln!(
            text,
            "{keep_us},{},{},{loss},{limit}",
            spec.delay.as_nanos(),
            level.bps.max(1)
        );
    }
    text
}

/// Configuration of Rattan.
fn rattan(link: &LinkSpec) -> String {
    let mut text = format!(
        "# {}\n# Run it where up.trace and down.trace are.\n",
        one_line(&link.title)
    );
    for (name, spec) in [("up", &link.up), ("down", &link.down)] {
        let told = matches!(spec.queue.name(), "fifo" | "codel");
        text += &comments(spec, name, told);
        let _ = writeln!(text, "\n[devices.{name}_rate]");
        match &spec.rate {
            RateSpec::Fixed(rate) => {
                let (gbps, bps) = (rate.get() / 1_000_000_000, rate.get() % 1_000_000_000);
                let _ = writeln!(
                    text,
                    "type = \"Bw\"\nbandwidth = {{ gbps = {gbps}, bps = {bps} }}"
                );
            }
            _ => {
                let _ = writeln!(text, "type = \"BwReplay\"\ntrace = \"./{name}.trace\"");
            }
        }
        let queue = match plain_limit(spec) {
            (Some(bytes), _) => {
                format!("queue = \"DropTail\"\nqueue_config = {{ byte_limit = {bytes} }}")
            }
            (None, Some(packets)) => {
                format!("queue = \"DropTail\"\nqueue_config = {{ packet_limit = {packets} }}")
            }
            (None, None) if spec.queue.name() == "codel" => "queue = \"CoDel\"".to_owned(),
            (None, None) => "queue = \"Infinite\"".to_owned(),
        };
        let _ = writeln!(text, "{queue}");
        let _ = writeln!(
            text,
            "\n[devices.{name}_delay]\ntype = \"Delay\"\ndelay = \"{}us\"",
            spec.delay.as_nanos() / 1000
        );
        let _ = writeln!(
            text,
            "\n[devices.{name}_loss]\ntype = \"Loss\"\npattern = [{:?}]",
            random_loss(spec)
        );
    }
    text += "\n[links]\nleft = \"up_rate\"\nup_rate = \"up_delay\"\nup_delay = \"up_loss\"\nup_loss = \"right\"\nright = \"down_rate\"\ndown_rate = \"down_delay\"\ndown_delay = \"down_loss\"\ndown_loss = \"left\"\n";
    text
}

/// Script of `tc` for the egress of one device.
fn tc(spec: &DirectionSpec, name: &str) -> String {
    let levels = levels(spec);
    let first = levels.first().map_or(1000, |l| l.bps.max(1000));
    // Two full packets, or 1 ms at the rate: a kernel's timer is no finer.
    let burst = |bps: u64| (bps / 8000).max(2 * (spec.mtu.get() + 14));
    let queue = kernel_queue(spec);
    let mut text = format!(
        "#!/bin/sh\n# Run on the host whose packets leave by the device of this direction ({name}), as root: sh tc-{name}.sh DEVICE\n{}set -eu\nDEV=\"$1\"\n",
        comments(spec, name, queue.is_some())
    );
    let loss = match random_loss(spec) {
        0.0 => String::new(),
        share => format!(" loss {:.4}%", 100.0 * share),
    };
    let _ = writeln!(
        text,
        "trap 'tc qdisc del dev \"$DEV\" root' INT TERM\ntc qdisc replace dev \"$DEV\" root handle 1: netem delay {}us{loss} limit 1000000\ntc qdisc add dev \"$DEV\" parent 1:1 handle 2: tbf rate {first}bit burst {}b limit 1000000000b",
        spec.delay.as_nanos() / 1000,
        burst(first)
    );
    if let Some(queue) = &queue {
        let _ = writeln!(
            text,
            "tc qdisc add dev \"$DEV\" parent 2:1 handle 3: {queue}"
        );
    }
    if levels.len() > 1 {
        text += "while :; do\n";
        for level in &levels {
            let bps = level.bps.max(1000);
            let _ = writeln!(
                text,
                "  tc qdisc change dev \"$DEV\" parent 1:1 handle 2: tbf rate {bps}bit burst {}b limit 1000000000b; sleep {:.3}",
                burst(bps),
                level.lasts_s
            );
        }
        text += "done\n";
    }
    text
}

/// Kernel's queue with the parameters that the fit gives; none if the kernel has no such queue.
fn kernel_queue(spec: &DirectionSpec) -> Option<String> {
    let text = spec.queue.to_string();
    let parameter = |key: &str| {
        let list = text.split_once(':')?.1;
        let mut pairs = list.split(',').filter_map(|p| p.split_once('='));
        let value = pairs.find(|p| p.0.trim() == key)?.1;
        let time: base::Duration = value.parse().ok()?;
        Some(format!(" {key} {}us", time.as_nanos() / 1000))
    };
    let with = |keys: &[&str]| -> String {
        let told = keys.iter().filter_map(|k| parameter(k));
        format!("{}{}", spec.queue.name(), told.collect::<String>())
    };
    match (spec.queue.name(), plain_limit(spec)) {
        // The kernel counts the Ethernet header, too.
        (_, (Some(bytes), _)) => {
            let packets = bytes.div_ceil(spec.mtu.get().max(1));
            Some(format!("bfifo limit {}", bytes + 14 * packets))
        }
        (_, (None, Some(packets))) => Some(format!("pfifo limit {packets}")),
        ("codel" | "fq_codel", _) => Some(with(&["target", "interval"])),
        ("pie" | "fq_pie" | "dualpi2", _) => Some(with(&["target"])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    fn text_of<'a>(files: &'a [File], name: &str) -> &'a str {
        &files.iter().find(|f| f.name == name).unwrap().text
    }

    /// A direction with a drawn rate, fixed or in steps of 100 ms.
    fn drawn(rng: &mut base::rng::Rng, moves: bool) -> (LinkSpec, f64) {
        let mut link = LinkSpec::named("adsl").unwrap();
        let rate = 200e3 * 500f64.powf(uniform(rng));
        link.set("down.rate", &format!("{rate:.0} bit/s")).unwrap();
        let mut mean = rate;
        if moves {
            let steps: Vec<link::Step> = (0..40u64)
                .map(|i| link::Step {
                    at: base::Duration::from_millis(100 * i),
                    rate: base::BitsPerSec::new((rate * (0.2 + uniform(rng))) as u64),
                })
                .collect();
            mean = steps.iter().map(|s| s.rate.get() as f64).sum::<f64>() / 40.0;
            link.down.rate = RateSpec::Steps {
                steps,
                repeat: Some(base::Duration::from_secs(4)),
            };
        }
        (link, mean)
    }

    #[test]
    fn every_format_carries_the_rate_of_the_link() {
        let mut rng = Streams::new(20_261_123).stream("export");
        for i in 0..60 {
            let (link, mean) = drawn(&mut rng, i % 2 == 0);
            let files = files(&link);
            let read = link::rate::Trace::parse(text_of(&files, "down.trace")).unwrap();
            let end_s = *read.millis().last().unwrap() as f64 / 1e3;
            let told = read.millis().len() as f64 * OPPORTUNITY * 8.0 / end_s;
            // The period holds a whole number of opportunities.
            let whole = 2.0 * OPPORTUNITY * 8.0 / end_s;
            assert!(
                (told - mean).abs() < whole + 1e-3 * mean,
                "{i}: {told} {mean}"
            );
            let mut sum = (0.0, 0.0);
            for line in text_of(&files, "theaterq-down.csv").lines() {
                if line.starts_with('#') {
                    continue;
                }
                let fields: Vec<f64> = line.split(',').map(|f| f.parse().unwrap()).collect();
                assert_eq!(fields.len(), 5, "{line}");
                sum = (sum.0 + fields[0], sum.1 + fields[0] * fields[2]);
                assert_eq!(fields[1], link.down.delay.as_nanos() as f64);
            }
            assert!((sum.1 / sum.0 / mean - 1.0).abs() < 1e-3, "{i}");
            let rattan: toml::Table = toml::from_str(text_of(&files, "rattan.toml")).unwrap();
            assert_eq!(rattan["links"]["left"].as_str(), Some("up_rate"));
        }
    }

    #[test]
    fn parts_that_a_format_cannot_express_are_named_in_it() {
        let mut link = LinkSpec::named("adsl").unwrap();
        link.set("up.queue", "red:min=5,max=15,max_p=0.1,limit=45")
            .unwrap();
        link.set("up.jitter", "uniform:width=2ms").unwrap();
        link.set("down.queue", "fifo:packets=64").unwrap();
        let files = files(&link);
        for name in ["mahimahi.sh", "theaterq-up.csv", "rattan.toml", "tc-up.sh"] {
            let text = text_of(&files, name);
            assert!(
                text.contains("the queue is left out: red"),
                "{name}: {text}"
            );
            assert!(
                text.contains("jitter is left out: uniform"),
                "{name}: {text}"
            );
        }
        assert!(text_of(&files, "tc-down.sh").contains("pfifo limit 64"));
        assert!(text_of(&files, "mahimahi.sh").contains("packets=64"));
        assert!(text_of(&files, "theaterq-down.csv").contains(",64\n"));
    }
}
