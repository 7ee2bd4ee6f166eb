//! `tailback trace --live`: live capture on an interface.

use super::Live;
use super::keep::Keep;
use super::packet_rows::PacketRows;
use super::view::View;
use crate::progress::{Event, Observer};
use crate::usage;
use base::Duration;
use live::clock::{mono_ns, wall_ns};
use live::sniff::{Passed, SniffError, Sniffer};
use measure::capture::frame::{self, Frame};
use measure::capture::pcapng::{self, Interface, Packet, Way};
use measure::capture::{LinkType, Record};
use measure::track::{Act, Connection, Settings, Tracker, Traffic, Watch};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Greatest number of connections: a live capture may run for any time, so its limits are narrower than those of a
/// file.
const MOST_LIVE: usize = 200_000;
const MOST_DONE: usize = 20_000;
const SECOND_NS: i64 = 1_000_000_000;
/// Number of packets taken before the clock is checked.
const AT_ONCE: usize = 4096;

/// Receivers of the tracker's acts: the view, and the outputs.
struct Watchers<'k> {
    view: View,
    packet_rows: Option<PacketRows<'k>>,
}

impl Watchers<'_> {
    fn begin(&mut self, t_ns: i64, frame: Option<&Frame<'_>>) {
        self.view.begin(frame);
        if let Some(packet_rows) = &mut self.packet_rows {
            packet_rows.begin(Some(t_ns), frame);
        }
    }

    fn end(&mut self) {
        if let Some(packet_rows) = &mut self.packet_rows {
            packet_rows.end();
        }
    }
}

impl Watch for Watchers<'_> {
    fn turn(&mut self, connection: u32, direction: usize) {
        self.view.turn(connection, direction);
        if let Some(packet_rows) = &mut self.packet_rows {
            packet_rows.turn(connection, direction);
        }
    }

    fn act(&mut self, act: Act) {
        self.view.act(act);
        if let Some(packet_rows) = &mut self.packet_rows {
            packet_rows.act(act);
        }
    }

    fn over(&mut self, c: &Connection) {
        if let Some(packet_rows) = &mut self.packet_rows {
            packet_rows.over(c);
        }
    }
}

/// Copy of the packets as a file.
pub(super) struct Copy {
    path: PathBuf,
    out: pcapng::Writer<BufWriter<File>>,
    /// First error of the disk; nothing is written after it.
    fault: Option<std::io::Error>,
}

impl Copy {
    pub(super) fn create(
        path: &Path,
        name: &str,
        link: LinkType,
        snaplen: u32,
    ) -> anyhow::Result<Copy> {
        let failed = |e: std::io::Error| usage(format!("cannot write {}: {e}", path.display()));
        let file = File::create_new(path).map_err(failed)?;
        let program = format!("tailback {}", env!("CARGO_PKG_VERSION"));
        let mut out = pcapng::Writer::new(BufWriter::new(file), &program, "").map_err(failed)?;
        let interface = Interface {
            link,
            name,
            description: "",
            speed: None,
            snaplen,
        };
        out.interface(&interface).map_err(failed)?;
        Ok(Copy {
            path: path.to_owned(),
            out,
            fault: None,
        })
    }

    pub(super) fn packet(&mut self, p: &Passed<'_>) {
        if self.fault.is_some() {
            return;
        }
        let written = self.out.packet(&Packet {
            interface: 0,
            t_ns: p.t_ns,
            original_len: p.original_len,
            data: p.data,
            way: Some(if p.outgoing { Way::Out } else { Way::In }),
            comment: None,
        });
        self.fault = written.err();
    }

    pub(super) fn close(self) -> anyhow::Result<()> {
        let done = match self.fault {
            Some(e) => Err(e),
            None => self.out.finish().map(drop),
        };
        done.map_err(|e| anyhow::anyhow!("cannot write {}: {e}", self.path.display()))
    }
}

/// Result of the capture: the traffic, the reason of its end, and the failure of the copy.
pub struct Seen {
    pub traffic: Traffic,
    pub complete: bool,
    pub copied: anyhow::Result<()>,
}

/// Open interface, and the outputs of its packets.
pub struct Open {
    sniffer: Sniffer,
    copy: Option<Copy>,
}

/// Receiver of a live capture.
pub(super) trait Receiver {
    /// Takes a packet.
    fn packet(&mut self, record: &Record<'_>, frame: Option<&Frame<'_>>);
    /// Ends a second and returns the state to show; `dropped` packets had no room in the kernel so far.
    fn second(&mut self, since_ns: i64, dropped: u64) -> String;
}

/// Tracker of connections, with those that watch it.
struct Tracked<'k> {
    tracker: Tracker,
    watchers: Watchers<'k>,
}

impl Receiver for Tracked<'_> {
    fn packet(&mut self, record: &Record<'_>, frame: Option<&Frame<'_>>) {
        let Tracked { tracker, watchers } = self;
        watchers.begin(record.t_ns.unwrap_or_default(), frame);
        watchers.view.passed(record.original_len);
        tracker.packet_watched(record.t_ns, record.original_len, frame, watchers);
        watchers.end();
    }

    fn second(&mut self, since_ns: i64, dropped: u64) -> String {
        if let Some(packet_rows) = &mut self.watchers.packet_rows {
            packet_rows.tick(wall_ns());
        }
        let live = self.tracker.connections().0;
        self.watchers.view.end_second(since_ns, live, dropped)
    }
}

