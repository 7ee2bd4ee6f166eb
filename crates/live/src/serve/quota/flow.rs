//! Flows: admission, and the account of their bytes.

use super::connections::Permit;
use super::sessions::{Session, SharedFlow};
use super::turn::loaded;
use super::{Ledger, Quota, Refused, busy};
use crate::clock::mono_ns;
use crate::serve::journal::{Entry, Happened, Journal};
use crate::serve::kept::Kept;
use crate::serve::sync::lock;
use base::Duration;
use base::record::Direction;
use measure::account::Account;
use measure::control::{Ended, FlowReport, FlowSpec, Limits, Refusal, Sample};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const FLOWS_PER_SESSION: usize = 64;
const SHORTEST_SAMPLE: Duration = Duration::from_millis(5);

/// Kind of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    Upload,
    Download,
    Fetch,
    Datagrams,
    Train,
    Listen,
    Capture,
}

impl Use {
    /// Name in the log and in the counters.
    pub fn name(self) -> &'static str {
        match self {
            Use::Upload => "upload",
            Use::Download => "download",
            Use::Fetch => "fetch",
            Use::Datagrams => "datagrams",
            Use::Train => "train",
            Use::Listen => "listen",
            Use::Capture => "capture",
        }
    }

    /// True if it fills the uplink: one client at a time. The others leave room.
    fn is_load(self) -> bool {
        !matches!(self, Use::Train | Use::Listen | Use::Capture)
    }
}

/// Count of a flow until this is dropped, with the budget that is left to it.
pub struct FlowPermit<'a> {
    permit: &'a Permit,
    pub report: SharedFlow,
    pub duration: Duration,
    pub sample: Duration,
    account: Account,
    counted: u64,
    usage: Use,
    began: i64,
    /// Flag that is set when the client's turn on the uplink is over.
    cut: Arc<AtomicBool>,
    /// Reason why the flow was ended early.
    enough: Cell<&'static str>,
    journal: Arc<Journal>,
}

/// Reasons why a flow is ended early.
pub const HOUR_SPENT: &str =
    "this client, or all together, have moved all the bytes they may in an hour";
pub const TURN_OVER: &str =
    "this client has loaded the server's uplink for ten minutes, and another one waits";
pub const TOO_FAST: &str = "the client sends faster than it was granted";
pub const IDLE: &str = "nothing has come from the client for 15 s";

impl FlowPermit<'_> {
    /// Books the bytes of the flow so far; false if that was too much.
    pub fn spend(&mut self, total: u64) -> bool {
        let more = total.saturating_sub(self.counted);
        self.counted = self.counted.max(total);
        if !self.account.charge(more) {
            self.enough.set(HOUR_SPENT);
            return false;
        }
        if self.cut.load(Ordering::Relaxed) {
            self.enough.set(TURN_OVER);
            return false;
        }
        true
    }

    /// Ends the flow for this reason; returns the same as [`FlowPermit::spend`] at the end of a budget.
    pub fn give_up(&self, why: &'static str) -> bool {
        self.enough.set(why);
        false
    }

    /// Reason why the flow was ended early.
    pub fn enough(&self) -> &'static str {
        self.enough.get()
    }

    pub fn with_report(&self, change: impl FnOnce(&mut FlowReport)) {
        change(lock(&self.report).report_mut());
    }

    /// Adds a sample to the report.
    pub fn sampled(&self, sample: Sample) {
        lock(&self.report).push(sample);
    }
}

