//! Plans of all verbs as one type: the content of a file for `tailback run`, and the plan that a recording holds.

use crate::{
    analyse, compare, import, list, model, probe, report, sim, test, trace, twin, usage, whatif,
};
#[cfg(target_os = "linux")]
use crate::{control, emulate, monitor, prove, serve};
use base::record::Meta;
#[cfg(target_os = "linux")]
use experiment::monitor::MonitorPlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Plan of any verb, as `{"verb": …, "plan": …}`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    tag = "verb",
    content = "plan",
    rename_all = "kebab-case",
    deny_unknown_fields
)]
pub enum Plan {
    Analyse(Box<analyse::Plan>),
    Compare(Box<compare::Plan>),
    #[cfg(target_os = "linux")]
    Control(Box<control::Plan>),
    #[cfg(target_os = "linux")]
    Emulate(Box<emulate::Plan>),
    Import(Box<import::Plan>),
    List(list::Plan),
    Model(Box<model::Plan>),
    #[cfg(target_os = "linux")]
    Monitor(Box<monitor::Plan>),
    Probe(Box<probe::Plan>),
    #[cfg(target_os = "linux")]
    Prove(Box<prove::Plan>),
    Report(Box<report::Plan>),
    #[cfg(target_os = "linux")]
    Serve(Box<serve::Plan>),
    Sim(Box<sim::Plan>),
    Test(Box<test::Plan>),
    Trace(Box<trace::Plan>),
    Twin(Box<twin::Plan>),
    Whatif(Box<whatif::Plan>),
}

impl Plan {
    /// Reads the plan of a recording's directory, of its `meta.json`, or of a file that holds a plan.
    ///
    /// # Errors
    /// A file that cannot be read, a verb or a key that is not known.
    pub fn read(path: &Path) -> anyhow::Result<Plan> {
        if path.is_dir() {
            return Plan::of_recording(&store::read_meta(path)?);
        }
        let name = path.display();
        let text = crate::read_text(path)?;
        let value: Value =
            serde_json::from_str(&text).map_err(|e| usage(format!("{name}: {e}")))?;
        // Facts of a recording have more keys than a plan, and the store checks that they are whole.
        if value.get("origin").is_some() {
            let recording = path.parent().filter(|_| path.ends_with("meta.json"));
            let recording = recording
                .ok_or_else(|| usage(format!("{name}: give the recording, or its meta.json")))?;
            return Plan::of_recording(&store::read_meta(recording)?);
        }
        serde_json::from_value(value).map_err(|e| usage(format!("{name}: {e}")))
    }

    /// Plan that made a recording.
    ///
    /// # Errors
    /// A recording that does not hold its verb's plan, or holds one that this version does not know.
    pub fn of_recording(meta: &Meta) -> anyhow::Result<Plan> {
        let plan = &meta.plan;
        let refused = |e: &dyn std::fmt::Display| {
            usage(format!(
                "the recording's plan of `tailback {}` cannot be run again: {e}",
                meta.verb
            ))
        };
        let refuse = |e: serde_json::Error| refused(&e);
        let again = || {
            let again = plan.get("again").cloned();
            again.ok_or_else(|| refused(&"it was written before recordings kept it"))
        };
        Ok(match &*meta.verb {
            "sim" => {
                let scenario = serde_json::from_value(plan.clone()).map_err(refuse)?;
                Plan::Sim(Box::new(sim::Plan::of_recorded(&scenario)?))
            }
            #[cfg(target_os = "linux")]
            "monitor" => {
                let monitor: MonitorPlan = serde_json::from_value(plan.clone()).map_err(refuse)?;
                Plan::Monitor(Box::new(monitor::Plan {
                    title: Some(meta.title.clone()),
                    ..monitor::Plan::new(monitor)
                }))
            }
            "test" => {
                let known = meta.known_link.as_ref();
                let part = |key: &str| known.and_then(|k| k.get(key)).cloned();
                Plan::Test(Box::new(test::Plan {
                    test: serde_json::from_value(plan.clone()).map_err(refuse)?,
                    link: part("link")
                        .map(serde_json::from_value)
                        .transpose()
                        .map_err(refuse)?,
                    virtual_seed: part("virtual_seed")
                        .map(serde_json::from_value)
                        .transpose()
                        .map_err(refuse)?,
                    via: part("via")
                        .map(serde_json::from_value)
                        .transpose()
                        .map_err(refuse)?,
                    capture: part("capture").is_some(),
                    contract: part("contract")
                        .map(serde_json::from_value)
                        .transpose()
                        .map_err(refuse)?,
                    title: Some(meta.title.clone()),
                    output: None,
                    ipv4: false,
                    ipv6: false,
                    log_in: crate::LogIn::default(),
                    load_from: None,
                }))
            }
            "probe" => {
                let probe = probe::Plan::of_recorded(plan).map_err(refuse)?;
                Plan::Probe(Box::new(probe::Plan {
                    title: Some(meta.title.clone()),
                    ..probe
                }))
            }
            #[cfg(target_os = "linux")]
            "control" => Plan::Control(Box::new(
                serde_json::from_value(plan.clone()).map_err(refuse)?,
            )),
            "trace" => Plan::Trace(Box::new(serde_json::from_value(again()?).map_err(refuse)?)),
            #[cfg(target_os = "linux")]
            "emulate" => Plan::Emulate(Box::new(serde_json::from_value(again()?).map_err(refuse)?)),
            "import" => Plan::Import(Box::new(serde_json::from_value(again()?).map_err(refuse)?)),
            _ => return Err(refused(&"this verb cannot be run from a recording")),
        })
    }

    /// Sets another path for the recording or report that the plan makes.
    ///
    /// # Errors
    /// A verb that writes nothing.
    pub fn set_output(&mut self, output: &Path) -> anyhow::Result<()> {
        let output = output.to_owned();
        match self {
            #[cfg(target_os = "linux")]
            Plan::Control(p) => p.output = output,
            #[cfg(target_os = "linux")]
            Plan::Emulate(p) => p.output = Some(output),
            Plan::Import(p) => p.output = Some(output),
            #[cfg(target_os = "linux")]
            Plan::Monitor(p) => p.output = output,
            Plan::Probe(p) => p.output = Some(output),
            #[cfg(target_os = "linux")]
            Plan::Prove(p) => p.output = Some(output),
            Plan::Report(p) => p.output = Some(output),
            Plan::Sim(p) => p.output = Some(output),
            Plan::Test(p) => p.output = Some(output),
            Plan::Trace(p) => p.output = Some(output),
            Plan::Twin(p) => p.output = Some(output),
            Plan::Model(p) if p.curve.is_some() => {
                if let Some(curve) = &mut p.curve {
                    curve.output = output;
                }
            }
            // Those of verbs that write nothing.
            _ => return Err(usage("this plan writes nothing: leave --output out")),
        }
        Ok(())
    }
}
