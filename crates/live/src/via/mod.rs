//! Test against a server that is not ours: iperf3, a web server, a responsiveness server, or ndt7.
//!
//! [`Foreign`] is the host of such a test. Its loads are what the server's protocol offers, its probes are ICMP echo or
//! fresh TCP connections, and all rows are those of any test. One-way delays, trains, and the server's own samples are
//! missing. Everything that a server says is checked before use: it may lie.

mod flow;
mod fresh;
mod http;
mod iperf3;
mod load;
mod ndt7;
mod probes;
mod target;
mod told;

pub use target::{Kind, Target};
pub use told::{Urls, sample};

use crate::clock::Clock;
use crate::error::CraftError;
use crate::load::NoSuchCongestionControl;
use crate::load::kernel::{choose_congestion, lift_send_buffer};
use crate::monitor::OpenError;
use crate::outlet::Outlet;
use crate::sockets::Counters;
use crate::tally::Tally;
use crate::trust::TrustError;
use base::program::{Sending, Train};
use base::record::{Recording, Row, Text};
use base::{Bytes, Duration, Time};
use experiment::Stopped;
use experiment::host::{
    Counted, Ended, Host, Load as Plan, Loaded, Passing, Probing, Rates, Scouted,
};
use load::{Far, Load};
use probes::{Probes, Way};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Patience with a connection.
const CONNECTS_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Reason why a foreign server cannot be measured with, or a load over it ended.
#[derive(Debug, thiserror::Error)]
pub enum ViaError {
    #[error(
        "\"{text}\" is no server to measure with: {why}. Known: https://HOST/.well-known/nq, ndt7:HOST, https://HOST/LARGE-FILE, iperf3:HOST[:PORT]"
    )]
    Unreadable { text: String, why: &'static str },
    #[error(
        "no connection to {server} (TCP): {source}. Is the server running there, and the port open? -4 or -6 chooses the version of IP"
    )]
    Unreachable {
        server: SocketAddr,
        source: io::Error,
    },
    #[error("{server} took the connection, then failed with {what}: {source}")]
    Talk {
        server: SocketAddr,
        what: &'static str,
        source: io::Error,
    },
    #[error("{server} refused: {why}")]
    Refused { server: SocketAddr, why: String },
    #[error("{server} said {what}")]
    Unexpected { server: SocketAddr, what: String },
    #[error(
        "no TLS with {host}: {why}. A captive portal or a proxy may answer in its place; --via-ca FILE trusts a private authority"
    )]
    Tls { host: String, why: String },
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("{0}")]
    NoProbes(String),
    #[error("one load at a time: {server} takes no second one beside it")]
    OneAtATime { server: SocketAddr },
    #[error("the server's address was not looked up")]
    NotOpen,
    #[error(transparent)]
    Target(#[from] OpenError),
    #[error(transparent)]
    Congestion(#[from] NoSuchCongestionControl),
    #[error("cannot {what}: {source}")]
    Local {
        what: &'static str,
        source: io::Error,
    },
}

impl ViaError {
    fn local(what: &'static str) -> impl Fn(io::Error) -> ViaError {
        move |source| ViaError::Local { what, source }
    }
}

/// Connects to a server.
///
/// # Errors
/// An unreachable server, or a congestion control that the kernel lacks.
fn open(
    server: SocketAddr,
    outlet: &Outlet,
    congestion: Option<&str>,
) -> Result<TcpStream, ViaError> {
    let unreachable = |source| ViaError::Unreachable { server, source };
    let domain = Domain::for_address(server);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(unreachable)?;
    outlet.bind(&socket).map_err(unreachable)?;
    choose_congestion(SockRef::from(&socket), congestion)?;
    lift_send_buffer(&socket);
    socket
        .connect_timeout(&server.into(), CONNECTS_WITHIN)
        .map_err(unreachable)?;
    socket.set_tcp_nodelay(true).map_err(unreachable)?;
    Ok(socket.into())
}

/// Server, and the receiver of rows.
pub struct Setup {
    pub target: Target,
    pub server: SocketAddr,
    /// Further authority for the server's certificate, a PEM file.
    pub ca: Option<PathBuf>,
    pub clock: Clock,
    pub rows: Sender<Row>,
    /// Rows so far.
    pub so_far: Arc<Mutex<Recording>>,
    /// Interface whose counters are read; by default the one towards the server.
    pub interface: Option<String>,
    /// Interface that all sockets are bound to.
    pub outlet: Outlet,
}

/// Host of a test against a foreign server. Dropping it ends all that runs.
pub struct Foreign {
    // In the order in which they end.
    probes: Option<Probes>,
    fresh: Option<fresh::Fresh>,
    loads: Vec<Load>,
    stopped: Vec<load::Stopped>,
    counters: Counters,
    way: Way,
    far: Far,
    next_flow: i64,
    so_far: Arc<Mutex<Recording>>,
    interface: Option<String>,
}

impl Foreign {
    /// Checks that the server is there, and finds the probes that it answers.
    ///
    /// # Errors
    /// A server that is not there, says something wrong, or answers no probes.
    pub fn open(setup: Setup) -> Result<Foreign, ViaError> {
        let Setup {
            target,
            server,
            clock,
            ref outlet,
            ..
        } = setup;
        let web = match target.kind {
            Kind::Iperf3 => None,
            _ => Some(Arc::new(http::Web::open(
                &target,
                (server, outlet),
                setup.ca.as_deref(),
            )?)),
        };
        let way = Way::find(&target, (server, outlet), clock).map_err(ViaError::NoProbes)?;
        Ok(Foreign {
            probes: None,
            fresh: None,
            loads: Vec::new(),
            stopped: Vec::new(),
            counters: Counters::default(),
            way,
            far: Far {
                target,
                server,
                web,
                outlet: setup.outlet,
                clock,
                rows: setup.rows,
                tally: Tally::default(),
            },
            next_flow: 0,
            so_far: setup.so_far,
            interface: setup.interface,
        })
    }
}

impl Host for Foreign {
    type Error = CraftError;

    fn now(&self) -> Time {
        self.far.clock.now()
    }

    fn unix_ns(&self) -> i64 {
        self.far.clock.unix_ns()
    }

    fn wait(&mut self, time: Duration) -> Result<(), CraftError> {
        std::thread::sleep(time.to_std());
        Ok(())
    }

    fn row(&mut self, row: Row) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.far.rows.send(row);
    }

    fn so_far(&self, read: &mut dyn FnMut(&Recording)) {
        read(&self.so_far.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn headers(&self) -> u32 {
        crate::load::paced::headers(self.far.server) as u32
    }

    fn train(
        &mut self,
        _: &Sending,
        _: i64,
        _: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, CraftError> {
        let what = "send trains without `tailback serve` at the far end";
        Err(Stopped::Cannot { what }.into())
    }

    fn reset(&mut self) {
        self.probes = None;
        self.fresh = None;
        self.loads.clear();
        self.stopped.clear();
        self.counters = Counters::default();
        self.next_flow = 0;
    }

    fn tally(&self) -> Bytes {
        self.far.tally.bytes()
    }

    fn count(&mut self, what: Counted) -> Result<(), CraftError> {
        let towards = (self.interface.as_deref(), self.far.server);
        let Far { clock, rows, .. } = &self.far;
        self.counters.start(what, towards, *clock, rows)
    }

    fn rates(&self, window: Duration) -> Option<Rates> {
        self.counters.traffic()?.idle_rate(window)
    }

    fn interface(&self) -> String {
        let traffic = self.counters.traffic();
        traffic.map_or_else(String::new, |t| t.interface().into())
    }

    fn probe(&mut self, probing: Probing) -> Result<(), CraftError> {
        match &self.probes {
            Some(probes) => probes.set_interval(probing.interval),
            None => {
                let Far {
                    clock, rows, tally, ..
                } = &self.far;
                let started = Probes::start(
                    &self.way,
                    probing.interval,
                    *clock,
                    rows.clone(),
                    tally.clone(),
                );
                self.probes = Some(started.map_err(ViaError::from)?);
            }
        }
        Ok(())
    }

    fn probe_size(&self) -> Bytes {
        self.way.size()
    }

    fn probe_target(&self) -> Text {
        self.way.name()
    }

    fn stop_probes(&mut self) {
        self.probes = None;
    }

    fn scout(&mut self, _: u8, _: Bytes) -> Result<Option<Scouted>, CraftError> {
        Ok(None)
    }

    fn load(&mut self, load: &Plan) -> Result<(), CraftError> {
        let server = self.far.server;
        if !self.loads.is_empty() && !self.far.target.loads_both() {
            return Err(ViaError::OneAtATime { server }.into());
        }
        let started = Load::start(&self.far, load, self.next_flow)?;
        self.next_flow += i64::from(load.flows);
        self.loads.push(started);
        Ok(())
    }

    fn loads(&mut self) -> Vec<Loaded> {
        self.loads.iter().map(Load::loaded).collect()
    }

    fn stop_load(&mut self, number: Option<u32>) {
        let its = |load: &mut Load| number.is_none_or(|n| load.number() == n);
        let ending: Vec<Load> = self.loads.extract_if(.., its).collect();
        self.stopped.extend(ending.into_iter().map(Load::stop));
    }

    fn collect(&mut self) -> Vec<Ended> {
        let stopped = std::mem::take(&mut self.stopped);
        stopped.into_iter().map(load::Stopped::finish).collect()
    }

    fn fresh(&mut self, plan: Option<experiment::host::Fresh>) -> Result<(), CraftError> {
        self.fresh = None;
        let Far {
            web,
            clock,
            rows,
            tally,
            ..
        } = &self.far;
        // Servers of the other protocols have nothing small to ask for.
        if let (Some(plan), Some(web)) = (plan, web) {
            let started = fresh::Fresh::start(web, plan, *clock, rows.clone(), tally.clone());
            self.fresh = started.map_err(ViaError::local("start a thread"))?;
        }
        Ok(())
    }
}
