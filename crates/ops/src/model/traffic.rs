//! `tailback model NAME --traffic FILE`: parameters of table 3.1 of Thombre 2020 from the packets of a capture.

use crate::{trace, usage};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use theory::{Model, weibull_scale};

/// Parameters from the fits of a capture, as `key=value`, without those already given.
///
/// # Errors
/// A model without such parameters, a file that is neither a capture nor the fits of one, a law that could not be fitted.
pub(super) fn fitted(path: &Path, model: &Model, given: &[String]) -> anyhow::Result<Vec<String>> {
    let known: Vec<&str> = model.entry.parameters.iter().map(|p| p.name).collect();
    if !known.contains(&"tcp_rate_shape") {
        return Err(usage(format!(
            "--traffic: model \"{}\" has no traffic of TCP and UDP; mixture and tagged have",
            model.entry.name
        )));
    }
    let said = |key: &str| {
        let pairs = given.iter().filter_map(|g| g.split_once('='));
        pairs.into_iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    };
    let all = parameters(&read(path)?, path, &said)?;
    let wanted = all
        .into_iter()
        .filter(|(key, _)| known.contains(key) && said(key).is_none());
    Ok(wanted
        .map(|(key, value)| format!("{key}={value}"))
        .collect())
}

/// Output of `tailback trace --traffic --json` for the file.
fn read(path: &Path) -> anyhow::Result<Value> {
    let at = path.display();
    let unreadable = |e| usage(format!("cannot read {at}: {e}"));
    let mut begin = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(64).read_to_end(&mut begin).map_err(unreadable)?;
    if begin.trim_ascii_start().first() != Some(&b'{') {
        return Ok(serde_json::to_value(trace::traffic_of(path)?)?);
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    serde_json::from_str(&text).map_err(|e| strange(path, &format!("not JSON ({e})")))
}

fn strange(path: &Path, what: &str) -> anyhow::Error {
    usage(format!(
        "{}: {what}; it must be a capture, or what `tailback trace --traffic --json CAPTURE` writes",
        path.display()
    ))
}

/// Keys and values. Arrivals in a unit of time are α·C·P + (1−α)·B·D. The rates of the capture, which holds both
/// protocols, stand for P·α and D·(1−α): the scales are divided by those shares. The load of the model at the share of
/// the capture is then that of the capture.
fn parameters<'a>(
    fits: &Value,
    path: &Path,
    said: &impl Fn(&str) -> Option<&'a str>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let step = fits["step_s"].as_f64().ok_or_else(|| {
        strange(
            path,
            "there is no step_s, the step in which arrivals are counted",
        )
    })?;
    if said("unit").is_some() {
        return Err(usage(
            "unit: it is the step in which the capture's arrivals are counted; another is set by \
             `tailback trace --traffic --json --step TIME CAPTURE`, whose output --traffic takes too"
                .to_string(),
        ));
    }
    let share = fits["tcp_share_of_packets"].as_f64().ok_or_else(|| {
        usage(format!(
            "{}: there is neither TCP nor UDP in it",
            path.display()
        ))
    })?;
    let mut all = vec![
        ("unit", format!("{}ns", (step * 1e9).round())),
        ("share", share.to_string()),
    ];
    // A share that is given leaves out what it gives no part.
    let weight = said("share").and_then(|s| s.parse().ok()).unwrap_or(share);
    for (class, part, used) in [
        (&CLASSES[0], share, weight > 0.0),
        (&CLASSES[1], 1.0 - share, weight < 1.0),
    ] {
        let laws = [("arrivals", step / part), ("sizes", 1.0)];
        for ((law, factor), keys) in laws.into_iter().zip(class.keys.chunks(2)) {
            if used && keys.iter().any(|key| said(key).is_none()) {
                let [shape, scale] = class.law(law, keys, fits, path)?;
                all.push((keys[0], shape.to_string()));
                all.push((keys[1], (scale * factor).to_string()));
            }
        }
    }
    Ok(all)
}

/// Traffic of one protocol.
struct Class {
    /// Position in the list of classes.
    at: usize,
    protocol: &'static str,
    /// Setting that leaves this protocol out.
    alone: &'static str,
    /// Shape and scale of arrivals, and of sizes.
    keys: [&'static str; 4],
}

static CLASSES: [Class; 2] = [
    Class {
        at: 0,
        protocol: "TCP",
        alone: "share=0 leaves it out",
        keys: [
            "tcp_rate_shape",
            "tcp_rate_scale",
            "tcp_size_shape",
            "tcp_size_scale",
        ],
    },
    Class {
        at: 1,
        protocol: "UDP",
        alone: "share=1 leaves it out",
        keys: [
            "udp_rate_shape",
            "udp_rate_scale",
            "udp_size_shape",
            "udp_size_scale",
        ],
    },
];

impl Class {
    /// Shape and scale of a Weibull law of the capture.
    fn law(&self, law: &str, keys: &[&str], fits: &Value, path: &Path) -> anyhow::Result<[f64; 2]> {
        let class_fits = &fits["classes"][self.at];
        let law_fits = &class_fits[law];
        let found = weibull(law_fits).or_else(|| match law {
            "sizes" => one_size(class_fits),
            _ => None,
        });
        found.ok_or_else(|| {
            let why = law_fits["without"][0]
                .as_str()
                .unwrap_or("the capture holds too little of it");
            usage(format!(
                "{}: no Weibull law for {} and {} ({}): {why}. Give both, or {}",
                path.display(),
                keys[0],
                keys[1],
                self.protocol,
                self.alone
            ))
        })
    }
}

/// Shape of the narrowest law that the models take: its standard deviation is 6 % of its mean.
const NARROWEST: f64 = 20.0;

/// Shape of the fit, and the scale that gives the capture's mean. If the best Weibull law is a poor one, as for
/// segments and ACKs in one direction, its own mean would be another load.
fn weibull(law: &Value) -> Option<[f64; 2]> {
    let mean = law["mean"].as_f64().filter(|mean| *mean > 0.0)?;
    let mut fits = law["fits"].as_array()?.iter();
    let fit = fits.find(|f| f["family"] == "Weibull")?;
    let shape = fit["parameters"][0][1]["value"].as_f64()?.min(NARROWEST);
    Some([shape, weibull_scale(mean, shape)])
}

/// Law of packets of one size, such as a download's, to which no law can be fitted.
fn one_size(class: &Value) -> Option<[f64; 2]> {
    const ENOUGH: f64 = 20.0;
    let packets = class["packets"].as_f64().filter(|n| *n >= ENOUGH)?;
    let mean = class["bytes"].as_f64()? / packets;
    Some([NARROWEST, weibull_scale(mean, NARROWEST)])
}
