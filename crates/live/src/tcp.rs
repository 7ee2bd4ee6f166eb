//! Transfers of given sizes, each sampled while it runs, as the steps of experiments ask for them.
//!
//! The sender is this host for an upload and the server for a download. The server is asked for the controller, and for its
//! TCP_INFO once the transfer is over. Samples are rows of the table `flow`.

use crate::clock::Clock;
use crate::clock::mono_ns;
use crate::emulate::{EmulateError, NEAR_V4, NEAR_V6, NetNs, settings};
use crate::error::CraftError;
use crate::load::LoadError;
use crate::load::Peer;
use crate::load::exchange::Turn;
use crate::load::kernel::{
    CongestionControls, TcpInfo, close_abruptly, congestion_of, random_bytes,
};
use crate::load::pump::{End, Payload};
use crate::load::whole::{Pace, Went, Whole};
use crate::tally::Tally;
use crate::traffic::interface_towards;
use base::Duration;
use base::record::{Direction, Flow, Row};
use experiment::ask::{Broken, Refused, SenderSettings, Transfer, Transferred};
use experiment::host::Meanwhile;
use measure::control::{
    Accepted, Detail, FlowReport, FlowSpec, Request, Response, ServerInfo, SessionId,
};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

/// Interval at which whoever watches a transfer is asked.
const TICK: Duration = Duration::from_millis(100);

/// Context of all transfers of a run.
pub(crate) struct Transfers<'a> {
    pub peer: &'a Peer,
    pub clock: Clock,
    pub rows: &'a Sender<Row>,
    pub tally: &'a Tally,
}

/// Outcome of a transfer, or the server's refusal of a download.
type Outcome = Result<Transferred, Refused>;

