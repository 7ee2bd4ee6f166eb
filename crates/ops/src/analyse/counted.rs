//! Traffic of a recording without probes, as a monitor without targets writes it.

use crate::host_load;
use crate::scan::{self, Contents, Source};
use crate::statistics::Ask;
use crate::{times, usage};
use analysis::counted::{COUNTED_VERSION, CountedTraffic, MOST, bin_ns};
use std::collections::BTreeSet;

/// Reads the traffic; `None` if no interface was counted.
///
/// # Errors
/// A recording that cannot be read, too many interfaces, an empty time range.
pub(super) fn counted(from: Source<'_>, ask: &Ask) -> anyhow::Result<Option<CountedTraffic>> {
    let seen = Contents::of(from)?;
    let (Some((first, last)), false) = (seen.span, seen.interfaces.is_empty()) else {
        return Ok(None);
    };
    let span = (ask.from_ns.unwrap_or(first), ask.to_ns.unwrap_or(last));
    if span.0 >= span.1 {
        return Err(usage("--from and --to leave nothing"));
    }
    if seen.interfaces.len() > MOST {
        return Err(usage(format!(
            "{} has {} interfaces, and at most {MOST} are analysed",
            from.display(),
            seen.interfaces.len()
        )));
    }
    let days = times::days(span.0, span.1, &ask.zone)?;
    let interfaces = host_load::interfaces(from, span, &days)?;
    let meta = scan::meta(from)?;
    let mut moments = scan::moments(from)?;
    moments.retain(|m| (span.0..=span.1).contains(&m.t_ns));
    Ok(Some(CountedTraffic {
        version: COUNTED_VERSION,
        title: meta.title,
        origin: meta.origin,
        complete: meta.complete,
        from_ns: span.0,
        to_ns: span.1,
        bin_s: bin_ns(span.0, span.1) as f64 / 1e9,
        interfaces,
        moments,
        host: host_load::samples(from, span)?.summary(),
        modem: host_load::modem(from, span)?,
        radios: host_load::radios(from, span, &[], &BTreeSet::new())?,
    }))
}
