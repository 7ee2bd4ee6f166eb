//! Safety of the gateway with the kernel's side of `tailback control`, over random links in virtual time. The seed is
//! printed with each fault; DRAWS sets the number of links of each test.

use base::rng::{Rng, Streams, uniform};
use sim::{Draft, Outcome};

const SEED: u64 = 20_261_125;

fn draws(usual: u64) -> u64 {
    std::env::var("DRAWS").map_or(usual, |n| n.parse().expect("DRAWS is a number"))
}

fn log(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(rng))
}

fn run(text: &str, seed: u64) -> Outcome {
    let scenario = Draft::new(text).unwrap().finish().unwrap();
    sim::run::run(&scenario, seed, None, &mut |_| true).unwrap()
}

/// Link with rates and buffers of both directions, under that law.
fn links(up: f64, down: f64, delay_ms: f64, buffers_s: [f64; 2], law: &str) -> String {
    format!(
        "topology = \"linear\"\n\
         [link]\nrate = \"{up:.0} bit/s\"\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={:.0}\"\n\
         [reverse]\nrate = \"{down:.0} bit/s\"\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={:.0}\"\n\
         [control]\nhost = \"kernel\"\n[control.upload]\nlaw = \"{law}\"\n",
        up / 8.0 * buffers_s[0],
        down / 8.0 * buffers_s[1],
    )
}

const PROBES: &str = "[[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"20 ms\"\n";

fn law(rng: &mut Rng) -> &'static str {
    ["sawtooth", "pie"][usize::from(uniform(rng) < 0.5)]
}

#[test]
fn nothing_is_cut_up_for_a_queue_down() {
    let mut faults = Vec::new();
    for number in 0..draws(40) {
        let mut rng = Streams::new(SEED).stream(&format!("down/{number}"));
        let (down, delay_ms) = (log(&mut rng, 3e6, 60e6), log(&mut rng, 4.0, 25.0));
        let up = down * log(&mut rng, 0.2, 1.0);
        let links = links(up, down, delay_ms, [1.0, 1.0], law(&mut rng));
        // Beside the downloads, an upload of a tenth of the rate up in packets that may be cut.
        let rate = 0.1 * up;
        let flows = 1 + (4.0 * uniform(&mut rng)) as u32;
        let text = format!(
            "duration = \"12 s\"\n{links}{PROBES}\
             [[flow]]\nkind = \"poisson\"\nsize = \"1200 B\"\nrate = \"{rate:.0} bit/s\"\nstart = \"1 s\"\n\
             [[flow]]\nkind = \"bulk\"\nbackwards = true\nstart = \"2 s\"\ncount = {flows}\n"
        );
        let outcome = run(&text, SEED ^ number);
        let signals = outcome.control.expect("it acts").signals;
        if signals > 0 {
            faults.push(format!(
                "{number}: {signals} signals, {up:.0} up, {down:.0} down"
            ));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn an_upload_fills_the_link_and_its_queue_stays_short_as_the_kernel_forwards() {
    let mut faults = Vec::new();
    for number in 0..draws(30) {
        let mut rng = Streams::new(SEED).stream(&format!("up/{number}"));
        let (up, delay_ms) = (log(&mut rng, 3e6, 60e6), log(&mut rng, 4.0, 25.0));
        let law = law(&mut rng);
        let links = links(up, 200e6, delay_ms, [1.0, 0.2], law);
        let flows = [1, 2, 4][(3.0 * uniform(&mut rng)) as usize];
        let text = format!(
            "duration = \"20 s\"\nwarmup = \"6 s\"\n{links}{PROBES}\
             [[flow]]\nkind = \"bulk\"\nstart = \"2 s\"\ncount = {flows}\n"
        );
        let outcome = run(&text, SEED ^ number);
        let link = &outcome.links[0];
        let control = outcome.control.expect("it acts");
        let good = link.utilisation >= 0.95
            && link.queue_ms.p95 <= 55.0
            && control.wait_rmse_ms.is_some_and(|e| e <= 10.0)
            && control.distrusted == 0.0;
        if !good {
            faults.push(format!(
                "{number}: {law}, {:.1} Mbit/s, {delay_ms:.1} ms, {flows} flows: use {:.3}, p95 {:.1} ms, {control:?}",
                up * 1e-6,
                link.utilisation,
                link.queue_ms.p95
            ));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn nothing_is_cut_once_the_server_is_silent() {
    let mut faults = Vec::new();
    for number in 0..draws(20) {
        let mut rng = Streams::new(SEED).stream(&format!("silent/{number}"));
        let (up, delay_ms) = (log(&mut rng, 3e6, 60e6), log(&mut rng, 4.0, 25.0));
        let links = links(up, 200e6, delay_ms, [1.0, 0.2], law(&mut rng));
        let stopped = |s: u32| {
            let text = format!(
                "duration = \"{s} s\"\n{links}\
                 [[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"20 ms\"\nstop = \"6 s\"\n\
                 [[flow]]\nkind = \"bulk\"\nstart = \"2 s\"\n"
            );
            run(&text, SEED ^ number)
        };
        // One second of silence, and the RTT of the last answer.
        let (soon, late) = (stopped(8), stopped(14));
        let signals = |o: &Outcome| o.control.as_ref().expect("it acts").signals;
        if signals(&soon) == 0 || signals(&late) != signals(&soon) {
            faults.push(format!(
                "{number}: {} then {}",
                signals(&soon),
                signals(&late)
            ));
        }
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}
