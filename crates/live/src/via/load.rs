//! Load over a foreign server: its flows, one thread each.

use super::flow::Flow;
use super::iperf3::{self, Control};
use super::target::{Kind, Target};
use super::{ViaError, http};
use crate::clock::{Clock, mono_ns};
use crate::load::event;
use crate::load::flow::Gauge;
use crate::load::pump::Payload;
use crate::outlet::Outlet;
use crate::tally::Tally;
use base::Bytes;
use base::record::{Direction, Row};
use experiment::host::{Ended, Load as Plan, Loaded};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// Server, and the receivers of what a load shows.
#[derive(Clone)]
pub(super) struct Far {
    pub target: Target,
    pub server: SocketAddr,
    pub outlet: Outlet,
    pub web: Option<Arc<http::Web>>,
    pub clock: Clock,
    pub rows: Sender<Row>,
    pub tally: Tally,
}

/// Running load. Dropping it stops it.
pub(super) struct Load {
    number: u32,
    direction: Direction,
    stop: Arc<AtomicBool>,
    gauge: Gauge,
    threads: Vec<JoinHandle<Option<String>>>,
    /// Flows that never started.
    failed: Vec<String>,
    control: Option<Control>,
    flows: usize,
}

/// Load that has ended here.
pub(super) struct Stopped {
    number: u32,
    faults: Vec<String>,
    control: Option<Control>,
    flows: usize,
    bytes: u64,
}

impl Load {
    /// Starts the flows, numbered from `first` on. Returns when each has started or failed.
    ///
    /// # Errors
    /// No flow could be started.
    pub fn start(far: &Far, plan: &Plan, first: i64) -> Result<Load, ViaError> {
        let mut load = Load {
            number: plan.number,
            direction: plan.direction,
            stop: Arc::default(),
            gauge: Gauge::default(),
            threads: Vec::new(),
            failed: Vec::new(),
            control: None,
            flows: plan.flows as usize,
        };
        let flows: Vec<Flow> = (0..plan.flows)
            .map(|k| load.flow(far, plan, first + i64::from(k)))
            .collect();
        match far.target.kind {
            Kind::Iperf3 => load.iperf3(far, plan, flows)?,
            _ => load.web(far, flows)?,
        }
        for why in &load.failed {
            event(&far.clock, &far.rows, "fault", "load", why);
        }
        Ok(load)
    }

    fn flow(&mut self, far: &Far, plan: &Plan, number: i64) -> Flow {
        Flow {
            number,
            direction: plan.direction,
            clock: far.clock,
            rows: far.rows.clone(),
            meter: self.gauge.add(),
            stop: self.stop.clone(),
            tally: far.tally.clone(),
            sample: plan.sample,
            until: mono_ns().saturating_add(plan.duration.as_nanos() as i64),
            congestion: plan.congestion.clone(),
        }
    }

    /// Flows of an iperf3 test. CUBIC is asked for, as our own server uses it, unless the server lacks it.
    fn iperf3(&mut self, far: &Far, plan: &Plan, flows: Vec<Flow>) -> Result<(), ViaError> {
        let named = plan.congestion.as_deref();
        let spec = |congestion| iperf3::Spec {
            direction: plan.direction,
            flows: plan.flows,
            seconds: plan.duration.as_nanos().div_ceil(1_000_000_000),
            congestion,
        };
        let asked = named.or((plan.direction == Direction::Down).then_some("cubic"));
        let begun = match iperf3::begin((far.server, &far.outlet), &spec(asked)) {
            Err(ViaError::Refused { .. } | ViaError::Talk { .. }) if asked != named => {
                iperf3::begin((far.server, &far.outlet), &spec(None))
            }
            begun => begun,
        };
        let (control, streams) = begun?;
        self.control = Some(control);
        let payload = (plan.direction == Direction::Up).then(Payload::new);
        for (flow, stream) in flows.into_iter().zip(streams) {
            let payload = payload.clone();
            flow.meter.live(true);
            self.spawn(flow, move |flow| {
                iperf3::carry(flow, &stream, payload.as_ref())
            })?;
        }
        Ok(())
    }

    /// Flows over HTTP or WebSocket.
    fn web(&mut self, far: &Far, flows: Vec<Flow>) -> Result<(), ViaError> {
        let Some(web) = &far.web else {
            return Err(ViaError::NotOpen);
        };
        let (ready, began) = std::sync::mpsc::channel();
        let count = flows.len();
        for flow in flows {
            let (web, ready) = (web.clone(), ready.clone());
            self.spawn(flow, move |flow| web.carry(flow, &ready))?;
        }
        drop(ready);
        let mut faults: Vec<ViaError> = began.iter().take(count).filter_map(Result::err).collect();
        if faults.len() == count && !faults.is_empty() {
            return Err(faults.swap_remove(0));
        }
        self.failed = faults.iter().map(ToString::to_string).collect();
        Ok(())
    }

    fn spawn(
        &mut self,
        flow: Flow,
        carry: impl FnOnce(&Flow) -> Option<String> + Send + 'static,
    ) -> Result<(), ViaError> {
        let thread = std::thread::Builder::new()
            .name(format!("load-{}", flow.direction))
            .stack_size(1 << 20)
            .spawn(move || {
                let fault = carry(&flow);
                flow.meter.live(false);
                if let Some(why) = &fault {
                    event(
                        &flow.clock,
                        &flow.rows,
                        "fault",
                        &format!("flow {}", flow.number),
                        why,
                    );
                }
                fault
            });
        self.threads
            .push(thread.map_err(ViaError::local("start a thread"))?);
        Ok(())
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn loaded(&self) -> Loaded {
        let progress = self.gauge.progress();
        Loaded {
            number: self.number,
            direction: self.direction,
            bytes: Bytes::new(progress.bytes),
            rate: progress.rate,
            alive: progress.alive,
            still_for: progress.still_for,
        }
    }

    fn join(&mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.threads.drain(..).map(|t| {
            t.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.flatten().collect()
    }

    /// Ends all flows.
    pub fn stop(mut self) -> Stopped {
        let mut faults = std::mem::take(&mut self.failed);
        faults.extend(self.join());
        let mut control = self.control.take();
        if let Some(control) = &mut control {
            control.stop();
        }
        Stopped {
            number: self.number,
            faults,
            control,
            flows: self.flows,
            bytes: self.gauge.progress().bytes,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.join();
        if let Some(control) = &mut self.control {
            control.stop();
        }
    }
}

impl Stopped {
    /// Takes leave of the server.
    pub fn finish(self) -> Ended {
        let mut faults = self.faults;
        if let Some(control) = self.control {
            let each = self.bytes / (self.flows as u64).max(1);
            let carried = vec![each; self.flows];
            // A server that is gone has said why already.
            let left = control.finish(self.flows, &carried);
            faults.extend(
                left.err()
                    .filter(|_| faults.is_empty())
                    .map(|e| e.to_string()),
            );
        }
        Ended {
            number: self.number,
            faults,
            sent: None,
            received: None,
        }
    }
}
