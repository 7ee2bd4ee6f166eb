//! Hours of a household behind a drawn link, in virtual time: people who upload, store backups, read pages and talk, not one
//! load from begin to end. Long runs meet what short ones do not: bases that age, routes that change, loads that come and
//! go.

use crate::chance::Chance;
use base::record::Row;
use base::{Duration, Time};
use sim::Draft;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::networks::house::wait_ms;

/// Length of a run, s, and the span that is judged at once.
const HOUR_S: u32 = 3600;
const SPAN_S: f64 = 1.0;
/// Time between two samples of the queue, ms.
const SAMPLE_MS: u32 = 20;
/// Part of the capacity from which a second counts as loaded.
const LOADED: f64 = 0.7;

/// Kinds of link.
const FAMILIES: [&str; 4] = ["fixed", "lte", "leo", "docsis"];
/// Control of an hour; one in ten is without, for comparison.
const LAWS: [&str; 2] = ["sawtooth", "pie"];
const UNCONTROLLED: u64 = 10;

/// Link of an hour and its scenario.
struct Draw {
    number: u64,
    family: &'static str,
    law: Option<&'static str>,
    rate: String,
    text: String,
    says: String,
}

/// Figures of an hour.
struct Hour {
    family: &'static str,
    law: Option<&'static str>,
    says: String,
    number: u64,
    /// Seconds loaded, and the use of the capacity in them.
    loaded_s: f64,
    used: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    /// Time above 60 ms beside the time loaded.
    above: f64,
    /// Error of the estimated wait, RMSE, while it is known; and the part of the time in which it is not.
    error_ms: f64,
    blind: f64,
}

/// Runs the hours on all cores and prints a table.
///
/// # Errors
/// A scenario that cannot be run.
pub fn run(seed: u64, hours: Range<u64>, verbose: bool) -> anyhow::Result<()> {
    let next = AtomicU64::new(hours.start);
    let done = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let worker = || -> anyhow::Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= hours.end {
                    return Ok(());
                }
                let hour = figures(seed, &draw(seed, number))?;
                if verbose {
                    eprintln!("{}", hour.line());
                }
                done.lock().expect("nobody panicked").push(hour);
            }
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|w| w.join().expect("no panic"))
    })?;
    let mut all = done.into_inner()?;
    all.sort_by_key(|h| h.number);
    print!(
        "\n{} hours of a household, virtual time:\n\n{}",
        all.len(),
        table(&all)
    );
    let worst = all
        .iter()
        .filter(|h| h.law.is_some())
        .max_by(|a, b| a.p95_ms.total_cmp(&b.p95_ms));
    if let Some(worst) = worst {
        println!("\nLongest p95: {}", worst.line());
    }
    Ok(())
}

