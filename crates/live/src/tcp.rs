//! Transfers of given sizes by given controllers, one after the other, each sampled while it runs: what
//! `tailback probe tcp` carries out.
//!
//! Uploads, because there this host is the sender, whose controller, initial window and offload are ours to choose. A
//! slow flow of datagrams, the probes of a session, goes on beside them from the beginning to the end. Samples are rows of the
//! table `flow`, one number a transfer; an event of the kind `tcp` says what each was and what became of it.

use crate::clock::mono_ns;
use crate::craft::CraftError;
use crate::emulate::settings;
use crate::errand::{Errand, ErrandError, Stage, TICK};
use crate::load::kernel::{
    CongestionControls, TcpInfo, close_abruptly, congestion_of, random_bytes,
};
use crate::load::pump::{PEER_DONE, Payload, wait};
use crate::traffic::interface_towards;
use base::record::{Direction, Flow};
use base::{Bytes, Duration};
use measure::control::{FlowSpec, Request, Response, SessionId};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, send};
use serde_json::{Value, json};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;

/// How often a transfer is sampled.
const SAMPLE_NS: i64 = 20_000_000;
/// Breaks of up to 260 s were seen on GPRS (document 002, section 5.1.3).
const PATIENCE_NS: i64 = 300_000_000_000;
/// From one transfer to the next: what the last one left in queues is gone, all of it having been acknowledged.
const REST: std::time::Duration = std::time::Duration::from_millis(300);

/// Which transfers to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of whole IP packets, both directions together.
    pub budget: Bytes,
    /// The one that leads to the server where not given.
    pub interface: Option<String>,
    /// Names of the kernel's; those that it lacks are told and left out.
    pub controls: Vec<String>,
    /// Packets; none leaves the system's.
    pub windows: Vec<Option<u32>>,
    /// Whether the kernel may hand down more than a packet at once; none leaves the system's.
    pub offload: Vec<Option<bool>>,
    pub sizes: Vec<Bytes>,
    pub repeats: u64,
    /// Whether this network namespace is ours, so that its routes and its interface may be changed.
    pub own_namespace: bool,
}

/// One transfer.
#[derive(Clone, Debug)]
struct Transfer {
    number: i64,
    congestion: String,
    window: Option<u32>,
    offload: Option<bool>,
    size: Bytes,
}

