//! Kinds that fill the line with TCP: `tcp`, `shaping`, `path`, `collapse`.

use crate::accuracy::cell::{At, Cell, Is, On, Plant, Sample, Truth, between, near, seen, share};
use crate::accuracy::kernel::sojourns;
use crate::accuracy::line::Line;
use base::noted::Noted;
use base::noted::collapse::CollapseNote;
use base::record::{Queue, Recording};
use testkit::networks::planted;

/// Payload of a whole packet of 1500 bytes: 20 of IP, 20 of TCP and 12 of its time stamps are none.
const PAYLOAD: f64 = 1448.0 / 1500.0;
const PACKET_BITS: f64 = 12e3;

fn median(ms: Vec<f64>) -> Result<f64, String> {
    stats::median(&ms).ok_or_else(|| "the emulator wrote nothing of its queue".into())
}

/// When the transfers ran.
fn transfers(recording: &Recording) -> Vec<(i64, i64)> {
    let events = recording.event.iter().filter(|e| &*e.kind == "tcp");
    let spans = events.filter_map(|e| {
        let detail: serde_json::Value = serde_json::from_str(&e.detail).ok()?;
        let began = detail["began_ns"].as_i64()?;
        Some((began, began + detail["took_ns"].as_i64()?))
    });
    spans.collect()
}

/// The emulator's row of its queue at that time.
fn at(recording: &Recording, t_ns: i64) -> Option<&Queue> {
    let before = |q: &&Queue| &*q.queue == "up" && q.t_ns <= t_ns;
    recording.queue.iter().rfind(before)
}

/// The mean over the transfers of what the queue's counters say of each.
fn of_each(of: fn(&Queue, &Queue) -> f64) -> Sample {
    Box::new(move |r| {
        let spans = transfers(r);
        // Until the last row of its time is written.
        let rest = 100_000_000;
        let each = spans
            .iter()
            .filter_map(|(a, b)| Some(of(at(r, *a)?, at(r, b + rest)?)));
        let all: Vec<f64> = each.collect();
        match all.len() {
            0 => Err("the emulator wrote nothing of its queue".into()),
            n => Ok(all.iter().sum::<f64>() / n as f64),
        }
    })
}

/// A transfer's own round trip is the line's and what packets wait meanwhile.
pub fn round_trip(line: Line) -> Truth {
    let packet_ms = PACKET_BITS * 1e3 / line.rate;
    let base = 2.0 * line.delay_ms + packet_ms;
    let waits: Sample = Box::new(move |r| Ok(base + median(sojourns(r, "up", &transfers(r)))?));
    seen(&["cubic_srtt_ms"], waits, 0.1, 2.0 * packet_ms)
}

/// A file that fills the line for eight seconds: its rate is what the emulator carried of it, its own round trip the line's
/// and what packets wait meanwhile, and what is sent again is what the queue dropped; a tail that is probed for and a packet
/// thought lost are three at most.
fn tcp(line: Line) -> Cell {
    let rate = line.rate;
    let size = (rate * PAYLOAD).round();
    let drops = of_each(|began, ended| (ended.drops - began.drops) as f64);
    let carried: Sample = Box::new(|r| {
        let spans = transfers(r);
        let rates = spans.iter().filter_map(|(a, b)| {
            let bytes = at(r, *b)?.delivered_bytes - at(r, *a)?.delivered_bytes;
            Some(bytes as f64 * PAYLOAD * 8e9 / (b - a) as f64)
        });
        Ok(rates.sum::<f64>() / spans.len().max(1) as f64)
    });
    let truths = vec![
        seen(&["cubic_bps"], carried, 0.02, 0.0),
        round_trip(line.clone()),
        seen(&["cubic_again"], drops, 0.1, 3.0),
    ];
    let probe = format!("tcp:control=cubic,repeats=2,size={size} B");
    Cell::link(probe, line, truths)
}

/// The same where the queue lets CUBIC fill the line: it cannot go faster than whole packets leave, and until its window has
/// grown, or while an AQM lets the queue run dry, the line has nothing to send, which costs a twentieth at the most.
fn tcp_full(rate: f64, queue: &str) -> Cell {
    let mut cell = tcp(Line::up(rate, queue));
    let most = rate * PAYLOAD;
    cell.truths
        .insert(0, between(&["cubic_bps"], 0.95 * most, 1.0005 * most));
    cell
}

