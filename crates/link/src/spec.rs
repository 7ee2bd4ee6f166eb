//! Description of a link in words and units: the content of a TOML file, of `--link` and `--set`, and of a recording.

use crate::bucket::{PolicerSpec, ShaperSpec};
use crate::drift::DriftSpec;
use crate::impair::{JitterSpec, LossSpec, ReorderSpec, SleepSpec};
use crate::line::LinkParams;
use crate::qdisc::registry::QdiscSpec;
use crate::rate::{Rate, RateError, Steps, Trace};
use crate::rate_table::Step;
use crate::words::{Entry, hint};
use crate::{bucket, drift, impair, rate_table};
use base::framing::{Framing, FramingSpec};
use base::{BitsPerSec, Bytes, Duration};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;

fn unnamed() -> String {
    "link".into()
}

/// Both directions of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Short name for `--link`.
    #[serde(default = "unnamed")]
    pub name: String,
    /// Title for people, one line.
    #[serde(default = "unnamed")]
    pub title: String,
    /// Direction from the user to the network.
    pub up: DirectionSpec,
    /// Direction from the network to the user.
    pub down: DirectionSpec,
}

/// Direction of a link; omitted keys have no effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionSpec {
    /// Queue in front of the link.
    #[serde(default = "default_queue")]
    pub queue: QdiscSpec,
    /// Propagation delay.
    #[serde(default)]
    pub delay: Duration,
    /// Largest IP packet (MTU) that the link accepts; the host's device enforces it.
    #[serde(default = "default_mtu")]
    pub mtu: Bytes,
    /// Layers below IP; the rate then counts their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framing: Option<FramingSpec>,
    /// Policer in front of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerSpec>,
    /// Token bucket at the transmitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper: Option<ShaperSpec>,
    /// Slow change of the propagation delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftSpec>,
    /// File of delays over time that are added to the propagation delay, in place of a drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<String>,
    /// Law of the added delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSpec>,
    /// Loss on the link, after the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossSpec>,
    /// Law of reordering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<ReorderSpec>,
    /// Sleep of a radio transmitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<SleepSpec>,
    /// Share of packets that arrive twice, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicate: f64,
    /// Rate in whole IP packets, or in frames if `framing` is given. It is the last field, because TOML wants tables
    /// after plain values.
    pub rate: RateSpec,
}

fn default_queue() -> QdiscSpec {
    "fifo".parse().expect("fifo is in the table")
}
fn default_mtu() -> Bytes {
    Bytes::new(1500)
}
fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

/// Rate as written: `"8 Mbit/s"`; `{ steps = [{ at = "0 s", rate = "8 Mbit/s" }, …], repeat = "20 s" }`;
/// `{ trace = "file" }`; or `{ opportunities_ms = [1, 2, 3] }`, the form of a loaded mahimahi trace.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    Fixed(BitsPerSec),
    Steps {
        steps: Vec<Step>,
        repeat: Option<Duration>,
    },
    /// File that is not read yet ([`RateSpec::load`]): a table of rates if its name ends in `.csv`, otherwise a
    /// mahimahi trace. `repeat` applies to the table.
    TraceFile {
        path: String,
        repeat: Option<Duration>,
    },
    Opportunities(Vec<u64>),
}

