//! `page`, at a site of ours that counts the connections it takes.

use crate::accuracy::cell::{At, Cell, Is, Plant, Sample, Truth, between, near, seen, share};
use crate::accuracy::kernel::sojourns;
use crate::accuracy::line::Line;
use base::noted::Noted;
use base::noted::page::{PageEnd, PageNote};
use base::record::Recording;
use live::emulate::FAR_V4;
use testkit::networks::site;

fn http(path: &str) -> String {
    format!("http://{FAR_V4}:{}/{path}", site::PORT)
}

fn h2(path: &str) -> String {
    format!("https://{FAR_V4}:{}/{path}", site::PORT + 1)
}

fn at_the_site(what: impl Into<String>) -> (String, Vec<Plant>) {
    (what.into(), vec![Plant::Site])
}

/// A browser opens six connections to a host over HTTP/1.1 and one over HTTP/2; for a single object it uses one.
fn counts(objects: u32, second: bool) -> Cell {
    let loads = 2;
    let (url, port, most) = match second {
        true => (h2(&objects.to_string()), site::PORT + 1, 1.0),
        false => (http(&objects.to_string()), site::PORT, 6.0),
    };
    let used = if objects == 1 { 1.0 } else { most };
    let truths = vec![
        near(&["requests"], f64::from(objects), 0.0),
        near(&["connections_used"], used, 0.0),
        Truth {
            at: At::Figures(&["connections_opened"]),
            is: Is::Counted {
                port,
                loads: f64::from(loads),
            },
        },
        near(&["failed"], 0.0, 0.0),
    ];
    let version = if second { "HTTP/2" } else { "HTTP/1.1" };
    Cell::network(
        format!("page:url={url},iterations=1,loads={loads},loaded=0,trust={{trust}}"),
        Line::up(100e6, "fifo:bytes=1MB").down(100e6, "fifo:bytes=1MB"),
        at_the_site(match objects {
            1 => format!("1 object over {version}"),
            n => format!("{n} objects over {version}"),
        }),
        truths,
    )
}

/// A large object takes its bytes at the line's rate, in packets of 1448 bytes of payload, and two round trips: one for the
/// connection, one for the request. A picture, which a browser need not read through: ten megabytes of text take it most of a
/// second without any line.
fn large(down: f64, delay_ms: f64) -> Cell {
    // Eight seconds, of which the browser's own tenths are little.
    let bytes = down.round();
    let ms = bytes * 8e3 / (down * 1448.0 / 1500.0) + 4.0 * delay_ms;
    let url = http(&format!("object/0?bytes={bytes}"));
    let line = Line::up(down / 4.0, "fifo:bytes=60000")
        .down(down, "fifo:bytes=100000")
        .delay(delay_ms);
    Cell::network(
        format!("page:url={url},iterations=1,loads=2,loaded=0"),
        line,
        at_the_site(format!("an object of {} MB", bytes / 1e6)),
        vec![share(&["idle_ms"], ms, 0.05)],
    )
}

/// Mean time of loads of the page on the idle line, ms.
fn idle_ms(recording: &Recording) -> Result<f64, String> {
    let loads = PageNote::all_of(recording).filter_map(|(_, n)| match n {
        PageNote::Load(load) if !load.loaded => match load.end {
            PageEnd::Loaded(loaded) => Some(loaded.load_ms),
            _ => None,
        },
        _ => None,
    });
    let all: Vec<f64> = loads.collect();
    match all.len() {
        0 => Err("no load on the idle link".into()),
        n => Ok(all.iter().sum::<f64>() / n as f64),
    }
}

/// When it was loaded beside the load.
fn beside(recording: &Recording) -> Vec<(i64, i64)> {
    let loads = PageNote::all_of(recording).filter_map(|(_, n)| match n {
        PageNote::Load(load) if load.loaded => Some((load.began_ns, load.ended_ns)),
        _ => None,
    });
    loads.collect()
}

/// Twenty objects over HTTP/1.1 are six ways up, one after the other: a connection and the page; then, on the first
/// connection, four objects, while the five others are set up and ask for three each. Each way up waits in the queue that the
/// upload fills, as long as the emulator says.
fn loaded(rate: f64, queue: &str) -> Cell {
    let waits: Sample = Box::new(|r| {
        let all = sojourns(r, "up", &beside(r));
        let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
        Ok(idle_ms(r)? + 6.0 * mean)
    });
    loaded_cell(rate, queue, seen(&["loaded_ms"], waits, 0.2, 0.0))
}

/// Behind fair queueing they wait for hardly more than the packet in transmission.
fn loaded_fair(rate: f64, queue: &str) -> Cell {
    loaded_cell(rate, queue, between(&["ratio"], 0.8, 1.5))
}

fn loaded_cell(rate: f64, queue: &str, truth: Truth) -> Cell {
    let url = http("20");
    let line = Line::up(rate, queue)
        .down(20e6, "fifo:bytes=200000")
        .delay(10.0);
    Cell::network(
        format!("page:url={url},iterations=2,loads=5,loaded=2,settle=4 s"),
        line,
        at_the_site("20 objects over HTTP/1.1 beside an upload"),
        vec![truth, near(&["failed"], 0.0, 0.0)],
    )
}

pub fn all() -> Vec<Cell> {
    let mut all = Vec::new();
    for second in [false, true] {
        all.extend([1, 20, 100].map(|n| counts(n, second)));
    }
    all.extend([
        large(2e6, 10.0),
        large(8e6, 10.0),
        large(20e6, 5.0),
        loaded(2e6, "fifo:bytes=64000"),
        loaded(4e6, "fifo:bytes=128000"),
        loaded_fair(2e6, "fq_codel"),
        loaded_fair(4e6, "fq_codel"),
    ]);
    all
}
