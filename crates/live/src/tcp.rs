//! Transfers of given sizes by given controllers, one after the other, each sampled while it runs: what
//! `tailback probe tcp` carries out.
//!
//! Of an upload this host is the sender, of a download the server is: it is asked for the controller, and for what its
//! TCP_INFO said once the transfer is over. Initial window and offload are ours to choose where the sender's network
//! namespace is ours. A slow flow of datagrams, the probes of a session, goes on beside them from the beginning to the end.
//! Samples are rows of the table `flow`, one number a transfer; an event of the kind `tcp` says what each was and what
//! became of it.

use crate::clock::mono_ns;
use crate::craft::CraftError;
use crate::emulate::{NEAR_V4, NEAR_V6, NetNs, settings};
use crate::errand::{Errand, Stage, TICK};
use crate::load::LoadError;
use crate::load::exchange::Turn;
use crate::load::kernel::{
    CongestionControls, TcpInfo, close_abruptly, congestion_of, random_bytes,
};
use crate::load::pump::{End, Payload};
use crate::load::whole::{Went, Whole};
use crate::traffic::{TrafficMonitor, interface_towards};
use base::record::{Direction, Flow};
use base::{Bytes, Duration};
use measure::control::{
    Accepted, Detail, FlowReport, FlowSpec, Refusal, Request, Response, ServerInfo, SessionId,
};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

/// How often a transfer is sampled.
const SAMPLE: Duration = Duration::from_millis(20);
/// Breaks of up to 260 s were seen on GPRS (Chandele 2012, section 5.1.3).
const PATIENCE: Duration = Duration::from_secs(300);
/// From one transfer to the next: what the last one left in queues is gone, all of it having been acknowledged.
const REST: std::time::Duration = std::time::Duration::from_millis(300);

/// How often it is looked for others on the line, between two transfers.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// A download is allowed so long, and as long again as it takes at [`SLOWEST`], up to [`LONGEST`]: the server samples a
/// flow the less often the longer it may last.
const AT_LEAST: Duration = Duration::from_secs(60);
/// Bytes a second; GPRS made five times a thousand (Chandele 2012, table 5.2.1).
const SLOWEST: u64 = 4000;
const LONGEST: Duration = Duration::from_secs(600);

/// Which transfers to make.
pub struct Plan<'a> {
    /// Of whole IP packets, both directions together.
    pub budget: Bytes,
    /// The one that leads to the server where not given.
    pub interface: Option<String>,
    pub directions: Vec<Direction>,
    /// Names of the kernel's at the sender; those that it lacks are told and left out.
    pub controls: Vec<String>,
    /// Packets; none leaves the system's.
    pub windows: Vec<Option<u32>>,
    /// Whether the kernel may hand down more than a packet at once; none leaves the system's.
    pub offload: Vec<Option<bool>>,
    pub sizes: Vec<Bytes>,
    pub repeats: u64,
    /// The far end's network namespace where that and this one are ours, so that their routes and their interfaces may be
    /// changed.
    pub far: Option<&'a NetNs>,
}

/// One transfer.
#[derive(Clone, Debug)]
struct Transfer {
    number: i64,
    direction: Direction,
    congestion: String,
    window: Option<u32>,
    offload: Option<bool>,
    size: Bytes,
}

/// Makes one transfer after the other. Runs in the calling thread's network namespace.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn run(plan: &Plan<'_>, errand: &mut Errand) -> Result<(), CraftError> {
    errand.take_turn(crate::errand::TURN)?;
    let traffic = errand.traffic(plan.interface.as_deref())?;
    let prober = errand.session()?;
    let mut run = Run {
        plan,
        errand,
        traffic: &traffic,
        whole: Bytes::ZERO,
        payload: Payload::new(),
    };
    let result = run.all();
    prober.stop();
    traffic.stop();
    result
}

struct Run<'a, 'b> {
    plan: &'a Plan<'a>,
    errand: &'a mut Errand<'b>,
    traffic: &'a TrafficMonitor,
    whole: Bytes,
    payload: Payload,
}

impl Run<'_, '_> {
    fn tick(&mut self, name: &str, note: String) -> Result<(), CraftError> {
        // As a share of what is to be sent: how long that takes, nobody knows.
        let share = |bytes: Bytes| Duration::from_millis(bytes.get() / 1000);
        self.errand.go_on(Stage {
            name,
            number: 1,
            elapsed: share(self.errand.tally.bytes()),
            whole: share(self.whole),
            note,
        })
    }

