//! Captures of drawn transfers over drawn links.

use super::taken::Taken;
use crate::chance::Chance;
use std::net::Ipv4Addr;

/// A drawn scenario, and where its packets are captured.
pub struct Draw {
    pub number: u64,
    /// Scenario of the simulator.
    pub scenario: String,
    /// Name of the place of the capture: a host, or the bottleneck's entry.
    pub point: &'static str,
    /// The kind of link in a word.
    pub family: &'static str,
    /// Least one-way delay of a packet of `bytes` from the left to the right, and back.
    pub ways: [Way; 2],
    /// Number of the captured `[[flow]]` tables, with which the scenario begins.
    pub captured: usize,
    /// True if applications pause, or a small window holds the senders back.
    pub pauses: bool,
    /// False if packets have no TCP timestamps.
    pub stamped: bool,
    /// The captured host, if its card cuts and joins segments.
    pub offload: Option<Ipv4Addr>,
    /// Keys of `[tcp]` that differ from Linux.
    pub stack: Vec<String>,
    pub taken: Taken,
}

/// One way of the path without its queue.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub rate_bps: f64,
    pub delay_ms: f64,
}

impl Way {
    /// Least delay of a packet of `bytes`.
    pub fn least_ms(self, bytes: f64) -> f64 {
        self.delay_ms + bytes * 8e3 / self.rate_bps + 2.0 * bytes * 8e3 / ACCESS_BPS
    }
}

/// Kinds of links.
pub const FAMILIES: [&str; 11] = [
    "plain",
    "random loss",
    "bursty loss",
    "outage",
    "jitter",
    "drift",
    "token bucket",
    "changing rate",
    "cellular",
    "reordering",
    "mixed",
];

const ACCESS_BPS: f64 = 10e9;

/// Hosts on the left and on the right, as the simulator numbers them.
pub const HOSTS: [(&str, Ipv4Addr); 2] = [
    ("s0", Ipv4Addr::new(10, 0, 0, 3)),
    ("d0", Ipv4Addr::new(10, 0, 0, 4)),
];

fn queue(c: &mut Chance) -> String {
    match c.unit() {
        u if u < 0.1 => "codel".into(),
        u if u < 0.2 => "fq_codel".into(),
        u if u < 0.3 => "pie".into(),
        u if u < 0.45 => c.pick(&["cake", "fq_pie", "dualpi2", "red", "drr"]).into(),
        _ => format!("fifo:packets={:.0}", c.log(8.0, 600.0)),
    }
}

