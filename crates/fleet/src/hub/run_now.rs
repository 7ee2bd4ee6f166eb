//! Runs out of turn, as the operator asks for them. A point learns of one at once if it is connected, else with
//! its next report, and keeps to its budget.

use super::Hub;
use crate::plan::FleetPlan;
use crate::unix_s;
use ops::usage;
use serde::Serialize;

/// Time for which a point may start a run that was asked for, in its reports and in seconds: the longer one counts.
const REPORTS: u64 = 3;
const LEAST_S: u64 = 3600;

/// Run that a point was asked for. Its JSON is an element of that of `tailback fleet run-now --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Asked {
    pub point: String,
    pub measurement: String,
    /// Time between two reports of the point, s: it hears of the run with the next one, or at once if it is connected.
    pub hears_within_s: u64,
    /// Time after which it starts the run no longer, s.
    pub holds_s: u64,
}

/// Runs that were asked for. Their JSON is that of `tailback fleet run-now --json`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Runs out of turn")]
pub struct AllAsked {
    pub asked: Vec<Asked>,
}

impl AllAsked {
    /// Line for each point.
    pub fn text(&self) -> String {
        let line = |a: &Asked| {
            format!(
                "{} runs {} once it hears of it: at once if it is connected, else within {} s; after {} min it starts it no longer\n",
                a.point,
                a.measurement,
                a.hears_within_s,
                a.holds_s / 60
            )
        };
        self.asked.iter().map(line).collect()
    }
}

impl Hub {
    /// Asks points to run a measurement of the plan once, out of its turn.
    ///
    /// # Errors
    /// A measurement that is not in the plan, a monitor, or a point that does not run it; the ledger cannot be written.
    pub fn run_now(&self, points: &[String], measurement: &str) -> anyhow::Result<AllAsked> {
        let mut ledger = self.ledger();
        let plan = ledger.plan()?;
        let plan = plan.ok_or_else(|| {
            usage("there is no plan yet: publish one with `tailback fleet plan FILE`")
        })?;
        let plan = FleetPlan::parse(&plan.text, self.read)?;
        let found = plan
            .measurements()
            .find(|(m, _)| m.name == measurement)
            .ok_or_else(|| {
                let names = plan.measurements().map(|(m, _)| m.name.as_str());
                let names: Vec<&str> = names.collect();
                usage(format!(
                    "the plan has no measurement {measurement:?}; it has {}",
                    names.join(", ")
                ))
            })?;
        if found.1.is_endless() {
            let why = "is a monitor: it runs in its own turn, without a gap";
            return Err(usage(format!("{measurement} {why}")));
        }
        for name in points {
            if ledger.point(name)?.is_none_or(|p| p.revoked) {
                return Err(usage(format!("there is no point {name}")));
            }
            if !found.0.concerns(name) {
                let why = "by the plan: add it to the measurement's points";
                return Err(usage(format!("{name} does not run {measurement} {why}")));
            }
        }
        let holds_s = LEAST_S.max(REPORTS * plan.report_every_s);
        let now_s = unix_s();
        for name in points {
            let until_s = now_s.saturating_add_unsigned(holds_s);
            ledger.ask_run((name, measurement), now_s, until_s)?;
        }
        let asked = points.iter().map(|point| Asked {
            point: point.clone(),
            measurement: measurement.to_owned(),
            hears_within_s: plan.report_every_s,
            holds_s,
        });
        Ok(AllAsked {
            asked: asked.collect(),
        })
    }
}