    fn event(&self, subject: &str, detail: &str) {
        self.errand.event("tcp", subject, detail);
    }

    /// What the sender of that direction has of the controllers that were asked for; what it lacks is told.
    fn controls(&self, direction: Direction) -> Vec<String> {
        let (has, whose, how) = match direction {
            Direction::Up => {
                let has = CongestionControls::read().available;
                (has, "this kernel", "; modprobe tcp_NAME may load it")
            }
            // Where it does not say, each transfer will.
            Direction::Down => match self.server() {
                Some(info) => (info.congestion, "the server's kernel", ""),
                None => return self.plan.controls.clone(),
            },
        };
        let (had, missing): (Vec<_>, Vec<_>) =
            self.plan.controls.iter().partition(|n| has.contains(n));
        for name in missing {
            let has = has.join(", ");
            self.event(
                "missing",
                &format!("{name} is not in {whose}, which has {has}{how}"),
            );
        }
        had.into_iter().cloned().collect()
    }

    fn server(&self) -> Option<ServerInfo> {
        let peer = &self.errand.peer;
        let stream = peer.connect(None).ok()?;
        let answer = peer.ask(&stream, &Request::Info, &AtomicBool::new(false));
        self.errand.tally.connection(&stream);
        match answer.ok()?.0 {
            Response::Info(info) => Some(info),
            _ => None,
        }
    }

    /// In turn rather than one kind after the other: a line that changes meanwhile changes for all.
    fn transfers(&self) -> Vec<Transfer> {
        let plan = self.plan;
        let ours = plan.far.is_some();
        for (asked, what, how) in [
            (
                plan.windows.iter().any(Option::is_some),
                "initial windows",
                "ip route change … initcwnd N",
            ),
            (
                plan.offload.iter().any(Option::is_some),
                "offload",
                "ethtool -K … tso off gso off",
            ),
        ] {
            if asked && !ours {
                let why = format!(
                    "{what} stay as the system has them: to change them would change the sender's routes or interface for everybody on it. Set them there yourself ({how}), run this once for each, and compare the recordings"
                );
                self.event("missing", &why);
            }
        }
        let windows = if ours { &plan.windows[..] } else { &[None] };
        let offload = if ours { &plan.offload[..] } else { &[None] };
        let ways = plan.directions.iter();
        let ways: Vec<_> = ways.map(|&d| (d, self.controls(d))).collect();
        let mut all = Vec::new();
        for _ in 0..plan.repeats {
            for &size in &plan.sizes {
                for &window in windows {
                    for &offload in offload {
                        for (direction, controls) in &ways {
                            for congestion in controls {
                                all.push(Transfer {
                                    number: all.len() as i64,
                                    direction: *direction,
                                    congestion: congestion.clone(),
                                    window,
                                    offload,
                                    size,
                                });
                            }
                        }
                    }
                }
            }
        }
        all
    }

    fn all(&mut self) -> Result<(), CraftError> {
        let transfers = self.transfers();
        let costs = transfers.iter().map(|t| on_line(t.size));
        self.whole = costs.fold(Bytes::ZERO, |sum, cost| sum + cost);
        let count = transfers.len();
        // Of downloads, what the server will not do once it will not do again.
        let mut refused: Vec<Option<String>> = Vec::new();
        let mut looked = self.errand.clock.now();
        for t in &transfers {
            if self.errand.clock.now() - looked >= LOOK_EVERY {
                self.errand.look_for_others(self.traffic, 1)?;
                looked = self.errand.clock.now();
            }
            let (of_one, of_all) = (Some(t.congestion.clone()), None);
            let down = t.direction == Direction::Down;
            if down && (refused.contains(&of_one) || refused.contains(&of_all)) {
                continue;
            }
            let budget = self.plan.budget;
            if self.errand.tally.bytes() + on_line(t.size) > budget {
                let why = format!(
                    "{} of {count} transfers were made: the next one would exceed the budget of {budget:.3}",
                    t.number
                );
                self.event("missing", &why);
                return Ok(());
            }
            self.settings(t)?;
            match self.one(t, count) {
                Err(CraftError::Load(LoadError::Refused { why, text, .. })) if down => {
                    let (which, text) = match why {
                        Refusal::UnknownCongestion => (of_one, text),
                        Refusal::Malformed => (of_all, OLD.into()),
                        _ => (of_all, text),
                    };
                    self.event("missing", &format!("downloads: {text}"));
                    refused.push(which);
                }
                other => other?,
            }
            std::thread::sleep(REST);
        }
        Ok(())
    }

