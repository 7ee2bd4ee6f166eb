//! Look at the interface of a run: is there cross traffic now?

use base::record::Row;
use base::{BitsPerSec, Duration};
use live::clock::Clock;
use live::resolve;
use live::traffic::{Rates, TrafficMonitor};
use measure::control::DEFAULT_PORT;
use std::sync::mpsc::{Receiver, channel};

/// Time for which the link must carry little traffic.
const QUIET: Duration = Duration::from_secs(5);
const SAMPLED: Duration = Duration::from_millis(500);

/// Watch over the interface that leads to a server.
pub struct Watch {
    traffic: TrafficMonitor,
    rows: Receiver<Row>,
}

impl Watch {
    /// Starts to watch.
    ///
    /// # Errors
    /// The server's name or the interface is unknown.
    pub fn start(server: &str, interface: Option<&str>) -> anyhow::Result<Watch> {
        let address = resolve::server(server, DEFAULT_PORT, false, false)?;
        let (send, rows) = channel();
        let traffic = TrafficMonitor::start(interface, address, SAMPLED, Clock::start(), send)?;
        Ok(Watch { traffic, rows })
    }

    /// Reason for which a run must not start yet; none if the link is idle.
    pub fn obstacle(&self) -> Option<String> {
        // Only the rates matter here.
        self.rows.try_iter().for_each(drop);
        let interface = self.traffic.interface();
        match self.traffic.idle_rate(QUIET) {
            None => Some(format!("looking at the traffic of {interface}")),
            Some(rates) if rates.others_use_the_link() => {
                let Rates { down, up } = rates;
                Some(format!(
                    "{interface} carries cross traffic: {} down, {} up",
                    rounded(down),
                    rounded(up)
                ))
            }
            Some(_) => None,
        }
    }
}

fn rounded(rate: BitsPerSec) -> String {
    BitsPerSec::new(rate.get() / 1000 * 1000).to_string()
}