/// A file of eight seconds from the far end, whose request takes a round trip more.
fn tcp_down(rate: f64, queue: &str) -> Cell {
    let line = Line::up(100e6, "fifo").down(rate, queue);
    let most = rate * PAYLOAD;
    let probe = format!(
        "tcp:direction=down,control=cubic,repeats=2,size={} B",
        most.round()
    );
    let truths = vec![between(&["cubic_down_bps"], 0.94 * most, 1.0005 * most)];
    Cell::link(probe, line, truths)
}

/// A file above a drop-tail queue of that many milliseconds: without a limit it fills the queue, at nine tenths of the rate it leaves it
/// nearly empty and takes ten ninths of the time.
fn shaping(rate: f64, queue_ms: f64) -> Cell {
    let bytes = (rate * queue_ms / 8e3).round();
    let line = Line::up(rate, format!("fifo:bytes={bytes}"));
    let packet_ms = PACKET_BITS * 1e3 / rate;
    let truths = vec![
        between(
            &["continuous_wait_ms"],
            0.75 * queue_ms,
            1.1 * queue_ms + packet_ms,
        ),
        between(&["shaped_wait_ms"], 0.0, 3.0 * packet_ms + 3.0),
        share(&["shaped_ratio"], 10.0 / 9.0, 0.05),
    ];
    Cell::link("shaping:share=90,repeats=2", line, truths)
}

/// Wait of others' packets in this phase of `path`, after its first second. The load's own, of which the emulator tells, come
/// when one has just left; others come at any time, and so find one packet more and of the one in transmission half.
fn phase(line: &Line) -> Sample {
    let (queue, half_ms) = (line.recorded_as(), 0.5 * PACKET_BITS * 1e3 / line.rate);
    Box::new(move |r| {
        let at = |kind: &str| {
            let mut all = r.event.iter();
            let found = all.find(|e| &*e.kind == kind && &*e.subject == "up");
            found.map(|e| e.t_ns).ok_or("no load was noted")
        };
        let span = (at("phase")? + 1_000_000_000, at("phase_end")?);
        Ok(half_ms + median(sojourns(r, &queue, &[span]))?)
    })
}

const PATH: &str = "path:load=up,idle=8s,hold=15s";

/// A slow line in a chain of three: the queue is on it, and as long as the emulator says.
fn path(chain: &'static str, rate: f64, queue: &str, hop: f64) -> Cell {
    let line = Line::up(rate, queue).chain(chain);
    let waits = phase(&line);
    let truths = vec![
        near(&["queue_hop_up"], hop, 0.0),
        seen(&["queue_up_ms"], waits, 0.1, 0.5 * PACKET_BITS * 1e3 / rate),
        near(&["icmp_favoured_up"], 0.0, 0.0),
    ];
    Cell::link(PATH, line, truths)
}

fn path_v6(chain: &'static str, rate: f64, queue: &str, hop: f64) -> Cell {
    let cell = path(chain, rate, queue, hop);
    let line = Line::up(rate, queue).chain(chain).v6();
    Cell {
        on: On::Link(line),
        ..cell
    }
}

/// Behind fair queueing nobody else's packets wait anywhere.
fn nowhere(chain: &'static str, rate: f64, queue: &str) -> Cell {
    let truth = Truth {
        at: At::Figures(&["queue_hop_up"]),
        is: Is::CannotTell,
    };
    Cell::link(PATH, Line::up(rate, queue).chain(chain), vec![truth])
}

/// BFind: what a load adds in all.
fn bfind(rate: f64, queue: &str) -> Cell {
    let line = Line::up(rate, queue);
    let waits = phase(&line);
    let half = 0.5 * PACKET_BITS * 1e3 / rate;
    Cell::link(PATH, line, vec![seen(&["added_up_ms"], waits, 0.1, half)])
}

/// Behind fair queueing others' packets wait for the one in transmission and, where four flows of a load are as new as
/// they, for one of each.
fn bfind_fair(rate: f64, queue: &str) -> Cell {
    let packet_ms = PACKET_BITS * 1e3 / rate;
    let truths = vec![between(&["added_up_ms"], 0.0, 2.0 * packet_ms)];
    Cell::link(PATH, Line::up(rate, queue), truths)
}

