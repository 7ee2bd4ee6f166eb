//! Plain queue: packets in order of arrival, and their totals.

use super::Backlog;
use base::{Bytes, Packet, Time};
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    packets: VecDeque<Packet>,
    bytes: Bytes,
}

impl Store {
    /// Appends a packet, with its time of arrival.
    pub fn push(&mut self, now: Time, mut packet: Packet) {
        packet.enqueued = now;
        self.bytes += packet.len;
        self.packets.push_back(packet);
    }
    /// Removes the head.
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len;
        Some(packet)
    }
    /// Head of the queue.
    pub fn front(&self) -> Option<&Packet> {
        self.packets.front()
    }
    /// Bytes in the queue.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }
    /// Packets in the queue.
    pub fn len(&self) -> u64 {
        self.packets.len() as u64
    }
    /// True if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Backlog in bytes and packets.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            bytes: self.bytes,
            packets: self.len(),
        }
    }
}
