//! The taking of a capture: from when to when, without which packets, and with how much of each.

use super::raw::Packet;
use crate::chance::Chance;

/// Most bytes kept of a packet.
pub const SNAPLEN: u32 = 128;

/// Taking of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// First and last moment, s.
    pub from_s: f64,
    pub until_s: f64,
    /// True if transfers were under way before the first, or after the last.
    pub part: bool,
    pub missed: Option<Missed>,
    /// Bytes kept of each packet.
    pub kept: u32,
}

/// Packets that passed and are not in the capture.
#[derive(Clone, Copy, Debug)]
pub struct Missed {
    /// Seed of those.
    seed: u64,
    /// Share of the packets at which a stretch begins, and how many follow each other, on average.
    share: f64,
    length: f64,
}

impl Taken {
    /// Draws how a capture of `lasts_s` seconds was taken.
    pub fn draw(c: &mut Chance, lasts_s: f64) -> Taken {
        let mut taken = Taken {
            from_s: 0.0,
            until_s: lasts_s,
            part: c.is(0.3),
            missed: None,
            kept: SNAPLEN,
        };
        if taken.part {
            taken.from_s = lasts_s * c.uniform(0.1, 0.6);
            taken.until_s = taken.from_s + (lasts_s - taken.from_s) * c.uniform(0.5, 1.0);
        }
        if c.is(0.2) {
            let length = c.log(1.0, 50.0);
            taken.missed = Some(Missed {
                seed: c.uniform(0.0, 1e9) as u64,
                share: c.log(1e-4, 3e-2) / length,
                length,
            });
        }
        if c.is(0.15) {
            taken.kept = c.pick(&[68, 96]);
        }
        taken
    }

    /// True at a moment of the capture.
    pub fn holds(&self, at_s: f64) -> bool {
        (self.from_s..=self.until_s).contains(&at_s)
    }

    /// Packets that the capture holds. Time counts from `began_ns`.
    pub fn kept(&self, mut packets: Vec<Packet>, began_ns: i64) -> Vec<Packet> {
        packets.retain(|p| self.holds((p.t_ns - began_ns) as f64 / 1e9));
        if let Some(missed) = self.missed {
            let c = &mut Chance::new(missed.seed, "missed");
            let mut misses = false;
            packets.retain(|_| {
                let goes_on = match misses {
                    true => 1.0 - 1.0 / missed.length,
                    false => missed.share,
                };
                misses = c.is(goes_on);
                !misses
            });
        }
        for packet in &mut packets {
            packet.data.truncate(self.kept as usize);
        }
        packets
    }
}

impl Missed {
    /// Share of all packets.
    pub fn share(&self) -> f64 {
        self.share * self.length
    }
}
