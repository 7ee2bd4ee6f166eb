//! Settings of `tailback control run`.

use super::config::{Configured, Ip};
use base::{BitsPerSec, Bytes, Duration};
use ops::control::{Directions, Law, Plan};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Settings that a user gave, in a file or as options.
#[derive(clap::Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// Interface towards the modem
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wan: Option<String>,
    /// Machine beyond the link that runs `tailback serve`
    #[arg(long, value_name = "SERVER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Mark and drop packets; otherwise nothing is changed
    #[arg(long, num_args = 0, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply: Option<bool>,
    /// Directions to control [default: up]
    #[arg(long, value_name = "DIRECTION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<DirectionArg>,
    /// Law that decides on uploads [default: sawtooth]
    #[arg(long, value_name = "LAW")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub law: Option<LawArg>,
    /// Change the rate of the HTB, TBF or CAKE at this interface instead of signalling uploads
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape_up: Option<String>,
    /// Change the rate of the HTB, TBF or CAKE at this IFB interface instead of signalling downloads
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape_down: Option<String>,
    /// Wait to hold [default: 20 ms; 10 ms of a shaper]; the sawtooth of uploads allows up to twice as long on a link whose rate moves
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Duration>,
    /// Wait above which every packet of an upload is dropped [default: 40 ms]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Duration>,
    /// Capacity of the uplink to start with [default: learned]
    #[arg(long, value_name = "RATE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BitsPerSec>,
    /// Drop ECN-capable packets instead of marking them
    #[arg(long, num_args = 0, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_ecn: Option<bool>,
    /// Interval between probes, 5 ms to 200 ms [default: 20 ms]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Bytes that the link adds to each IP packet; may be negative [default: 0]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<i64>,
    /// IP packets of at most this size are never marked or dropped [default: 256 B]
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small: Option<Bytes>,
    /// DSCP that is never marked or dropped; may be repeated [default: 46 and 44]
    #[arg(long, value_name = "DSCP")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exempt: Option<Vec<u8>>,
    #[command(flatten)]
    #[serde(flatten)]
    pub ip: Ip,
    /// Recording to write; a number is added if it exists [default: control.rec]
    #[arg(short, long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// Name of the recording in reports
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Thin old detail if the recording is larger than this
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Bytes>,
    /// Stop after this time
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Write the state for Prometheus to this file once a second (textfile collector of node_exporter)
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<PathBuf>,
}

/// Directions on the command line.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DirectionArg {
    /// Uploads, whose queue is in the modem
    Up,
    /// Downloads, whose queue is at the provider
    Down,
    /// Uploads and downloads
    Both,
}

/// Laws on the command line.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LawArg {
    /// Marks or drops one packet per round trip, and more while the wait stays long
    Sawtooth,
    /// RFC 8033 on the estimated wait
    Pie,
}

impl Configured for Settings {
    const VERB: &'static str = "control run";
    const KEYS: &'static [(&'static str, &'static str)] = &[];
    const DEFAULTS: &'static [&'static str] = &[
        "up",
        "sawtooth",
        "20 ms",
        "40 ms",
        "0",
        "256 B",
        "control.rec",
    ];
}

impl Settings {
    /// Plan of a run with these settings.
    ///
    /// # Errors
    /// The interface or the server is missing.
    pub fn plan(&self) -> anyhow::Result<Plan> {
        let needed = |value: &Option<String>, what: &str| {
            let missing = || {
                ops::usage(format!(
                    "--{what} is missing, or the key `{what}` of a file"
                ))
            };
            value.clone().ok_or_else(missing)
        };
        let mut plan = Plan::new(&needed(&self.wan, "wan")?, &needed(&self.server, "server")?);
        let s = &mut plan.settings;
        s.directions = match self.direction {
            None | Some(DirectionArg::Up) => Directions::Up,
            Some(DirectionArg::Down) => Directions::Down,
            Some(DirectionArg::Both) => Directions::Both,
        };
        s.upload.law = match self.law {
            None | Some(LawArg::Sawtooth) => Law::Sawtooth,
            Some(LawArg::Pie) => Law::Pie,
        };
        s.upload.target = self.target.unwrap_or(s.upload.target);
        s.download.target = self.target.unwrap_or(s.download.target);
        s.shape.target = self.target.unwrap_or(s.shape.target);
        s.shape_up.clone_from(&self.shape_up);
        s.shape_down.clone_from(&self.shape_down);
        s.upload.cap = self.cap.unwrap_or(s.upload.cap);
        s.upload.capacity = self.capacity;
        s.upload.ecn = !self.no_ecn.unwrap_or(false);
        s.download.ecn = s.upload.ecn;
        s.interval = self.interval.unwrap_or(s.interval);
        s.overhead = self.overhead.unwrap_or(s.overhead);
        s.small = self.small.unwrap_or(s.small);
        s.exempt = self.exempt.clone().unwrap_or_else(|| s.exempt.clone());
        s.apply = self.apply.unwrap_or(false);
        Ok(Plan {
            ipv4: self.ip.ipv4.unwrap_or(false),
            ipv6: self.ip.ipv6.unwrap_or(false),
            output: self.output.clone().unwrap_or(plan.output),
            title: self.title.clone(),
            max_size: self.max_size,
            duration: self.duration,
            metrics: self.metrics.clone(),
            ..plan
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn options(args: &[&str]) -> Settings {
        let command = <Settings as clap::Args>::augment_args(clap::Command::new("x"));
        let args = std::iter::once("x").chain(args.iter().copied());
        let matches = command.try_get_matches_from(args).expect("options");
        Settings::from_arg_matches(&matches).expect("settings")
    }

    #[test]
    fn the_printed_settings_give_the_plan_of_options_and_file() {
        let file =
            "wan = 'eth0'\nserver = 'far.example'\nlaw = 'pie'\nexempt = [46]\nipv4 = true\n";
        let file: Settings = toml::from_str(file).expect("a file");
        for args in [
            &["--apply", "--target", "15ms", "-6"][..],
            &["--law", "sawtooth", "--overhead", "-4", "--no-ecn"],
            &[],
        ] {
            let given = options(args);
            let wanted = given.over(&file).plan().expect("a plan");
            let text = given.printed(Some(&file)).expect("printed");
            let read: Settings = toml::from_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let plan = read.plan().expect("a plan");
            let json = |p: &Plan| serde_json::to_value(p).expect("JSON");
            // The printed file names both versions of IP only if both were given.
            assert_eq!(plan.settings, wanted.settings, "{text}");
            if !args.contains(&"-6") {
                assert_eq!(json(&plan), json(&wanted), "{text}");
            }
        }
        let usual = Settings::default().printed(None).expect("printed");
        assert!(usual.contains("overhead = 0 # default"), "{usual}");
        assert!(Settings::default().plan().is_err());
        assert!(toml::from_str::<Settings>("laws = 'pie'").is_err());
    }
}
