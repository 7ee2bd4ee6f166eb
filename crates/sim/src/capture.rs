//! Captures of simulated links as pcapng: the packets that a capture on a router's port would hold.
//!
//! A capture point is at the start of a link. It sees packets as they enter the link, before its queue, and those of
//! the reverse link as they leave it. So each packet appears once, as other tools' TCP analysis requires; the output of
//! a queue is seen at the start of the next link. A comment states if a packet was dropped or marked on the link; a
//! packet is held back until that is known.

mod wire;

use crate::error::ScenarioError;
use crate::network::{Connection, Happening, LinkIndex, Observer};
use crate::plan::{self, Plan};
use crate::run::began_ns;
use crate::scenario::Scenario;
use crate::segment::Segment;
use crate::topology::Graph;
use base::words::hint;
use base::{Ecn, Packet, PacketId, Time};
use link::qdisc::Reason;
use measure::capture::LinkType;
use measure::capture::pcapng::{self, Interface, Way, Writer};
use std::collections::VecDeque;
use std::io::{self, Write};
use wire::Wires;

/// Maximum number of hosts that are named in the file.
const NAMED_HOSTS: usize = 1000;

/// A link with a capture point at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Link at whose entry packets are captured.
    pub link: LinkIndex,
    /// Reverse link.
    pub back: Option<LinkIndex>,
}

/// Reason why a capture cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("the capture of \"{link}\" cannot be written: {source}")]
    Io { link: String, source: io::Error },
}

/// Names of a scenario's links, as captures use them.
///
/// # Errors
/// The scenario cannot be run.
pub fn links(scenario: &Scenario) -> Result<Vec<String>, ScenarioError> {
    let graph = plan::graph_of(scenario)?;
    Ok(graph.edges.into_iter().map(|e| e.name).collect())
}

/// Finds the link of that name, or the only link that leaves the host of that name.
///
/// # Errors
/// An unknown name (the message gives the nearest), or a host with more than one outgoing link.
pub fn find(scenario: &Scenario, name: &str) -> Result<Point, ScenarioError> {
    let graph = plan::graph_of(scenario)?;
    let named = graph.edges.iter().position(|e| e.name == name);
    let link = match (named, graph.find(name)) {
        (Some(link), _) => link,
        (None, Some(node)) => only_link_of(&graph, node)?,
        (None, None) => {
            let links = graph.edges.iter().map(|e| e.name.as_str());
            let known: Vec<&str> = links
                .chain(graph.nodes.iter().map(String::as_str))
                .collect();
            return Err(ScenarioError::Invalid(format!(
                "no link or host \"{name}\" to capture at. Known: {}.{}",
                listed(&known),
                hint(name, &known)
            )));
        }
    };
    Ok(Point {
        link,
        back: opposite(&graph, link),
    })
}

fn only_link_of(graph: &Graph, node: usize) -> Result<LinkIndex, ScenarioError> {
    let leaving: Vec<usize> = (0..graph.edges.len())
        .filter(|e| graph.edges[*e].from == node)
        .collect();
    match leaving[..] {
        [only] => Ok(only),
        _ => {
            let names: Vec<&str> = leaving
                .iter()
                .map(|e| graph.edges[*e].name.as_str())
                .collect();
            Err(ScenarioError::Invalid(format!(
                "{} links leave \"{}\": name one of them to capture at: {}",
                leaving.len(),
                graph.nodes[node],
                listed(&names)
            )))
        }
    }
}

fn listed(names: &[&str]) -> String {
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(20)].join(", "))
}

/// Reverse of a link; links are made in pairs.
fn opposite(graph: &Graph, link: usize) -> Option<usize> {
    let edge = &graph.edges[link];
    let turns = |e: &usize| {
        let other = graph.edges.get(*e);
        other.is_some_and(|o| (o.from, o.to) == (edge.to, edge.from))
    };
    Some(link ^ 1)
        .filter(turns)
        .or_else(|| (0..graph.edges.len()).find(turns))
}

/// A packet that waits for its fate, or behind one that does.
struct Held {
    interface: u32,
    t_ns: i64,
    data: Vec<u8>,
    original_len: u32,
    way: Way,
    /// ECN bits with which it entered the link.
    ecn: Ecn,
    settled: bool,
    comment: Option<String>,
}

/// A capture file being written.
struct Tap<W> {
    name: String,
    writer: Writer<W>,
    held: VecDeque<Held>,
    /// Number of the first packet held, counted over the whole run.
    first: u64,
    /// Number of each held packet that is on the link, by packet id.
    on_link: Vec<Option<u64>>,
}