/// Error for a link description that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error("no link \"{name}\". Known: {known}; or name a TOML file.{hint}")]
    UnknownLink {
        name: String,
        known: String,
        hint: String,
    },
    #[error("link: no key \"{key}\". Known: {known}.{hint}")]
    UnknownKey {
        key: String,
        known: String,
        hint: String,
    },
    #[error("link: {0}")]
    Toml(String),
    #[error("link: {key} = \"{value}\": {why}")]
    Set {
        key: String,
        value: String,
        why: String,
    },
    #[error("{direction}: {why}")]
    Rate { direction: String, why: RateError },
    #[error("{direction}: the trace \"{path}\" is not loaded")]
    TraceNotLoaded { direction: String, path: String },
    #[error("cannot read the trace \"{path}\": {why}")]
    TraceFile { path: String, why: String },
    #[error("{direction}: duplicate = {value} is out of range: from 0 to 1")]
    Duplicate { direction: String, value: f64 },
    #[error(
        "{direction}: mtu = {value} is out of range: from 68 B (RFC 791, Internet Protocol, section 3.2) to 65535 B"
    )]
    Mtu { direction: String, value: Bytes },
    #[error(
        "{direction}: the policer's burst = {burst} is smaller than mtu = {mtu}: a full packet would never pass"
    )]
    Burst {
        direction: String,
        burst: Bytes,
        mtu: Bytes,
    },
    #[error("{direction}: drift = \"{drift}\": {why}")]
    Drift {
        direction: String,
        drift: DriftSpec,
        why: String,
    },
}

/// Link definition built into the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// Text of the link file.
    pub toml: &'static str,
}

macro_rules! presets {
    ($($name:literal),+) => {
        /// Built-in link definitions, from `crates/link/links/`.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: $name,
            toml: include_str!(concat!("../links/", $name, ".toml")),
        }),+];
    };
}
presets!(
    "adsl", "cable", "lte", "gprs", "shdsl", "fiber", "starlink", "5g", "wifi", "docsis31", "pon"
);

/// Keys of a direction with their meaning, for help and messages.
pub const DIRECTION_KEYS: &[(&str, &str)] = &[
    (
        "rate",
        "rate in whole IP packets, or in frames where framing is given: \"8 Mbit/s\", or a table with steps (and repeat), trace (a mahimahi trace, or a .csv of rates), or opportunities_ms",
    ),
    (
        "queue",
        "queue discipline: \"fifo:bytes=37625\", \"codel\", \"fq_codel\" …",
    ),
    ("delay", "propagation delay: \"9 ms\""),
    ("mtu", "largest IP packet: \"1500 B\""),
    (
        "framing",
        "layers below IP, whose bytes the rate then counts: \"ethernet\", \"pppoe-llcsnap\" (ATM), \"bytes:overhead=44,cells=atm\"; limits in bytes still count IP packets",
    ),
    (
        "policer",
        "token bucket in front of the queue that drops what exceeds it: \"token_bucket:rate=20 Mbit/s,burst=50 kB\"",
    ),
    (
        "shaper",
        "token bucket at the transmitter that delays what exceeds it; bursts leave at the link's rate: \"token_bucket:rate=20 Mbit/s,burst=1 MB\"",
    ),
    (
        "jitter",
        "delay added to each packet: \"uniform:width=2ms\", \"normal:sd=2ms\", \"weibull:shape=0.7,scale=2ms\"",
    ),
    (
        "drift",
        "change of the propagation delay: \"ramp:to=25ms,over=60s\", \"wave:height=20ms\", \"walk:sd=1ms\", \
         \"steps:at=10s;40s,delay=30ms;0s\", \"slots:slot=15s\"",
    ),
    (
        "delays",
        "file of delays over time that are added to `delay`, instead of a drift: a .csv with columns such as t_s and delay_ms",
    ),
    (
        "loss",
        "loss on the link, behind the queue: \"random:probability=0.01\", \"gilbert_elliott:p=0.01,r=0.25\", \"outage:start=10s,lasts=2s\"",
    ),
    (
        "reorder",
        "packets held back and overtaken: \"late:probability=0.01,delay=5ms\"",
    ),
    ("duplicate", "share of packets that arrive twice: 0.001"),
    (
        "sleep",
        "a radio that sleeps when idle: \"radio:idle=10s,wake=1.6s\"",
    ),
];

/// Key of a direction whose value is one of several models.
#[derive(Clone, Debug)]
pub struct Laws {
    /// Key of the link file that the laws are for.
    pub key: &'static str,
    /// Laws to choose from.
    pub entries: Vec<&'static Entry>,
}