/// Makes one transfer after the other. Runs in the calling thread's network namespace.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), ErrandError> {
    let traffic = errand.traffic(plan.interface.as_deref())?;
    let prober = errand.session()?;
    let mut run = Run {
        plan,
        errand,
        whole: Bytes::ZERO,
        payload: Payload::new(),
    };
    let result = run.all();
    prober.stop();
    traffic.stop();
    Ok(result?)
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    errand: &'a mut Errand<'b>,
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

    /// In turn rather than one kind after the other: a line that changes meanwhile changes for all.
    fn transfers(&self) -> Vec<Transfer> {
        let plan = self.plan;
        let known = CongestionControls::read();
        let (had, missing): (Vec<_>, Vec<_>) = plan
            .controls
            .iter()
            .partition(|name| known.available.contains(name));
        for name in missing {
            let has = known.available.join(", ");
            let why = format!(
                "{name} is not in this kernel, which has {has}; modprobe tcp_{name} may load it"
            );
            self.event("missing", &why);
        }
        if !plan.own_namespace {
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
                if asked {
                    let why = format!(
                        "{what} stay as the system has them: to change them would change this host's routes or interface for everybody on it. Set them yourself ({how}), run this once for each, and compare the recordings"
                    );
                    self.event("missing", &why);
                }
            }
        }
        let own = plan.own_namespace;
        let keep = |wanted: bool| wanted && own;
        let windows: Vec<_> = match keep(plan.windows.iter().any(Option::is_some)) {
            true => plan.windows.clone(),
            false => vec![None],
        };
        let offload: Vec<_> = match keep(plan.offload.iter().any(Option::is_some)) {
            true => plan.offload.clone(),
            false => vec![None],
        };
        let mut all = Vec::new();
        for _ in 0..plan.repeats {
            for &size in &plan.sizes {
                for &window in &windows {
                    for &offload in &offload {
                        for congestion in &had {
                            all.push(Transfer {
                                number: all.len() as i64,
                                congestion: (*congestion).clone(),
                                window,
                                offload,
                                size,
                            });
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
        for t in &transfers {
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
            self.one(t, count)?;
            std::thread::sleep(REST);
        }
        Ok(())
    }

    fn settings(&self, t: &Transfer) -> Result<(), CraftError> {
        let server = self.errand.peer.server;
        let failed = |what| {
            move |e: crate::emulate::EmulateError| CraftError::Socket {
                what,
                source: std::io::Error::other(e.to_string()),
            }
        };
        if let Some(window) = t.window {
            settings::set_initial_window(server.ip(), window)
                .map_err(failed("set the initial window"))?;
        }
        if let Some(on) = t.offload {
            let interface = interface_towards(server)?;
            settings::set_segmentation(&interface, on).map_err(failed("switch offload"))?;
        }
        Ok(())
    }

    fn one(&mut self, t: &Transfer, count: usize) -> Result<(), CraftError> {
        let peer = self.errand.peer.clone();
        let stream = peer.connect(Some(&t.congestion))?;
        let spec = FlowSpec {
            session: SessionId(random_bytes()),
            flow: 0,
            duration: Duration::from_secs(600),
            sample: Duration::from_secs(1),
        };
        let (response, _) =
            peer.ask(&stream, &Request::Upload { spec }, &AtomicBool::new(false))?;
        if !matches!(response, Response::Accepted(_)) {
            return Err(CraftError::Unexpected {
                server: peer.server,
            });
        }
        let info = || TcpInfo::read(&stream).map_err(CraftError::socket("read TCP_INFO"));
        let mut followed = self.errand.tally.follow(peer.server);
        let first = info()?;
        let before = first.bytes_acked().unwrap_or(0);
        let again = first.sender().retransmits;
        let window = crate::load::congestion_window(&stream).ok();
        let began = mono_ns();
        let began_ns = self.errand.clock.unix_ns();
        let size = t.size.get() as usize;
        let (mut sent, mut due, mut told) = (0usize, began, began);
        let (mut acked, mut moved, mut longest) = (0u64, began, (0i64, began));
        let stage = format!("{} {}", t.congestion, t.size);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let failed = loop {
            let now = mono_ns();
            let info = info()?;
            let now_acked = info.bytes_acked().unwrap_or(0).saturating_sub(before);
            if now_acked > acked {
                longest = longest.max((now - moved, moved));
                (acked, moved) = (now_acked, now);
            }
            let done = acked >= size as u64;
            if now >= due || done {
                due = now + SAMPLE_NS;
                followed.count(&info);
                let mut row =
                    Flow::about(self.errand.clock.from_mono_ns(now), t.number, Direction::Up);
                row.bytes_acked = i64::try_from(acked).ok();
                crate::load::fill(&mut row, &info.sender());
                self.errand.row(row);
            }
            if done {
                break None;
            }
            if self.errand.tally.bytes() >= self.plan.budget {
                break Some("the budget was spent");
            }
            if now - moved > PATIENCE_NS {
                break Some("nothing was acknowledged for 300 s");
            }
            if now - told >= TICK.as_nanos() as i64 {
                told = now;
                self.tick(&stage, format!("{} of {count}", t.number + 1))?;
            }
            let mut events = PEER_DONE;
            if sent < size {
                let chunk = self.payload.chunk(sent);
                match send(
                    stream.as_raw_fd(),
                    &chunk[..chunk.len().min(size - sent)],
                    flags,
                ) {
                    Ok(n) => {
                        sent += n;
                        continue;
                    }
                    Err(Errno::EAGAIN) => events |= PollFlags::POLLOUT,
                    Err(Errno::EINTR) => {}
                    Err(_) => break Some("the connection broke"),
                }
            }
            if wait(&stream, events, 1_000_000).intersects(PEER_DONE | PollFlags::POLLHUP) {
                break Some("the server closed the connection");
            }
        };
        let ended = mono_ns();
        let last = info()?;
        followed.count(&last);
        let last = last.sender();
        let detail = json!({
            "congestion": congestion_of(&stream),
            "window_packets": window,
            "asked_window_packets": t.window,
            "offload": t.offload,
            "size_bytes": t.size.get(),
            "began_ns": began_ns,
            "took_ns": if failed.is_none() { json!(ended - began) } else { Value::Null },
            "failed": failed,
            "retransmits": last.retransmits - again,
            "mss_bytes": last.mss_bytes,
            "break_ns": longest.0,
            "break_began_ns": began_ns + (longest.1 - began),
        });
        self.event(&t.number.to_string(), &detail.to_string());
        close_abruptly(&stream);
        Ok(())
    }
}

/// Whole IP packets of a transfer of that size, with the packets that acknowledge them, as far as it can be known before.
fn on_line(size: Bytes) -> Bytes {
    Bytes::new(size.get() * 107 / 100)
}
