//! A browser in virtual time: one page, whose objects come over several connections.
//!
//! **Deviations.** Objects are of one size and known at once; nothing is encrypted, parsed or painted.

use super::transfer::Transfer;
use super::world::World;
use crate::tcp::Settings;
use base::noted::page::{Loaded, PageEnd};
use base::record::Direction;
use base::{Duration, Time};
use experiment::Stopped;
use experiment::ask::{Answer, Browse, Halt, Logged, Visit, Visiting};
use experiment::host::Meanwhile;

/// Interval at which transfers are looked at, and at which whoever watches is asked.
const LOOK: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(100);

/// Connection of the browser: its transfer and the time from which that may begin.
struct Fetching {
    from: Time,
    transfer: Option<usize>,
}

/// Page load in progress.
struct Load {
    began: Time,
    first_byte: Option<Time>,
    left: u32,
    fetching: Vec<Fetching>,
}

impl World {
    pub fn browse(
        &mut self,
        browse: &Browse,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, Stopped> {
        Ok(match browse {
            Browse::Find { .. } => Answer::Done,
            Browse::Start => {
                self.visits = 0;
                Answer::Browser("virtual browser".into())
            }
            Browse::Visit(visiting) => Answer::Visited(self.visit(visiting, going_on)),
            Browse::Stop => {
                let logged = Logged {
                    opened: self.plan.network.page.connections,
                    lookups: 0,
                    longest_ms: None,
                };
                Answer::Browsed(vec![Some(logged); self.visits])
            }
        })
    }

    fn visit(
        &mut self,
        visiting: &Visiting,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Visit, Halt> {
        let (began, began_ns) = (self.now, self.unix_ns());
        let page = self.plan.network.page;
        // A round trip for each connection and one for each request.
        let rtt = self.plan.link.propagation_rtt();
        let mut load = Load {
            began,
            first_byte: None,
            left: page.objects,
            fetching: Vec::new(),
        };
        for _ in 0..page.connections.min(page.objects) {
            let from = began + rtt + rtt / 2;
            load.fetching.push(Fetching {
                from,
                transfer: None,
            });
        }
        let most = self.own + visiting.most;
        let mut told = began;
        let end = loop {
            if self.fetched(&mut load) {
                break self.loaded(&load);
            }
            if self.now.saturating_since(began) >= visiting.patience {
                break PageEnd::TimedOut;
            }
            if self.now.saturating_since(told) >= TICK {
                told = self.now;
                let meanwhile = Meanwhile {
                    now: self.now,
                    tally: self.own,
                };
                let halt = match going_on(meanwhile) {
                    false => Some(Halt::Load),
                    true if self.own >= most => Some(Halt::Traffic),
                    true => None,
                };
                if let Some(halt) = halt {
                    self.close(&load);
                    return Err(halt);
                }
            }
            self.advance(self.now + LOOK);
        };
        self.close(&load);
        self.visits += 1;
        Ok(Visit {
            end,
            began_ns,
            ended_ns: self.unix_ns(),
        })
    }

    /// Takes in objects that are there and asks for the next ones. Returns true once all are there.
    fn fetched(&mut self, load: &mut Load) -> bool {
        let page = self.plan.network.page;
        let half = self.plan.link.propagation_rtt() / 2;
        for fetching in &mut load.fetching {
            if let Some(i) = fetching.transfer {
                let t = &mut self.transfers[i];
                if t.bytes_moved() > 0 {
                    load.first_byte = load.first_byte.or(Some(self.now));
                }
                if t.bytes_moved() < page.size.get() {
                    continue;
                }
                (t.running, t.collected) = (false, true);
                fetching.transfer = None;
                fetching.from = self.now + half;
            }
            if load.left > 0 && fetching.from <= self.now {
                load.left -= 1;
                fetching.transfer = Some(self.fetch(page.size.get()));
            }
        }
        load.left == 0 && load.fetching.iter().all(|f| f.transfer.is_none())
    }

    fn fetch(&mut self, bytes: u64) -> usize {
        let i = self.transfers.len();
        let limits = self.plan.hosts.limits[Direction::Down as usize];
        // The connection's set-up is counted apart.
        let settings = Settings {
            handshake: false,
            ..self.plan.tcp.clone()
        };
        let mut transfer = Transfer::new(
            i as i64,
            (u32::MAX, Direction::Down),
            &settings,
            limits,
            self.now,
            &self.streams,
        );
        transfer.only = Some(bytes);
        self.transfers.push(transfer);
        self.open_now(i);
        i
    }

    /// Ends transfers that are in progress.
    fn close(&mut self, load: &Load) {
        for i in load.fetching.iter().filter_map(|f| f.transfer) {
            let t = &mut self.transfers[i];
            (t.running, t.collected) = (false, true);
        }
    }

    fn loaded(&self, load: &Load) -> PageEnd {
        let page = self.plan.network.page;
        let ms = |t: Time| t.saturating_since(load.began).as_secs_f64() * 1e3;
        PageEnd::Loaded(Loaded {
            load_ms: ms(self.now),
            first_byte_ms: load.first_byte.map_or(0.0, ms),
            requests: page.objects,
            bytes: u64::from(page.objects) * page.size.get(),
            hosts: 1,
            protocols: vec!["http/1.1".into()],
            connections_used: page.connections.min(page.objects),
            ..Loaded::default()
        })
    }
}