fn draw(seed: u64, number: u64) -> Draw {
    let mut chance = Chance::new(seed, &format!("hours/{number}"));
    let family = FAMILIES[(number % 4) as usize];
    let law = match number / 4 % UNCONTROLLED {
        0 => None,
        n => Some(LAWS[(n % 2) as usize]),
    };
    let mean = chance.log(2e6, 20e6);
    let rate = match family {
        "lte" => walk(&mut chance, mean, 600, 100, 60),
        "leo" => walk(&mut chance, mean, 20, 15_000, 300),
        _ => format!("\"{mean:.0} bit/s\""),
    };
    let delay_ms = match family {
        "lte" => chance.log(15.0, 35.0),
        "leo" => chance.log(10.0, 25.0),
        _ => chance.log(4.0, 20.0),
    };
    let more = match family {
        "lte" => "jitter = \"normal:mean=2ms,sd=2ms\"\n",
        "leo" => {
            "drift = \"slots:slot=15s,first=12s,most=15ms\"\njitter = \"normal:mean=2ms,sd=1ms\"\n"
        }
        "docsis" => "jitter = \"uniform:width=6ms\"\n",
        _ => "",
    };
    let buffer = mean / 8.0 * chance.log(0.3, 1.5);
    let down = mean * chance.log(2.0, 10.0);
    let control = law.map_or(String::new(), |law| {
        let train = mean * chance.uniform(0.9, 1.1);
        format!(
            "[control]\nhost = \"kernel\"\n[control.upload]\nlaw = \"{law}\"\ncapacity = \"{train:.0} bit/s\"\n"
        )
    });
    // Uploads of some seconds to a minute, so that the link is loaded for a quarter to a half of the hour.
    let people = chance.pick(&[1, 2, 4]);
    let transfer = mean / 8.0 * chance.log(3.0, 30.0);
    let think_s = f64::from(people) * transfer * 8.0 / mean * chance.uniform(1.0, 3.0);
    let ms = SAMPLE_MS;
    let text = format!(
        "duration = \"{HOUR_S} s\"\ntopology = \"linear\"\n[sample]\nqueue = \"{ms} ms\"\n\
         [link]\nrate = {rate}\ndelay = \"{delay_ms:.2} ms\"\nqueue = \"fifo:bytes={buffer:.0}\"\n{more}\
         [reverse]\nrate = \"{down:.0} bit/s\"\ndelay = \"{delay_ms:.2} ms\"\n{control}\
         [[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"50 ms\"\n\
         [[flow]]\nkind = \"transfers\"\ncount = {people}\nspread = \"1 min\"\nsize = \"{transfer:.0} B\"\nthink = \"{think_s:.1} s\"\n\
         [[flow]]\nkind = \"backup\"\n\
         [[flow]]\nkind = \"web\"\ncount = 2\nbackwards = true\n\
         [[flow]]\nkind = \"call\"\nstart = \"10 min\"\nstop = \"20 min\"\nmost = \"1 Mbit/s\"\n"
    );
    let says = format!(
        "{:.1} Mbit/s, {delay_ms:.0} ms each way, {people} people, buffer {:.0} kB",
        mean * 1e-6,
        buffer * 1e-3
    );
    Draw {
        number,
        family,
        law,
        rate,
        text,
        says,
    }
}

/// Rate that wanders about its mean, in so many steps, again and again.
fn walk(chance: &mut Chance, mean: f64, steps: u32, step_ms: u32, repeat_s: u32) -> String {
    let mut level: f64 = 0.0;
    let mut out = String::from("{ steps = [");
    for i in 0..steps {
        let normal = (0..12).map(|_| chance.unit()).sum::<f64>() - 6.0;
        // A deviation of a third, correlated over half a second or three slots.
        level = 0.8 * level + 0.2 * normal;
        let rate = mean * 2f64.powf(level) * chance.uniform(0.9, 1.1);
        let at = i * step_ms;
        let _ = write!(out, "{{ at = \"{at} ms\", rate = \"{rate:.0} bit/s\" }}, ");
    }
    let _ = write!(out, "], repeat = \"{repeat_s} s\" }}");
    out
}

fn figures(seed: u64, draw: &Draw) -> anyhow::Result<Hour> {
    let scenario = Draft::new(&draw.text)?.finish()?;
    let spec = format!(
        "name = \"drawn\"\ntitle = \"drawn\"\n[up]\nrate = {}\n[down]\nrate = \"1 Mbit/s\"\n",
        draw.rate
    );
    let rate = link::LinkSpec::parse(&spec)?.up.params()?.rate;
    let began_ns = sim::run::began_ns(&scenario);
    let at = |t_ns: i64| Duration::from_nanos(u64::try_from(t_ns - began_ns).unwrap_or(0));
    let mut second = Second::default();
    let mut waits: Vec<f64> = Vec::new();
    let (mut loaded_s, mut carried, mut capacity) = (0.0, 0.0, 0.0);
    let mut take = |row: Row| match row {
        Row::Queue(q) if &*q.queue == "link" => {
            let now = at(q.t_ns);
            let wait = wait_ms(&rate, now, q.backlog_bytes as f64);
            second.waits.push(wait);
            let from = *second.from.get_or_insert((now, q.delivered_bytes));
            if (now - from.0).as_secs_f64() >= SPAN_S {
                let bits = (q.delivered_bytes - from.1) as f64 * 8.0;
                let could =
                    rate.mean_between(from.0, now).get() as f64 * (now - from.0).as_secs_f64();
                if bits > LOADED * could {
                    loaded_s += (now - from.0).as_secs_f64();
                    (carried, capacity) = (carried + bits, capacity + could);
                    waits.append(&mut second.waits);
                }
                second = Second {
                    from: Some((now, q.delivered_bytes)),
                    waits: Vec::new(),
                };
            }
        }
        _ => {}
    };
    let outcome = sim::run::run(
        &scenario,
        seed ^ draw.number,
        Some(&mut take),
        &mut |_: Time| true,
    )?;
    let control = outcome.control;
    waits.sort_by(f64::total_cmp);
    let part = |p: f64| {
        waits
            .get((p * waits.len() as f64) as usize)
            .copied()
            .unwrap_or(0.0)
    };
    let long = waits.len() - waits.partition_point(|w| *w <= 60.0);
    Ok(Hour {
        family: draw.family,
        law: draw.law,
        says: draw.says.clone(),
        number: draw.number,
        loaded_s,
        used: carried / capacity.max(1.0),
        p50_ms: part(0.5),
        p95_ms: part(0.95),
        p99_ms: part(0.99),
        above: long as f64 / waits.len().max(1) as f64,
        error_ms: control.as_ref().and_then(|c| c.wait_rmse_ms).unwrap_or(0.0),
        blind: control.as_ref().map_or(0.0, |c| c.blind),
    })
}