/// Returns the keys whose value names a model, with the known models; disciplines have a table of their own.
pub fn laws() -> Vec<Laws> {
    let law = |key, entries: &'static [Entry]| Laws {
        key,
        entries: entries.iter().collect(),
    };
    vec![
        Laws {
            key: "framing",
            entries: base::framing::framings().collect(),
        },
        law("policer", bucket::POLICERS),
        law("shaper", bucket::SHAPERS),
        law("drift", drift::DRIFTS),
        law("jitter", impair::JITTERS),
        law("loss", impair::LOSSES),
        law("reorder", impair::REORDERS),
        law("sleep", impair::SLEEPS),
    ]
}

const LINK_KEYS: &[&str] = &["name", "title", "up", "down"];

impl LinkSpec {
    /// Returns one of [`PRESETS`].
    ///
    /// # Errors
    /// Fails for an unknown name; the error lists the known ones.
    pub fn named(name: &str) -> Result<LinkSpec, SpecError> {
        match PRESETS.iter().find(|p| p.name == name) {
            Some(preset) => LinkSpec::parse(preset.toml),
            None => {
                let known: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
                Err(SpecError::UnknownLink {
                    name: name.into(),
                    hint: hint(name, &known),
                    known: known.join(", "),
                })
            }
        }
    }

    /// Parses TOML.
    ///
    /// # Errors
    /// Fails if the text is not TOML, has an unknown key, or has an invalid value.
    pub fn parse(text: &str) -> Result<LinkSpec, SpecError> {
        let table: toml::Table =
            toml::from_str(text).map_err(|e| SpecError::Toml(e.to_string()))?;
        check_keys(&table)?;
        // The text is parsed again, so that the message shows the line.
        let spec: LinkSpec = toml::from_str(text).map_err(|e| SpecError::Toml(e.to_string()))?;
        spec.validate()?;
        Ok(spec)
    }

