//! Latency control at a gateway over random links in virtual time, beside no control.

use base::record::Row;
use base::rng::{Rng, Streams, uniform};
use sim::{Draft, Outcome};

const SEED: u64 = 20_261_123;

struct Draw {
    text: String,
    shown: String,
}

fn log(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(rng))
}

/// Rate of a cellular link in steps of 100 ms: a random walk with jitter.
fn cellular(rng: &mut Rng) -> String {
    let mut rate = log(rng, 4e6, 20e6);
    let step = |i: u32, rng: &mut Rng, rate: &mut f64| {
        if i.is_multiple_of(5) {
            let normal: f64 = (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0;
            *rate = (*rate * 2f64.powf(0.35 * normal)).clamp(2e6, 30e6);
        }
        let now = *rate * (0.85 + 0.3 * uniform(rng));
        format!("{{ at = \"{} ms\", rate = \"{now:.0} bit/s\" }}", 100 * i)
    };
    let steps: Vec<String> = (0..400).map(|i| step(i, rng, &mut rate)).collect();
    format!("{{ steps = [{}] }}", steps.join(", "))
}

fn draw(number: u64, varying: bool) -> Draw {
    let mut rng = Streams::new(SEED).stream(&format!("control/{varying}/{number}"));
    let rate = log(&mut rng, 2e6, 100e6);
    let delay_ms = log(&mut rng, 4.0, 25.0);
    let flows = [1, 1, 2, 4, 16][(5.0 * uniform(&mut rng)) as usize];
    let buffer = rate / 8.0 * log(&mut rng, 0.3, 2.0);
    let law = ["pie", "sawtooth"][usize::from(!varying && number % 2 == 1)];
    let link = if varying {
        cellular(&mut rng)
    } else {
        format!("\"{rate:.0} bit/s\"")
    };
    // One short flow shows the base RTT before the load begins, as in a house.
    let text = format!(
        "duration = \"40 s\"\nwarmup = \"8 s\"\ntopology = \"linear\"\n\
         [link]\nrate = {link}\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={buffer:.0}\"\n\
         [reverse]\nrate = \"200 Mbit/s\"\ndelay = \"{delay_ms:.2} ms\"\n\
         [control.upload]\nlaw = \"{law}\"\ntarget = \"20 ms\"\n\
         [[flow]]\nkind = \"bulk\"\nstop = \"300 ms\"\n\
         [[flow]]\nkind = \"bulk\"\nstart = \"1 s\"\ncount = {flows}\n"
    );
    let shown = format!(
        "{law} {} RTT {:.0} ms, {flows} flows, buffer {:.0} kB",
        if varying {
            "cellular".to_owned()
        } else {
            format!("{:.1} Mbit/s", rate / 1e6)
        },
        2.0 * delay_ms,
        buffer / 1e3
    );
    Draw { text, shown }
}

fn run(text: &str, controlled: bool) -> Outcome {
    let mut scenario = Draft::new(text).unwrap().finish().unwrap();
    if !controlled {
        scenario.control = None;
    }
    sim::run::run(&scenario, SEED, None, &mut |_| true).unwrap()
}

#[test]
fn a_fixed_link_keeps_its_rate_with_a_short_queue() {
    let mut faults = Vec::new();
    for number in 0..24 {
        let Draw { text, shown } = draw(number, false);
        let (off, on) = (run(&text, false), run(&text, true));
        let (before, after) = (&off.links[0], &on.links[0]);
        let control = on.control.as_ref().unwrap();
        let (rmse, capacity) = (
            control.wait_rmse_ms.unwrap(),
            control.capacity_rmse.unwrap_or(1.0),
        );
        println!(
            "{number} {shown}: use {:.1} -> {:.1} %, p95 {:.0} -> {:.1} ms, wait error {rmse:.1} ms, capacity {:.1} %",
            100.0 * before.utilisation,
            100.0 * after.utilisation,
            before.queue_ms.p95,
            after.queue_ms.p95,
            100.0 * capacity
        );
        let good = after.utilisation >= 0.95
            && after.queue_ms.p95 <= 55.0
            && rmse <= 10.0
            && capacity <= 0.03;
        if !good || before.queue_ms.p95 < 100.0 {
            faults.push(shown);
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_cellular_link_keeps_nine_tenths_of_its_rate_below_60_ms() {
    let (mut good, mut all) = (0, 0);
    for number in 0..16 {
        let Draw { text, shown } = draw(number, true);
        let (off, on) = (run(&text, false), run(&text, true));
        let (before, after) = (&off.links[0], &on.links[0]);
        println!(
            "{number} {shown}: use {:.1} -> {:.1} %, p95 {:.0} -> {:.1} ms, {:?}",
            100.0 * before.utilisation,
            100.0 * after.utilisation,
            before.queue_ms.p95,
            after.queue_ms.p95,
            on.control
        );
        all += 1;
        good +=
            u32::from(after.utilisation >= 0.9 * before.utilisation && after.queue_ms.p95 <= 60.0);
    }
    assert!(10 * good >= 9 * all, "{good} of {all}");
}
/// Link whose rate halves at 8 s, under the kernel's host.
fn halved(number: u64, law: &str) -> (String, f64) {
    let mut rng = Streams::new(SEED).stream(&format!("control/halved/{number}"));
    let rate = log(&mut rng, 4e6, 100e6);
    let delay_ms = log(&mut rng, 4.0, 25.0);
    let flows = [1, 1, 2, 4, 16][(5.0 * uniform(&mut rng)) as usize];
    let buffer = rate / 8.0 * log(&mut rng, 0.5, 2.0);
    let train = rate * (0.9 + 0.2 * uniform(&mut rng));
    let text = format!(
        "duration = \"13 s\"\ntopology = \"linear\"\n[sample]\nqueue = \"5 ms\"\n\
         [link]\nrate = {{ steps = [{{ at = \"0 s\", rate = \"{rate:.0} bit/s\" }}, \
         {{ at = \"8 s\", rate = \"{:.0} bit/s\" }}] }}\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={buffer:.0}\"\n\
         [reverse]\nrate = \"200 Mbit/s\"\ndelay = \"{delay_ms:.2} ms\"\n\
         [tcp]\ncontroller = \"cubic:variant=linux,hystart=classic\"\n\
         [control]\nhost = \"kernel\"\n[control.upload]\nlaw = \"{law}\"\ncapacity = \"{train:.0} bit/s\"\n\
         [[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"20 ms\"\n\
         [[flow]]\nkind = \"bulk\"\nstart = \"1 s\"\nstagger = \"1 ms\"\ncount = {flows}\n",
        rate / 2.0
    );
    (text, rate)
}

/// Time that the queue of this scenario stands above 40 ms once the rate has halved, ms.
fn above_ms(text: &str, rate: f64, seed: u64) -> f64 {
    let scenario = Draft::new(text).unwrap().finish().unwrap();
    let began = sim::run::began_ns(&scenario);
    let mut long = 0;
    let mut take = |row: Row| {
        if let Row::Queue(q) = row
            && &*q.queue == "link"
            && q.t_ns - began >= 8_000_000_000
        {
            long += u32::from(q.backlog_bytes as f64 * 8e3 / (rate / 2.0) > 40.0);
        }
    };
    sim::run::run(&scenario, seed, Some(&mut take), &mut |_| true).unwrap();
    5.0 * f64::from(long)
}

#[test]
fn a_rate_that_halves_is_met_within_300_ms() {
    let (mut all, mut faults) = (Vec::new(), Vec::new());
    for number in 0..40 {
        for law in ["sawtooth", "pie"] {
            let (text, rate) = halved(number, law);
            let above = above_ms(&text, rate, SEED ^ number);
            all.push(above);
            let line = format!("{number} {law} {:.1} Mbit/s: {above:.0} ms", rate * 1e-6);
            println!("{line}");
            if above > 300.0 {
                faults.push(line);
            }
        }
    }
    all.sort_by(f64::total_cmp);
    println!(
        "median {:.0} ms, longest {:.0} ms",
        all[all.len() / 2],
        all[all.len() - 1]
    );
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

/// Download over a link of one rate to a gateway behind it.
struct Download {
    text: String,
    shown: String,
    rate: f64,
    /// Time that two packets of each flow take, ms: TCP sends no less.
    least_ms: f64,
}

fn download(number: u64) -> Download {
    let mut rng = Streams::new(SEED).stream(&format!("control/download/{number}"));
    let rate = log(&mut rng, 4e6, 100e6);
    let delay_ms = log(&mut rng, 4.0, 25.0);
    let flows = [1, 1, 2, 4, 16][(5.0 * uniform(&mut rng)) as usize];
    let buffer = rate / 8.0 * log(&mut rng, 0.5, 2.0);
    let text = format!(
        "duration = \"30 s\"\nwarmup = \"6 s\"\ntopology = \"linear\"\n[sample]\nqueue = \"5 ms\"\n\
         [link]\nrate = \"{rate:.0} bit/s\"\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={buffer:.0}\"\n\
         [reverse]\nrate = \"200 Mbit/s\"\ndelay = \"{delay_ms:.2} ms\"\n\
         [tcp]\ncontroller = \"cubic:variant=linux,hystart=classic\"\n\
         [control]\nhost = \"kernel\"\n[control.download]\n\
         [[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"20 ms\"\n\
         [[flow]]\nkind = \"bulk\"\nstart = \"1 s\"\nstagger = \"1 ms\"\ncount = {flows}\n",
    );
    let shown = format!(
        "{:.1} Mbit/s, RTT {:.0} ms, {flows} flows, buffer {:.0} kB",
        rate * 1e-6,
        2.0 * delay_ms,
        buffer * 1e-3
    );
    Download {
        text,
        shown,
        rate,
        least_ms: 2.0 * 12e6 * f64::from(flows) / rate,
    }
}

/// Outcome of a run, and the longest backlog of its link in bytes, the start included.
fn run_with_peak(text: &str) -> (Outcome, i64) {
    let scenario = Draft::new(text).unwrap().finish().unwrap();
    let mut peak = 0;
    let mut take = |row: Row| {
        if let Row::Queue(q) = row
            && &*q.queue == "link"
        {
            peak = peak.max(q.backlog_bytes);
        }
    };
    let outcome = sim::run::run(&scenario, SEED, Some(&mut take), &mut |_| true).unwrap();
    (outcome, peak)
}

#[test]
fn a_download_keeps_its_rate_with_a_short_queue_at_the_provider() {
    let (mut uses, mut waits, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    let mut faults = Vec::new();
    for number in 0..40 {
        let Download {
            text,
            shown,
            rate,
            least_ms,
        } = download(number);
        let off = run(&text, false);
        let (on, peak) = run_with_peak(&text);
        let (before, after) = (&off.links[0], &on.links[0]);
        let peak_ms = peak as f64 * 8e3 / rate;
        println!(
            "{number} {shown}: use {:.1} -> {:.1} %, p95 {:.0} -> {:.1} ms, peak {peak_ms:.0} ms",
            100.0 * before.utilisation,
            100.0 * after.utilisation,
            before.queue_ms.p95,
            after.queue_ms.p95,
        );
        // Flows whose two packets each take longer than the target hold the queue themselves.
        let crowded = least_ms > 50.0;
        if after.utilisation < 0.95 || (after.queue_ms.p95 > 40.0 && !crowded) {
            faults.push(shown);
        }
        if !crowded {
            uses.push(100.0 * after.utilisation);
            waits.push(after.queue_ms.p95);
            peaks.push(peak_ms);
        }
    }
    for (name, all) in [
        ("use", &mut uses),
        ("p95", &mut waits),
        ("peak", &mut peaks),
    ] {
        all.sort_by(f64::total_cmp);
        let (least, median, most) = (all[0], all[all.len() / 2], all[all.len() - 1]);
        println!("{name}: least {least:.1}, median {median:.1}, most {most:.1}");
    }
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}

#[test]
fn a_gateway_stands_on_one_side_of_the_link_and_behind_it_needs_probes() {
    let refused = |control: &str| {
        let text = format!(
            "duration = \"1 s\"\ntopology = \"linear\"\n[link]\nrate = \"5 Mbit/s\"\n[reverse]\nrate = \"5 Mbit/s\"\n{control}"
        );
        let error = Draft::new(&text).unwrap().finish().err();
        error.map(|e| e.to_string()).unwrap_or_default()
    };
    let probe = "[[flow]]\nkind = \"probe\"\n";
    let kernel = "[control]\nhost = \"kernel\"\n";
    assert_eq!(refused(&format!("{kernel}[control.download]\n{probe}")), "");
    let both = refused(&format!(
        "{kernel}[control.upload]\n[control.download]\n{probe}"
    ));
    assert!(both.contains("either control.upload"), "{both}");
    let neither = refused(&format!("{kernel}{probe}"));
    assert!(neither.contains("either control.upload"), "{neither}");
    let packets = refused(&format!("[control.download]\n{probe}"));
    assert!(packets.contains("control.host = \"kernel\""), "{packets}");
    let blind = refused(&format!(
        "{kernel}[control.download]\n[[flow]]\nkind = \"bulk\"\n"
    ));
    assert!(blind.contains("probe"), "{blind}");
}

/// Upload beside downloads that nobody controls.
struct Both {
    text: String,
    shown: String,
    /// Scenario without control, whose own buffer holds 40 ms.
    shallow: String,
}

fn both(number: u64) -> Both {
    let mut rng = Streams::new(SEED).stream(&format!("control/both/{number}"));
    let (up, down) = (log(&mut rng, 3e6, 30e6), log(&mut rng, 3e6, 100e6));
    let delay_ms = log(&mut rng, 4.0, 25.0);
    let flows = [1, 1, 2, 4, 8][(5.0 * uniform(&mut rng)) as usize];
    let downs = [1, 2, 4][(3.0 * uniform(&mut rng)) as usize];
    let (buffer_s, buffer_down_s) = (log(&mut rng, 0.5, 2.0), log(&mut rng, 0.05, 0.5));
    let law = ["sawtooth", "pie"][usize::from(number % 2 == 1)];
    let train = up * (0.9 + 0.2 * uniform(&mut rng));
    let text = |buffer_s: f64| {
        format!(
            "duration = \"30 s\"\nwarmup = \"8 s\"\ntopology = \"linear\"\n\
             [link]\nrate = \"{up:.0} bit/s\"\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={:.0}\"\n\
             [reverse]\nrate = \"{down:.0} bit/s\"\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={:.0}\"\n\
             [tcp]\ncontroller = \"cubic:variant=linux,hystart=classic\"\n\
             [control]\nhost = \"kernel\"\n[control.upload]\nlaw = \"{law}\"\ncapacity = \"{train:.0} bit/s\"\n\
             [[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"20 ms\"\n\
             [[flow]]\nkind = \"bulk\"\nstart = \"1 s\"\nstagger = \"1 ms\"\ncount = {flows}\n\
             [[flow]]\nkind = \"bulk\"\nstart = \"2 s\"\nstagger = \"1 ms\"\nbackwards = true\ncount = {downs}\n",
            up / 8.0 * buffer_s,
            down / 8.0 * buffer_down_s,
        )
    };
    let shown = format!(
        "{law} {:.1} up, {:.1} Mbit/s down, RTT {:.0} ms, {flows} and {downs} flows, buffers {:.0} and {:.0} ms",
        up * 1e-6,
        down * 1e-6,
        2.0 * delay_ms,
        1e3 * buffer_s,
        1e3 * buffer_down_s,
    );
    Both {
        text: text(buffer_s),
        shown,
        shallow: text(0.04),
    }
}

/// ACKs of the upload wait in the download's queue, so no short queue fills the link: its use is compared with that of a
/// modem whose own buffer is short.
#[test]
fn an_upload_beside_downloads_keeps_a_short_queue() {
    let (mut faults, mut shares) = (Vec::new(), Vec::new());
    for number in 0..24 {
        let Both {
            text,
            shown,
            shallow,
        } = both(number);
        let (off, shallow, on) = (run(&text, false), run(&shallow, false), run(&text, true));
        let [before, shallow, after] = [&off, &shallow, &on].map(|o| &o.links[0]);
        let rmse = on.control.as_ref().unwrap().wait_rmse_ms.unwrap();
        let share = after.utilisation / shallow.utilisation;
        println!(
            "{number} {shown}: p95 {:.0} -> {:.1} ms, use {:.1} %, with a buffer of 40 ms {:.1} %, wait error {rmse:.1} ms",
            before.queue_ms.p95,
            after.queue_ms.p95,
            100.0 * after.utilisation,
            100.0 * shallow.utilisation,
        );
        shares.push(share);
        if after.queue_ms.p95 > 40.0 || rmse > 5.0 || share < 0.55 {
            faults.push(shown);
        }
    }
    shares.sort_by(f64::total_cmp);
    println!(
        "share of that use: least {:.2}, median {:.2}",
        shares[0], shares[12]
    );
    assert!(shares[12] > 0.9, "seed {SEED}: {shares:?}");
    assert!(faults.is_empty(), "seed {SEED}: {faults:#?}");
}
