//! Rows of a capture: each packet as it comes, and each connection when it ends.

use super::keep::Keep;
use super::rows;
use base::record::{Row, Segment, Table};
use measure::capture::frame::{Frame, Tcp, flag};
use measure::track::{Act, Connection, Watch};
use std::sync::mpsc::Sender;

/// Packet whose acts are being reported.
struct Now {
    row: Segment,
    /// True once the acts are those of its sender.
    turned: bool,
    /// First block of its SACK option.
    sack: Option<(u32, u32)>,
}

/// Receiver of rows.
pub trait Takes {
    fn push<T: Table>(&mut self, row: T);
}

impl Takes for Keep {
    fn push<T: Table>(&mut self, row: T) {
        Keep::push(self, row);
    }
}

impl Takes for Sender<Row> {
    fn push<T: Table>(&mut self, row: T) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.send(row.into_row());
    }
}

pub struct PacketRows<'k, K = Keep> {
    keep: &'k mut K,
    now: Now,
}

const NOTHING: Segment = Segment {
    t_ns: 0,
    flow: 0,
    flags: 0,
    position_bytes: None,
    size_bytes: 0,
    fresh_bytes: None,
    in_flight_bytes: None,
    acked_bytes: None,
    window_bytes: None,
    rtt_ns: None,
    sack_from_bytes: None,
    sack_to_bytes: None,
};

impl PacketRows<'_> {
    /// Sets the time, UNIX ns, of a running capture.
    pub fn tick(&mut self, now_ns: i64) {
        self.keep.tick(now_ns);
    }
}

impl<'k, K: Takes> PacketRows<'k, K> {
    pub fn new(keep: &'k mut K) -> PacketRows<'k, K> {
        PacketRows {
            keep,
            now: Now {
                row: NOTHING,
                turned: false,
                sack: None,
            },
        }
    }

    /// Sets the packet that the following acts belong to.
    pub fn begin(&mut self, t_ns: Option<i64>, frame: Option<&Frame<'_>>) {
        self.now.turned = false;
        let (Some(t_ns), Some(tcp)) = (t_ns, rows::tcp(frame)) else {
            return;
        };
        self.now = Now {
            row: Segment {
                t_ns: t_ns.max(0),
                flags: i64::from(tcp.flags),
                size_bytes: i64::from(tcp.payload),
                ..NOTHING
            },
            turned: false,
            sack: first_block(tcp),
        };
    }

    /// Writes the packet's row after its acts. A packet that was captured twice has none.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.now.turned) {
            self.keep
                .push(std::mem::replace(&mut self.now.row, NOTHING));
        }
    }
}

fn first_block(tcp: &Tcp<'_>) -> Option<(u32, u32)> {
    // Most packets have no options, or timestamps alone.
    if !tcp.has(flag::ACK) || tcp.options.is_empty() || tcp.timestamps_alone().is_some() {
        return None;
    }
    tcp.parse_options().sack().first().copied()
}

impl<K: Takes> Watch for PacketRows<'_, K> {
    fn turn(&mut self, connection: u32, direction: usize) {
        if !self.now.turned {
            self.now.turned = true;
            self.now.row.flow = rows::flow(connection, direction);
        }
    }

    fn act(&mut self, act: Act) {
        let row = &mut self.now.row;
        match act {
            Act::Sent {
                t,
                position,
                fresh,
                in_flight,
                ..
            } => {
                row.t_ns = t;
                row.position_bytes = Some(position as i64);
                row.fresh_bytes = Some(fresh as i64);
                row.in_flight_bytes = Some(in_flight as i64);
            }
            Act::RoundTrip { rtt, .. } => row.rtt_ns = Some(rtt),
            Act::Acknowledged {
                t,
                position,
                base,
                window,
            } => {
                row.t_ns = t;
                row.acked_bytes = Some(position as i64);
                row.window_bytes = window.map(i64::from);
                if let Some((from, to)) = self.now.sack {
                    // Half of the sequence space lies before the ACK, half after it.
                    let at = |edge: u32| {
                        let ahead = edge.wrapping_sub(base).wrapping_sub(position as u32) as i32;
                        position as i64 + i64::from(ahead)
                    };
                    let (from, to) = (at(from), at(to));
                    // One from before the capture lies below its first byte.
                    if to > 0 {
                        row.sack_from_bytes = Some(from.max(0));
                        row.sack_to_bytes = Some(to);
                    }
                }
            }
        }
    }

    fn over(&mut self, c: &Connection) {
        for (direction, half) in c.halves.iter().enumerate() {
            let flow = rows::flow(c.number, direction);
            self.keep.push(rows::connection(c, direction));
            rows::course(flow, half).for_each(|r| self.keep.push(r));
            rows::retransmissions(flow, half).for_each(|r| self.keep.push(r));
            rows::marks(flow, half).for_each(|m| self.keep.push(m));
            for b in rows::breaks(half) {
                self.keep.push(rows::break_event(flow, &b));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<Row>);

    impl Takes for Kept {
        fn push<T: Table>(&mut self, row: T) {
            self.0.push(row.into_row());
        }
    }

    /// The block of a row whose ACK is 100 bytes into a capture that begins with sequence number 1000.
    fn block(from: u32, to: u32) -> [Option<i64>; 2] {
        let mut kept = Kept::default();
        let mut rows = PacketRows::new(&mut kept);
        rows.now.sack = Some((from, to));
        rows.turn(0, 0);
        rows.act(Act::Acknowledged {
            t: 1,
            position: 100,
            base: 1000,
            window: None,
        });
        rows.end();
        let [Row::Segment(row)] = &kept.0[..] else {
            panic!("{:?}", kept.0);
        };
        [row.sack_from_bytes, row.sack_to_bytes]
    }

    #[test]
    fn a_block_is_told_as_far_as_the_capture_holds_its_bytes() {
        assert_eq!(block(1200, 1300), [Some(200), Some(300)]);
        assert_eq!(block(900, 1050), [Some(0), Some(50)]);
        assert_eq!(block(700, 900), [None, None]);
    }
}
