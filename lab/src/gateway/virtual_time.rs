//! Runs in virtual time: the gateway of the simulator with the kernel's side of `tailback control`.

use super::family::{Draw, Family, HALVED_S, UPLOAD_S};
use super::{Figures, OURS, above_ms};
use base::record::Row;
use base::{Duration, Time};
use link::rate::Rate;
use sim::Draft;
use testkit::networks::house::{Seen, wait_ms};

/// Begin of the upload, s.
const BEGIN_S: u32 = 6;

/// Figures of a link without control and under each law.
///
/// # Errors
/// A scenario that cannot be run.
pub fn figures(draw: &Draw) -> anyhow::Result<Vec<Figures>> {
    let mut all = vec![figures_of(draw, "off", None)?];
    for law in OURS {
        all.push(figures_of(draw, law, Some(law))?);
    }
    Ok(all)
}

fn figures_of(draw: &Draw, name: &'static str, law: Option<&str>) -> anyhow::Result<Figures> {
    let modem = &draw.modem;
    let control = law.map_or(String::new(), |law| {
        format!("[control]\nhost = \"kernel\"\n[control.upload]\nlaw = \"{law}\"\ncapacity = \"{:.0} bit/s\"\n", draw.train)
    });
    let text = format!(
        "duration = \"{end} s\"\ntopology = \"linear\"\n\
         [sample]\nqueue = \"5 ms\"\n\
         [link]\nrate = {rate}\ndelay = \"{delay:.3} ms\"\nqueue = \"fifo:bytes={buffer:.0}\"\n\
         [reverse]\nrate = \"{down:.0} bit/s\"\ndelay = \"{delay:.3} ms\"\n\
         [tcp]\ncontroller = \"cubic:variant=linux,hystart=classic\"\n{control}\
         [[flow]]\nkind = \"probe\"\nsize = \"120 B\"\ngap = \"20 ms\"\n\
         [[flow]]\nkind = \"bulk\"\nstart = \"{BEGIN_S} s\"\nstagger = \"1 ms\"\ncount = {flows}\n",
        end = BEGIN_S + UPLOAD_S,
        rate = modem.rate,
        delay = modem.delay_ms,
        buffer = modem.buffer,
        down = modem.down,
        flows = draw.flows,
    );
    let scenario = Draft::new(&text)?.finish()?;
    let rate = rate(draw)?;
    let began_ns = sim::run::began_ns(&scenario);
    let mut samples = Vec::new();
    let (mut first, mut last) = (None, (0.0, 0));
    let mut take = |row: Row| {
        if let Row::Queue(q) = row
            && &*q.queue == "link"
        {
            let at = Duration::from_nanos((q.t_ns - began_ns) as u64);
            let since_s = at.as_secs_f64() - f64::from(BEGIN_S);
            if since_s >= 0.0 {
                samples.push((since_s, wait_ms(&rate, at, q.backlog_bytes as f64)));
            }
            if since_s >= 3.0 {
                first.get_or_insert((at.as_secs_f64(), q.delivered_bytes));
                last = (at.as_secs_f64(), q.delivered_bytes);
            }
        }
    };
    sim::run::run(
        &scenario,
        draw.seed ^ draw.number,
        Some(&mut take),
        &mut |_: Time| true,
    )?;
    let first = first.unwrap_or(last);
    let span = |s: f64| Duration::from_secs_f64(s);
    let capacity = rate.mean_between(span(first.0), span(last.0)).get() as f64;
    let used = (last.1 - first.1) as f64 * 8.0 / (last.0 - first.0) / capacity;
    let halved = draw.family == Family::Halved;
    Ok(Figures {
        control: name,
        seen: Seen::of(used, &samples),
        above_ms: halved.then(|| above_ms(&samples, HALVED_S - f64::from(BEGIN_S))),
        cost: None,
    })
}

/// Rate of the link over time.
fn rate(draw: &Draw) -> anyhow::Result<Rate> {
    let text = format!(
        "name = \"drawn\"\ntitle = \"drawn\"\n[up]\nrate = {}\n[down]\nrate = \"1 Mbit/s\"\n",
        draw.modem.rate
    );
    Ok(link::LinkSpec::parse(&text)?.up.params()?.rate)
}
