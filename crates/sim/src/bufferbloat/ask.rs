//! Answers of the virtual host to the questions of experiments.

use super::network::FAR;
use super::world::World;
use base::rng::uniform;
use base::{Duration, Time};
use experiment::Stopped;
use experiment::ask::{Answer, Ask, Configured, Heard, Kind, Trouble};
use experiment::host::Meanwhile;
use std::net::{IpAddr, SocketAddr};

impl World {
    /// Advances to the next event, or to `until`.
    pub fn step(&mut self, until: Time) {
        let next = self.next_event().min(until);
        self.advance(next);
    }

    /// Lets one exchange on the control connection pass.
    fn round_trip(&mut self) {
        let rtt = self.plan.link.propagation_rtt();
        self.advance(self.now + rtt);
    }

    fn hear(&mut self, socket: u32, within: Duration) -> Result<Heard, Trouble> {
        let until = self.now + within;
        loop {
            if let Some(heard) = self.heard(socket) {
                return Ok(heard);
            }
            if self.now >= until {
                return Err(Trouble::new(Kind::Silence, "nothing came in time"));
            }
            self.step(until);
        }
    }

    /// Answers a question of an experiment.
    pub fn answer_to(
        &mut self,
        ask: &Ask,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, Stopped> {
        Ok(match ask {
            Ask::Listen(wanted, _) => {
                self.round_trip();
                Answer::Ports(self.listen(wanted))
            }
            Ask::Arrivals => {
                self.round_trip();
                Answer::Arrivals(self.arrivals())
            }
            Ask::Order {
                port,
                to,
                len,
                marking,
            } => {
                let half = self.plan.link.propagation_rtt() / 2;
                self.advance(self.now + half);
                let bytes = self.order(*port, to.from, *len, *marking);
                self.advance(self.now + half);
                Answer::Ordered(bytes)
            }
            Ask::OrderSegment {
                port,
                to,
                form,
                number,
                marking,
            } => {
                let half = self.plan.link.propagation_rtt() / 2;
                self.advance(self.now + half);
                let sent = self.order_segment((*port, *to), (*form, *number), *marking);
                self.advance(self.now + half);
                Answer::Sent(sent.map_err(|why| Trouble::new(Kind::Other, why)))
            }
            Ask::Knock(knocks) => Answer::Knocked(self.knock(knocks)),
            Ask::Open(opening) => Answer::Opened(self.opened(opening)),
            Ask::Connect { to, patience } => Answer::Connected(self.connect(*to, *patience)),
            Ask::PathMtu(number) => Answer::PathMtu(self.path_mtu(*number)),
            Ask::Options => Answer::Options(super::knock::syn(64).options),
            Ask::Random(count) => Answer::Random(self.random(*count)),
            Ask::Resolvers => Answer::Resolvers(Ok(self.resolv_conf())),
            Ask::Resolve(name) => Answer::Resolved(name.parse().map_err(|_| {
                Trouble::new(Kind::Other, format!("no address of {name} is known here"))
            })),
            Ask::Gateway => {
                let first = self.plan.network.routers.first();
                Answer::Gateway(first.map(|r| (r.address, "near".to_owned())))
            }
            Ask::Send {
                socket,
                to,
                bytes,
                marking,
            } => {
                self.send_datagram(*socket, *to, bytes, *marking);
                Answer::Sent(Ok(()))
            }
            Ask::Quotes(direction) => Answer::Quotes(Ok(self.take_quotes(*direction))),
            Ask::Hear { socket, within, .. } => Answer::Heard(self.hear(*socket, *within)),
            Ask::Reach(_) => {
                self.round_trip();
                Answer::Done
            }
            Ask::Controls(_) => {
                let known = ["cubic", "reno", "bbr"].map(String::from);
                Answer::Controls(Some(known.to_vec()))
            }
            Ask::Sender(direction, settings) => {
                self.senders[*direction as usize] = *settings;
                Answer::Done
            }
            Ask::Transfer(transfer) => Answer::Transferred(Ok(self.transfer(transfer, going_on))),
            Ask::Wifi => Answer::Wifi(Err("a virtual host has no Wi-Fi".into())),
            Ask::Quic(load) => Answer::Quic(self.quic(load, going_on)),
            Ask::Trace(trace) => self.trace(trace)?,
            Ask::Browse(browse) => self.browse(browse, going_on)?,
            Ask::Capture(_) => {
                self.start_capture();
                Answer::Done
            }
            Ask::StopCapture => Answer::Captured {
                written: false,
                packets: self.stop_capture(),
                missed: Some(0),
            },
        })
    }

    fn opened(&mut self, opening: &experiment::ask::Opening) -> Result<SocketAddr, Trouble> {
        let to = opening.to.map_or(IpAddr::V4(FAR[0]), |to| to.ip());
        match self.plan.network.version(to) {
            Some(_) => Ok(self.open_socket(*opening)),
            None => Err(Trouble::new(Kind::NoRoute, "Network is unreachable")),
        }
    }

    fn path_mtu(&self, number: u32) -> Option<u32> {
        let to = self.letters.sockets.get(&number)?.to?;
        let told = self.letters.told[usize::from(to.is_ipv6())];
        let interface = self.plan.link.up.mtu.get() as u32;
        Some(told.unwrap_or(interface.max(1500)).min(1500))
    }

    fn random(&mut self, count: usize) -> Vec<u8> {
        let byte = |_| (uniform(&mut self.letter_noise) * 256.0) as u8;
        (0..count).map(byte).collect()
    }

    fn resolv_conf(&self) -> Configured {
        let first = self.plan.network.resolvers.first();
        Configured {
            resolv_conf: first.map_or_else(String::new, |r| format!("nameserver {}\n", r.address)),
            behind: String::new(),
        }
    }
}
