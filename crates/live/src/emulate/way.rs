//! Direction of an emulation: the chain of links that a packet passes, and its stored frame. It is told the time like
//! the links themselves.

use super::frames::Frames;
use super::header::{self, ETHERNET};
use base::rng::Streams;
use base::{Bytes, Ecn, Packet, PacketId, Time};
use link::qdisc::{Fate, Fates};
use link::{Link, LinkParams, LinkStats};
use std::sync::Arc;

/// Frame that has come out at the end of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Departure {
    pub id: PacketId,
    /// Time at which it was due.
    pub due: Time,
}

pub(super) struct Hop {
    /// Name as in a recording: `up`, or `hop2/up` in a chain.
    pub name: Arc<str>,
    link: Link,
}

impl Hop {
    pub(super) fn stats(&self) -> LinkStats {
        self.link.stats()
    }
}

pub(super) struct Way {
    hops: Vec<Hop>,
    frames: Frames,
    fates: Fates,
    departures: Vec<Departure>,
}

impl Way {
    /// Creates a direction. `direction` is `up` or `down`; `chain` is in the order in which packets pass.
    pub(super) fn new(
        direction: &str,
        chain: &[(usize, LinkParams)],
        of: usize,
        streams: &Streams,
        longest: usize,
    ) -> Way {
        let hops = chain
            .iter()
            .map(|(number, params)| {
                let name: Arc<str> = if of == 1 {
                    direction.into()
                } else {
                    format!("hop{number}/{direction}").into()
                };
                Hop {
                    link: Link::new(params, streams, &name),
                    name,
                }
            })
            .collect();
        Way {
            hops,
            frames: Frames::new(longest),
            fates: Fates::default(),
            departures: Vec::new(),
        }
    }

    /// Hands an arriving frame to the first link.
    pub(super) fn arrive(&mut self, at: Time, frame: &[u8]) {
        let kind = header::classify(frame);
        let len = Bytes::new(frame.len().saturating_sub(ETHERNET) as u64);
        let packet = Packet {
            id: self.frames.put(frame),
            flow: kind.flow,
            len,
            ecn: kind.ecn,
            dscp: kind.dscp,
            enqueued: at,
        };
        self.hops[0].link.enqueue(at, packet, &mut self.fates);
        self.bury();
    }

    /// Moves packets through the chain as far as they come by `now`. The links are brought up to date one after the
    /// other, and each hands a packet on at the time at which it came out.
    pub(super) fn advance(&mut self, now: Time) {
        for i in 0..self.hops.len() {
            while let Some(delivery) = self.hops[i].link.poll(now, &mut self.fates) {
                let packet = delivery.packet;
                if delivery.again {
                    self.frames.duplicate(packet.id);
                }
                match self.hops.get_mut(i + 1) {
                    Some(next) => next.link.enqueue(delivery.at, packet, &mut self.fates),
                    None => {
                        if packet.ecn == Ecn::Ce {
                            header::set_ce(self.frames.get_mut(packet.id));
                        }
                        self.departures.push(Departure {
                            id: packet.id,
                            due: delivery.at,
                        });
                    }
                }
            }
        }
        self.bury();
    }

    /// Removes the frames of dropped packets.
    fn bury(&mut self) {
        for (packet, fate) in self.fates.list.drain(..) {
            if let Fate::Dropped(_) = fate {
                self.frames.remove(packet.id);
            }
        }
    }

    /// Frames that came out since the last [`Way::clear`].
    pub(super) fn departures(&self) -> impl Iterator<Item = (Departure, &[u8])> {
        self.departures.iter().map(|d| (*d, self.frames.get(d.id)))
    }

    pub(super) fn has_departures(&self) -> bool {
        !self.departures.is_empty()
    }

    /// Forgets the departures after they were sent.
    pub(super) fn clear(&mut self) {
        for departure in self.departures.drain(..) {
            self.frames.remove(departure.id);
        }
    }

    pub(super) fn next_wakeup(&self) -> Option<Time> {
        self.hops.iter().filter_map(|h| h.link.next_wakeup()).min()
    }

