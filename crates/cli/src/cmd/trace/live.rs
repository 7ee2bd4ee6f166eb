//! `tailback trace --live`: the packets of an interface as they pass.

use super::keep::Keep;
use super::scribe::Scribe;
use super::view::View;
use crate::cmd::usage;
use base::Duration;
use live::clock::{mono_ns, wall_ns};
use live::sniff::{Passed, SniffError, Sniffer};
use measure::capture::frame::{self, Frame};
use measure::capture::pcapng::{self, Interface, Packet, Way};
use measure::capture::{LinkType, Record};
use measure::track::{Act, Connection, Settings, Tracker, Traffic, Watch};
use std::fs::File;
use std::io::{BufWriter, IsTerminal};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(next_help_heading = "An interface, live")]
pub struct Args {
    /// Watch the packets of this interface until Ctrl-C, or for as long as --duration says; needs root or CAP_NET_RAW
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ["files", "traffic", "far"])]
    live: Option<String>,
    /// End after so long, such as 10min
    #[arg(long, value_name = "TIME", requires = "live")]
    duration: Option<Duration>,
    /// Keep the packets there as well, as pcapng
    #[arg(long, value_name = "FILE.pcapng", requires = "live")]
    write: Option<PathBuf>,
    /// Bytes of each packet that are looked at and kept: headers need no more
    #[arg(long, value_name = "BYTES", requires = "live", default_value_t = 192, value_parser = clap::value_parser!(u32).range(96..=65_536))]
    snaplen: u32,
}

impl Args {
    pub fn interface(&self) -> Option<&str> {
        self.live.as_deref()
    }
}

/// A capture goes on for as long as somebody likes, so what is held has narrower bounds than of a file.
const MOST_LIVE: usize = 200_000;
const MOST_DONE: usize = 20_000;
const SECOND_NS: i64 = 1_000_000_000;
/// Packets taken before the clock is looked at.
const AT_ONCE: usize = 4096;

/// Who is told of what the packets do: the view, and what is kept.
struct Watchers<'k> {
    view: View,
    scribe: Option<Scribe<'k>>,
}

impl Watchers<'_> {
    fn begin(&mut self, t_ns: i64, frame: Option<&Frame<'_>>) {
        self.view.begin(frame);
        if let Some(scribe) = &mut self.scribe {
            scribe.begin(Some(t_ns), frame);
        }
    }

    fn end(&mut self) {
        if let Some(scribe) = &mut self.scribe {
            scribe.end();
        }
    }
}

impl Watch for Watchers<'_> {
    fn turn(&mut self, connection: u32, direction: usize) {
        self.view.turn(connection, direction);
        if let Some(scribe) = &mut self.scribe {
            scribe.turn(connection, direction);
        }
    }

    fn act(&mut self, act: Act) {
        self.view.act(act);
        if let Some(scribe) = &mut self.scribe {
            scribe.act(act);
        }
    }

    fn over(&mut self, c: &Connection) {
        if let Some(scribe) = &mut self.scribe {
            scribe.over(c);
        }
    }
}

/// The packets as a file.
pub(super) struct Copy {
    path: PathBuf,
    out: pcapng::Writer<BufWriter<File>>,
    /// What the disk said first; nothing is written after it.
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

/// What was seen until it ended, whether that was as planned, and what went wrong with the copy.
pub struct Seen {
    pub traffic: Traffic,
    pub complete: bool,
    pub copied: anyhow::Result<()>,
}

/// An interface that is listened to, and where its packets go.
pub struct Open {
    sniffer: Sniffer,
    copy: Option<Copy>,
}

/// Watches until it ends.
pub fn run(
    args: &Args,
    settings: Settings,
    open: Open,
    keep: Option<&mut Keep>,
    notes: &mut Vec<String>,
) -> Seen {
    let name = args.interface().unwrap_or_default();
    let Open {
        mut sniffer,
        mut copy,
    } = open;
    let link = sniffer.link();
    let mut tracker = Tracker::new(Settings {
        most_live: MOST_LIVE,
        most_done: MOST_DONE,
        ..settings
    });
    let terminal = std::io::stderr().is_terminal();
    let mut watchers = Watchers {
        view: View::new(name, terminal),
        scribe: keep.map(Scribe::new),
    };
    live::signal::catch_interrupt();
    let began = mono_ns();
    let end = args
        .duration
        .map(|d| began.saturating_add(d.as_nanos() as i64));
    let mut next = began + SECOND_NS;
    let mut complete = true;
    loop {
        let now = mono_ns();
        if live::signal::interrupted() || end.is_some_and(|end| now >= end) {
            break;
        }
        if now >= next {
            let dropped = sniffer.counts().map_or(0, |(_, dropped)| dropped);
            watchers
                .view
                .show(now - began, tracker.connections().0, dropped);
            if let Some(scribe) = &mut watchers.scribe {
                scribe.tick(wall_ns());
            }
            next = now + SECOND_NS;
        }
        let until = end.map_or(next, |end| end.min(next));
        let most_ms = ((until - now) / 1_000_000).clamp(1, 100) as u16;
        if let Err(e) = sniffer.wait(most_ms) {
            notes.push(format!("{e}: what came before is counted"));
            complete = false;
            break;
        }
        take(
            &mut sniffer,
            AT_ONCE,
            link,
            &mut tracker,
            &mut watchers,
            &mut copy,
        );
    }
    // What waits in the ring was there before the end.
    take(
        &mut sniffer,
        usize::MAX,
        link,
        &mut tracker,
        &mut watchers,
        &mut copy,
    );
    watchers.view.clear();
    match sniffer.counts() {
        Ok((_, 0)) => {}
        Ok((seen, dropped)) => notes.push(format!(
            "{name}: the kernel had no room for {dropped} of {seen} packets: what is missing here may not be missing on the line"
        )),
        Err(e) => notes.push(format!("{e}: how many packets were missed is not known")),
    }
    let traffic = tracker.finish_watched(&mut watchers);
    Seen {
        traffic,
        complete,
        copied: copy.map_or(Ok(()), Copy::close),
    }
}

fn take(
    sniffer: &mut Sniffer,
    most: usize,
    link: LinkType,
    tracker: &mut Tracker,
    watchers: &mut Watchers<'_>,
    copy: &mut Option<Copy>,
) {
    let end_ns = wall_ns();
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
                link,
                interface: 0,
                original_len: p.original_len,
                data: p.data,
            };
            let frame = frame::parse(&record);
            watchers.begin(p.t_ns, frame.as_ref());
            watchers.view.passed(p.original_len);
            tracker.packet_watched(record.t_ns, record.original_len, frame.as_ref(), watchers);
            watchers.end();
        });
        if !more || late {
            return;
        }
    }
}

/// Opens the interface, and begins the copy of its packets.
///
/// # Errors
/// As [`Sniffer::open`]; one that is not there is the user's mistake, as is a file that is there already.
pub fn open(args: &Args) -> anyhow::Result<Open> {
    let name = args.interface().unwrap_or_default();
    let sniffer = Sniffer::open(name, args.snaplen as usize).map_err(|e| match e {
        SniffError::NoInterface { .. } | SniffError::Kind { .. } => usage(e.to_string()),
        e => e.into(),
    })?;
    let copy = match &args.write {
        Some(path) => Some(Copy::create(path, name, sniffer.link(), args.snaplen)?),
        None => None,
    };
    Ok(Open { sniffer, copy })
}