impl Drop for FlowPermit<'_> {
    fn drop(&mut self) {
        let mut ended = Ended::Failed;
        self.with_report(|r| {
            if r.ended == Ended::Running {
                r.ended = Ended::Failed;
            }
            ended = r.ended;
        });
        let now = mono_ns();
        self.journal.write(Entry {
            what: self.usage.name(),
            bytes: self.counted,
            duration: Duration::from_nanos((now - self.began).max(0).unsigned_abs()),
            why: match (ended, self.enough()) {
                (Ended::Budget, TURN_OVER) => "turn_over",
                (Ended::Budget, TOO_FAST) => "too_fast",
                (Ended::Budget, IDLE) => "idle",
                (Ended::Budget, _) => "budget",
                (Ended::TimeUp, _) => "time_up",
                (Ended::ByClient, _) => "by_client",
                (Ended::Whole, _) => "whole",
                (Ended::Failed | Ended::Running, _) => "failed",
            },
            user: self.permit.user.borrow().clone(),
            ..Entry::about(Happened::Session, self.permit.from)
        });
        let mut ledger = lock(&self.permit.ledger);
        if self.usage.is_load() {
            ledger.uplink.end(now, self.permit.client);
        }
        if let Some(c) = ledger.clients.get_mut(&self.permit.client) {
            c.flows = c.flows.saturating_sub(1);
        }
    }
}

impl Quota {
    /// Starts a flow of a session.
    ///
    /// # Errors
    /// The client has too many flows, or has used up its bytes; or another client loads the uplink.
    pub fn flow<'a>(
        &self,
        permit: &'a Permit,
        spec: &FlowSpec,
        direction: Direction,
        usage: Use,
    ) -> Result<FlowPermit<'a>, Refused> {
        let now = mono_ns();
        let mut guard = lock(&self.ledger);
        let ledger = &mut *guard;
        self.has_place(ledger, permit)?;
        let user = permit.user.borrow();
        let (account, spent) = self.account_in(ledger, permit.client, user.as_ref(), now);
        spent?;
        if ledger
            .sessions
            .get(&spec.session)
            .is_some_and(|s| s.client != permit.client)
        {
            let text = "another client has a session of this number";
            return Err((Refusal::Malformed, text.into()));
        }
        if !ledger.sessions.contains_key(&spec.session) {
            ledger.make_room_for_session(permit.client);
        }
        let flows = ledger
            .sessions
            .get(&spec.session)
            .map_or(0, |s| s.flows.len());
        if flows >= FLOWS_PER_SESSION {
            return busy(format!(
                "a session has at most {FLOWS_PER_SESSION} flows: begin another"
            ));
        }
        let duration = spec.duration.min(self.budgets.duration);
        let mut cut = Arc::default();
        if usage.is_load() {
            let until = now + duration.as_nanos() as i64;
            let taken = ledger.uplink.take(now, permit.client, until);
            cut = taken.map_err(|standing| loaded(&standing))?;
        }
        let Some(client) = ledger.clients.get_mut(&permit.client) else {
            return busy("the server is full: try again in a minute");
        };
        client.flows += 1;
        let report = FlowReport {
            flow: spec.flow,
            direction,
            start_ns: 0,
            ended: Ended::Running,
            congestion: String::new(),
            limits: Limits::default(),
            samples: Vec::new(),
        };
        let kept = Kept::new(report, client.samples.clone(), self.samples.clone());
        let report = Arc::new(Mutex::new(kept));
        let session = ledger
            .sessions
            .entry(spec.session)
            .or_insert_with(|| Session {
                client: permit.client,
                used: now,
                flows: Vec::new(),
            });
        session.used = now;
        session.flows.push(report.clone());
        Ok(FlowPermit {
            permit,
            report,
            duration,
            sample: spec.sample.max(SHORTEST_SAMPLE),
            account,
            counted: 0,
            usage,
            began: now,
            cut,
            enough: Cell::new(HOUR_SPENT),
            journal: self.journal.clone(),
        })
    }

    /// Checks that the client may have one more flow.
    fn has_place(&self, ledger: &Ledger, permit: &Permit) -> Result<(), Refused> {
        let Some(client) = ledger.clients.get(&permit.client) else {
            let text = "the server no longer knows this connection";
            return Err((Refusal::Failed, text.into()));
        };
        if client.flows >= self.budgets.flows_per_client {
            let n = client.flows;
            return busy(format!(
                "{n} flows of this client are running, and more are not allowed at once: use fewer flows"
            ));
        }
        Ok(())
    }
}
