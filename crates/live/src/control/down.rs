//! Downloads of the gateway: the program at the ingress of the WAN interface marks and drops packets that have crossed the
//! link. Their senders then send less, and the queue at the provider stays short.

use super::ControlError;
use super::counters::Counters;
use super::hook::Side;
use super::offload::Offload;
use super::settings::{Settings, decision_row};
use super::shaper::Shaping;
use crate::clock::Clock;
use base::record::{Decision as DecisionRow, Direction};
use base::rng::Rng;
use base::{Duration, Time};
use control::agent::{Agent, Answered};
use control::download::Inbound;
use control::upload::{Decision, Why};
use serde::{Deserialize, Serialize};
use std::io;

/// State of the downloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DownStatus {
    pub why: Why,
    pub wait_ms: Option<f64>,
    pub capacity_bps: Option<f64>,
    /// Rate that arrives, mean of the last second.
    pub rate_bps: Option<f64>,
    pub passed_bytes: u64,
    pub signals: u64,
    pub marks: u64,
    pub drops: u64,
    /// Rate of the shaper, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper_bps: Option<f64>,
}

const SECOND: Duration = Duration::from_secs(1);

/// Downloads under control; dropping it restores the interface.
pub(super) struct Down {
    settings: Settings,
    clock: Clock,
    counters: Counters,
    /// Shaper that follows the decisions, instead of signals.
    shaping: Option<Shaping>,
    /// Check that the shaper sees what arrives.
    offload: Option<Offload>,
    agent: Agent<Inbound>,
    /// Time of the next idle row.
    idle_row: Time,
    /// Bytes at the last full second.
    second_bytes: u64,
    rate: Option<f64>,
    last: Option<Decision>,
}

impl Down {
    /// Takes the shaper, or attaches the program to the ingress, unless this is a dry run.
    pub fn open(settings: &Settings, draws: Rng, clock: Clock) -> Result<Down, ControlError> {
        let now = clock.now();
        let shaping = Shaping::of(settings.shape_down.as_deref(), settings, now)?;
        let acts = settings.apply && shaping.is_none();
        let counters = Counters::open(settings, Side::Ingress, acts)?;
        let offload = match &shaping {
            Some(_) if settings.apply => Some(Offload::open(&settings.wan, Side::Ingress)?),
            _ => None,
        };
        let mut agent = Agent::of(Inbound::new(settings.download), draws, now);
        agent.set_interval(settings.interval);
        Ok(Down {
            agent,
            settings: settings.clone(),
            clock,
            counters,
            shaping,
            offload,
            idle_row: now,
            second_bytes: 0,
            rate: None,
            last: None,
        })
    }

    /// Takes the answer to a probe.
    pub fn answered(&mut self, now: Time, answered: &Answered) {
        self.agent.answered(now, answered);
    }

    /// Renews the orders. Returns the row of a decision: each is one while there is traffic.
    pub fn act(&mut self, now: Time) -> io::Result<Option<DecisionRow>> {
        let counts = self.counters.read()?;
        let (decision, orders) = self.agent.wake(now, counts);
        self.counters.order(&orders, self.clock);
        let Some(decision) = decision else {
            return Ok(None);
        };
        if let Some(shaping) = &mut self.shaping {
            shaping.follow(&decision, self.agent.controller(), counts.bytes)?;
        }
        let changed = self.last.is_none_or(|l| l.why != decision.why);
        let active = decision.signals > 0 || !decision.wait.is_zero();
        self.last = Some(decision);
        if !(changed || active || now >= self.idle_row) {
            return Ok(None);
        }
        self.idle_row = now + SECOND;
        Ok(Some(DecisionRow {
            passed_bytes: counts.bytes as i64,
            signals: self.signals() as i64,
            marks: counts.marks as i64,
            drops: counts.drops as i64,
            shaper_bps: self.shaping.as_ref().map(|s| s.rate_bps() as i64),
            ..decision_row(&self.settings, Direction::Down, &decision, self.clock)
        }))
    }

    /// Signals ordered so far; a shaper needs none.
    fn signals(&self) -> u64 {
        self.shaping.as_ref().map_or(self.agent.signals(), |_| 0)
    }

    /// Closes a second that took `span`.
    ///
    /// # Errors
    /// Another program changes the shaper, or it is gone.
    pub fn each_second(&mut self, span: Duration) -> io::Result<()> {
        let bytes = self.agent.seen().bytes;
        let passed = bytes.saturating_sub(self.second_bytes);
        self.rate = Some(passed as f64 * 8.0 / span.as_secs_f64());
        self.second_bytes = bytes;
        if let Some(shaping) = &mut self.shaping {
            let seen = shaping.each_second()?;
            let check = self.offload.as_mut().map(|o| o.check(seen));
            self.agent.set_unseen(check.transpose()?.unwrap_or(false));
        }
        Ok(())
    }

    pub fn status(&self) -> DownStatus {
        let known = self.last.filter(|d| d.why != Why::Blind);
        let seen = self.agent.seen();
        DownStatus {
            why: self.last.map_or(Why::Blind, |d| d.why),
            wait_ms: known.map(|d| d.wait.as_millis_f64()),
            capacity_bps: self.last.and_then(|d| d.capacity).map(|c| c.value * 8.0),
            rate_bps: self.rate,
            passed_bytes: seen.bytes,
            signals: self.signals(),
            marks: seen.marks,
            drops: seen.drops,
            shaper_bps: self.shaping.as_ref().map(Shaping::rate_bps),
        }
    }
}