impl<W: Write> Tap<W> {
    fn add(&mut self, held: Held) -> u64 {
        self.held.push_back(held);
        self.first + self.held.len() as u64 - 1
    }

    /// Records the fate of a packet of the link; `fate` gets the ECN bits with which it entered.
    fn settle(&mut self, packet: PacketId, fate: impl FnOnce(Ecn) -> Option<String>) {
        let number = self.on_link.get_mut(packet.0 as usize);
        let Some(number) = number.and_then(Option::take) else {
            return;
        };
        if let Some(held) = self.held.get_mut((number - self.first) as usize) {
            held.comment = fate(held.ecn);
            held.settled = true;
        }
    }

    fn write_settled(&mut self, all: bool) -> io::Result<()> {
        while self.held.front().is_some_and(|h| h.settled || all) {
            let Some(held) = self.held.pop_front() else {
                break;
            };
            self.first += 1;
            self.writer.packet(&pcapng::Packet {
                interface: held.interface,
                t_ns: held.t_ns,
                original_len: held.original_len,
                data: &held.data,
                way: Some(held.way),
                comment: held.comment.as_deref(),
            })?;
        }
        Ok(())
    }
}

/// Writes the packets that pass the ends of links; an observer of a network.
pub struct Capture<W> {
    taps: Vec<Tap<W>>,
    /// Taps at the start and at the end of each link.
    begins: Vec<Vec<usize>>,
    ends: Vec<Vec<usize>>,
    wires: Wires,
    snaplen: u32,
    began_ns: i64,
    failed: Option<CaptureError>,
}

impl<W: Write> Capture<W> {
    /// Taps the links of a plan that has not run yet. `snaplen` is the most bytes kept of a frame.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(
        scenario: &Scenario,
        plan: &mut Plan,
        seed: u64,
        snaplen: u32,
        points: Vec<(Point, W)>,
    ) -> Result<Capture<W>, CaptureError> {
        let graph = plan::graph_of(scenario)?;
        let mut capture = Capture {
            taps: Vec::new(),
            begins: vec![Vec::new(); graph.edges.len()],
            ends: vec![Vec::new(); graph.edges.len()],
            wires: Wires::new(&graph, plan),
            snaplen,
            began_ns: began_ns(scenario),
            failed: None,
        };
        for (point, out) in points {
            let number = capture.taps.len();
            plan.network.tap(point.link);
            capture.begins[point.link].push(number);
            if let Some(back) = point.back {
                plan.network.tap(back);
                capture.ends[back].push(number);
            }
            let name = graph.edges[point.link].name.clone();
            let writer = open(scenario, &graph, seed, snaplen, point, out).map_err(|source| {
                CaptureError::Io {
                    link: name.clone(),
                    source,
                }
            })?;
            capture.taps.push(Tap {
                name,
                writer,
                held: VecDeque::new(),
                first: 0,
                on_link: Vec::new(),
            });
        }
        Ok(capture)
    }

    /// True if nothing more can be written.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes the packets still held back.
    ///
    /// # Errors
    /// Any error of the output, now or earlier in the run.
    pub fn finish(self) -> Result<Vec<W>, CaptureError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let finish = |mut tap: Tap<W>| {
            let done = tap.write_settled(true).and_then(|()| tap.writer.finish());
            done.map_err(|source| CaptureError::Io {
                link: tap.name,
                source,
            })
        };
        self.taps.into_iter().map(finish).collect()
    }

    fn write(&mut self, tap: usize) {
        let tap = &mut self.taps[tap];
        if let (Err(source), None) = (tap.write_settled(false), &self.failed) {
            self.failed = Some(CaptureError::Io {
                link: tap.name.clone(),
                source,
            });
        }
    }

    /// A packet on that link as the capture shows it.
    fn seen(
        &self,
        now: Time,
        link: LinkIndex,
        packet: &Packet,
        segment: &Segment,
        way: Way,
    ) -> Held {
        let frame = self.wires.frame(link, packet, segment);
        Held {
            interface: u32::from(way == Way::In),
            t_ns: self.began_ns + now.as_nanos() as i64,
            original_len: frame.original_len,
            data: frame.kept(self.snaplen),
            way,
            ecn: packet.ecn,
            settled: way == Way::In,
            comment: None,
        }
    }
}