impl Transfers<'_> {
    /// Names of the congestion controls that the sender of a direction has; null if a server does not say.
    pub fn controls(&self, direction: Direction) -> Option<Vec<String>> {
        match direction {
            Direction::Up => Some(CongestionControls::read().available),
            Direction::Down => Some(self.server()?.congestion),
        }
    }

    fn server(&self) -> Option<ServerInfo> {
        let stream = self.peer.connect(None).ok()?;
        let answer = self
            .peer
            .ask(&stream, &Request::Info, &AtomicBool::new(false));
        self.tally.connection(&stream);
        match answer.ok()?.0 {
            Response::Info(info) => Some(info),
            _ => None,
        }
    }

    /// Sets up the sender of a direction, in the calling thread's network namespace or in `far`.
    ///
    /// # Errors
    /// The far end is not ours; a setting is refused.
    pub fn sender(
        &self,
        far: Option<&NetNs>,
        direction: Direction,
        sender: SenderSettings,
    ) -> Result<(), CraftError> {
        let server = self.peer.server;
        let Some(far) = far else {
            return Err(experiment::Stopped::Cannot {
                what: "change settings of a network namespace that is not ours",
            }
            .into());
        };
        if direction == Direction::Up {
            return set(sender, server);
        }
        let near: IpAddr = match server.ip().to_canonical() {
            IpAddr::V4(_) => NEAR_V4.into(),
            IpAddr::V6(_) => NEAR_V6.into(),
        };
        let entered = far.run(|| set(sender, SocketAddr::new(near, server.port())));
        entered.map_err(|e| CraftError::Socket {
            what: "enter the far end",
            source: std::io::Error::other(e.to_string()),
        })?
    }

    /// Carries a transfer out.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses an upload.
    pub fn carry_out(
        &self,
        t: &Transfer,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Outcome, CraftError> {
        match self.one(t, going_on) {
            Err(CraftError::Load(LoadError::Refused { why, text, .. }))
                if t.direction == Direction::Down =>
            {
                Ok(Err(Refused { why, text }))
            }
            Err(e) => Err(e),
            Ok(transferred) => Ok(Ok(transferred)),
        }
    }

    fn one(
        &self,
        t: &Transfer,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Transferred, CraftError> {
        let up = t.direction == Direction::Up;
        // The server is asked for the congestion control of a download.
        let stream = self.peer.connect(up.then_some(&*t.congestion))?;
        let (request, session) = request(t);
        let (response, turn) = self.peer.ask(&stream, &request, &AtomicBool::new(false))?;
        let Response::Accepted(accepted) = response else {
            return Err(CraftError::Unexpected {
                server: self.peer.server,
            });
        };
        let info = || TcpInfo::read(&stream).map_err(CraftError::socket("read TCP_INFO"));
        let first = info()?;
        // A download begins with its request, as an upload begins with its first byte: both have a round trip in them.
        let began = if up { mono_ns() } else { turn.sent };
        let went = self.carry(t, (&stream, &first), &accepted, going_on);
        let last = info()?;
        let sender = match t.direction {
            Direction::Up => {
                let (first, last) = (first.sender(), last.sender());
                SenderState {
                    window: first.cwnd_bytes.checked_div(first.mss_bytes),
                    again: Some(last.retransmits - first.retransmits),
                    mss: Some(last.mss_bytes),
                }
            }
            Direction::Down => self.reported(t, session, turn, &accepted),
        };
        let ns = |n: i64| Duration::from_nanos(n.max(0) as u64);
        let transferred = Transferred {
            congestion: match up {
                true => congestion_of(&stream),
                false => accepted.congestion.clone(),
            },
            began_ns: self.clock.from_mono_ns(began),
            took: ns(went.ended - began),
            failed: went.result.err().map(|end| broken(end, &accepted)),
            window: sender.window,
            retransmits: sender.again,
            mss: sender.mss,
            pause: ns(went.longest.0),
            pause_began_ns: self.clock.from_mono_ns(went.longest.1),
        };
        close_abruptly(&stream);
        Ok(transferred)
    }

    /// From the first byte to the last.
    fn carry(
        &self,
        t: &Transfer,
        (stream, first): (&TcpStream, &TcpInfo),
        accepted: &Accepted,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Went {
        let pace = t.pace.map(|rate| {
            // Segments leave as they are written.
            let _ = stream.set_nodelay(true);
            let segment = first.sender().mss_bytes;
            Pace { rate, segment }
        });
        let stop = AtomicBool::new(false);
        let whole = Whole {
            socket: stream,
            bytes: t.bytes.get(),
            until: mono_ns() + accepted.duration.as_nanos() as i64,
            sample: t.sample,
            patience: t.patience,
            gate: None,
            pace,
            stop: &stop,
        };
        let most = self.tally.bytes() + t.most;
        let mut followed = self.tally.follow(self.peer.server);
        let (mut told, mut wanted) = (mono_ns(), true);
        let mut on_sample = |now: i64, moved: u64, info: &TcpInfo| {
            followed.count(info);
            let mut row = Flow::about(self.clock.from_mono_ns(now), t.number, t.direction);
            let moved = i64::try_from(moved).ok();
            match t.direction {
                Direction::Up => {
                    row.bytes_acked = moved;
                    crate::load::fill(&mut row, &info.sender());
                }
                Direction::Down => row.bytes_received = moved,
            }
            self.row(row);
            let tally = self.tally.bytes();
            if now - told >= TICK.as_nanos() as i64 {
                told = now;
                let now = self.clock.now();
                wanted &= going_on(Meanwhile { now, tally });
            }
            match wanted && tally < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        let went = match t.direction {
            Direction::Up => {
                let before = first.bytes_acked().unwrap_or(0);
                whole.send(&Payload::new(), before, &mut on_sample)
            }
            Direction::Down => whole.receive(&mut on_sample),
        };
        followed.look(stream);
        went
    }

    fn row(&self, row: Flow) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.rows.send(row.into());
    }

    /// The server's TCP_INFO of a download, whose samples become rows on our clock.
    fn reported(
        &self,
        t: &Transfer,
        session: SessionId,
        turn: Turn,
        accepted: &Accepted,
    ) -> SenderState {
        let report = || -> Result<Option<FlowReport>, LoadError> {
            let stream = self.peer.connect(None)?;
            let request = Request::Report { session };
            let answer = self.peer.ask(&stream, &request, &AtomicBool::new(false));
            self.tally.connection(&stream);
            match answer?.0 {
                Response::Report(flows) => Ok(flows.into_iter().next()),
                _ => Ok(None),
            }
        };
        let Ok(Some(report)) = report() else {
            return SenderState::default();
        };
        let middle = turn.sent + (turn.answered - turn.sent) / 2;
        let ahead = accepted
            .server_ns
            .wrapping_sub(self.clock.from_mono_ns(middle));
        for row in crate::load::reported(&report, t.number, ahead) {
            self.row(row);
        }
        let mut states = report.samples.iter().filter_map(|s| match s.detail {
            Detail::Sender(state) => Some(state),
            _ => None,
        });
        let first = states.next();
        let last = states.next_back().or(first);
        SenderState {
            window: first.and_then(|s| s.cwnd_bytes.checked_div(s.mss_bytes)),
            again: last.zip(first).map(|(l, f)| l.retransmits - f.retransmits),
            mss: last.map(|s| s.mss_bytes),
        }
    }
}

fn request(t: &Transfer) -> (Request, SessionId) {
    let session = SessionId(random_bytes());
    let spec = FlowSpec {
        session,
        flow: 0,
        duration: t.longest,
        sample: t.sample,
    };
    let request = match t.direction {
        Direction::Up => Request::Upload { spec },
        Direction::Down => Request::Fetch {
            spec,
            congestion: t.congestion.clone(),
            bytes: t.bytes.get(),
        },
    };
    (request, session)
}

fn broken(end: End, accepted: &Accepted) -> Broken {
    match end {
        End::TimeUp => Broken::TimeUp(accepted.duration),
        End::Stalled => Broken::Stalled,
        End::Enough => Broken::Enough,
        End::PeerClosed => Broken::Closed,
        End::Stopped => Broken::Stopped,
        End::Failed(e) => Broken::Failed(e.to_string()),
    }
}

/// State of the end that sent.
#[derive(Default)]
struct SenderState {
    /// Packets that it might send when the transfer began.
    window: Option<u64>,
    again: Option<u64>,
    mss: Option<u64>,
}

/// Applies settings in the calling thread's network namespace.
fn set(sender: SenderSettings, to: SocketAddr) -> Result<(), CraftError> {
    let failed = |what| {
        move |e: EmulateError| CraftError::Socket {
            what,
            source: std::io::Error::other(e.to_string()),
        }
    };
    if let Some(window) = sender.window {
        settings::set_initial_window(to.ip(), window).map_err(failed("set the initial window"))?;
    }
    if let Some(on) = sender.offload {
        let interface = interface_towards(to)?;
        settings::set_segmentation(&interface, on).map_err(failed("switch offload"))?;
    }
    Ok(())
}
