//! Plots of recordings of any length and origin, including weeks and years: one file per plot.

mod availability;
mod calendar;
mod cdf;
mod cells;
mod control;
mod daily;
mod heat;
mod host;
mod hosts;
mod material;
mod modem;
mod over_time;
mod page;
mod radio;
mod scope;
mod smoke;
mod spread;

pub use control::Decisions;
pub use hosts::plot as hosts;
pub use material::{Interval, Material};
pub use page::{SINGLE, empty_live_page, live_page, page, single_probes};
pub use scope::Scope;

use crate::plot::PlotSpec;

/// Kind of plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// RTT, download and upload over time; losses marked.
    Rtt,
    /// Mean over a sliding window.
    Smoothed,
    /// Smallest, 5 %, median, 95 % and largest.
    Bounds,
    /// Distribution of each stretch, coloured by its losses.
    Smoke,
    Cdf,
    /// Bytes per day.
    Daily,
    /// Delay by weekday and hour.
    Heat,
    /// Availability by day and hour.
    Availability,
    /// Load of the measuring host.
    Host,
    /// State of the modem.
    Modem,
    /// Signal and handovers of the radios, above the round trips.
    Radio,
}

/// Number of characters of a title that fit the width of a picture.
const TITLE: usize = 96;

/// Returns a name of at most so many characters; a longer one ends in dots.
fn short(name: &str, most: usize) -> String {
    match name.chars().count() <= most {
        true => name.to_owned(),
        false => {
            let kept: String = name.chars().take(most.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end_matches([',', ' ']))
        }
    }
}

impl Plot {
    /// # Errors
    /// Fails if the recording lacks the data of this plot; the error names them.
    pub fn spec(self, m: &Material) -> Result<PlotSpec, String> {
        let (there, lacking) = match self {
            Plot::Daily => (m.has_traffic(), "no traffic was counted"),
            Plot::Rtt => (
                m.has_delays() || m.has_traffic(),
                "there are no probes and no traffic",
            ),
            Plot::Availability => (
                !m.available.is_empty() || m.stability.is_some(),
                "there are no probes, and no interface was watched",
            ),
            Plot::Modem => (m.has_modem(), "the modem was not read"),
            Plot::Radio => (radio::is_known(m), "no radio told its signal"),
            Plot::Host => (m.has_host_load(), "the load of the host was not sampled"),
            _ => (m.has_delays(), "there are no probes"),
        };
        if !there {
            let span = calendar::span(m.scope.from_ns, m.scope.to_ns, &m.scope.zone);
            return Err(format!("{lacking} from {span}"));
        }
        let spec = match self {
            Plot::Rtt => over_time::rtt(m),
            Plot::Smoothed => over_time::smoothed(m),
            Plot::Bounds => over_time::bounds(m),
            Plot::Smoke => smoke::plot(m),
            Plot::Cdf => cdf::plot(m),
            Plot::Daily => daily::plot(m),
            Plot::Heat => heat::plot(m),
            Plot::Availability => availability::plot(m),
            Plot::Host => host::plot(m),
            Plot::Modem => modem::plot(m),
            Plot::Radio => radio::plot(m),
        };
        let title = match &*m.title {
            "" => spec.title,
            name => format!(
                "{}: {}",
                short(name, TITLE - spec.title.len().min(TITLE)),
                spec.title
            ),
        };
        let note = calendar::span(m.scope.from_ns, m.scope.to_ns, &m.scope.zone);
        Ok(PlotSpec {
            title,
            note,
            ..spec
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of five targets ran over the right edge, and the kind of the plot with them.
    #[test]
    fn a_long_name_is_cut_and_the_kind_of_plot_stays() {
        let scope = Scope {
            from_ns: 0,
            to_ns: 1_000_000_000,
            zone: jiff::tz::TimeZone::UTC,
        };
        for length in [0, 10, 95, 200] {
            let mut m = Material::new(scope.clone(), &"é".repeat(length));
            m.probe(0, Some(20_000_000), base::record::Status::Ok);
            let title = Plot::Smoke.spec(&m).unwrap().title;
            assert!(
                title.ends_with("smoke") && title.chars().count() <= TITLE + 2,
                "{title}"
            );
        }
    }
}