    /// Formats as TOML that [`LinkSpec::parse`] reads back to the same value.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a link is plain data")
    }

    /// Overrides one value by its dotted key, such as `up.queue` with `codel` or `down.rate` with `20 Mbit/s`. The
    /// value is parsed as TOML if possible (`0.01`, `{ steps = … }`), otherwise taken as text.
    ///
    /// # Errors
    /// Fails for an unknown key or an unsuitable value; nothing is changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let mut table = toml::Table::try_from(&*self).expect("a link is plain data");
        let path: Vec<&str> = key.split('.').map(str::trim).collect();
        let (last, parents) = path.split_last().expect("a split has a part");
        let mut at = &mut table;
        for (depth, part) in parents.iter().enumerate() {
            // A rate given as text is converted to a table, so that `up.rate.trace` can be set.
            match at.get_mut(*part) {
                Some(value) if depth > 0 && !value.is_table() => {
                    *value = toml::Value::Table(toml::Table::new())
                }
                _ => {}
            }
            at = at
                .get_mut(*part)
                .and_then(toml::Value::as_table_mut)
                .ok_or_else(|| unknown_key(key))?;
        }
        let as_toml = toml::from_str::<toml::Table>(&format!("v = {value}"))
            .ok()
            .and_then(|mut t| t.remove("v"))
            // If the current value is text, a bare number lacks its unit; the error says so.
            .filter(|new| {
                new.is_table() || new.is_str() || !at.get(*last).is_some_and(toml::Value::is_str)
            });
        at.insert((*last).into(), as_toml.unwrap_or_else(|| value.into()));
        check_keys(&table)?;
        let spec: LinkSpec = table
            .try_into()
            .map_err(|e: toml::de::Error| SpecError::Set {
                key: key.into(),
                value: value.into(),
                why: e.message().to_string(),
            })?;
        spec.validate()?;
        *self = spec;
        Ok(())
    }

    /// Loads the traces that rates and delays name, through `read`, which gets the path as written.
    ///
    /// # Errors
    /// Fails with the error of `read`, or with the invalid line of a trace.
    pub fn load_traces(
        &mut self,
        mut read: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<(), SpecError> {
        self.up.load(&mut read)?;
        self.down.load(&mut read)
    }

    /// Returns the RTT of an infinitely small packet on an idle link, without jitter.
    pub fn propagation_rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Returns the RTT of a packet of this size in both directions on an idle link at its mean rates.
    pub fn idle_rtt(&self, size: Bytes) -> Result<Duration, SpecError> {
        let serialization = |d: &DirectionSpec| {
            d.params().map(|p| {
                let frame = p.framing.wire(size);
                frame.serialization_delay_ceil(p.rate.mean())
            })
        };
        Ok(self.propagation_rtt() + serialization(&self.up)? + serialization(&self.down)?)
    }

    fn validate(&self) -> Result<(), SpecError> {
        for (name, direction) in [("up", &self.up), ("down", &self.down)] {
            match direction.params_of(name) {
                Ok(_) | Err(SpecError::TraceNotLoaded { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl RateSpec {
    /// Loads the file that it names, if any, through `read`, which gets the path as written.
    ///
    /// # Errors
    /// Fails with the error of `read`, or with the invalid line.
    pub fn load(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), SpecError> {
        let RateSpec::TraceFile { path, repeat } = self else {
            return Ok(());
        };
        let failed = |why| SpecError::TraceFile {
            path: path.clone(),
            why,
        };
        let text = read(path).map_err(failed)?;
        *self = if path.ends_with(".csv") {
            RateSpec::Steps {
                steps: rate_table::parse(&text).map_err(failed)?,
                repeat: *repeat,
            }
        } else if repeat.is_some() {
            return Err(failed(
                "a mahimahi trace repeats by itself after its last line: leave repeat out".into(),
            ));
        } else {
            let trace = Trace::parse(&text).map_err(|e| failed(e.to_string()))?;
            RateSpec::Opportunities(trace.millis().to_vec())
        };
        Ok(())
    }
}

impl DirectionSpec {
    /// Loads the files that it names, through `read`, which gets the path as written.
    ///
    /// # Errors
    /// Fails with the error of `read`, or with the invalid line.
    pub fn load(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), SpecError> {
        self.rate.load(read)?;
        self.load_delays(read)
    }

    /// Loads the delays that it names.
    ///
    /// # Errors
    /// Fails with the error of `read`, or with the invalid line.
    pub fn load_delays(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), SpecError> {
        let Some(path) = self.delays.take() else {
            return Ok(());
        };
        let failed = |why| SpecError::TraceFile {
            path: path.clone(),
            why,
        };
        if self.drift.is_some() {
            return Err(failed(
                "a link has a drift or a file of delays, not both".into(),
            ));
        }
        let steps = rate_table::parse_delays(&read(&path).map_err(failed)?).map_err(failed)?;
        let listed = |which: fn(&(Duration, Duration)) -> Duration| {
            let each = steps.iter().map(|s| format!("{}ns", which(s).as_nanos()));
            each.collect::<Vec<_>>().join(";")
        };
        let drift = format!("steps:at={},delay={}", listed(|s| s.0), listed(|s| s.1));
        self.drift = Some(drift.parse().map_err(|e| failed(format!("{e}")))?);
        Ok(())
    }

    /// Converts to the parameters of [`crate::Link::new`].
    ///
    /// # Errors
    /// Fails if a trace is not loaded, or if values are out of range in a struct that was not parsed.
    pub fn params(&self) -> Result<LinkParams, SpecError> {
        self.params_of("link")
    }

    fn params_of(&self, direction: &str) -> Result<LinkParams, SpecError> {
        let direction = || direction.to_string();
        let rate = match &self.rate {
            RateSpec::Fixed(rate) => Rate::fixed(*rate),
            RateSpec::Steps { steps, repeat } => {
                let steps: Vec<_> = steps.iter().map(|s| (s.at, s.rate)).collect();
                Steps::new(&steps, *repeat).map(Rate::Steps)
            }
            RateSpec::Opportunities(millis) => Trace::from_millis(millis.clone()).map(Rate::Trace),
            RateSpec::TraceFile { path, .. } => {
                return Err(SpecError::TraceNotLoaded {
                    direction: direction(),
                    path: path.clone(),
                });
            }
        };
        if let Some(path) = &self.delays {
            return Err(SpecError::TraceNotLoaded {
                direction: direction(),
                path: path.clone(),
            });
        }
        if !(0.0..=1.0).contains(&self.duplicate) {
            return Err(SpecError::Duplicate {
                direction: direction(),
                value: self.duplicate,
            });
        }
        if !(68..=65_535).contains(&self.mtu.get()) {
            return Err(SpecError::Mtu {
                direction: direction(),
                value: self.mtu,
            });
        }
        let burst = self
            .policer
            .as_ref()
            .map(|p| p.words().read::<crate::bucket::TokenBucket>().burst);
        if let Some(burst) = burst.filter(|burst| *burst < self.mtu) {
            return Err(SpecError::Burst {
                direction: direction(),
                burst,
                mtu: self.mtu,
            });
        }
        if let Some(drift) = &self.drift
            && let Some(why) = drift.contradiction()
        {
            return Err(SpecError::Drift {
                direction: direction(),
                drift: drift.clone(),
                why,
            });
        }
        let framing = self.framing.as_ref().map(FramingSpec::framing);
        Ok(LinkParams {
            rate: rate.map_err(|why| SpecError::Rate {
                direction: direction(),
                why,
            })?,
            framing: framing.unwrap_or(Framing::NONE),
            policer: self.policer.clone(),
            shaper: self.shaper.clone(),
            delay: self.delay,
            drift: self.drift.clone(),
            jitter: self.jitter.clone(),
            loss: self.loss.clone(),
            reorder: self.reorder.clone(),
            sleep: self.sleep.clone(),
            duplicate: self.duplicate,
            queue: self.queue.clone(),
        })
    }
}

fn check_keys(table: &toml::Table) -> Result<(), SpecError> {
    for (key, value) in table {
        if !LINK_KEYS.contains(&key.as_str()) {
            return Err(unknown_key(key));
        }
        if let (true, toml::Value::Table(direction)) = (key == "up" || key == "down", value) {
            for inner in direction.keys() {
                if !DIRECTION_KEYS.iter().any(|(k, _)| k == inner) {
                    return Err(unknown_key(&format!("{key}.{inner}")));
                }
            }
        }
    }
    Ok(())
}

fn unknown_key(key: &str) -> SpecError {
    let known: Vec<String> = LINK_KEYS[..2]
        .iter()
        .map(ToString::to_string)
        .chain(
            ["up", "down"]
                .iter()
                .flat_map(|d| DIRECTION_KEYS.iter().map(move |(k, _)| format!("{d}.{k}"))),
        )
        .collect();
    let refs: Vec<&str> = known.iter().map(String::as_str).collect();
    // A key without its direction is the most common mistake.
    let hint = match DIRECTION_KEYS.iter().find(|(k, _)| *k == key) {
        Some((k, _)) => format!(" Did you mean \"up.{k}\" or \"down.{k}\"?"),
        None => hint(key, &refs),
    };
    SpecError::UnknownKey {
        key: key.into(),
        known: known.join(", "),
        hint,
    }
}

/// Table form of a rate.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RateTable {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeat: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<Step>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opportunities_ms: Option<Vec<u64>>,
}

impl Serialize for RateSpec {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let table = match self {
            RateSpec::Fixed(rate) => return rate.serialize(s),
            RateSpec::Steps { steps, repeat } => RateTable {
                steps: Some(steps.clone()),
                repeat: *repeat,
                ..RateTable::default()
            },
            RateSpec::TraceFile { path, repeat } => RateTable {
                trace: Some(path.clone()),
                repeat: *repeat,
                ..RateTable::default()
            },
            RateSpec::Opportunities(ms) => RateTable {
                opportunities_ms: Some(ms.clone()),
                ..RateTable::default()
            },
        };
        table.serialize(s)
    }
}

impl<'de> Deserialize<'de> for RateSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<RateSpec, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RateSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a rate such as \"8 Mbit/s\", or a table with steps, trace or opportunities_ms",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RateSpec, E> {
                text.parse().map(RateSpec::Fixed).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RateSpec, A::Error> {
                let table = RateTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                match table {
                    RateTable {
                        steps: Some(steps),
                        repeat,
                        trace: None,
                        opportunities_ms: None,
                    } => Ok(RateSpec::Steps { steps, repeat }),
                    RateTable {
                        steps: None,
                        repeat,
                        trace: Some(path),
                        opportunities_ms: None,
                    } => Ok(RateSpec::TraceFile { path, repeat }),
                    RateTable {
                        steps: None,
                        repeat: None,
                        trace: None,
                        opportunities_ms: Some(ms),
                    } => Ok(RateSpec::Opportunities(ms)),
                    _ => Err(de::Error::custom(
                        "a rate takes exactly one of steps, trace (each with repeat, if you like), opportunities_ms",
                    )),
                }
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: std::fmt::Debug>(result: Result<T, SpecError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn every_preset_parses_under_its_name_and_reads_back_the_same() {
        for preset in PRESETS {
            let spec = LinkSpec::named(preset.name).unwrap();
            assert_eq!(spec.name, preset.name);
            assert_eq!(
                LinkSpec::parse(&spec.to_toml()).unwrap(),
                spec,
                "{}",
                spec.to_toml()
            );
            spec.up.params().unwrap();
            spec.down.params().unwrap();
        }
    }

    #[test]
    fn the_presets_have_the_documents_figures() {
        let adsl = LinkSpec::named("adsl").unwrap();
        // Borlaug 2014, section 6.1.3: 430 ms x 700 kbit/s = 301 kbit; median 19 ms with minimum-size packets.
        assert_eq!(
            adsl.up.queue.limits().bytes,
            Some(BitsPerSec::from_kbps(700).bytes_in_floor(Duration::from_millis(430)))
        );
        let rtt = adsl.idle_rtt(Bytes::new(60)).unwrap().as_millis_f64();
        assert!((18.5..19.5).contains(&rtt), "{rtt}");
        // Gao 2012: 3.410 ms on average for a ping6 of 104 bytes; 51 datagrams at once, one of them in transmission.
        let shdsl = LinkSpec::named("shdsl").unwrap();
        let rtt = shdsl.idle_rtt(Bytes::new(104)).unwrap().as_millis_f64();
        assert!((3.35..3.45).contains(&rtt), "{rtt}");
        assert_eq!(shdsl.up.queue.limits().packets, Some(50));
        // Specification: 65 kbit/s, 300 ms, 3 s of buffer.
        let gprs = LinkSpec::named("gprs").unwrap();
        let rtt = gprs.idle_rtt(Bytes::new(60)).unwrap().as_millis_f64();
        assert!((295.0..305.0).contains(&rtt), "{rtt}");
        assert_eq!(
            gprs.up.queue.limits().bytes,
            Some(BitsPerSec::from_kbps(65).bytes_in_floor(Duration::from_secs(3)))
        );
    }

    #[test]
    fn any_value_can_be_overridden_by_its_key() {
        let mut spec = LinkSpec::named("adsl").unwrap();
        for (key, value) in [
            ("up.queue", "fq_codel:target=10 ms"),
            ("up.rate", "1.5 Mbit/s"),
            ("down.delay", "20ms"),
            ("down.duplicate", "0.25"),
            ("up.loss", "gilbert_elliott:p=0.02"),
            ("title", "my line"),
            (
                "down.rate",
                "{ steps = [{ at = \"0\", rate = \"5mbit\" }], repeat = \"3 s\" }",
            ),
            ("up.rate.trace", "cell.up"),
        ] {
            spec.set(key, value)
                .unwrap_or_else(|e| panic!("{key}={value}: {e}"));
        }
        assert_eq!(spec.up.queue.to_string(), "fq_codel:target=10 ms");
        assert_eq!(spec.down.delay, Duration::from_millis(20));
        assert_eq!(spec.down.duplicate, 0.25);
        assert_eq!(spec.title, "my line");
        let trace = RateSpec::TraceFile {
            path: "cell.up".into(),
            repeat: None,
        };
        assert_eq!(spec.up.rate, trace);
        assert!(matches!(spec.down.rate, RateSpec::Steps { .. }));
        assert_eq!(LinkSpec::parse(&spec.to_toml()).unwrap(), spec);
    }

    #[test]
    fn an_override_that_does_not_fit_changes_nothing_and_says_why() {
        let mut spec = LinkSpec::named("adsl").unwrap();
        let before = spec.clone();
        assert!(
            message(spec.set("queue", "codel"))
                .ends_with("Did you mean \"up.queue\" or \"down.queue\"?")
        );
        assert!(message(spec.set("up.qeue", "codel")).ends_with("Did you mean \"up.queue\"?"));
        assert!(
            message(spec.set("upp.queue.x", "codel")).starts_with("link: no key \"upp.queue.x\"")
        );
        assert!(message(spec.set("up.queue", "codle")).contains("Did you mean \"codel\"?"));
        assert!(
            message(spec.set("up.rate", "0 bit/s")).starts_with("up: a rate of 0 never delivers")
        );
        assert!(message(spec.set("up.delay", "9")).contains("such as \"5 ms\""));
        assert!(matches!(
            spec.set("up.duplicate", "2"),
            Err(SpecError::Duplicate { value: 2.0, .. })
        ));
        assert!(message(spec.set("up.rate.repeat", "2 s")).contains("exactly one of steps"));
        assert!(matches!(
            spec.set("up.policer", "token_bucket:rate=1mbit,burst=1499"),
            Err(SpecError::Burst { .. })
        ));
        assert_eq!(spec, before);
    }

    #[test]
    fn a_file_with_a_mistake_is_answered_with_the_place() {
        assert!(message(LinkSpec::named("asdl")).ends_with("Did you mean \"adsl\"?"));
        let good = LinkSpec::named("adsl").unwrap().to_toml();
        let e = message(LinkSpec::parse(&good.replacen("delay", "dealy", 1)));
        assert!(
            e.starts_with("link: no key \"up.dealy\"") && e.ends_with("Did you mean \"up.delay\"?"),
            "{e}"
        );
        let e = message(LinkSpec::parse(&good.replacen("9.1 ms", "9.1 furlongs", 1)));
        assert!(e.contains("line ") && e.contains("furlongs"), "{e}");
        assert!(message(LinkSpec::parse("name = ")).contains("line 1"));
        assert!(message(LinkSpec::parse("name = \"x\"")).contains("missing field"));
        let short = LinkSpec::parse("[up]\nrate = \"1mbit\"\n[down]\nrate = \"8mbit\"").unwrap();
        assert_eq!(short.name, "link");
    }

    #[test]
    fn every_key_is_described_and_every_described_key_exists() {
        let mut spec = LinkSpec::named("adsl").unwrap();
        spec.set("up.jitter", "uniform").unwrap();
        spec.set("up.loss", "random").unwrap();
        spec.set("up.reorder", "late").unwrap();
        spec.set("up.duplicate", "0.5").unwrap();
        spec.set("up.sleep", "radio:idle=10s,wake=1.6s").unwrap();
        spec.set("up.framing", "pppoe-llcsnap:extra=4").unwrap();
        spec.set("up.drift", "wave").unwrap();
        spec.set("up.delays", "pass.csv").unwrap();
        for bucket in ["up.policer", "up.shaper"] {
            spec.set(bucket, "token_bucket:rate=5 Mbit/s").unwrap();
        }
        let table = toml::Table::try_from(&spec).unwrap();
        let mut written: Vec<_> = table["up"]
            .as_table()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut described: Vec<_> = DIRECTION_KEYS.iter().map(|k| k.0).collect();
        written.sort_unstable();
        described.sort_unstable();
        assert_eq!(written, described);
    }

    #[test]
    fn every_law_is_listed_under_a_key_that_takes_it() {
        let mut named = 0;
        for Laws { key, entries } in laws() {
            for entry in entries {
                let mut spec = LinkSpec::named("adsl").unwrap();
                // A required value would otherwise be missing at run time.
                assert!(entry.parameters.iter().all(|p| p.default.is_some()));
                spec.set(&format!("up.{key}"), entry.name).unwrap();
                assert_eq!(LinkSpec::parse(&spec.to_toml()).unwrap(), spec);
                spec.up.params().unwrap();
                named += 1;
            }
        }
        assert!(named > 20, "{named}");
    }

    #[test]
    fn a_trace_is_loaded_through_the_host() {
        let mut spec = LinkSpec::named("adsl").unwrap();
        spec.set("up.rate", "{ trace = \"cell.up\" }").unwrap();
        assert_eq!(
            message(spec.up.params()),
            "link: the trace \"cell.up\" is not loaded"
        );
        assert!(
            message(spec.clone().load_traces(|_| Ok("1\n2\n1\n".into())))
                .contains("trace, line 3: 1 ms comes after 2 ms")
        );
        assert!(
            message(spec.clone().load_traces(|_| Err("no such file".into())))
                .contains("cell.up\": no such file")
        );
        spec.load_traces(|path| {
            if path == "cell.up" {
                Ok("1\n2\n3\n".into())
            } else {
                Err(path.into())
            }
        })
        .unwrap();
        // One MTU per millisecond: 1504 bytes x 8 x 1000 = 12.032 Mbit/s.
        assert_eq!(
            spec.up.params().unwrap().rate.mean(),
            BitsPerSec::from_kbps(12_032)
        );
        assert_eq!(LinkSpec::parse(&spec.to_toml()).unwrap(), spec);
    }

    #[test]
    fn delays_over_time_become_steps_of_the_drift() {
        let mut spec = LinkSpec::named("fiber").unwrap();
        spec.set("down.delays", "pass.csv").unwrap();
        assert!(message(spec.down.params()).contains("\"pass.csv\" is not loaded"));
        let table = "t_s,delay_ms\n1700000000,3.5\n1700000015,12\n";
        let mut loaded = spec.clone();
        loaded.load_traces(|_| Ok(table.into())).unwrap();
        let drift = loaded.down.drift.as_ref().unwrap().to_string();
        assert_eq!(drift, "steps:at=0 ns; 15 s,delay=3.5 ms; 12 ms");
        assert_eq!(LinkSpec::parse(&loaded.to_toml()).unwrap(), loaded);
        let refused =
            |spec: &LinkSpec, text: &str| message(spec.clone().load_traces(|_| Ok(text.into())));
        assert!(refused(&spec, "t_s,delay_ms\n1,x\n").contains("line 2: \"x\" is not a number"));
        assert!(refused(&spec, "t_s,rate_mbps\n1,2\n").contains("needs one of delay_s"));
        spec.set("down.drift", "wave").unwrap();
        assert!(refused(&spec, table).contains("a drift or a file of delays, not both"));
    }
}