/// Draws a capture.
pub fn draw(seed: u64, number: u64) -> Draw {
    let c = &mut Chance::new(seed, &format!("captures/{number}"));
    let rate = c.log(0.5e6, 100e6).round();
    let mut ways = [
        (rate, c.log(1.0, 80.0)),
        ((rate * c.log(0.08, 1.0)).round(), c.log(1.0, 80.0)),
    ]
    .map(|(rate_bps, delay_ms)| Way {
        rate_bps,
        delay_ms: (delay_ms * 1e3).round() / 1e3,
    });
    let queues = [queue(c), queue(c)];
    let (mut family, more) = match c.unit() {
        u if u < 0.5 => ("plain", String::new()),
        u if u < 0.62 => (
            "random loss",
            format!("loss = \"random:probability={:.6}\"\n", c.log(1e-4, 1e-2)),
        ),
        u if u < 0.7 => {
            let (share, r) = (c.log(1e-4, 2e-2), 1.0 / c.log(2.0, 20.0));
            let p = share * r / (1.0 - share);
            let loss = format!("loss = \"gilbert_elliott:p={p:.8},r={r:.6}\"\n");
            ("bursty loss", loss)
        }
        u if u < 0.75 => {
            let (start, lasts) = (c.uniform(2.0, 12.0), c.log(0.05, 4.0));
            let loss = format!("loss = \"outage:start={start:.3}s,lasts={lasts:.3}s\"\n");
            ("outage", loss)
        }
        u if u < 0.9 => (
            "jitter",
            format!(
                "jitter = \"uniform:width={:.3}ms,overtake=false\"\n",
                c.log(0.3, 20.0)
            ),
        ),
        _ => (
            "drift",
            format!(
                "drift = \"wave:height={:.3}ms,period={:.3}s\"\n",
                c.log(1.0, 30.0),
                c.log(10.0, 90.0)
            ),
        ),
    };
    let mut lines = [0, 1].map(|k| format!("rate = \"{} bit/s\"\n{more}", ways[k].rate_bps));
    let w = &mut Chance::new(seed, &format!("captures/{number}/way"));
    if w.is(if family == "plain" { 0.4 } else { 0.25 }) {
        let kind = w.pick(&["token bucket", "changing rate", "cellular", "reordering"]);
        lines = [0, 1].map(|k| special(w, kind, &mut ways[k]) + &more);
        family = if family == "plain" { kind } else { "mixed" };
    }
    let stamped = !c.is(0.2);
    let p = &mut Chance::new(seed, &format!("captures/{number}/pauses"));
    let pauses = p.is(0.4);
    let lasts_s = c.log(8.0, 60.0).round();
    let mut scenario = format!(
        "title = \"capture {number}\"\nduration = \"{lasts_s} s\"\ntopology = \"dumbbell:pairs=2\"\n\
         access = {{ rate = \"{ACCESS_BPS} bit/s\", delay = \"0 s\" }}\n"
    );
    for (k, name) in ["link", "reverse"].iter().enumerate() {
        scenario += &format!(
            "[{name}]\ndelay = \"{} ms\"\nqueue = \"{}\"\n{}",
            ways[k].delay_ms, queues[k], lines[k]
        );
    }
    let controller = c.pick(&["cubic", "cubic", "reno", "bbr1"]);
    scenario += &format!(
        "[tcp]\ncontroller = \"{controller}\"\nheader = \"{} B\"\n",
        if stamped { 52 } else { 40 }
    );
    let point = c.pick(&["s0", "d0", "link"]);
    let o = &mut Chance::new(seed, &format!("captures/{number}/offload"));
    let offload = HOSTS.iter().find(|h| h.0 == point && o.is(0.4));
    if offload.is_some() {
        scenario += &format!("burst = {}\n", o.pick(&[4, 8, 16, 32, 44]));
    }
    let stack = stack(&mut Chance::new(seed, &format!("captures/{number}/stack")));
    stack
        .iter()
        .for_each(|line| scenario += &format!("{line}\n"));
    if pauses && p.is(0.5) {
        scenario += &format!("receive_window = \"{:.0} B\"\n", p.log(6e3, 300e3));
    }
    // Transfers in the capture, and others that share the bottleneck alone.
    let back = c.pick(&[0, 0, 1, 1, 2]);
    let forward = c.pick(&[0, 1, 1, 1, 2, 4]).max(u32::from(back == 0));
    let others = [0, 1].map(|_| c.pick(&[0, 0, 0, 1, 2]));
    let transfers = [
        (0, false, forward),
        (0, true, back),
        (1, false, others[0]),
        (1, true, others[1]),
    ];
    for (pair, backwards, count) in transfers {
        if count > 0 {
            let bulk = bulk(c, pair, backwards, count);
            scenario += &match pauses && pair == 0 && p.is(0.8) {
                true => application(p, backwards, count),
                false => bulk,
            };
        }
    }
    Draw {
        number,
        scenario,
        point,
        family,
        ways,
        captured: [forward, back].iter().filter(|n| **n > 0).count(),
        pauses,
        stamped,
        offload: offload.map(|h| h.1),
        stack,
        taken: Taken::draw(
            &mut Chance::new(seed, &format!("captures/{number}/taken")),
            lasts_s,
        ),
    }
}

/// Keys of a way of a special kind, whose usual rate is given. Its rate becomes the greatest that it ever has.
fn special(w: &mut Chance, family: &str, way: &mut Way) -> String {
    let rate = way.rate_bps;
    match family {
        "token bucket" => {
            way.rate_bps = (rate * w.log(1.5, 20.0)).min(ACCESS_BPS).round();
            let key = w.pick(&["policer", "shaper"]);
            let burst = w.log(1.6e3, 500e3);
            format!(
                "rate = \"{} bit/s\"\n{key} = \"token_bucket:rate={rate} bit/s,burst={burst:.0} B\"\n",
                way.rate_bps
            )
        }
        "changing rate" => {
            let period = w.log(2.0, 30.0);
            let steps = (0..4).map(|k| match k {
                0 => (0.0, rate),
                _ => (
                    period * f64::from(k) / 4.0,
                    (rate * w.log(0.2, 1.0)).round(),
                ),
            });
            let steps: Vec<String> = steps
                .map(|(at, rate)| format!("{{ at = \"{at:.3} s\", rate = \"{rate} bit/s\" }}"))
                .collect();
            let steps = steps.join(", ");
            format!("rate = {{ steps = [{steps}], repeat = \"{period:.3} s\" }}\n")
        }
        "cellular" => {
            way.rate_bps = ACCESS_BPS;
            format!("rate = {{ opportunities_ms = {:?} }}\n", fading(w, rate))
        }
        _ => format!(
            "rate = \"{rate} bit/s\"\nreorder = \"late:probability={:.6},delay={:.3}ms\"\nduplicate = {:.6}\n",
            w.log(1e-4, 3e-2),
            w.log(0.3, 30.0),
            w.log(1e-5, 1e-2)
        ),
    }
}