/// A queue with a way past it for what is marked.
fn favoured(what: &str, plants: Vec<Plant>, is: f64) -> Cell {
    let line = Line::up(2e6, "prio:rest=fifo,limit=40").down(20e6, "fifo:bytes=200000");
    let truths = vec![near(&["icmp_favoured_up"], is, 0.0)];
    Cell::network(PATH, line, (what, plants), truths)
}

/// When the rounds ran, without a second upload or beside one; after a second, in which the queue fills.
fn rounds(recording: &Recording, beside: bool) -> Vec<(i64, i64)> {
    let notes = CollapseNote::all_of(recording).map(|n| n.1);
    let rounds = notes.filter_map(|n| match n {
        CollapseNote::Round(round) => Some(round),
        _ => None,
    });
    let spans = rounds.flat_map(|r| match (r.second, beside) {
        (None, false) => vec![(r.began_ns, r.ended_ns)],
        (None, true) => Vec::new(),
        (Some((from, to)), false) => vec![(r.began_ns, from), (to, r.ended_ns)],
        (Some(second), true) => vec![second],
    });
    spans.collect()
}

/// An upload's packets take the line's round trip, their own time on the line, and what the emulator's packets wait
/// meanwhile. Its ACK may wait for one packet more (RFC 9293, section 3.8.6.3).
pub fn collapse(line: Line) -> Cell {
    let packet_ms = PACKET_BITS * 1e3 / line.rate;
    let base = 2.0 * line.delay_ms;
    let waits = |beside: bool| -> Sample {
        Box::new(move |r| Ok(base + packet_ms + median(sojourns(r, "up", &rounds(r, beside)))?))
    };
    let truths = vec![
        seen(&["alone_ms"], waits(false), 0.1, packet_ms),
        seen(&["beside_ms"], waits(true), 0.1, packet_ms),
        // The least is of a packet without data.
        near(&["base_ms"], base + 60.0 * 8e3 / line.rate, 1.0),
    ];
    Cell::link(
        "collapse:rounds=2,duration=12 s,lead=3 s,rest=1 s",
        line,
        truths,
    )
}

pub fn all() -> Vec<Cell> {
    let mut all = Vec::new();
    for (rate, short, long) in [
        (2e6, "fifo:packets=10", "fifo:packets=100"),
        (20e6, "fifo:packets=20", "fifo:packets=200"),
        (100e6, "fifo:packets=80", "fifo:packets=800"),
    ] {
        all.push(tcp(Line::up(rate, short)));
        all.extend([long, "codel", "fq_codel", "pie"].map(|q| tcp_full(rate, q)));
        all.extend([long, "fq_codel"].map(|q| tcp_down(rate, q)));
    }
    all.extend([
        shaping(1e6, 300.0),
        shaping(8e6, 150.0),
        shaping(50e6, 80.0),
    ]);
    let fifty = "fifo:packets=50";
    for rate in [2e6, 10e6] {
        all.extend(["fifo:packets=20", "fifo:packets=100", "codel", "pie"].map(|q| bfind(rate, q)));
        all.push(bfind_fair(rate, "fq_codel"));
    }
    all.extend([
        path("@,fiber,fiber", 2e6, fifty, 1.0),
        path("fiber,@,fiber", 2e6, fifty, 2.0),
        path("fiber,fiber,@", 2e6, fifty, 3.0),
        path("fiber,@,fiber", 20e6, fifty, 2.0),
        path_v6("fiber,@,fiber", 2e6, fifty, 2.0),
        nowhere("fiber,@,fiber", 20e6, "fq_codel"),
        favoured("", Vec::new(), 0.0),
        favoured(
            "ICMP goes first",
            vec![Plant::NearRules(planted::ICMP_FIRST.into())],
            1.0,
        ),
    ]);
    for rate in [2e6, 10e6] {
        all.extend(
            ["fifo:packets=20", "fifo:packets=100", "codel", "fq_codel"]
                .map(|q| collapse(Line::up(rate, q))),
        );
    }
    all
}