    /// At the end that sends.
    fn settings(&self, t: &Transfer) -> Result<(), CraftError> {
        let server = self.errand.peer.server;
        match (self.plan.far, t.direction) {
            (None, _) => Ok(()),
            (Some(_), Direction::Up) => set(t, server),
            (Some(far), Direction::Down) => {
                let near: IpAddr = match server.ip().to_canonical() {
                    IpAddr::V4(_) => NEAR_V4.into(),
                    IpAddr::V6(_) => NEAR_V6.into(),
                };
                let entered = far.run(|| set(t, SocketAddr::new(near, server.port())));
                entered.map_err(|e| CraftError::Socket {
                    what: "enter the far end",
                    source: std::io::Error::other(e.to_string()),
                })?
            }
        }
    }

    fn one(&mut self, t: &Transfer, count: usize) -> Result<(), CraftError> {
        let peer = self.errand.peer.clone();
        let up = t.direction == Direction::Up;
        // Of a download, the server's is asked for.
        let stream = peer.connect(up.then_some(&*t.congestion))?;
        let size = t.size.get();
        let spec = FlowSpec {
            session: SessionId(random_bytes()),
            flow: 0,
            duration: match t.direction {
                Direction::Up => LONGEST,
                Direction::Down => (AT_LEAST + Duration::from_secs(size / SLOWEST)).min(LONGEST),
            },
            sample: SAMPLE,
        };
        let request = match t.direction {
            Direction::Up => Request::Upload { spec },
            Direction::Down => Request::Fetch {
                spec,
                congestion: t.congestion.clone(),
                bytes: size,
            },
        };
        let (response, turn) = peer.ask(&stream, &request, &AtomicBool::new(false))?;
        let Response::Accepted(accepted) = response else {
            return Err(CraftError::Unexpected {
                server: peer.server,
            });
        };
        let first = TcpInfo::read(&stream).map_err(CraftError::socket("read TCP_INFO"))?;
        // A download begins when it is asked for, as an upload begins with its first byte: both have a round trip in them.
        let began = if up { mono_ns() } else { turn.sent };
        let went = self.carry(t, &stream, &first, &accepted, count)?;
        let last = TcpInfo::read(&stream).map_err(CraftError::socket("read TCP_INFO"))?;
        let failed = went.result.err().map(|end| self.why(&end, &accepted));
        let sender = match t.direction {
            Direction::Up => {
                let (first, last) = (first.sender(), last.sender());
                Sender {
                    window: first.cwnd_bytes.checked_div(first.mss_bytes),
                    again: Some(last.retransmits - first.retransmits),
                    mss: Some(last.mss_bytes),
                }
            }
            Direction::Down => self.reported(t, spec.session, turn, &accepted),
        };
        let began_ns = self.errand.clock.from_mono_ns(began);
        let detail = json!({
            "direction": t.direction,
            "congestion": if up { congestion_of(&stream) } else { accepted.congestion },
            "window_packets": sender.window,
            "asked_window_packets": t.window,
            "offload": t.offload,
            "size_bytes": size,
            "began_ns": began_ns,
            "took_ns": if failed.is_none() { json!(went.ended - began) } else { Value::Null },
            "failed": failed,
            "retransmits": sender.again,
            "mss_bytes": sender.mss,
            "break_ns": went.longest.0,
            "break_began_ns": began_ns + (went.longest.1 - began),
        });
        self.event(&t.number.to_string(), &detail.to_string());
        close_abruptly(&stream);
        Ok(())
    }