/// Milliseconds of a minute at each of which a fading channel of this usual rate takes a packet.
fn fading(w: &mut Chance, rate: f64) -> Vec<u64> {
    let (mut level, mut owed) = (0.0, 0.0);
    let mut millis = Vec::new();
    for ms in 1..60_000u64 {
        if ms % 20 == 0 {
            level = 0.97 * level + w.uniform(-0.16, 0.16);
        }
        owed += rate.min(40e6) * f64::exp(level.clamp(-1.2, 0.9)) / 8e3 / 1504.0;
        while owed >= 1.0 {
            owed -= 1.0;
            millis.push(ms);
        }
    }
    millis.push(60_000);
    millis
}

/// Ways in which TCP differs from that of Linux.
fn stack(c: &mut Chance) -> Vec<String> {
    if !c.is(0.3) {
        return Vec::new();
    }
    // Receivers that join segments acknowledge them together, from the first on.
    let joins = f64::from(u8::from(c.is(0.3)));
    let ways = [
        (0.4, format!("ack_delay = \"{:.0} ms\"", c.log(20.0, 500.0))),
        (joins, format!("ack_every = {:.0}", c.log(3.0, 45.0))),
        (joins.max(0.3), "quick_acks = 0".into()),
        (joins.max(0.3), "window_growth = false".into()),
        (0.15 * (1.0 - joins), "delayed_ack = false".into()),
        (0.2, format!("mss = \"{:.0} B\"", c.log(536.0, 1448.0))),
        (0.2, "sack = false\nrack = false".into()),
        (0.2, format!("min_rto = \"{:.0} ms\"", c.log(50.0, 1000.0))),
        (0.2, "tail_loss_probe = false".into()),
        (0.2, "pacing = true".into()),
    ];
    let differ = ways.into_iter().filter(|(p, _)| c.is(*p));
    differ.map(|(_, line)| line).collect()
}

/// Transfers between a pair of hosts.
fn bulk(c: &mut Chance, pair: u32, backwards: bool, count: u32) -> String {
    let mut flow = format!(
        "[[flow]]\nkind = \"bulk\"\nfrom = \"s{pair}\"\nto = \"d{pair}\"\nbackwards = {backwards}\ncount = {count}\n\
         start = \"{:.2} s\"\nstagger = \"{:.2} s\"\n",
        c.uniform(0.0, 4.0),
        c.uniform(0.0, 2.0)
    );
    if c.is(0.3) {
        flow += &format!("size = \"{:.0} B\"\n", c.log(30e3, 10e6));
    }
    flow
}

/// Flows of the captured hosts that pause.
fn application(p: &mut Chance, backwards: bool, count: u32) -> String {
    let kind = match p.unit() {
        u if u < 0.4 => format!(
            "kind = \"transfers\"\nsize = \"{:.0} B\"\nthink = \"{:.3} s\"",
            p.log(2e3, 2e6),
            p.log(0.02, 3.0)
        ),
        u if u < 0.6 => format!(
            "kind = \"video\"\nsegment = \"{:.1} s\"\nbuffer = \"{:.0} s\"",
            p.uniform(1.0, 4.0),
            p.uniform(8.0, 30.0)
        ),
        u if u < 0.8 => format!(
            "kind = \"backup\"\nevery = \"{:.1} s\"\nmedian = \"{:.0} B\"\nchunk = \"{:.0} B\"\nreaction = \"{:.0} ms\"",
            p.log(0.5, 10.0),
            p.log(1e5, 3e6),
            p.log(2e4, 1e6),
            p.log(5.0, 300.0)
        ),
        _ => "kind = \"telnet\"".into(),
    };
    format!(
        "[[flow]]\n{kind}\nfrom = \"s0\"\nto = \"d0\"\nbackwards = {backwards}\ncount = {count}\nstart = \"{:.2} s\"\n",
        p.uniform(0.0, 3.0)
    )
}