    pub(super) fn hops(&self) -> &[Hop] {
        &self.hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;
    use link::LinkSpec;

    fn way(hops: &[&str]) -> Way {
        let chain: Vec<_> = hops
            .iter()
            .enumerate()
            .map(|(i, up)| {
                let spec = LinkSpec::parse(&format!(
                    "name = \"t\"\ntitle = \"t\"\n[up]\n{up}\n[down]\nrate = \"1 Mbit/s\"\n"
                ))
                .expect("a link");
                (i + 1, spec.up.params().expect("parameters"))
            })
            .collect();
        Way::new("up", &chain, hops.len(), &Streams::new(1), 1514)
    }

    /// IPv4 frame of `len` bytes of IP.
    fn frame(len: usize, ecn: u8, number: u8) -> Vec<u8> {
        let mut f = vec![0; ETHERNET + len];
        f[12..16].copy_from_slice(&[8, 0, 0x45, ecn]);
        f[ETHERNET + 20..].fill(number);
        f
    }

    fn leave(way: &mut Way, now: Time) -> Vec<(u64, Vec<u8>)> {
        way.advance(now);
        let left = way
            .departures()
            .map(|(d, f)| (d.due.as_nanos(), f.to_vec()))
            .collect();
        way.clear();
        left
    }

    #[test]
    fn a_chain_adds_delays_and_a_late_look_changes_no_due_time() {
        // 1250 bytes: 10 ms at 1 Mbit/s, 1 ms at 10 Mbit/s.
        let hops = [
            "rate = \"10 Mbit/s\"\ndelay = \"3 ms\"",
            "rate = \"1 Mbit/s\"\ndelay = \"4 ms\"",
        ];
        let due = |looks: &[u64]| {
            let mut way = way(&hops);
            for i in 0..3u8 {
                way.arrive(Time::from_micros(100 * u64::from(i)), &frame(1250, 0, i));
            }
            looks
                .iter()
                .flat_map(|ms| leave(&mut way, Time::from_millis(*ms)))
                .collect::<Vec<_>>()
        };
        let late = due(&[1_000]);
        assert_eq!(
            late.iter().map(|(t, _)| *t).collect::<Vec<_>>(),
            [18_000_000, 28_000_000, 38_000_000]
        );
        assert_eq!(
            late.iter().map(|(_, f)| f[40]).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(due(&(1..50).collect::<Vec<_>>()), late);
    }

    #[test]
    fn a_mark_of_the_discipline_is_written_into_the_header() {
        let mut way =
            way(&["rate = \"1 Mbit/s\"\nqueue = \"codel:target=1ms,interval=10ms,ecn=true\""]);
        for i in 0..20u8 {
            way.arrive(Time::ZERO, &frame(1250, 2, i));
        }
        let left = leave(&mut way, Time::from_secs(1));
        let marks = left.iter().filter(|(_, f)| f[15] == 3).count() as u64;
        assert_eq!(left.len(), 20);
        assert!(
            marks > 0 && marks == way.hops()[0].stats().marked.packets,
            "{marks} marks"
        );
        assert!(left.iter().all(|(_, f)| f[15] == 2 || f[15] == 3));
    }

    #[test]
    fn dropped_and_doubled_packets_leave_no_frame_behind() {
        let hops = [
            "rate = \"8 Mbit/s\"\nduplicate = 0.5\nloss = \"random:probability=0.3\"",
            "rate = \"1 Mbit/s\"\nqueue = \"fifo:packets=2\"",
        ];
        let mut way = way(&hops);
        let mut left = 0;
        for i in 0..2_000u64 {
            let now = Time::ZERO + Duration::from_millis(3) * i;
            way.arrive(now, &frame(1250, 0, i as u8));
            left += leave(&mut way, now).len();
        }
        left += leave(&mut way, Time::from_secs(100)).len();
        let [first, second] = [way.hops()[0].stats(), way.hops()[1].stats()];
        assert!(
            first.duplicated.packets > 0
                && first.dropped_total().packets > 0
                && second.dropped_total().packets > 0
        );
        assert_eq!(second.delivered.packets, left as u64);
        // Slots are made 256 at a time; had any been kept for good, there would be more.
        assert_eq!(way.frames.slots(), 256);
        assert_eq!(way.frames.held(), 0);
    }
}