    /// From the first byte to the last.
    fn carry(
        &mut self,
        t: &Transfer,
        stream: &TcpStream,
        first: &TcpInfo,
        accepted: &Accepted,
        count: usize,
    ) -> Result<Went, CraftError> {
        let stop = AtomicBool::new(false);
        let whole = Whole {
            socket: stream,
            bytes: t.size.get(),
            until: mono_ns() + accepted.duration.as_nanos() as i64,
            sample: SAMPLE,
            patience: PATIENCE,
            gate: None,
            stop: &stop,
        };
        let mut followed = self.errand.tally.follow(self.errand.peer.server);
        let way = match t.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        let stage = format!("{} {way} by {}", t.size, t.congestion);
        let mut told = mono_ns();
        let mut ended = None;
        let payload = self.payload.clone();
        let mut on_sample = |now: i64, moved: u64, info: &TcpInfo| {
            followed.count(info);
            let mut row = Flow::about(self.errand.clock.from_mono_ns(now), t.number, t.direction);
            let moved = i64::try_from(moved).ok();
            match t.direction {
                Direction::Up => {
                    row.bytes_acked = moved;
                    crate::load::fill(&mut row, &info.sender());
                }
                Direction::Down => row.bytes_received = moved,
            }
            self.errand.row(row);
            if now - told >= TICK.as_nanos() as i64 {
                told = now;
                ended = self
                    .tick(&stage, format!("{} of {count}", t.number + 1))
                    .err();
            }
            match ended.is_none() && self.errand.tally.bytes() < self.plan.budget {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        let went = match t.direction {
            Direction::Up => whole.send(&payload, first.bytes_acked().unwrap_or(0), &mut on_sample),
            Direction::Down => whole.receive(&mut on_sample),
        };
        followed.look(stream);
        ended.map_or(Ok(went), Err)
    }

    fn why(&self, end: &End, accepted: &Accepted) -> String {
        match end {
            End::TimeUp => format!(
                "the server allows a transfer {:.0} and no more",
                accepted.duration
            ),
            End::Stalled => format!("nothing moved for {PATIENCE:.0}"),
            End::Enough => format!("the budget of {:.3} was spent", self.plan.budget),
            End::PeerClosed => "the server closed the connection".into(),
            End::Stopped => "it was ended here".into(),
            End::Failed(e) => format!("the connection broke: {e}"),
        }
    }

    /// What the server's TCP_INFO said of a download, as rows on our clock.
    fn reported(
        &self,
        t: &Transfer,
        session: SessionId,
        turn: Turn,
        accepted: &Accepted,
    ) -> Sender {
        let peer = &self.errand.peer;
        let report = || -> Result<Option<FlowReport>, LoadError> {
            let stream = peer.connect(None)?;
            let request = Request::Report { session };
            let answer = peer.ask(&stream, &request, &AtomicBool::new(false));
            self.errand.tally.connection(&stream);
            match answer?.0 {
                Response::Report(flows) => Ok(flows.into_iter().next()),
                _ => Ok(None),
            }
        };
        let Ok(Some(report)) = report() else {
            return Sender::default();
        };
        let middle = turn.sent + (turn.answered - turn.sent) / 2;
        let ahead = accepted
            .server_ns
            .wrapping_sub(self.errand.clock.from_mono_ns(middle));
        for row in crate::load::reported(&report, t.number, ahead) {
            self.errand.row(row);
        }
        let mut states = report.samples.iter().filter_map(|s| match s.detail {
            Detail::Sender(state) => Some(state),
            _ => None,
        });
        let first = states.next();
        let last = states.next_back().or(first);
        Sender {
            window: first.and_then(|s| s.cwnd_bytes.checked_div(s.mss_bytes)),
            again: last.zip(first).map(|(l, f)| l.retransmits - f.retransmits),
            mss: last.map(|s| s.mss_bytes),
        }
    }
}

/// What is known of the end that sent.
#[derive(Default)]
struct Sender {
    /// Packets that it might send when the transfer began.
    window: Option<u64>,
    again: Option<u64>,
    mss: Option<u64>,
}

/// Of a server that does not know the request.
const OLD: &str = "the server is of a release before this and sends no transfers of a given size: update it, or ask for direction=up";

/// Sets what that transfer asks for, in the calling thread's network namespace.
fn set(t: &Transfer, to: SocketAddr) -> Result<(), CraftError> {
    let failed = |what| {
        move |e: crate::emulate::EmulateError| CraftError::Socket {
            what,
            source: std::io::Error::other(e.to_string()),
        }
    };
    if let Some(window) = t.window {
        settings::set_initial_window(to.ip(), window).map_err(failed("set the initial window"))?;
    }
    if let Some(on) = t.offload {
        let interface = interface_towards(to)?;
        settings::set_segmentation(&interface, on).map_err(failed("switch offload"))?;
    }
    Ok(())
}

/// Whole IP packets of a transfer of that size, with the packets that acknowledge them, as far as it can be known before.
fn on_line(size: Bytes) -> Bytes {
    Bytes::new(size.get() * 107 / 100)
}
