//! Recording: the fate of packets at a bottleneck, measured, emulated, simulated, captured or imported. This module is
//! its only definition; the JSON schema and the reference page are generated from it.

mod fate;
pub mod lines;
mod meta;
mod schema;
mod tables;

pub use meta::{Exclusion, FORMAT_VERSION, Host, Meta, Origin};
pub use schema::{Cell, Column, Field, Kind, Sink, Table, TableSpec, Text};
pub use tables::{
    Availability, Burst, Cause, Connection, Conversation, Counter, Course, Datagram, Decision,
    Delay, Direction, Distribution, Event, Flow, HostLoad, Modem, Queue, Radio, Retransmission,
    Row, Segment, Status, TABLES, TableId, Traffic,
};

/// Whole recording in memory; each table keeps the order in which its rows were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Facts of the recording.
    pub meta: Meta,
    /// Rows of the table `delay`.
    pub delay: Vec<Delay>,
    /// Rows of the table `traffic`.
    pub traffic: Vec<Traffic>,
    /// Rows of the table `counter`.
    pub counter: Vec<Counter>,
    /// Rows of the table `flow`.
    pub flow: Vec<Flow>,
    /// Rows of the table `queue`.
    pub queue: Vec<Queue>,
    /// Rows of the table `datagram`.
    pub datagram: Vec<Datagram>,
    /// Rows of the table `decision`.
    pub decision: Vec<Decision>,
    /// Rows of the table `host`.
    pub host: Vec<HostLoad>,
    /// Rows of the table `modem`.
    pub modem: Vec<Modem>,
    /// Rows of the table `radio`.
    pub radio: Vec<Radio>,
    /// Rows of the table `availability`.
    pub availability: Vec<Availability>,
    /// Rows of the table `distribution`.
    pub distribution: Vec<Distribution>,
    /// Rows of the table `connection`.
    pub connection: Vec<Connection>,
    /// Rows of the table `segment`.
    pub segment: Vec<Segment>,
    /// Rows of the table `retransmission`.
    pub retransmission: Vec<Retransmission>,
    /// Rows of the table `course`.
    pub course: Vec<Course>,
    /// Rows of the table `conversation`.
    pub conversation: Vec<Conversation>,
    /// Rows of the table `event`.
    pub event: Vec<Event>,
}

impl Recording {
    /// Appends a row to its table.
    pub fn push(&mut self, row: Row) {
        match row {
            Row::Delay(r) => self.delay.push(r),
            Row::Traffic(r) => self.traffic.push(r),
            Row::Counter(r) => self.counter.push(r),
            Row::Flow(r) => self.flow.push(r),
            Row::Queue(r) => self.queue.push(r),
            Row::Datagram(r) => self.datagram.push(r),
            Row::Decision(r) => self.decision.push(r),
            Row::HostLoad(r) => self.host.push(r),
            Row::Modem(r) => self.modem.push(r),
            Row::Radio(r) => self.radio.push(r),
            Row::Availability(r) => self.availability.push(r),
            Row::Distribution(r) => self.distribution.push(r),
            Row::Connection(r) => self.connection.push(*r),
            Row::Segment(r) => self.segment.push(r),
            Row::Retransmission(r) => self.retransmission.push(r),
            Row::Course(r) => self.course.push(r),
            Row::Conversation(r) => self.conversation.push(r),
            Row::Event(r) => self.event.push(r),
        }
    }
}
