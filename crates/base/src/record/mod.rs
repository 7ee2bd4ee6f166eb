//! Recording: the fate of packets at a bottleneck, measured, emulated, simulated, captured or imported. This module is
//! its only definition; the JSON schema and the reference page are generated from it.

mod fate;
mod meta;
mod schema;
mod tables;

pub use meta::{Exclusion, FORMAT_VERSION, Host, Meta, Origin};
pub use schema::{Cell, Column, Field, Kind, Sink, Table, TableSpec, Text};
pub use tables::{
    Availability, Burst, Cause, Connection, Conversation, Course, Datagram, Delay, Direction,
    Distribution, Event, Flow, HostLoad, Queue, Retransmission, Row, Segment, Status, TABLES,
    TableId, Traffic,
};

/// Whole recording in memory; each table keeps the order in which its rows were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    pub meta: Meta,
    pub delay: Vec<Delay>,
    pub traffic: Vec<Traffic>,
    pub flow: Vec<Flow>,
    pub queue: Vec<Queue>,
    pub datagram: Vec<Datagram>,
    pub host: Vec<HostLoad>,
    pub availability: Vec<Availability>,
    pub distribution: Vec<Distribution>,
    pub connection: Vec<Connection>,
    pub segment: Vec<Segment>,
    pub retransmission: Vec<Retransmission>,
    pub course: Vec<Course>,
    pub conversation: Vec<Conversation>,
    pub event: Vec<Event>,
}

impl Recording {
    pub fn push(&mut self, row: Row) {
        match row {
            Row::Delay(r) => self.delay.push(r),
            Row::Traffic(r) => self.traffic.push(r),
            Row::Flow(r) => self.flow.push(r),
            Row::Queue(r) => self.queue.push(r),
            Row::Datagram(r) => self.datagram.push(r),
            Row::HostLoad(r) => self.host.push(r),
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