/// Second under way: its begin with the bytes delivered, and its waits in ms.
#[derive(Default)]
struct Second {
    from: Option<(Duration, i64)>,
    waits: Vec<f64>,
}

impl Hour {
    fn line(&self) -> String {
        format!(
            "hour {}, {}, {}, {}: {:.0} s loaded, use {:.1} %, p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms, {:.2} % above 60 ms, error {:.1} ms, blind {:.2} %",
            self.number,
            self.family,
            self.law.unwrap_or("off"),
            self.says,
            self.loaded_s,
            100.0 * self.used,
            self.p50_ms,
            self.p95_ms,
            self.p99_ms,
            100.0 * self.above,
            self.error_ms,
            100.0 * self.blind
        )
    }
}

fn table(all: &[Hour]) -> String {
    let mut out = String::from(
        "| links | control | hours | loaded, s: median | use in loaded seconds: median, least | p50: median, longest | p95: median, longest | time above 60 ms | error of the wait, RMSE: median, largest | blind |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for family in FAMILIES {
        for law in [None, Some(LAWS[0]), Some(LAWS[1])] {
            let these: Vec<&Hour> = (all.iter())
                .filter(|h| h.family == family && h.law == law && h.loaded_s > 0.0)
                .collect();
            if these.is_empty() {
                continue;
            }
            let sorted = |f: fn(&Hour) -> f64| {
                let mut values: Vec<f64> = these.iter().map(|h| f(h)).collect();
                values.sort_by(f64::total_cmp);
                (
                    values[0],
                    values[values.len() / 2],
                    values[values.len() - 1],
                )
            };
            let (used, p50, p95) = (
                sorted(|h| 100.0 * h.used),
                sorted(|h| h.p50_ms),
                sorted(|h| h.p95_ms),
            );
            let loaded: f64 = these.iter().map(|h| h.loaded_s).sum();
            let above: f64 = these.iter().map(|h| h.above * h.loaded_s).sum();
            let blind: f64 = these.iter().map(|h| h.blind).sum();
            let error = sorted(|h| h.error_ms);
            // Without control nothing is estimated.
            let estimate = match law {
                None => " | ".to_owned(),
                Some(_) => format!(
                    "{:.1}, {:.1} ms | {:.2} %",
                    error.1,
                    error.2,
                    100.0 * blind / these.len() as f64
                ),
            };
            let _ = writeln!(
                out,
                "| {family} | {} | {} | {:.0} | {:.1}, {:.1} % | {:.1}, {:.1} ms | {:.1}, {:.1} ms | {:.2} % | {estimate} |",
                law.unwrap_or("off"),
                these.len(),
                sorted(|h| h.loaded_s).1,
                used.1,
                used.0,
                p50.1,
                p50.2,
                p95.1,
                p95.2,
                100.0 * above / loaded,
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three hours: in the first downloads end while uploads begin, as if the server's clock were set; in the second a route
    /// becomes longer while next to nothing is sent; in the third an upload ends just then. Each once led the capacity astray,
    /// by five times and more.
    #[test]
    fn the_wait_stays_known_for_an_hour() {
        for number in [8, 78, 410] {
            let hour = figures(20261127, &draw(20261127, number)).expect("it runs");
            let said = hour.line();
            assert!(hour.error_ms < 8.0 && hour.blind < 0.001, "{said}");
            assert!(hour.used > 0.93 && hour.above < 0.01, "{said}");
        }
    }
}
