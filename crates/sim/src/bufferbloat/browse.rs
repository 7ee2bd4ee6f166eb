//! A browser in virtual time: one page, whose objects come over several connections.
//!
//! **Deviations.** Objects are of one size and known at once; nothing is encrypted, parsed or painted. Where the transport is
//! prescribed, all objects come over one connection: two round trips before the first request over TCP with TLS 1.3 (RFC
//! 8446), one over QUIC (RFC 9000). Nothing else distinguishes the two.

use super::transfer::Transfer;
use super::world::World;
use crate::tcp::Settings;
use base::noted::page::{HttpOver, Loaded, PageEnd};
use base::record::Direction;
use base::{Duration, Time};
use experiment::Stopped;
use experiment::ask::{Answer, Browse, Halt, Logged, Visit, Visiting};
use experiment::host::Meanwhile;
use measure::control::listen::Transport;

/// Interval at which transfers are looked at, and at which whoever watches is asked.
const LOOK: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(100);
/// Time after which a browser gives up a handshake of QUIC.
const NO_QUIC: Duration = Duration::from_secs(10);

/// UDP port of HTTP/3.
const HTTPS: u16 = 443;

/// Set-up of a page's connections.
struct Shape {
    /// Connections at a time.
    connections: u32,
    /// Objects, and the size of each.
    objects: u32,
    size: u64,
    /// Round trips before the first request.
    handshake: u32,
    protocol: &'static str,
}

/// Connection of the browser: its transfer and the time from which that may begin.
struct Fetching {
    from: Time,
    transfer: Option<usize>,
}

/// Page load in progress.
struct Load {
    shape: Shape,
    began: Time,
    first_byte: Option<Time>,
    left: u32,
    fetching: Vec<Fetching>,
}

impl World {
    /// Answers a question to the browser.
    pub fn browse(
        &mut self,
        browse: &Browse,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, Stopped> {
        Ok(match browse {
            Browse::Find { .. } => Answer::Done,
            Browse::Start { .. } => {
                self.visits.clear();
                Answer::Browser("virtual browser".into())
            }
            Browse::Visit(visiting) => Answer::Visited(self.visit(visiting, going_on)),
            Browse::Stop => {
                let logged = |opened| Logged {
                    opened,
                    lookups: 0,
                    longest_ms: None,
                };
                let opened = std::mem::take(&mut self.visits).into_iter();
                Answer::Browsed(opened.map(|n| Some(logged(n))).collect())
            }
        })
    }

    /// Connections and objects of a page over this transport.
    fn shape(&self, over: HttpOver, url: &str) -> Shape {
        let page = self.plan.network.page;
        let (handshake, protocol) = match over {
            HttpOver::Quic => (1, "h3"),
            HttpOver::Tcp if url.starts_with("https:") => (2, "h2"),
            HttpOver::Any | HttpOver::Tcp => {
                return Shape {
                    connections: page.connections.min(page.objects),
                    objects: page.objects,
                    size: page.size.get(),
                    handshake: 1,
                    protocol: "http/1.1",
                };
            }
        };
        Shape {
            connections: 1,
            objects: 1,
            size: u64::from(page.objects) * page.size.get(),
            handshake,
            protocol,
        }
    }

    fn visit(
        &mut self,
        visiting: &Visiting,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Visit, Halt> {
        let (began, began_ns) = (self.now, self.unix_ns());
        let shape = self.shape(visiting.over, &visiting.url);
        // Round trips for each connection and one for each request.
        let rtt = self.plan.link.propagation_rtt();
        let from = began + rtt * u64::from(shape.handshake) + rtt / 2;
        let (connections, objects) = (shape.connections, shape.objects);
        let mut load = Load {
            shape,
            began,
            first_byte: None,
            left: objects,
            fetching: Vec::new(),
        };
        let blocked =
            visiting.over == HttpOver::Quic && self.block(Transport::Udp, HTTPS).is_some();
        for _ in 0..connections {
            load.fetching.push(Fetching {
                from,
                transfer: None,
            });
        }
        let most = self.own + visiting.most;
        let mut told = began;
        let end = loop {
            let elapsed = self.now.saturating_since(began);
            if blocked && elapsed >= NO_QUIC {
                let why = "no handshake of QUIC".into();
                break PageEnd::Failed { why };
            }
            if !blocked && self.fetched(&mut load) {
                break self.loaded(&load);
            }
            if elapsed >= visiting.patience {
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
        self.visits.push(connections);
        Ok(Visit {
            end,
            began_ns,
            ended_ns: self.unix_ns(),
        })
    }

    /// Takes in objects that are there and asks for the next ones. Returns true once all are there.
    fn fetched(&mut self, load: &mut Load) -> bool {
        let size = load.shape.size;
        let half = self.plan.link.propagation_rtt() / 2;
        for fetching in &mut load.fetching {
            if let Some(i) = fetching.transfer {
                let t = &mut self.transfers[i];
                if t.bytes_moved() > 0 {
                    load.first_byte = load.first_byte.or(Some(self.now));
                }
                if t.bytes_moved() < size {
                    continue;
                }
                (t.running, t.collected) = (false, true);
                fetching.transfer = None;
                fetching.from = self.now + half;
            }
            if load.left > 0 && fetching.from <= self.now {
                load.left -= 1;
                fetching.transfer = Some(self.fetch(size));
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
        PageEnd::Loaded(Box::new(Loaded {
            load_ms: ms(self.now),
            first_byte_ms: load.first_byte.map_or(0.0, ms),
            requests: page.objects,
            bytes: u64::from(page.objects) * page.size.get(),
            hosts: 1,
            protocols: vec![load.shape.protocol.into()],
            main_protocol: load.shape.protocol.into(),
            by_protocol: [(load.shape.protocol.into(), page.objects)].into(),
            connections_used: load.shape.connections,
            ..Loaded::default()
        }))
    }
}