/// Starts a file: the scenario, its two interfaces, the names of hosts.
fn open<W: Write>(
    scenario: &Scenario,
    graph: &Graph,
    seed: u64,
    snaplen: u32,
    point: Point,
    out: W,
) -> io::Result<Writer<W>> {
    let what = match scenario.title.as_str() {
        "" => format!("simulated, seed {seed}"),
        title => format!("simulated, seed {seed}: {title}"),
    };
    let application = format!("tailback {}", env!("CARGO_PKG_VERSION"));
    let mut writer = Writer::new(out, &application, &what)?;
    let here = &graph.nodes[graph.edges[point.link].from];
    let there = &graph.nodes[graph.edges[point.link].to];
    for (link, way) in [
        (Some(point.link), "enters, before the queue, on the way to"),
        (point.back, "has come out, from"),
    ] {
        let Some(edge) = link.map(|link| &graph.edges[link]) else {
            continue;
        };
        let speed = edge.link.params().ok().map(|p| p.rate.mean().get());
        writer.interface(&Interface {
            link: LinkType::ETHERNET,
            name: &edge.name,
            description: &format!("at {here}: what {way} {there}"),
            speed,
            snaplen,
        })?;
    }
    let hosts = graph.nodes.iter().enumerate().take(NAMED_HOSTS);
    writer.names(hosts.map(|(i, name)| (wire::address(i as u32), name.as_str())))?;
    Ok(writer)
}

impl<W: Write> Observer for Capture<W> {
    fn packet(&mut self, _now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        match what {
            Happening::Sent => self.wires.sent(packet, segment),
            Happening::Received => self.wires.received(packet, segment),
            Happening::Dropped(why) => {
                for tap in 0..self.taps.len() {
                    self.taps[tap].settle(packet.id, |_| Some(dropped(why).into()));
                    self.write(tap);
                }
            }
        }
    }

    fn entered(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) {
        self.wires.hop(packet.id);
        for i in 0..self.begins[link].len() {
            let tap = self.begins[link][i];
            let held = self.seen(now, link, packet, segment, Way::Out);
            let name = packet.id.0 as usize;
            let tap = &mut self.taps[tap];
            let number = tap.add(held);
            if tap.on_link.len() <= name {
                tap.on_link.resize(name + 1, None);
            }
            tap.on_link[name] = Some(number);
        }
    }

    fn left(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) {
        for i in 0..self.begins[link].len() {
            let tap = self.begins[link][i];
            self.taps[tap].settle(packet.id, |entered| {
                let marked = packet.ecn == Ecn::Ce && entered != Ecn::Ce;
                marked.then(|| "marked CE by the queue".into())
            });
            self.write(tap);
        }
        for i in 0..self.ends[link].len() {
            let tap = self.ends[link][i];
            let held = self.seen(now, link, packet, segment, Way::In);
            self.taps[tap].add(held);
            self.write(tap);
        }
    }

    fn opened(&mut self, application: usize, connection: &Connection) {
        self.wires.opened(application, connection);
    }

    fn copied(&mut self, packet: PacketId, copy: PacketId) {
        self.wires.copied(packet, copy);
    }
}

fn dropped(why: Reason) -> &'static str {
    match why {
        Reason::Overlimit => "dropped: the queue was full",
        Reason::TargetExceeded => "dropped by the queue: the delay target was exceeded",
        Reason::EarlyDrop => "dropped by the queue before it was full",
        Reason::FlowEvicted => "dropped by the queue to make room for another flow",
        Reason::LineLoss => "lost on the link",
        Reason::Policed => "dropped by the policer in front of the queue",
    }
}

/// Runs a scenario and writes a capture at each of the points. `step` gets the progress of the run and returns true to
/// continue.
///
/// # Errors
/// The scenario cannot be run, or the output cannot be written.
pub fn run<W: Write>(
    scenario: &Scenario,
    seed: u64,
    snaplen: u32,
    points: Vec<(Point, W)>,
    step: &mut dyn FnMut(Time) -> bool,
) -> Result<Vec<W>, CaptureError> {
    let mut plan = plan::build(scenario, seed)?;
    let mut capture = Capture::new(scenario, &mut plan, seed, snaplen, points)?;
    let end = Time::ZERO + scenario.duration;
    let slice = (scenario.duration / 200).max(base::Duration::from_nanos(1));
    let mut until = Time::ZERO;
    while until < end && !capture.has_failed() {
        until = (until + slice).min(end);
        plan.network.run_until(until, &mut capture);
        if !step(until) {
            break;
        }
    }
    capture.finish()
}