/// Captures until the end, and tracks connections.
pub fn run(
    plan: &Live,
    settings: Settings,
    open: Open,
    keep: Option<&mut Keep>,
    notes: &mut Vec<String>,
    observer: &dyn Observer,
) -> Seen {
    let mut tracked = Tracked {
        tracker: Tracker::new(Settings {
            most_live: MOST_LIVE,
            most_done: MOST_DONE,
            ..settings
        }),
        watchers: Watchers {
            view: View::new(&plan.interface),
            packet_rows: keep.map(PacketRows::new),
        },
    };
    let (complete, copied) = capture(plan, open, &mut tracked, notes, observer);
    let Tracked {
        tracker,
        mut watchers,
    } = tracked;
    Seen {
        traffic: tracker.finish_watched(&mut watchers),
        complete,
        copied,
    }
}

/// Captures until the end. Returns false if the interface failed before, and the outcome of the copy.
pub(super) fn capture(
    plan: &Live,
    open: Open,
    receiver: &mut dyn Receiver,
    notes: &mut Vec<String>,
    observer: &dyn Observer,
) -> (bool, anyhow::Result<()>) {
    let name = &plan.interface;
    let mut capture = Capture {
        link: open.sniffer.link(),
        sniffer: open.sniffer,
        copy: open.copy,
    };
    observer.tell(Event::Interruptible);
    let watched = capture.watch(plan.duration, receiver, observer);
    if let Err(e) = &watched {
        notes.push(format!("{e}: what came before is counted"));
    }
    // What waits in the ring was there before the end.
    capture.take(usize::MAX, receiver);
    observer.tell(Event::Finished);
    match capture.sniffer.counts() {
        Ok((_, 0)) => {}
        Ok((seen, dropped)) => notes.push(format!(
            "{name}: the kernel had no room for {dropped} of {seen} packets: what is missing here may not be missing on the link"
        )),
        Err(e) => notes.push(format!("{e}: how many packets were missed is not known")),
    }
    (watched.is_ok(), capture.copy.map_or(Ok(()), Copy::close))
}

/// Capture in progress.
struct Capture {
    sniffer: Sniffer,
    link: LinkType,
    copy: Option<Copy>,
}

impl Capture {
    /// Captures until the time is over or the user interrupts.
    fn watch(
        &mut self,
        duration: Option<Duration>,
        receiver: &mut dyn Receiver,
        observer: &dyn Observer,
    ) -> Result<(), SniffError> {
        let began = mono_ns();
        let end = duration.map(|d| began.saturating_add(d.as_nanos() as i64));
        let mut next = began + SECOND_NS;
        loop {
            let now = mono_ns();
            if observer.interrupted() || end.is_some_and(|end| now >= end) {
                return Ok(());
            }
            if now >= next {
                let dropped = self.sniffer.counts().map_or(0, |(_, dropped)| dropped);
                let text = receiver.second(now - began, dropped);
                observer.tell(Event::Capture(&text));
                next = now + SECOND_NS;
            }
            let until = end.map_or(next, |end| end.min(next));
            let most_ms = ((until - now) / 1_000_000).clamp(1, 100) as u16;
            self.sniffer.wait(most_ms)?;
            self.take(AT_ONCE, receiver);
        }
    }

    /// Takes at most this many packets; without a limit, those that are waiting.
    fn take(&mut self, most: usize, receiver: &mut dyn Receiver) {
        let end_ns = wall_ns();
        let Capture {
            sniffer,
            link,
            copy,
        } = self;
        let mut late = false;
        for _ in 0..most {
            let more = sniffer.take(|p| {
                // A busy line never leaves the ring empty.
                late = most == usize::MAX && p.t_ns > end_ns;
                if late {
                    return;
                }
                if let Some(copy) = copy {
                    copy.packet(p);
                }
                let record = Record {
                    t_ns: Some(p.t_ns),
                    link: *link,
                    interface: 0,
                    original_len: p.original_len,
                    data: p.data,
                };
                let frame = frame::parse(&record);
                receiver.packet(&record, frame.as_ref());
            });
            if !more || late {
                return;
            }
        }
    }
}

/// Opens the interface, and creates the copy of its packets.
///
/// # Errors
/// Errors of [`Sniffer::open`]; an unknown interface and an existing file are mistakes of the user.
pub fn open(plan: &Live) -> anyhow::Result<Open> {
    let name = &plan.interface;
    let sniffer = Sniffer::open(name, plan.snaplen as usize).map_err(|e| match e {
        SniffError::NoInterface { .. } | SniffError::Kind { .. } => usage(e.to_string()),
        e => e.into(),
    })?;
    let copy = match &plan.write {
        Some(path) => Some(Copy::create(path, name, sniffer.link(), plan.snaplen)?),
        None => None,
    };
    Ok(Open { sniffer, copy })
}
