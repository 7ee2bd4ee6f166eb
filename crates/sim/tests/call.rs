//! Video calls follow the link, over drawn links. `DRAWS=400` draws more.

use base::rng::{Streams, uniform};
use sim::{Draft, run};

/// Figures of the call on a drawn link, from the 30th second on.
#[derive(Debug)]
struct Seen {
    /// Share of the link, or of the call's own most if that is less.
    used: f64,
    wait_p95_ms: f64,
    loss: f64,
}

fn call(link: &str, flows: &str, of_bps: f64, seed: u64) -> Seen {
    let text = format!(
        "duration = \"90 s\"\nwarmup = \"30 s\"\n[link]\n{link}\n[[flow]]\nkind = \"call\"\n{flows}"
    );
    let scenario = Draft::new(&text).unwrap().finish().unwrap();
    let outcome = run(&scenario, seed, None, &mut |_| true).unwrap();
    let (flow, link) = (&outcome.flows[0], &outcome.links[0]);
    Seen {
        used: flow.throughput_bps.unwrap() / of_bps,
        wait_p95_ms: link.queue_ms.p95,
        loss: flow.loss.unwrap_or(0.0),
    }
}

fn draws() -> u64 {
    std::env::var("DRAWS").map_or(40, |n| n.parse().expect("DRAWS is a number"))
}

#[test]
fn a_call_alone_fills_the_link_and_keeps_its_queue_short() {
    let seed = 20261127;
    let mut draw = Streams::new(seed).stream("calls");
    let mut within = |low: f64, high: f64| low * (high / low).powf(uniform(&mut draw));
    for i in 0..draws() {
        let rate = within(300e3, 10e6);
        let (rtt_ms, buffer_ms) = (within(5.0, 200.0), within(50.0, 1000.0));
        let link = format!(
            "rate = \"{rate:.0} bit/s\"\ndelay = \"{:.2} ms\"\nqueue = \"fifo:bytes={:.0}\"",
            rtt_ms / 2.0,
            (rate * buffer_ms / 8e3).max(6000.0)
        );
        let seen = call(&link, "", rate.min(2.5e6), seed + i);
        let said = format!(
            "{:6.0} kbit/s, {rtt_ms:5.1} ms, buffer {buffer_ms:4.0} ms: {seen:?}",
            rate / 1e3
        );
        println!("{said}");
        // Carlucci et al. 2017 have 0.8 to 0.95 of the link and queues of tens of ms.
        assert!((0.75..1.02).contains(&seen.used), "{said}");
        assert!(seen.wait_p95_ms < 60.0 && seen.loss < 0.01, "{said}");
    }
}

#[test]
fn a_call_that_loses_every_fifth_packet_falls_to_its_least_rate_and_one_of_a_hundredth_does_not() {
    let link = |share| {
        format!("rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"random:probability={share}\"")
    };
    let many = call(&link(0.2), "", 2.5e6, 1);
    assert!(many.used < 0.05, "{many:?}");
    let few = call(&link(0.01), "", 2.5e6, 1);
    assert!(few.used > 0.9, "{few:?}");
}

#[test]
fn a_download_beside_it_takes_its_delay_and_not_all_of_its_rate() {
    let link = "rate = \"4 Mbit/s\"\ndelay = \"15 ms\"\nqueue = \"fifo:bytes=150000\"";
    let bulk = "[[flow]]\nkind = \"bulk\"\nstart = \"10 s\"";
    let seen = call(link, bulk, 2.5e6, 3);
    assert!(seen.wait_p95_ms > 150.0 && seen.used > 0.03, "{seen:?}");
    // Queues of their own give each its share, and the call its delay.
    let fair = link.replace("fifo:bytes=150000", "fq_codel");
    let fair = call(&fair, bulk, 2e6, 3);
    assert!(fair.used > 0.75, "{fair:?}");
}
